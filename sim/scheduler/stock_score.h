// The scores of kube-scheduler v1.36's resource plugins in upstream's arithmetic, used by every
// model of kube-scheduler. Checked against the real one: docs/simulator.md.
#pragma once

#include <cstdint>
#include <span>

namespace berth::sim {

/// How kube-scheduler is configured to score nodes.
enum class StockStrategy : std::uint8_t {
  /// The default profile: NodeResourcesFit with LeastAllocated and NodeResourcesBalancedAllocation,
  /// both over CPU and memory, weight 1 each.
  kLeastAllocated,
  /// Tuned for packing: NodeResourcesFit with MostAllocated over CPU, memory and the devices,
  /// weight 1 each; NodeResourcesBalancedAllocation disabled.
  kMostAllocated,
};

/// kube-scheduler's MaxNodeScore.
inline constexpr std::int64_t kMaxNodeScore = 100;
/// Requests that NodeResourcesFit assumes where a container has none.
inline constexpr std::int64_t kDefaultCpu = 100;              // thousandths of a core
inline constexpr std::int64_t kDefaultMemory = 200LL << 20U;  // bytes

/// Use of one resource of a node, without and with the pod that is to be placed.
struct ResourceUse {
  std::int64_t allocatable = 0;  ///< 0: the node does not have the resource, and it is not scored.
  std::int64_t before = 0;
  std::int64_t after = 0;
};

/// The scores of NodeResourcesFit under either strategy: 0 to kMaxNodeScore.
std::int64_t LeastAllocated(std::span<const ResourceUse> resources);
std::int64_t MostAllocated(std::span<const ResourceUse> resources);
/// How much closer together the pod brings the used shares of CPU and memory; 75 if it changes
/// nothing.
std::int64_t BalancedAllocation(const ResourceUse& cpu, const ResourceUse& memory);

}  // namespace berth::sim
