#include "server/cli/table.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <span>

#include "kube/terminal.h"

namespace berth::server {
namespace {

/// Whether YAML would read the text as something else, or not as one plain scalar.
bool NeedsQuotes(const std::string& text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return true;
  const auto plain = [](char c) { return c >= ' ' && c < 0x7F; };
  if (!std::ranges::all_of(text, plain)) return true;  // written as escapes
  static constexpr std::string_view kWords[] = {"true", "false", "yes", "no", "on",
                                                "off",  "null",  "~",   "y",  "n"};
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::ranges::find(kWords, lower) != std::end(kWords)) return true;
  if (text.find_first_of("\"'#:{}[],&*!|>%@`") != std::string::npos) return true;
  if (text.front() == '-' || text.front() == '?' || text.front() == '=') return true;
  // Quote everything that may be read as a number, a date or an octal.
  return std::isdigit(static_cast<unsigned char>(text.front())) != 0 || text.front() == '.' ||
         text.front() == '+';
}

void EmitText(YAML::Emitter& out, const std::string& text) {
  if (NeedsQuotes(text)) out << YAML::DoubleQuoted;
  out << text;
}

void Emit(YAML::Emitter& out, const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::object:
      if (json.empty()) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const auto& [key, value] : json.items()) {
        out << YAML::Key;
        EmitText(out, key);
        out << YAML::Value;
        Emit(out, value);
      }
      out << YAML::EndMap;
      return;
    case nlohmann::ordered_json::value_t::array:
      if (json.empty()) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const auto& item : json) Emit(out, item);
      out << YAML::EndSeq;
      return;
    case nlohmann::ordered_json::value_t::string: {
      EmitText(out, json.get_ref<const std::string&>());
      return;
    }
    case nlohmann::ordered_json::value_t::null:
      out << YAML::Null;
      return;
    default:  // numbers and booleans read the same in YAML
      out << json.dump();
  }
}

}  // namespace

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string PadTo(std::string_view text, std::size_t width) {
  std::string padded(text);
  const std::size_t now = DisplayWidth(text);
  if (now < width) padded.append(width - now, ' ');
  return padded;
}

Table::Table(std::vector<std::string> header, std::size_t gap) : gap_(gap) {
  rows_.push_back(std::move(header));
}

void Table::Add(std::vector<std::string> row) {
  row.resize(rows_.front().size());
  for (std::string& cell : row) {
    cell = cell.empty() ? "-" : kube::Printable(cell);
  }
  rows_.push_back(std::move(row));
}

std::string Table::Render(bool headers) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  std::string out;
  for (const auto& row : std::span(rows_).subspan(headers ? 0 : 1)) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) out += PadTo(row[i], widths[i] + gap_);
    out += row.back();
    out += '\n';
  }
  return out;
}

std::string ToYaml(const nlohmann::ordered_json& json) {
  YAML::Emitter out;
  out.SetOutputCharset(YAML::EscapeNonAscii);
  Emit(out, json);
  std::string text = out.c_str();
  text += '\n';
  return text;
}

std::string HumanDuration(std::int64_t seconds) {
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 600) {
    return seconds % 60 == 0 ? fmt::format("{}m", seconds / 60)
                             : fmt::format("{}m{}s", seconds / 60, seconds % 60);
  }
  if (seconds < 3 * 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 24 * 3600) {
    const std::int64_t minutes = seconds / 60 % 60;
    return minutes == 0 ? fmt::format("{}h", seconds / 3600)
                        : fmt::format("{}h{}m", seconds / 3600, minutes);
  }
  const std::int64_t hours = seconds / 3600 % 24;
  return hours == 0 || seconds >= 8 * 86400 ? fmt::format("{}d", seconds / 86400)
                                            : fmt::format("{}d{}h", seconds / 86400, hours);
}

}  // namespace berth::server
