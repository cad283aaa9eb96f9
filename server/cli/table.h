// Text tables and YAML in kubectl's style.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace berth::server {

/// Terminal columns of UTF-8 text without wide characters or escape sequences.
std::size_t DisplayWidth(std::string_view text);

/// `text` with blanks up to `width` columns; longer text stays as it is.
std::string PadTo(std::string_view text, std::size_t width);

/// Columns padded to their widest cell, `gap` blanks between them, none at a line's end.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::size_t gap = 3);
  /// Missing cells are empty; an empty cell shows as `-`. Cells beyond the headers are dropped.
  /// Cells may hold text from outside: they are shown as kube::Printable returns them.
  void Add(std::vector<std::string> row);
  bool empty() const { return rows_.size() == 1; }
  /// The header line is left out where `headers` is false.
  std::string Render(bool headers = true) const;

 private:
  std::size_t gap_;
  std::vector<std::vector<std::string>> rows_;
};

/// Block-style YAML that reads back as the same values, keys in their original order.
std::string ToYaml(const nlohmann::ordered_json& json);

/// A span of time as kubectl writes ages: 45s, 5m, 3h12m, 2d4h.
std::string HumanDuration(std::int64_t seconds);

}  // namespace berth::server
