// The part of a score that depends on where a node is, not on the pod: its place in the one node
// order, and how free its rack is. Both keep racks whole for the gangs that need them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "policy/node_scorer.h"

namespace berth::policy {

class PlaceTerms {
 public:
  /// The rank term is spread over at least this many nodes. In a small cluster, where the places of
  /// two nodes lie far apart, it would otherwise outweigh the fragmentation that a placement
  /// causes.
  static constexpr int kRankedNodes = 256;

  struct Weights {
    /// How much the last node of the order scores below the first.
    Score rank = 0;
    /// How much a node of a wholly free domain scores below one of a full domain.
    Score domain = 0;
    bool operator==(const Weights&) const = default;
  };

  explicit PlaceTerms(const cluster::Store& store) : store_(&store) {}

  /// Applies the changes of the store. REQUIRES: Store::Refresh() after those changes.
  void CatchUp(const Weights& weights);

  /// By node: the sum of both, 0 or less. Valid until CatchUp.
  std::span<const Score> by_node() const { return terms_; }
  Score rank(cluster::NodeIndex node) const;
  /// Minus weight x free share of the devices of the node's narrowest domain that is wider than a
  /// host.
  Score domain(cluster::NodeIndex node) const;

 private:
  struct Devices {
    std::int64_t free = 0;
    std::int64_t all = 0;
  };

  void StartOver(const Weights& weights);
  Devices DevicesOf(const cluster::NodeInfo& node) const;
  cluster::DomainId DomainOf(cluster::NodeIndex node) const;
  void Sum(cluster::NodeIndex node);

  const cluster::Store* store_;
  Weights weights_;
  std::vector<Score> terms_;      ///< By node.
  std::vector<Devices> counted_;  ///< By node: its contribution to its domain's sum.
  std::vector<Devices> domains_;  ///< By domain.
  cluster::ChangeLog::Position seen_ = 0;
  std::optional<std::uint64_t> topology_generation_;
  std::optional<std::uint64_t> policy_generation_;
};

}  // namespace berth::policy
