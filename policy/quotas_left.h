// How much non-preemptible work is demand: as much as the quotas of its queue, and of the queues
// above it, have room for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policy/fair_share.h"

namespace berth::policy {

/// What quotas leave to further non-preemptible jobs. A quota of 0 does not restrict.
class QuotasLeft {
 public:
  /// `tree` must outlive it. Only the queues' quotas and parents are read.
  explicit QuotasLeft(const FairTree& tree) : tree_(tree) {
    for (const FairQueue& queue : tree.queues) left_.push_back(queue.quota);
  }
  /// How many of `count` such jobs fit along the path of the queue; takes them.
  std::int64_t Take(int queue, const DeviceAmounts& job, std::int64_t count) {
    const auto each = [&](const auto& apply) {
      for (int at = queue; at >= 0; at = tree_.queues[static_cast<std::size_t>(at)].parent) {
        const DeviceAmounts& quota = tree_.queues[static_cast<std::size_t>(at)].quota;
        const std::size_t kinds = std::min(job.size(), quota.size());
        for (std::size_t kind = 0; kind < kinds; ++kind) {
          if (quota[kind] > 0) apply(left_[static_cast<std::size_t>(at)][kind], job[kind]);
        }
      }
    };
    each([&](std::int64_t& left, std::int64_t amount) {
      if (amount > 0) count = std::min(count, std::max<std::int64_t>(0, left / amount));
    });
    each([&](std::int64_t& left, std::int64_t amount) { left -= count * amount; });
    return count;
  }

 private:
  const FairTree& tree_;
  std::vector<DeviceAmounts> left_;
};

}  // namespace berth::policy
