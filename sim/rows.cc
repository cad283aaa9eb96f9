#include "sim/rows.h"

#include <cstdio>
#include <utility>

#include "kube/terminal.h"

namespace berth::sim {

std::string RenderJson(const std::vector<nlohmann::ordered_json>& rows) {
  std::string out = "[\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += "  " + rows[i].dump() + (i + 1 < rows.size() ? ",\n" : "\n");
  }
  return out + "]\n";
}

std::string RenderCsv(const std::vector<nlohmann::ordered_json>& rows) {
  std::string out;
  const auto line = [&out](const nlohmann::ordered_json& row, auto field) {
    bool first = true;
    for (const auto& [key, value] : row.items()) {
      if (!std::exchange(first, false)) out += ',';
      out += field(key, value);
    }
    out += '\n';
  };
  if (rows.empty()) return out;
  line(rows.front(), [](const std::string& key, const auto&) { return key; });
  for (const auto& row : rows) {
    line(row, [](const std::string&, const nlohmann::ordered_json& value) -> std::string {
      if (value.is_null()) return {};
      return value.is_string() ? value.template get<std::string>() : value.dump();
    });
  }
  return out;
}

bool PrintRows(Format format, const std::vector<nlohmann::ordered_json>& rows) {
  if (format == Format::kTable) return false;
  kube::Write(stdout, format == Format::kJson ? RenderJson(rows) : RenderCsv(rows));
  return true;
}

}  // namespace berth::sim
