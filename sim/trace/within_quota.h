// Which jobs of a replay are entitled to start as soon as they arrive.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/policy_configuration.h"
#include "sim/world/timeline.h"

namespace berth::sim {

/// A job of a replay, from its arrival to its end.
struct JobStay {
  std::string queue;
  std::int64_t gpus = 0;
  TimePoint arrival = 0;
  TimePoint end = -1;  ///< -1: never.
};

/// Whether each job is within quota when it arrives: it and all others of its queue that are there,
/// running or waiting, fit into the queue's quota of GPUs together, and so it is for every queue
/// above that has a quota; at least one of them has. Such a job waits for nothing but what others
/// use of its queue's quota, and for room that is in one piece. Quotas of single flavors are not
/// looked at. REQUIRES: by rising arrival.
std::vector<bool> WithinQuota(std::span<const JobStay> jobs,
                              const config::PolicyConfiguration& policy);

}  // namespace berth::sim
