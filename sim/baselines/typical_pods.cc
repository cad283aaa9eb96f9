#include "sim/baselines/typical_pods.h"

#include <algorithm>
#include <map>

namespace berth::sim {
namespace {

using Shape = std::shared_ptr<const cluster::PodShape>;

}  // namespace

std::vector<policy::WorkloadMix::Entry> TypicalPods(std::span<const Shape> pods) {
  std::map<Shape, std::size_t, policy::KindOrder> counts;
  for (const Shape& shape : pods) ++counts[shape];
  std::vector<std::pair<std::size_t, Shape>> popular;
  for (const auto& [shape, count] : counts) popular.emplace_back(count, shape);
  std::ranges::stable_sort(popular, std::ranges::greater{}, [](const auto& p) { return p.first; });
  std::size_t covered = 0;
  std::size_t kinds = 0;
  while (kinds < popular.size() && covered * 100 < pods.size() * 95) {
    covered += popular[kinds++].first;
  }
  std::vector<policy::WorkloadMix::Entry> entries;
  for (const auto& [count, shape] : std::span(popular).first(kinds)) {
    entries.push_back(
        {.shape = shape,
         .cpu = policy::DemandOf(*shape, cluster::kCpu),
         .devices = shape->device_amount,
         .millionths = policy::MulDiv(static_cast<std::int64_t>(count), policy::kMillion,
                                      static_cast<std::int64_t>(covered))});
  }
  return entries;
}

}  // namespace berth::sim
