// The fair share of queues: how much of what there is each of them is entitled to.
//
// Of every queue first its quota, as far as there is demand; then the rest by weight above quota,
// filled up to demand, level by level down the tree: max-min fairness by progressive filling
// (Bertsekas and Gallager, Data Networks, 6.5.2), of several kinds of devices by the dominant one
// (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011). Everything is whole jobs and integers.
//
// The shares are found step by step. A step of a queue is the least by which what it has can grow
// in whole jobs (policy/whole_jobs.h). The next step is that of the queue which stands best among
// its siblings with the step counted (policy/queue_order.h), from the top of the tree downwards,
// as free room is given to jobs. Those that stand alike: within quota, who has the least part of
// its quota; then by name. A step that does not fit what is left, a limit on the path or what
// other queues keep for themselves is passed over.
//
// Shares depend on the sizes of the jobs, not on which of them run: who is evicted or started
// changes nobody's share.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "policy/whole_jobs.h"

namespace berth::policy {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// A queue of a FairTree. All amounts have one entry for each kind of device.
struct FairQueue {
  std::string name;
  std::int32_t id = -1;  ///< Whose jobs QueueDemands sets: the store's number of the queue.
  int parent = -1;       ///< Index into FairTree::queues; -1: it is at the top.
  DeviceAmounts quota{};
  DeviceAmounts limit{};       ///< kNoLimit where there is none.
  DeviceAmounts kept{};        ///< Of the quota, what others may not use.
  DeviceAmounts used{};        ///< With the queues below it. Shares do not depend on it.
  std::int64_t weight = 1000;  ///< Thousandths. 0: no share above the quota.
  std::int64_t priority = 0;
  /// The demand of its own work: jobs that run and jobs that wait.
  std::vector<JobSize> jobs{};

  bool operator==(const FairQueue&) const = default;
};

/// What shares are computed from: a copy, so that it takes no lock.
struct FairTree {
  DeviceAmounts total;  ///< Of all nodes: what a dominant part is a part of.
  DeviceAmounts pool;   ///< What is shared out.
  bool borrowing = true;
  std::vector<FairQueue> queues{};  ///< In any order; no cycles.

  bool operator==(const FairTree&) const = default;
};

/// What a queue is entitled to.
struct Entitlement {
  DeviceAmounts share;  ///< With that of the queues below it.
  DeviceAmounts own;    ///< Of the work of a queue that has queues below it; otherwise 0.
};

/// By queue, in the order of the tree. The work of a queue that has queues below it gets its share
/// as a sibling of theirs, with weight 1 and without a quota of its own.
///
/// A queue of weight 0 has no share above its quota. If it has no queues below it, what the quota
/// of its parent covers is demand of that quota all the same, after that of its siblings: it is in
/// the share of the parent, and of those above, not in its own.
///
/// Takes O(steps * (depth * log(queues) + sizes of jobs)), and there are about as many steps as
/// jobs.
std::vector<Entitlement> Entitlements(const FairTree& tree);
/// The shares alone.
std::vector<DeviceAmounts> FairShares(const FairTree& tree);

}  // namespace berth::policy
