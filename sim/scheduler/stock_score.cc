#include "sim/scheduler/stock_score.h"

#include <algorithm>
#include <cmath>

namespace berth::sim {
namespace {

template <typename Score>
std::int64_t Average(std::span<const ResourceUse> resources, Score score) {
  std::int64_t sum = 0;
  std::int64_t counted = 0;
  for (const ResourceUse& use : resources) {
    if (use.allocatable == 0) continue;
    sum += score(use);
    ++counted;
  }
  return counted == 0 ? 0 : sum / counted;
}

/// 100 minus half the distance of the two used shares, in floating point as upstream.
std::int64_t Balance(const ResourceUse& cpu, const ResourceUse& memory,
                     std::int64_t ResourceUse::*used) {
  if (cpu.allocatable == 0 || memory.allocatable == 0) return kMaxNodeScore;
  const auto share = [used](const ResourceUse& use) {
    return std::min(1.0, static_cast<double>(use.*used) / static_cast<double>(use.allocatable));
  };
  const double deviation = std::abs((share(cpu) - share(memory)) / 2);
  return static_cast<std::int64_t>((1 - deviation) * static_cast<double>(kMaxNodeScore));
}

}  // namespace

std::int64_t LeastAllocated(std::span<const ResourceUse> resources) {
  return Average(resources, [](const ResourceUse& use) {
    return std::max<std::int64_t>(use.allocatable - use.after, 0) * kMaxNodeScore / use.allocatable;
  });
}

std::int64_t MostAllocated(std::span<const ResourceUse> resources) {
  return Average(resources, [](const ResourceUse& use) {
    return std::min(use.after, use.allocatable) * kMaxNodeScore / use.allocatable;
  });
}

std::int64_t BalancedAllocation(const ResourceUse& cpu, const ResourceUse& memory) {
  const std::int64_t gained =
      Balance(cpu, memory, &ResourceUse::after) - Balance(cpu, memory, &ResourceUse::before);
  return kMaxNodeScore / 2 + (kMaxNodeScore / 2 + gained) / 2;
}

}  // namespace berth::sim
