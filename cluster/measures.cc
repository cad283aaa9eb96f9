#include "cluster/measures.h"

#include <algorithm>

namespace berth::cluster {

std::int64_t LargestPlaceableGang(const Store& store, int level, std::int64_t pod_gpus) {
  if (store.device_ids().empty()) return 0;
  const ResourceId device = store.device_ids().front();
  std::map<DomainId, std::int64_t> pods;
  for (const auto& node : store.nodes()) {
    if (!node->present || node->object.unschedulable) continue;
    const DomainId domain =
        level < 0 || node->domains.empty() ? 0 : node->domains[static_cast<std::size_t>(level)];
    if (domain == kNoDomain) continue;
    pods[domain] += std::max<std::int64_t>(0, node->free(device)) / (pod_gpus * kMilli);
  }
  std::int64_t best = 0;
  for (const auto& [domain, count] : pods) best = std::max(best, count);
  return best;
}

double FragmentationRatio(const Store& store, ResourceId device) {
  std::int64_t free = 0;
  std::int64_t broken = 0;
  for (const auto& node : store.nodes()) {
    if (!node->present) continue;
    const std::int64_t here = std::max<std::int64_t>(0, node->free(device));
    free += here;
    if (here < node->allocatable[device]) broken += here;
  }
  return free == 0 ? 0 : static_cast<double>(broken) / static_cast<double>(free);
}

}  // namespace berth::cluster
