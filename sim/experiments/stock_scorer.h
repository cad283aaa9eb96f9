// The scores of kube-scheduler itself, without an extender: the native baselines.
#pragma once

#include "policy/node_scorer.h"
#include "sim/scheduler/stock_score.h"

namespace berth::sim {

/// The scores of stock_score.h, 0..200, over the engine's view of a node. A pod without a request
/// for CPU or memory counts as 100m and 200 MiB (pods that already run count as what they ask for).
/// A device that the pod does not ask for is left out. Break ties at random
/// (PlacementRequest::tie_seed).
class StockScorer : public policy::NodeScorer {
 public:
  explicit StockScorer(StockStrategy strategy) : strategy_(strategy) {}

  policy::Scored Of(const cluster::PodShape& shape, const policy::NodeState& node) const override;

 private:
  StockStrategy strategy_;
};

}  // namespace berth::sim
