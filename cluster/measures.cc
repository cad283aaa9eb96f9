#include "cluster/measures.h"

#include <algorithm>

namespace berth::cluster {

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
