// What an edit of the policy would let queues take from each other, or end by a drain, before it is
// in force: a typo must not end running work (docs/queues.md, "Edits that are held").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/policy_configuration.h"
#include "policy/fair_share.h"
#include "policy/queue_demand.h"

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

/// Work that belongs to another queue under the next policy (cluster::QueueDirectory), or waits and
/// is demand only then.
struct Move {
  std::string from;             ///< Empty: it is no demand now.
  std::string to;               ///< Empty: to no queue.
  DeviceAmounts used{};         ///< What its pods are charged now.
  std::vector<JobSize> jobs{};  ///< Its part of the demand of `from`.
};

/// Running work of a queue that may not be evicted now because of `minRunTime` or
/// `preemption.within`, and may be under the next policy.
struct Loosened {
  std::string queue;
  /// The jobs that have run for the next minRunTime, and not for the present one.
  std::vector<JobSize> of_age{};
  /// What may end for work of higher priority that waits in the queue. Thousandths of devices,
  /// kinds added up.
  std::int64_t outranked = 0;
};

/// The jobs that run and may be evicted, by the queue that they belong to under the next policy: a
/// pod by itself, or what holds the minimum of a gang; each pod beyond a minimum is one of its own.
using RunningJobs = std::map<std::string, std::vector<JobSize>>;

/// A job with non-preemptible pods: it is demand if the quotas on the path of its queue leave room
/// for these beside the jobs that come before it.
struct QuotaJob {
  QueueJob::Precedence precedence;
  std::string queue;
  DeviceAmounts devices{};
  DeviceAmounts now{};   ///< Of these, what is non-preemptible under the policy in force.
  DeviceAmounts then{};  ///< And under the next one; empty: nothing.
};

/// The work that an edit concerns.
struct EditedWork {
  std::vector<Move> moves{};  ///< What does not stay with its queue.
  std::vector<Loosened> loosened{};
  RunningJobs running{};
  std::vector<QuotaJob> non_preemptible{};  ///< What stays with its queue.
};

/// `now`: the queues under the policy `current`, with their jobs; `kinds` names its kinds of
/// devices.
///
/// Of each queue, what was covered and is no longer counts: by its quota; or by its quota or its
/// fair share with the jobs that run and wait now, and the non-preemptible ones for which quotas
/// have room only then. Of a queue with queues below it, the larger of what it loses itself and
/// what they lose counts. Of work that moves, or that has other queues above it then, the part
/// counts that some queue on its path may keep now, and none then. Of queues whose work begins to
/// take room back (preemption.reclaim), the part counts that they are entitled to and do not have,
/// as far as others have more than they may keep. Where no queue takes anything back under the next
/// policy, only what comes to be in a drained queue, or in none, is exposed. Of work that is
/// `loosened`, what may be evicted inside its queue counts, and of what is of age then, what the
/// queue has in use above what it may keep. All that counts as the most that the `running` jobs can
/// lose then, because they end whole (policy/job_losses.h). A quota is the quota in total
/// (config::TotalQuota); amounts of single flavors are not looked at.
Exposure ExposureOf(const FairTree& now, const std::vector<std::string>& kinds,
                    const config::PolicyConfiguration& current,
                    const config::PolicyConfiguration& next, const EditedWork& work);

}  // namespace berth::policy
