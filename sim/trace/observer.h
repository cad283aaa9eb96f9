// What is sampled during a replay: read from the API objects, independently of the policy that
// runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/store.h"
#include "config/policy_configuration.h"
#include "kube/objects.h"
#include "policy/fair_share.h"
#include "policy/largest_gang.h"
#include "sim/world/environment.h"

namespace berth::sim {

/// The cluster at one moment.
struct Sample {
  double hours = 0;         ///< Since the first arrival.
  double allocated = 0;     ///< Allocated share of all GPUs.
  double fragmented = 0;    ///< Share of the free GPUs that is on partly used nodes.
  double largest_gang = 0;  ///< Number of pods of 8 GPUs that could start at once.
  double waiting = 0;       ///< Jobs that have arrived and do not run.
  double share_error = 0;   ///< See ShareError. 0 where there are fewer than two queues.
};

/// What queues lack of their fair shares, added up, as a part of all devices of the first kind:
/// sum over q of max(0, share(q) - used(q)) / total, 0..1, each without the queues below it. A fair
/// share is never more than a queue asks for (policy/fair_share.h), so this is work that waits
/// although its queue is entitled to the devices.
double ShareError(const policy::FairTree& tree);

/// Follows the pods of a replay, and measures the cluster when it is asked.
class Observer {
 public:
  /// `shares`: whose queues, quotas and weights fair shares are computed from. `env` must outlive
  /// it.
  Observer(Environment& env, const std::vector<kube::Node>& nodes,
           const config::PolicyConfiguration& shares);

  /// `waiting`: jobs that have arrived and do not run.
  Sample Look(double hours, double waiting);

 private:
  void OnPod(const Change& change);
  double LookAtShares();

  Environment& env_;
  Life life_;
  cluster::Store store_;                  ///< Pods that are bound.
  std::optional<cluster::Store> queues_;  ///< With those that wait. None: too few queues.
  policy::PodSize whole_pod_;
  std::int64_t gpus_;
};

}  // namespace berth::sim
