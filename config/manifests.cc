#include "config/manifests.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

namespace berth::config {
namespace {

constexpr int kMaxDepth = 64;

/// YAML scalars are typed by how they look, as kubectl writes them; quoted ones are strings.
nlohmann::json ToJson(const YAML::Node& node, int depth) {
  if (depth > kMaxDepth) throw std::runtime_error("nested too deeply");
  switch (node.Type()) {
    case YAML::NodeType::Sequence: {
      auto json = nlohmann::json::array();
      for (const auto& item : node) json.push_back(ToJson(item, depth + 1));
      return json;
    }
    case YAML::NodeType::Map: {
      auto json = nlohmann::json::object();
      for (const auto& item : node) json[item.first.Scalar()] = ToJson(item.second, depth + 1);
      return json;
    }
    case YAML::NodeType::Scalar: {
      const std::string& text = node.Scalar();
      if (node.Tag() == "!") return text;  // quoted
      if (text == "true" || text == "false") return text == "true";
      if (text == "null" || text == "~" || text.empty()) return nullptr;
      const auto number = nlohmann::json::parse(text, nullptr, false);
      return number.is_number_integer() ? number : nlohmann::json(text);
    }
    default:
      return nullptr;
  }
}

/// The documents of a file: JSON, or YAML with any number of them.
std::expected<std::vector<nlohmann::json>, std::string> ReadDocuments(std::string_view text) {
  std::vector<nlohmann::json> documents;
  try {
    auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_discarded()) {
      documents.push_back(std::move(json));
      return documents;
    }
    for (const YAML::Node& document : YAML::LoadAll(std::string(text))) {
      documents.push_back(ToJson(document, 0));
    }
  } catch (const std::exception& error) {
    return std::unexpected(error.what());
  }
  return documents;
}

/// The objects in the documents, Lists taken apart.
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

/// What a hand-written file may leave out.
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
