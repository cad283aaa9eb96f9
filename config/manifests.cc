#include "config/manifests.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/yaml_reader.h"

namespace berth::config {
namespace {

// A recorded cluster may be large; its depth is that of an API object.
constexpr YamlLimits kLimits{
    .bytes = std::size_t{1} << 30, .depth = 64, .nodes = std::size_t{1} << 26};

/// YAML scalars are typed by their form, as kubectl writes them; quoted ones are strings.
nlohmann::json ToJson(const YamlNode& node) {
  switch (node.kind) {
    case YamlKind::kSequence: {
      auto json = nlohmann::json::array();
      for (const YamlNode& item : node.items) json.push_back(ToJson(item));
      return json;
    }
    case YamlKind::kMapping: {
      auto json = nlohmann::json::object();
      for (std::size_t i = 0; i < node.keys.size(); ++i) {
        json[node.keys[i].text] = ToJson(node.items[i]);
      }
      return json;
    }
    case YamlKind::kScalar: {
      if (node.quoted) return node.text;
      if (node.text == "true" || node.text == "false") return node.text == "true";
      const auto number = nlohmann::json::parse(node.text, nullptr, false);
      return number.is_number_integer() ? number : nlohmann::json(node.text);
    }
    case YamlKind::kNull:
      return nullptr;
  }
  return nullptr;
}

/// The documents of a file: JSON, or YAML with any number of them.
std::expected<std::vector<nlohmann::json>, std::string> ReadDocuments(std::string_view text) {
  std::vector<nlohmann::json> documents;
  bool too_deep = false;  // nlohmann writes JSON by recursion.
  const auto within_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep |= static_cast<std::size_t>(depth) > kLimits.depth;
    return !too_deep;
  };
  auto json = nlohmann::json::parse(text, within_depth, false);
  if (too_deep) {
    return std::unexpected(fmt::format("nested deeper than {} levels", kLimits.depth));
  }
  if (!json.is_discarded()) {
    documents.push_back(std::move(json));
    return documents;
  }
  const auto trees = ReadYaml(text, {}, kLimits);
  if (!trees) {
    const Diagnostic& first = trees.error().front();
    return std::unexpected(
        fmt::format("line {}, column {}: {}", first.line, first.column, first.message));
  }
  for (const YamlNode& tree : *trees) documents.push_back(ToJson(tree));
  return documents;
}

/// The objects in the documents, including the items of Lists.
std::expected<std::vector<nlohmann::json>, std::string> Flatten(
    std::vector<nlohmann::json> documents) {
  std::vector<nlohmann::json> objects;
  for (auto& document : documents) {
    if (document.is_null()) continue;
    if (!document.is_object()) return std::unexpected("not a Kubernetes object");
    const auto& kind = document["kind"];
    if (!kind.is_string() || !kind.get_ref<const std::string&>().ends_with("List")) {
      objects.push_back(std::move(document));
      continue;
    }
    if (!document["items"].is_array()) return std::unexpected("a List without items");
    for (auto& item : document["items"]) objects.push_back(std::move(item));
  }
  return objects;
}

/// Fills in fields that a hand-written file may omit.
std::string Complete(nlohmann::json& object, std::size_t number) {
  if (!object.is_object() || !object["metadata"].is_object() || !object["kind"].is_string()) {
    return "not a Kubernetes object";
  }
  auto& meta = object["metadata"];
  if (!meta.contains("uid")) meta["uid"] = "snapshot-" + std::to_string(number);
  for (const char* kind : {"Pod", "PodGroup", "LocalQueue"}) {
    if (object["kind"] == kind && !meta.contains("namespace")) meta["namespace"] = "default";
  }
  return {};
}

}  // namespace

std::expected<std::vector<Manifest>, std::string> ReadManifests(std::string_view text) {
  auto documents = ReadDocuments(text);
  if (!documents) return std::unexpected(documents.error());
  auto objects = Flatten(std::move(*documents));
  if (!objects) return std::unexpected(objects.error());
  std::vector<Manifest> manifests;
  for (nlohmann::json& object : *objects) {
    if (auto error = Complete(object, manifests.size() + 1); !error.empty()) {
      return std::unexpected(error);
    }
    const auto& name = object["metadata"]["name"];
    manifests.push_back(
        {.kind = object["kind"].get<std::string>(),
         .name = name.is_string() ? name.get<std::string>() : std::string(),
         .json = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
  }
  return manifests;
}

}  // namespace berth::config
