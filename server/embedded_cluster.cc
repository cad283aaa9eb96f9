#include "server/embedded_cluster.h"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kube/decode.h"
#include "server/host.h"

namespace berth::server {
namespace {

constexpr std::size_t kMaxSnapshotBytes = std::size_t{1} << 30U;
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

}  // namespace

std::expected<std::unique_ptr<EmbeddedCluster>, std::string> EmbeddedCluster::Load(
    const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::unexpected(path + ": cannot be read");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.size() > kMaxSnapshotBytes) return std::unexpected(path + ": larger than 1 GiB");
  std::vector<nlohmann::json> documents;
  try {
    auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_discarded()) {
      documents.push_back(std::move(json));
    } else {
      for (const YAML::Node& document : YAML::LoadAll(text)) {
        documents.push_back(ToJson(document, 0));
      }
    }
  } catch (const std::exception& error) {
    return std::unexpected(path + ": " + error.what());
  }
  auto cluster = std::make_unique<EmbeddedCluster>();
  simdjson::dom::parser parser;
  std::size_t made_up = 0;
  const auto take = [&](nlohmann::json object) -> std::string {
    if (!object.is_object() || !object["metadata"].is_object()) return "not a Kubernetes object";
    auto& meta = object["metadata"];
    if (!meta.contains("uid")) meta["uid"] = "snapshot-" + std::to_string(++made_up);
    const std::string kind = object.value("kind", "");
    if (kind == "Pod" && !meta.contains("namespace")) meta["namespace"] = "default";
    const std::string one = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const auto error = [&](const auto& decoded) {
      return kind + " " + meta.value("name", "") + ": " + decoded.error().ToString();
    };
    if (kind == "Node") {
      auto node = kube::DecodeNode(one, parser);
      if (!node) return error(node);
      cluster->nodes_[node->meta.name] = std::move(*node);
    } else if (kind == "Pod") {
      auto pod = kube::DecodePod(one, parser);
      if (!pod) return error(pod);
      cluster->pods_[pod->meta.uid] = std::move(*pod);
    } else if (kind == "Namespace") {
      auto ns = kube::DecodeNamespace(one, parser);
      if (!ns) return error(ns);
      cluster->namespaces_[ns->meta.name] = std::move(*ns);
    }
    return {};
  };
  for (auto& document : documents) {
    if (document.is_null()) continue;
    if (!document.is_object()) return std::unexpected(path + ": not a Kubernetes object");
    const std::string kind = document.value("kind", "");
    if (kind != "List" && !kind.ends_with("List")) {
      if (auto error = take(std::move(document)); !error.empty()) {
        return std::unexpected(path + ": " + error);
      }
      continue;
    }
    if (!document["items"].is_array()) return std::unexpected(path + ": a List without items");
    for (auto& item : document["items"]) {
      if (auto error = take(std::move(item)); !error.empty()) {
        return std::unexpected(path + ": " + error);
      }
    }
  }
  if (cluster->nodes_.empty()) return std::unexpected(path + ": no Node in it");
  return cluster;
}

void EmbeddedCluster::Connect(Host& host) {
  std::map<std::string, kube::Pod> pods;
  {
    const std::scoped_lock lock(mutex_);
    host_ = &host;
    pods = pods_;
  }
  for (auto& [name, ns] : namespaces_) {
    host.Apply([&](engine::Engine& e, engine::TimePoint) { e.OnNamespace(ns); });
  }
  for (auto& [name, node] : nodes_) {
    host.Apply([&](engine::Engine& e, engine::TimePoint) { e.OnNode(node); });
  }
  for (auto& [uid, pod] : pods) {
    host.Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnPod(pod, now); });
  }
}

void EmbeddedCluster::PutPod(kube::Pod pod) {
  {
    const std::scoped_lock lock(mutex_);
    pods_.insert_or_assign(pod.meta.uid, pod);
  }
  host_->Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnPod(std::move(pod), now); });
}

bool EmbeddedCluster::ChangePod(std::string_view uid,
                                const std::function<void(kube::Pod&)>& change) {
  kube::Pod pod;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = pods_.find(std::string(uid));
    if (it == pods_.end()) return false;
    change(it->second);
    pod = it->second;
  }
  host_->Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnPod(std::move(pod), now); });
  return true;
}

void EmbeddedCluster::DeletePod(const std::string& uid) {
  {
    const std::scoped_lock lock(mutex_);
    pods_.erase(uid);
  }
  host_->Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnPodDeleted(uid, now); });
}

std::vector<kube::Pod> EmbeddedCluster::Pods() const {
  const std::scoped_lock lock(mutex_);
  std::vector<kube::Pod> pods;
  for (const auto& [uid, pod] : pods_) pods.push_back(pod);
  return pods;
}

std::vector<kube::Node> EmbeddedCluster::Nodes() const {
  std::vector<kube::Node> nodes;
  for (const auto& [name, node] : nodes_) nodes.push_back(node);
  return nodes;
}

Api::BindResult EmbeddedCluster::Bind(const engine::PodRef& ref, const std::string& node,
                                      const std::map<std::string, std::string>& annotations) {
  std::string conflict;
  const bool found = ChangePod(ref.uid, [&](kube::Pod& pod) {
    if (!pod.node_name.empty() && pod.node_name != node) {
      conflict = "already bound to " + pod.node_name;
      return;
    }
    pod.node_name = node;
    pod.nominated_node.clear();
    for (const auto& [key, value] : annotations) pod.meta.annotations[key] = value;
  });
  if (!found) return {.outcome = engine::BindOutcome::kRefused, .message = "pod not found"};
  if (!conflict.empty()) {
    return {.outcome = engine::BindOutcome::kRefused, .message = conflict};
  }
  return {.outcome = engine::BindOutcome::kBound, .message = {}};
}

std::string EmbeddedCluster::Release(const engine::ReleaseMember& release) {
  ChangePod(release.pod.uid, [&](kube::Pod& pod) {
    if (!release.node.empty()) pod.nominated_node = release.node;
    if (!release.annotation.empty()) pod.meta.annotations["berth.dev/plan"] = release.annotation;
    if (release.remove_gate) std::erase(pod.scheduling_gates, "berth.dev/admission");
  });
  return {};
}

Api::ReadResult EmbeddedCluster::ReadPod(const engine::PodRef& ref) {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(ref.uid);
  if (it == pods_.end()) return {};
  return {.pod = it->second, .error = {}};
}

void EmbeddedCluster::Event(const engine::EmitEvent&) {}

}  // namespace berth::server
