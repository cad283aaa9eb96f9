// kubectl's JSONPath templates, as far as they are used: text, `{.items[*].name}`, `{range ...}` to
// `{end}`, `{"\n"}`; fields by `.name` or `['name']`, elements by `[0]`, `[-1]` and `[*]`. Filters,
// slices, unions and `..` are not known.
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
  static std::expected<JsonPath, std::string> Parse(std::string_view text);
  /// What it leads to from `root`, in order; what is not there is left out.
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

/// The template filled in from `root`; values of one path are parted by blanks. The error says what
/// in the template is wrong.
std::expected<std::string, std::string> FillTemplate(std::string_view text,
                                                     const nlohmann::ordered_json& root);

}  // namespace berth::server
