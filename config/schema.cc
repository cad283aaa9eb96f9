// PolicySchema of decode.h.
#include <type_traits>

#include "config/decode.h"
#include "config/key_schema.h"
#include "config/policy_keys.h"
#include "config/scalars.h"

namespace berth::config {
namespace {

using Json = keys::MappingSchema::Json;

template <typename T>
Json SchemaOf(T& value);

/// Collects the keys of one mapping, which has its defaults.
class SchemaWriter : public keys::MappingSchema {
 public:
  using MappingSchema::operator();
  template <typename T, typename Type>
  void operator()(std::string_view key, T& value, const Type& type, std::string_view sentence) {
    bool required = false;
    if constexpr (std::is_same_v<Type, keys::Name>) required = type.required;
    Add(key, Describe(value, type), sentence, required);
  }

 private:
  using MappingSchema::Describe;
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
    return {{"type", "object"}, {"additionalProperties", Quantity()}};
  }
  static Json Describe(const kube::StringMap&, const keys::Labels&) {
    Json schema = {{"type", "object"}};
    schema["propertyNames"] = Json::parse(keys::kLabelKeySchema);
    schema["additionalProperties"] = Json::parse(keys::kLabelValueSchema);
    return schema;
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
