// The scores of kube-scheduler v1.36's resource plugins, in its own arithmetic, for every model of
// it. Checked against the real one: docs/simulator.md.
#pragma once

#include <cstdint>
#include <span>

namespace berth::sim {

enum class StockStrategy : std::uint8_t {
  /// The default profile: NodeResourcesFit with LeastAllocated and NodeResourcesBalancedAllocation,
  /// both over CPU and memory, weight 1 each.
  kLeastAllocated,
  /// Tuned for packing: NodeResourcesFit with MostAllocated over CPU, memory and the devices,
  /// weight
  /// 1 each; NodeResourcesBalancedAllocation disabled.
  kMostAllocated,
};

/// kube-scheduler's MaxNodeScore.
inline constexpr std::int64_t kMaxNodeScore = 100;
/// What NodeResourcesFit counts where a container has no request.
inline constexpr std::int64_t kDefaultCpu = 100;              // thousandths of a core
inline constexpr std::int64_t kDefaultMemory = 200LL << 20U;  // bytes

/// One resource of a node, without and with the pod that is to be placed.
struct ResourceUse {
  std::int64_t allocatable = 0;  ///< 0: the node has none, and it does not count.
  std::int64_t before = 0;
  std::int64_t after = 0;
};

std::int64_t LeastAllocated(std::span<const ResourceUse> resources);
std::int64_t MostAllocated(std::span<const ResourceUse> resources);
/// By how much the pod brings the used shares of CPU and memory together: 75 where it changes
/// nothing.
std::int64_t BalancedAllocation(const ResourceUse& cpu, const ResourceUse& memory);

}  // namespace berth::sim
