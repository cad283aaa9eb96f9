// The JSON schema of a mapping from its list of keys: what is the same for all files.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "config/key_types.h"
#include "config/scalars.h"

namespace berth::config::keys {

/// A base of visitors, which add a key for each value that they visit.
class MappingSchema {
 public:
  using Json = nlohmann::ordered_json;

  void operator()(std::string_view key, const Constant& type) {
    Add(key, {{"const", type.text}}, "", true);
  }
  Json Take() {
    Json schema = {{"type", "object"}, {"additionalProperties", false}};
    if (!required_.empty()) schema["required"] = std::move(required_);
    schema["properties"] = std::move(properties_);
    return schema;
  }

 protected:
  void Add(std::string_view key, Json property, std::string_view sentence, bool required) {
    std::string description = property.value("description", "");
    if (!description.empty() && !sentence.empty()) description += ' ';
    description += sentence;
    if (!description.empty()) property["description"] = description;
    properties_[std::string(key)] = std::move(property);
    if (required) required_.push_back(key);
  }

  template <typename T>
  static Json Describe(const T& value, const Choice& type) {
    Json names = Json::array();
    for (const std::string_view name : type.values) {
      const bool boolean = name == "true" || name == "false";
      names.push_back(boolean ? Json(name == "true") : Json(name));
    }
    return {{"enum", names}, {"default", names[static_cast<std::size_t>(value)]}};
  }
  /// A default out of bounds stands for a key that is absent.
  static Json Describe(std::int64_t value, const Whole& type) {
    Json schema = {{"type", "integer"}, {"minimum", type.min}, {"maximum", type.max}};
    if (value >= type.min && value <= type.max) schema["default"] = value;
    return schema;
  }
  static Json Describe(std::chrono::milliseconds value, const Duration& type) {
    return {{"type", "string"},
            {"pattern", "^([0-9]+(\\.[0-9]+)?(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+$"},
            {"default", FormatDuration(value)},
            {"description",
             fmt::format("{} to {}.", FormatDuration(type.min), FormatDuration(type.max))}};
  }
  static Json Quantity() {
    return Json::parse(R"({"anyOf": [
      {"type": "number", "minimum": 0},
      {"type": "string", "pattern": "^\\+?[0-9.]+([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"}
    ]})");
  }

 private:
  Json properties_ = Json::object();
  Json required_ = Json::array();
};

}  // namespace berth::config::keys
