// PolicySchema of decode.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "config/decode.h"
#include "config/policy_keys.h"
#include "config/scalars.h"

namespace berth::config {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json SchemaOf(T& value);

/// Collects the keys of one mapping, which has its defaults.
class SchemaWriter {
 public:
  void operator()(std::string_view key, const keys::Constant& type) {
    properties_[std::string(key)] = {{"const", type.text}};
    required_.push_back(key);
  }
  template <typename T, typename Type>
  void operator()(std::string_view key, T& value, const Type& type, std::string_view sentence) {
    Json& property = properties_[std::string(key)] = Describe(value, type);
    if constexpr (std::is_same_v<Type, keys::Name>) {
      if (type.required) required_.push_back(key);
    }
    std::string description(sentence);
    if constexpr (std::is_same_v<Type, keys::Duration>) {
      description =
          fmt::format("{} to {}. {}", FormatDuration(type.min), FormatDuration(type.max), sentence);
    }
    if (!description.empty()) property["description"] = description;
  }
  Json Take() {
    Json schema = {{"type", "object"}, {"additionalProperties", false}};
    if (!required_.empty()) schema["required"] = std::move(required_);
    schema["properties"] = std::move(properties_);
    return schema;
  }

 private:
  template <typename T>
  static Json Describe(const T& value, const keys::Word& type) {
    Json words = Json::array();
    for (const std::string_view word : type.words) {
      const bool boolean = word == "true" || word == "false";
      words.push_back(boolean ? Json(word == "true") : Json(word));
    }
    return {{"enum", words}, {"default", type.words[static_cast<std::size_t>(value)]}};
  }
  static Json Describe(std::int64_t value, const keys::Whole& type) {
    return {{"type", "integer"}, {"minimum", type.min}, {"maximum", type.max}, {"default", value}};
  }
  static Json Describe(std::int64_t value, const keys::Decimal& type) {
    const auto decimal = [](std::int64_t thousandths) {
      return Json::parse(FormatThousandths(thousandths));
    };
    return {{"type", "number"},
            {"minimum", decimal(type.min)},
            {"maximum", decimal(type.max)},
            {"multipleOf", 0.001},
            {"default", decimal(value)}};
  }
  static Json Describe(std::chrono::milliseconds value, const keys::Duration&) {
    return {{"type", "string"},
            {"pattern", "^([0-9]+(\\.[0-9]+)?(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+$"},
            {"default", FormatDuration(value)}};
  }
  static Json Describe(const std::string&, const keys::Name& type) {
    return Json::parse(type.form.schema);
  }
  template <typename T>
  static Json Describe(const T&, const keys::Names& type) {
    Json schema = List(type.max, type.empty, Json::parse(type.form.schema));
    schema["uniqueItems"] = true;
    return schema;
  }
  static Json Describe(const kube::ResourceList&, const keys::Amounts&) {
    return Json::parse(R"({
      "type": "object",
      "additionalProperties": {"anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": "^\\+?[0-9.]+([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"}
      ]}})");
  }
  template <typename T>
  static Json Describe(T& value, const keys::Section&) {
    return SchemaOf(value);
  }
  template <typename T>
  static Json Describe(std::vector<T>&, const keys::Elements& type) {
    T element;
    return List(type.max, type.empty, SchemaOf(element));
  }
  static Json List(std::size_t max, std::string_view empty, Json items) {
    Json schema = {{"type", "array"}};
    if (!empty.empty()) schema["minItems"] = 1;
    if (max != keys::kUnbounded) schema["maxItems"] = max;
    schema["items"] = std::move(items);
    return schema;
  }

  Json properties_ = Json::object();
  Json required_ = Json::array();
};

template <typename T>
Json SchemaOf(T& value) {
  SchemaWriter writer;
  keys::Keys(writer, value);
  return writer.Take();
}

}  // namespace

std::string PolicySchema() {
  Json schema = {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"$id", "https://berth.dev/schemas/v1alpha1/policy-configuration.json"},
      {"title", "Berth PolicyConfiguration"},
      {"description",
       "For editors. `berth check` also finds what a schema cannot say; docs/policy.md explains "
       "every key. Printed by `berth check --schema`."}};
  PolicyConfiguration policy;
  schema.update(SchemaOf(policy));
  return schema.dump(2) + "\n";
}

}  // namespace berth::config
