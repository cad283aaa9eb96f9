// What-if on top of the store: pods put somewhere, or taken away, without touching the ledger.
#pragma once

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/store.h"

namespace berth::policy {

class Overlay {
 public:
  explicit Overlay(const cluster::Store& store) : store_(&store) {}

  const cluster::Store& store() const { return *store_; }

  std::int64_t Free(cluster::NodeIndex node, cluster::ResourceId id) const {
    const cluster::NodeInfo& info = store_->node(node);
    const auto it = used_.find(node);
    return info.allocatable[id] - (it == used_.end() ? info.used[id] : it->second[id]);
  }

  /// Puts `pod`, shaped as it is, on `node`.
  void Place(const cluster::PodInfo& pod, cluster::NodeIndex node) {
    Add(node, store_->DemandOn(*pod.shape, store_->node(node)), 1);
    placed_.emplace_back(&pod, node);
    repels_ |= !pod.object.spec->required_pod_anti_affinity.empty();
  }

  /// Takes away what `pod` holds in the ledger; it no longer counts as a neighbour either.
  void Remove(const cluster::PodInfo& pod) {
    if (pod.charge == cluster::Charge::kNone) return;
    Add(pod.node, pod.charged, -1);
    removed_.push_back(&pod);
  }

  bool Removed(const cluster::PodInfo& pod) const {
    return std::ranges::find(removed_, &pod) != removed_.end();
  }

  /// Pods placed so far, in order.
  std::span<const std::pair<const cluster::PodInfo*, cluster::NodeIndex>> placed() const {
    return placed_;
  }

  /// Whether a pod placed so far keeps others away.
  bool Repels() const { return repels_; }

  /// Whether this overlay changed anything on the node.
  bool Touched(cluster::NodeIndex node) const { return used_.contains(node); }

 private:
  void Add(cluster::NodeIndex node, const cluster::Demand& demand, std::int64_t sign) {
    const auto [it, fresh] = used_.try_emplace(node);
    if (fresh) it->second = store_->node(node).used;
    for (const auto& [id, amount] : demand) it->second.Add(id, sign * amount);
  }

  const cluster::Store* store_;
  std::unordered_map<cluster::NodeIndex, cluster::Amounts> used_;
  std::vector<std::pair<const cluster::PodInfo*, cluster::NodeIndex>> placed_;
  std::vector<const cluster::PodInfo*> removed_;
  bool repels_ = false;
};

}  // namespace berth::policy
