#include "sim/baselines/typical_pods.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace berth::sim {
namespace {

using Shape = std::shared_ptr<const cluster::PodShape>;

auto Kind(const Shape& shape) {
  const std::int64_t milli = shape->share > 0 ? shape->share : cluster::kMilli;
  const kube::PodSpec& spec = *shape->spec;
  return std::tuple(policy::DemandOf(*shape, cluster::kCpu), shape->device_amount == 0 ? 0 : milli,
                    shape->device_amount / milli,
                    std::tie(spec.node_selector, spec.required_node_affinity));
}

struct ByKind {
  bool operator()(const Shape& a, const Shape& b) const { return Kind(a) > Kind(b); }
};

}  // namespace

std::vector<policy::Law::Entry> TypicalPods(std::span<const Shape> pods) {
  std::map<Shape, std::size_t, ByKind> counts;
  for (const Shape& shape : pods) ++counts[shape];
  std::vector<std::pair<std::size_t, Shape>> popular;
  for (const auto& [shape, count] : counts) popular.emplace_back(count, shape);
  std::ranges::stable_sort(popular, std::ranges::greater{}, [](const auto& p) { return p.first; });
  std::size_t covered = 0;
  std::size_t kinds = 0;
  while (kinds < popular.size() && covered * 100 < pods.size() * 95) {
    covered += popular[kinds++].first;
  }
  std::vector<policy::Law::Entry> entries;
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
