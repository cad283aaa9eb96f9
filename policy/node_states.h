// Nodes by what decides a score: free room, devices, and the law as they see it. Thousands of equal
// nodes are one state, so that a shape is scored once for all of them, and a node that comes back
// to an earlier state is known already.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "policy/law.h"

namespace berth::policy {

/// A state, as a scorer sees it.
struct NodeState {
  std::span<const std::int64_t> free_by_id;
  std::span<const std::int64_t> all_by_id;
  topology::DeviceSet devices;  ///< As cluster::NodeInfo::devices with shares; else empty.
  /// What the devices are to each other, and which are free. Null: they are alike, or only counted.
  const topology::Machine* machine = nullptr;
  topology::DeviceMask free_devices = 0;
  std::uint32_t hosted = 0;      ///< See NodeStates; 0 where it was not asked for.
  const NodeLaw* law = nullptr;  ///< Never null.

  /// What is free of a resource, and what there is; free can be below 0.
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

  /// When there are more states than this, or when they take more than that, all are forgotten but
  /// those that nodes are in, before the next placement.
  static constexpr std::size_t kMaxStates = 4096;  ///< And four for each node.
  /// Where nodes' own states take less. The last growth before it is noticed doubles it at most.
  static constexpr std::size_t kMaxBytes = std::size_t{32} << 20;

  /// `with_hosted`: nodes are told apart by the kinds of device pods that they host as well. Bit 0:
  /// shares; bit k: pods of k whole devices.
  NodeStates(const cluster::Store& store, bool with_hosted)
      : store_(&store), with_hosted_(with_hosted) {}

  NodeStates(const NodeStates&) = delete;
  NodeStates& operator=(const NodeStates&) = delete;

  /// Takes in what changed in the store and in the law. REQUIRES: law.Refresh() after that.
  void CatchUp(const Law& law);

  /// By node. Valid until CatchUp.
  std::span<const Id> ids() const { return id_of_; }
  Id of(cluster::NodeIndex node) const { return id_of_[static_cast<std::size_t>(node)]; }
  /// The node as the overlay has it.
  Id of(const Overlay& overlay, cluster::NodeIndex node);
  NodeState state(Id id) const;
  /// state(id).free(resource)
  std::int64_t free(Id id, cluster::ResourceId resource) const {
    return resource < width_ ? keys_[id * stride_ + resource] : 0;
  }
  std::size_t size() const { return ids_.size(); }
  /// What the states take.
  std::size_t bytes() const;
  /// How far it has read Store::changes().
  cluster::ChangeLog::Position seen() const { return seen_; }
  /// When it changes, ids of before mean nothing any more.
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
  void StartOver(const Law& law);
  Id Intern(const cluster::NodeInfo& node, const cluster::Amounts& used,
            const topology::DeviceSet& devices);

  const cluster::Store* store_;
  bool with_hosted_;
  const Law* law_ = nullptr;
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
