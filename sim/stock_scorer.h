// What kube-scheduler itself prefers, without an extender: the native baselines.
#pragma once

#include <cstdint>

#include "policy/node_scorer.h"

namespace berth::sim {

enum class StockStrategy : std::uint8_t {
  /// The default profile: NodeResourcesFit with LeastAllocated, and
  /// NodeResourcesBalancedAllocation,
  /// both over CPU and memory, weight 1 each.
  kLeastAllocated,
  /// Tuned for packing: NodeResourcesFit with MostAllocated over CPU, memory and the policy's first
  /// device, weight 1 each.
  kMostAllocated,
};

/// Scores 0..200 in the integer arithmetic of kube-scheduler. A pod without a request for CPU or
/// memory counts as 100m and 200 MiB; a device that it does not ask for is left out. Equal scores
/// are to be told apart at random (PlacementRequest::tie_seed).
class StockScorer : public policy::NodeScorer {
 public:
  StockScorer(const cluster::Store& store, StockStrategy strategy)
      : store_(&store), strategy_(strategy) {}

  policy::Scored Of(const cluster::PodShape& shape, const policy::NodeState& node) const override;

 private:
  const cluster::Store* store_;
  StockStrategy strategy_;
};

}  // namespace berth::sim
