#include "server/drivers/embedded_cluster.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <set>

#include "cluster/plan_claim.h"
#include "config/manifests.h"
#include "kube/decode.h"
#include "kube/dialect_objects.h"
#include "kube/terminal.h"
#include "server/drivers/host_driver.h"

namespace berth::server {
namespace {

using kube::WriteOutcome;

constexpr std::size_t kMaxSnapshotBytes = std::size_t{1} << 30U;

}  // namespace

std::expected<std::unique_ptr<EmbeddedCluster>, kube::FileError> EmbeddedCluster::Load(
    const std::string& path) {
  const auto text = kube::ReadFile(path, kMaxSnapshotBytes);
  if (!text) return std::unexpected(text.error());
  auto cluster = Parse(*text, path);
  if (!cluster) return std::unexpected(kube::FileError{false, cluster.error()});
  return std::move(*cluster);
}

std::expected<std::unique_ptr<EmbeddedCluster>, std::string> EmbeddedCluster::Parse(
    std::string_view text, const std::string& name) {
  const auto fail = [&name](const std::string& error) {
    return std::unexpected(name + ": " + error);
  };
  const auto manifests = config::ReadManifests(text);
  if (!manifests) return fail(manifests.error());
  auto cluster = std::make_unique<EmbeddedCluster>();
  for (const config::Manifest& manifest : *manifests) {
    const std::string error = cluster->Take(manifest.kind, manifest.json);
    if (!error.empty()) {
      return fail(fmt::format("{} {}: {}", kube::Printable(manifest.kind),
                              kube::Printable(manifest.name), error));
    }
  }
  if (cluster->nodes_.empty()) return fail("no Node in it");
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const auto& [uid, pod] : cluster->pods_) {
    if (names.emplace(pod.meta.ns, pod.meta.name).second) continue;
    return fail(fmt::format("Pod {}/{}: is there twice", pod.meta.ns, pod.meta.name));
  }
  return cluster;
}

/// Adds one object by its kind. Empty: success, or a kind that is not read here.
std::string EmbeddedCluster::Take(const std::string& kind, std::string_view json) {
  simdjson::dom::parser parser;
  if (kind == "Node") {
    auto node = kube::DecodeNode(json, parser);
    if (!node) return node.error().ToString();
    const std::string name = node->meta.name;
    if (!nodes_.emplace(name, std::move(*node)).second) return "is there twice";
  } else if (kind == "Pod") {
    auto pod = kube::DecodePod(json, parser);
    if (!pod) return pod.error().ToString();
    if (pod->meta.creation == 0) pod->meta.creation = SystemClock();  // written by hand
    const std::string uid = pod->meta.uid;
    if (!pods_.emplace(uid, std::move(*pod)).second) return "its UID is there twice";
  } else if (kind == "PodGroup" || kind == "LocalQueue") {
    return TakeDialectObject(json, parser);
  } else if (kind == "Namespace") {
    auto ns = kube::DecodeNamespace(json, parser);
    if (!ns) return ns.error().ToString();
    namespaces_[ns->meta.name] = std::move(*ns);
  }
  return {};
}

/// Several projects use these kind names: takes the objects of those that Berth reads.
std::string EmbeddedCluster::TakeDialectObject(std::string_view json,
                                               simdjson::dom::parser& parser) {
  simdjson::dom::element root;
  std::string_view version;
  std::string_view kind;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS ||
      root["apiVersion"].get(version) != simdjson::SUCCESS ||
      root["kind"].get(kind) != simdjson::SUCCESS) {
    return {};
  }
  const auto known = kube::DialectKindOf(version, kind);
  if (!known) return {};
  auto object = kube::DecodeDialectObject(*known, root);
  if (!object) return object.error().ToString();
  dialect_objects_.push_back(std::move(*object));
  return {};
}

void EmbeddedCluster::Connect(HostDriver& host) {
  const std::scoped_lock feed(feed_mutex_);
  host_ = &host;
  for (const kube::DialectObject& object : dialect_objects_) {
    host.Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnDialectObject(object, now); });
  }
  for (auto& [name, ns] : namespaces_) {
    host.Apply([&](engine::Engine& e, engine::TimePoint) { e.OnNamespace(ns); });
  }
  for (auto& [name, node] : nodes_) {
    host.Apply([&](engine::Engine& e, engine::TimePoint now) { e.OnNode(node, now); });
  }
  for (const kube::Pod& pod : Pods()) Tell(pod, /*gone=*/false);
}

void EmbeddedCluster::Tell(const kube::Pod& pod, bool gone) {
  host_->Apply([&](engine::Engine& e, engine::TimePoint now) {
    if (gone) {
      e.OnPodDeleted(pod.meta.uid, now);
    } else {
      e.OnPod(pod, now);
    }
  });
  for (const Watcher& watcher : watchers_) watcher(pod, gone);
}

void EmbeddedCluster::PutPod(kube::Pod pod) {
  const std::scoped_lock feed(feed_mutex_);
  {
    const std::scoped_lock lock(mutex_);
    pods_.insert_or_assign(pod.meta.uid, pod);
  }
  Tell(pod, /*gone=*/false);
}

