#include "sim/experiments/stock_scorer.h"

#include <array>

namespace berth::sim {
namespace {

ResourceUse UseOf(const cluster::PodShape& shape, const policy::NodeState& node,
                  cluster::ResourceId id, std::int64_t without_request) {
  const std::int64_t asked = policy::DemandOf(shape, id);
  const std::int64_t used = node.all(id) - node.free(id);
  return {.allocatable = node.all(id),
          .before = used,
          .after = used + (asked == 0 ? without_request : asked)};
}

}  // namespace

policy::Scored StockScorer::Of(const cluster::PodShape& shape,
                               const policy::NodeState& node) const {
  policy::Scored scored;
  // A share takes the fullest device into which it fits; in reality the device plugin chooses it.
  if (shape.share > 0) scored.devices = node.devices.Tightest(shape.share);
  std::array<ResourceUse, 3> uses{UseOf(shape, node, cluster::kCpu, kDefaultCpu),
                                  UseOf(shape, node, cluster::kMemory, kDefaultMemory)};
  if (strategy_ == StockStrategy::kMostAllocated) {
    if (shape.device != cluster::kPods) uses[2] = UseOf(shape, node, shape.device, 0);
    scored.score = MostAllocated(uses);
    return scored;
  }
  scored.score = LeastAllocated(uses);
  // Not for a pod without requests: kube-scheduler would otherwise heap them on one node.
  const ResourceUse cpu = UseOf(shape, node, cluster::kCpu, 0);
  const ResourceUse memory = UseOf(shape, node, cluster::kMemory, 0);
  if (cpu.before != cpu.after || memory.before != memory.after) {
    scored.score += BalancedAllocation(cpu, memory);
  }
  return scored;
}

}  // namespace berth::sim
