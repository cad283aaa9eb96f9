// A store and a scorer without an engine, for tests of pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/largest_gang.h"
#include "policy/placement.h"
#include "tests/support/builders.h"

namespace berth::testing {

class Planning {
 public:
  explicit Planning(config::PolicyConfiguration policy = {}, cluster::StoreOptions options = {})
      : store(std::move(policy), options) {}

  cluster::NodeIndex Node(const kube::Node& node) {
    store.UpsertNode(node);
    return store.FindNode(node.meta.name);
  }
  const cluster::PodInfo& Pod(const kube::Pod& pod) { return *store.UpsertPod(pod); }
  cluster::NodeIndex node(const std::string& name) const { return store.FindNode(name); }
  policy::Overlay overlay() {
    store.Refresh();
    return policy::Overlay(store);
  }
  cluster::ResourceId gpu() const { return store.device_ids().front(); }
  int rank(const std::string& name) {
    store.Refresh();
    return store.rank(node(name));
  }

  /// Adds the pods and makes a request for them, in this order.
  policy::PlacementRequest Request(const std::vector<kube::Pod>& pods, int min = 0) {
    policy::PlacementRequest request;
    for (const kube::Pod& pod : pods) request.pods.push_back(&Pod(pod));
    request.min = min > 0 ? min : static_cast<int>(pods.size());
    return request;
  }
  policy::Placement Place(const policy::PlacementRequest& request) {
    return policy::Place(request, overlay(), scorer);
  }
  /// Node names in the order of the request; empty: not placed.
  std::vector<std::string> Nodes(const policy::Placement& placement) const {
    std::vector<std::string> names;
    for (const policy::Placed& p : placement.placed) names.push_back(store.node(p.node).name);
    return names;
  }
  std::vector<std::string> Place(const std::vector<kube::Pod>& pods, int min = 0) {
    return Nodes(Place(Request(pods, min)));
  }
  /// Of all workloads.
  std::vector<policy::PodSize> PodSizes() const {
    policy::SizeCount count;
    for (const auto& [key, workload] : store.workloads()) count.Add(store, workload);
    return count.Sizes(store);
  }

  cluster::Store store;
  policy::Scorer scorer{store};
};

/// `count` pods NAME0, NAME1, ... of one shape.
inline std::vector<kube::Pod> Members(const std::string& name, int count, const PodBuilder& like) {
  std::vector<kube::Pod> pods;
  for (int i = 0; i < count; ++i) {
    kube::Pod pod = like.Build();
    pod.meta.name = name + std::to_string(i);
    pod.meta.uid = "uid-" + pod.meta.name;
    pods.push_back(std::move(pod));
  }
  return pods;
}

}  // namespace berth::testing