bool EmbeddedCluster::ChangePod(std::string_view uid, const Change& change) {
  const std::scoped_lock feed(feed_mutex_);
  kube::Pod pod;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = pods_.find(std::string(uid));
    if (it == pods_.end()) return false;
    if (!change(it->second)) return true;
    pod = it->second;
  }
  Tell(pod, /*gone=*/false);
  return true;
}

void EmbeddedCluster::DeletePod(const std::string& uid) {
  const std::scoped_lock feed(feed_mutex_);
  kube::Pod pod;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = pods_.find(uid);
    if (it == pods_.end()) return;
    pod = std::move(it->second);
    pods_.erase(it);
  }
  Tell(pod, /*gone=*/true);
}

void EmbeddedCluster::DropPods(const std::function<bool(const kube::Pod&)>& unwanted) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pods_, [&](const auto& entry) { return unwanted(entry.second); });
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

host::Result EmbeddedCluster::CarryOut(const host::ApiOrder& order, const Wanted& wanted) {
  if (!wanted()) return {.outcome = WriteOutcome::kRefused, .message = "not wanted any more"};
  return std::visit(
      [this](const auto& o) -> host::Result {
        if constexpr (requires { Do(o); }) return Do(o);
        const bool finds = std::is_same_v<decltype(o), const host::FindObject&>;
        return {.outcome = finds ? WriteOutcome::kDone : WriteOutcome::kNotFound};
      },
      order);
}

host::Result EmbeddedCluster::Do(const host::PostBinding& binding) {
  host::Result result{.outcome = WriteOutcome::kDone};
  const auto refuse = [&result](std::string why) {
    result = {.outcome = WriteOutcome::kConflict, .message = std::move(why)};
    return false;
  };
  const bool found = ChangePod(binding.pod.uid, [&](kube::Pod& pod) {
    if (!pod.node_name.empty() && pod.node_name != binding.node) {
      return refuse("already bound to " + pod.node_name);
    }
    if (!pod.scheduling_gates.empty()) return refuse("it still has scheduling gates");
    if (!pod.node_name.empty()) return false;  // it is done already
    pod.node_name = binding.node;
    pod.pod_scheduled = kube::PodScheduled{
        .status = true, .reason = {}, .message = {}, .since = SystemClock() / 1000 * 1000};
    pod.nominated_node.clear();
    for (const auto& [key, value] : binding.annotations) pod.meta.annotations[key] = value;
    return true;
  });
  if (!found) return {.outcome = WriteOutcome::kNotFound, .message = "pod not found"};
  return result;
}

/// Changes a pod that is not bound yet.
host::Result EmbeddedCluster::ChangeWaiting(const engine::PodRef& ref, const Change& change) {
  const bool found =
      ChangePod(ref.uid, [&](kube::Pod& pod) { return pod.node_name.empty() && change(pod); });
  return {.outcome = found ? WriteOutcome::kDone : WriteOutcome::kNotFound};
}

host::Result EmbeddedCluster::Do(const host::Nominate& nomination) {
  return ChangeWaiting(nomination.pod, [&](kube::Pod& pod) {
    const bool moves = std::exchange(pod.nominated_node, nomination.node) != nomination.node;
    if (nomination.annotation.empty()) return moves;
    std::string& plan = pod.meta.annotations[std::string(cluster::kPlanAnnotation)];
    return std::exchange(plan, nomination.annotation) != nomination.annotation || moves;
  });
}

host::Result EmbeddedCluster::Do(const host::RemoveGate& removal) {
  return ChangeWaiting(removal.pod, [](kube::Pod& pod) {
    return std::erase(pod.scheduling_gates, cluster::kAdmissionGate) > 0;
  });
}

host::Result EmbeddedCluster::Do(const host::MarkVictim& mark) {
  const bool found = ChangePod(mark.pod.uid, [&](kube::Pod& pod) {
    if (mark.mark.empty()) return pod.meta.annotations.erase(std::string(mark.annotation)) > 0;
    std::string& note = pod.meta.annotations[std::string(mark.annotation)];
    return std::exchange(note, mark.mark) != mark.mark;
  });
  return {.outcome = found ? WriteOutcome::kDone : WriteOutcome::kNotFound};
}

host::Result EmbeddedCluster::Do(const host::Evict& eviction) {
  if (eviction.dry_run) return {.outcome = WriteOutcome::kDone};
  DeletePod(eviction.pod.uid);
  return {.outcome = WriteOutcome::kDone};
}

host::Result EmbeddedCluster::Do(const host::ReadPod& read) const {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(read.pod.uid);
  if (it == pods_.end()) return {.outcome = WriteOutcome::kNotFound};
  return {.outcome = WriteOutcome::kDone, .message = {}, .pod = it->second};
}

void EmbeddedCluster::Event(const engine::EmitEvent& event) {
  if (on_event_) on_event_(event);
}

}  // namespace berth::server
