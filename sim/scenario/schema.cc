// Schema of scenario.h.
#include "config/key_schema.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/scenario.h"

namespace berth::scenario {
namespace {

using Json = config::keys::MappingSchema::Json;

template <typename T>
Json SchemaOf(Json& definitions, T value);

/// Collects the keys of one mapping, which has its defaults, and what these keys refer to.
class SchemaWriter : public config::keys::MappingSchema {
 public:
  explicit SchemaWriter(Json& definitions) : definitions_(definitions) {}

  using MappingSchema::operator();
  template <typename T, typename Type>
  void operator()(std::string_view key, const T& value, const Type& type,
                  std::string_view sentence) {
    Add(key, Describe(value, type), sentence, false);
  }
  template <typename T, typename Type>
  void operator()(std::string_view key, const T& value, const keys::Required<Type>& type,
                  std::string_view sentence) {
    Add(key, WithoutDefault(Describe(value, type.type)), sentence, true);
  }

 private:
  static Json WithoutDefault(Json schema) {
    schema.erase("default");
    return schema;
  }
  /// An empty text stands for a key that is absent.
  static Json WithDefault(Json schema, const std::string& value) {
    if (!value.empty()) schema["default"] = value;
    return schema;
  }
  Json Reference(std::string_view name, const auto& describe) {
    const std::string definition(name);
    if (!definitions_.contains(definition)) {
      Json schema = describe();
      definitions_[definition] = std::move(schema);
    }
    return {{"$ref", "#/definitions/" + definition}};
  }

  using MappingSchema::Describe;
  static Json Describe(const std::string&, const keys::Choice& type) {
    return {{"enum", std::vector(type.values.begin(), type.values.end())}};
  }
  static Json Describe(const std::string& value, const keys::Text&) {
    return WithDefault({{"type", "string"}}, value);
  }
  static Json Describe(const std::string& value, const keys::Form& type) {
    return WithDefault(Json::parse(type.schema), value);
  }
  static Json Describe(bool value, const keys::Switch&) {
    return {{"type", "boolean"}, {"default", value}};
  }
  static Json Describe(const std::string& value, const keys::Quantity& type) {
    Json schema = Quantity();
    if (type.or_empty) schema["anyOf"].push_back({{"const", ""}});
    return WithDefault(std::move(schema), value);
  }
  static Json Describe(const auto&, const keys::Policy&) { return {{"type", "string"}}; }
  template <typename T, typename Type>
  Json Describe(const std::optional<T>&, const Type& type) {
    return WithoutDefault(Describe(T{}, type));
  }
  template <typename T>
  Json Describe(const T& value, const keys::Mapping& type) {
    return Reference(type.definition, [&] { return SchemaOf(definitions_, value); });
  }
  template <typename T, typename Of>
  Json Describe(const std::vector<T>&, const keys::List<Of>& type) {
    return {{"type", "array"}, {"items", Describe(T{}, type.of)}};
  }
  template <typename T, typename Of>
  Json Describe(const std::vector<T>& value, const keys::OneOrMore<Of>& type) {
    return {{"anyOf", {Describe(T{}, type.of), Describe(value, keys::List{type.of})}}};
  }
  template <typename Map, typename Of>
  Json Describe(const Map&, const keys::ByName<Of>& type) {
    Json values = WithoutDefault(Describe(typename Map::mapped_type{}, type.of));
    return {{"type", "object"}, {"additionalProperties", std::move(values)}};
  }
  Json Describe(const Scenario&, const keys::Steps&) {
    const Json step = Reference("step", [&] {
      Json schema = SchemaOf(definitions_, Step{});
      schema["minProperties"] = schema["maxProperties"] = 1;
      return schema;
    });
    return {{"type", "array"}, {"minItems", 1}, {"items", step}};
  }
  template <typename A, typename M, typename Type>
  Json Describe(const Action&, const keys::Make<A, M, Type>& type) {
    return WithoutDefault(Describe(type.action.*type.member, type.type));
  }

  Json& definitions_;
};

template <typename T>
Json SchemaOf(Json& definitions, T value) {
  SchemaWriter writer(definitions);
  keys::Keys(writer, value);
  return writer.Take();
}

}  // namespace

std::string Schema() {
  Json schema = {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"$id", "https://berth.dev/schemas/v1alpha1/scenario.json"},
      {"title", "Berth Scenario"},
      {"description",
       "For editors. `berth simulate run` also finds what a schema cannot say; docs/scenarios.md "
       "explains every key. Printed by `berth simulate run --schema`."}};
  Json definitions = Json::object();
  schema.update(SchemaOf(definitions, Scenario{}));
  schema["definitions"] = std::move(definitions);
  return schema.dump(2) + "\n";
}

}  // namespace berth::scenario
