// What-if changes on top of the store: pods placed or taken away without changing the ledger.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "cluster/store.h"

namespace berth::policy {

class Overlay {
 public:
  explicit Overlay(const cluster::Store& store) : store_(&store) {}

  const cluster::Store& store() const { return *store_; }

  std::int64_t Free(cluster::NodeIndex node, cluster::ResourceId id) const {
    return store_->node(node).allocatable[id] - used(node)[id];
  }
  /// What is in use on the node.
  const cluster::Amounts& used(cluster::NodeIndex node) const {
    const std::ptrdiff_t slot = SlotOf(node);
    return slot != kUntouched ? At(slot).used : store_->node(node).used;
  }
  /// As cluster::NodeInfo::devices.
  const topology::DeviceSet& devices(cluster::NodeIndex node) const {
    const std::ptrdiff_t slot = SlotOf(node);
    return slot != kUntouched ? At(slot).devices : store_->node(node).devices;
  }

  /// Places `pod`, with its present shape, on `node`: on `devices`, or as cluster::TakeDevices
  /// chooses.
  void Place(const cluster::PodInfo& pod, cluster::NodeIndex node,
             topology::DeviceMask devices = 0) {
    Change& change = Touch(node);
    for (const auto& [id, amount] : store_->DemandOn(*pod.shape, store_->node(node))) {
      change.used.Add(id, amount);
      if (KeepsDevices(change, id)) {
        cluster::TakeDevices(change.devices, *pod.shape, amount, devices,
                             store_->MachineOf(store_->node(node)));
        Reconcile(change, node);
      }
    }
    placed_.emplace_back(&pod, node);
    repels_ |= !pod.object.spec->required_pod_anti_affinity.empty();
  }

  /// Takes away what `pod` holds in the ledger; it also no longer counts as a neighbour.
  void Remove(const cluster::PodInfo& pod) {
    if (pod.charge == cluster::Charge::kNone) return;
    Change& change = Touch(pod.node);
    for (const auto& [id, amount] : pod.charged) {
      change.used.Add(id, -amount);
      if (KeepsDevices(change, id)) {
        if (pod.devices != 0) {
          change.devices.GiveBack(pod.devices,
                                  static_cast<int>(amount / std::popcount(pod.devices)));
        }
        Reconcile(change, pod.node);
      }
    }
    removed_.push_back(&pod);
    sorted_ = false;
  }

  bool Removed(const cluster::PodInfo& pod) const {
    if (!std::exchange(sorted_, true)) std::ranges::sort(removed_);
    return std::ranges::binary_search(removed_, &pod);
  }
  /// In no particular order.
  const std::vector<const cluster::PodInfo*>& removed() const { return removed_; }

  /// Pods placed so far, in order.
  std::span<const std::pair<const cluster::PodInfo*, cluster::NodeIndex>> placed() const {
    return placed_;
  }

  /// Whether a pod placed so far has anti-affinity against other pods.
  bool Repels() const { return repels_; }

  /// Whether this overlay changed anything on the node, or on any.
  bool Touched(cluster::NodeIndex node) const { return SlotOf(node) != kUntouched; }
  bool TouchedAny() const { return !changes_.empty(); }

 private:
  static constexpr std::int32_t kUntouched = -1;
  /// Up to this many nodes are looked for one by one: most overlays change one node, or a few, and
  /// a table of all nodes would cost each of them time in proportion to the cluster.
  static constexpr std::size_t kFewNodes = 4;
  struct Change {
    cluster::NodeIndex node;
    cluster::Amounts used;
    topology::DeviceSet devices;
  };

  const Change& At(std::ptrdiff_t slot) const { return changes_[static_cast<std::size_t>(slot)]; }

  std::ptrdiff_t SlotOf(cluster::NodeIndex node) const {
    if (!slot_of_.empty()) return slot_of_[static_cast<std::size_t>(node)];
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (changes_[i].node == node) return static_cast<std::ptrdiff_t>(i);
    }
    return kUntouched;
  }

  Change& Touch(cluster::NodeIndex node) {
    const std::ptrdiff_t slot = SlotOf(node);
    if (slot != kUntouched) return changes_[static_cast<std::size_t>(slot)];
    changes_.push_back({node, store_->node(node).used, store_->node(node).devices});
    if (changes_.size() <= kFewNodes) return changes_.back();
    std::size_t first = changes_.size() - 1;  // that the table lacks
    if (slot_of_.empty()) {
      slot_of_.assign(store_->nodes().size(), kUntouched);
      first = 0;
    }
    for (std::size_t i = first; i < changes_.size(); ++i) {
      slot_of_[static_cast<std::size_t>(changes_[i].node)] = static_cast<std::int32_t>(i);
    }
    return changes_.back();
  }

  bool KeepsDevices(const Change& change, cluster::ResourceId id) const {
    return change.devices.size() > 0 && id == store_->device_ids().front();
  }

  void Reconcile(Change& change, cluster::NodeIndex node) const {
    const std::int64_t free = store_->node(node).allocatable[store_->device_ids().front()] -
                              change.used[store_->device_ids().front()];
    if (change.devices.total() != std::max<std::int64_t>(0, free)) {
      change.devices = topology::DeviceSet::FromCounts(change.devices.size(), free);
    }
  }

  const cluster::Store* store_;
  std::vector<std::int32_t> slot_of_;  ///< By node; empty: at most kFewNodes are touched.
  std::vector<Change> changes_;
  std::vector<std::pair<const cluster::PodInfo*, cluster::NodeIndex>> placed_;
  /// Sorted when it is first asked: a set that is copied for each search must be cheap to copy.
  mutable std::vector<const cluster::PodInfo*> removed_;
  mutable bool sorted_ = true;
  bool repels_ = false;
};

}  // namespace berth::policy
