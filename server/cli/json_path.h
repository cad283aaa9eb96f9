// kubectl's JSONPath templates, as far as they are commonly used: text, `{.items[*].name}`, `{range
// ...}` to `{end}`, `{"\n"}`; fields by `.name` or `['name']`, elements by `[0]`, `[-1]` and `[*]`.
// Filters, slices, unions and `..` are not supported.
#pragma once

#include <expected>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace berth::server {

/// One path, `.items[*].name`, with or without its braces. Safe on any text.
class JsonPath {
 public:
  /// The error names the place that is not understood.
  static std::expected<JsonPath, std::string> Parse(std::string_view text);
  /// The values at the path from `root`, in order; missing values are left out.
  std::vector<const nlohmann::ordered_json*> Find(const nlohmann::ordered_json& root) const;

 private:
  struct Step {
    enum class Kind : std::uint8_t { kField, kIndex, kAll };
    Kind kind = Kind::kField;
    std::string field{};
    std::int64_t index = 0;
  };
  friend class PathReader;

  std::vector<Step> steps_;
};

/// The template filled in from `root`; values of one path are separated by blanks. The error says
/// what is wrong in the template.
std::expected<std::string, std::string> FillTemplate(std::string_view text,
                                                     const nlohmann::ordered_json& root);

}  // namespace berth::server
