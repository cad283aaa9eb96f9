// Nodes grouped by what decides a score: free room, devices, and the workload mix as the node sees
// it. Thousands of equal nodes are one state, so a shape is scored once for all of them, and a node
// that returns to an earlier state is already known.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "policy/workload_mix.h"

namespace berth::policy {

/// A state, as a scorer sees it.
struct NodeState {
  std::span<const std::int64_t> free_by_id;
  std::span<const std::int64_t> all_by_id;
  topology::DeviceSet devices;  ///< As cluster::NodeInfo::devices with shares; else empty.
  /// How the devices are linked. Null: all links are equal, or the devices are only counted.
  const topology::Machine* machine = nullptr;
  topology::DeviceMask free_devices = 0;
  std::uint32_t hosted = 0;      ///< See NodeStates; 0 where it is not used.
  const NodeMix* mix = nullptr;  ///< Never null.

  /// The free amount of a resource, and the total; free can be below 0.
  std::int64_t free(cluster::ResourceId id) const {
    return id < free_by_id.size() ? free_by_id[id] : 0;
  }
  std::int64_t all(cluster::ResourceId id) const {
    return id < all_by_id.size() ? all_by_id[id] : 0;
  }
};

class NodeStates {
 public:
  using Id = std::uint32_t;

  /// When there are more states than kMaxStates, or they take more than kMaxBytes, all states that
  /// no node is in are forgotten before the next placement.
  static constexpr std::size_t kMaxStates = 4096;  ///< Plus four for each node.
  /// Applies where the nodes' own states take less. The growth before it is noticed at most doubles
  /// it.
  static constexpr std::size_t kMaxBytes = std::size_t{32} << 20;

  /// `with_hosted`: also distinguishes nodes by the kinds of device pods that they host. Bit 0:
  /// shares; bit k: pods of k whole devices.
  NodeStates(const cluster::Store& store, bool with_hosted)
      : store_(&store), with_hosted_(with_hosted) {}

  NodeStates(const NodeStates&) = delete;
  NodeStates& operator=(const NodeStates&) = delete;

  /// Applies the changes of the store and of the mix. REQUIRES: mix.Refresh() after those changes.
  void CatchUp(const WorkloadMix& mix);

  /// By node. Valid until CatchUp.
  std::span<const Id> ids() const { return id_of_; }
  Id of(cluster::NodeIndex node) const { return id_of_[static_cast<std::size_t>(node)]; }
  /// The state of the node in the overlay.
  Id of(const Overlay& overlay, cluster::NodeIndex node);
  NodeState state(Id id) const;
  /// state(id).free(resource)
  std::int64_t free(Id id, cluster::ResourceId resource) const {
    return resource < width_ ? keys_[id * stride_ + resource] : 0;
  }
  std::size_t size() const { return ids_.size(); }
  /// Memory that the states take.
  std::size_t bytes() const;
  /// The position up to which it has read Store::changes().
  cluster::ChangeLog::Position seen() const { return seen_; }
  /// When it changes, ids from before are invalid.
  std::uint64_t epoch() const { return epoch_; }

 private:
  struct Hash {
    const NodeStates* states;
    std::size_t operator()(Id id) const;
  };
  struct Equal {
    const NodeStates* states;
    bool operator()(Id a, Id b) const;
  };

  std::span<const std::int64_t> Key(Id id) const {
    return std::span(keys_).subspan(id * stride_, stride_);
  }
  std::size_t Width() const;
  bool TooMany() const;
  void StartOver(const WorkloadMix& mix);
  Id Intern(const cluster::NodeInfo& node, const cluster::Amounts& used,
            const topology::DeviceSet& devices);

  const cluster::Store* store_;
  bool with_hosted_;
  const WorkloadMix* mix_ = nullptr;
  std::vector<Id> id_of_;  ///< By node.

  // A key: free by resource, all by resource, then device words, device count and hosted, class,
  // machine and its free devices.
  std::size_t width_ = 0;  ///< Resources.
  std::size_t stride_ = 1;
  std::vector<std::int64_t> keys_;
  std::unordered_set<Id, Hash, Equal> ids_{0, Hash{this}, Equal{this}};

  std::uint64_t epoch_ = 0;
  cluster::ChangeLog::Position seen_ = 0;
  std::uint64_t class_generation_ = 0;
};

}  // namespace berth::policy
