// What an edit of the policy would let queues take from each other, or end by a drain, before it is
// in force: a typo must not end anybody's work (docs/queues.md, "Edits that are held").
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/policy_configuration.h"
#include "policy/fair_share.h"

namespace berth::policy {

/// Thousandths of devices, kinds added up.
struct Exposure {
  /// In use by queues that may keep them under the policy in force; under the next one others could
  /// take them back, or their work is evicted, or belongs to no queue.
  std::int64_t devices = 0;
  std::int64_t in_use = 0;  ///< By all queues.
  /// By queue, the largest first. A queue and one above it may both be here.
  std::vector<std::pair<std::string, std::int64_t>> queues{};
};

/// Work that belongs to another queue under the next policy (cluster::QueueDirectory).
struct Move {
  std::string from;
  std::string to;               ///< Empty: to no queue.
  DeviceAmounts used{};         ///< What its pods are charged now.
  std::vector<JobSize> jobs{};  ///< Its part of the demand of `from`.
};

/// `now`: the queues under the policy `current`, with their jobs; `kinds` names its kinds of
/// devices.
///
/// `moves`: what does not stay with its queue.
///
/// Of each queue that counts which was covered and is no longer: by its quota; or by its quota or
/// its fair share with the jobs that run and wait now. Where queues are below, it is the larger of
/// what it loses itself and what they lose. Of work that moves, or that has other queues above it
/// then, that counts which some queue on its path may keep now, and none then. Of queues whose work
/// begins to take room back (preemption.reclaim), that counts which they are entitled to and do not
/// have, as far as others have more than they may keep. Where nobody takes anything back under the
/// next policy, only what comes to be in a drained queue, or in none, is exposed. A quota is that
/// in total (config::TotalQuota); amounts of single flavors, and preemption inside queues, are not
/// looked at.
Exposure ExposureOf(const FairTree& now, const std::vector<std::string>& kinds,
                    const config::PolicyConfiguration& current,
                    const config::PolicyConfiguration& next, const std::vector<Move>& moves);

}  // namespace berth::policy
