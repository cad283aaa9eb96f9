// How long the jobs of a replay wait for what the quota of their queue promises them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/policy_configuration.h"
#include "sim/world/timeline.h"

namespace berth::sim {

/// What a claim is about.
struct ClaimingJob {
  std::string queue;
  std::int64_t gpus = 0;
  std::int32_t priority = 0;
};

/// Something that happened to a job of a replay.
struct JobEvent {
  enum class Kind : std::uint8_t {
    kArrived,
    kStarted,  ///< All its pods are bound.
    kStopped,  ///< One of them was evicted: it waits again.
    kEnded,
  };
  TimePoint at = 0;
  std::size_t job = 0;  ///< Index.
  Kind kind = Kind::kArrived;
};

/// A job that has waited while it had a claim within quota.
struct Claim {
  std::size_t job = 0;  ///< Index.
  Duration waited = 0;  ///< As long as the claim lasted; ends when all pods are bound.
  bool met = false;     ///< The job started.
  bool operator==(const Claim&) const = default;
};

/// The claims of all jobs, in the order in which they were met, then those that never were. A
/// waiting job has a claim while every quota of GPUs on the path of its queue, and there is one,
/// covers it, what runs there, and the waiting jobs there that have a claim and come before it:
/// those of higher priority, then the older ones. So a claim lasts from the moment at which what
/// else the queue has leaves room for the job in the quota; it lapses while younger work of the
/// same queue uses that room. A job that is evicted may have a second one. Quotas of single flavors
/// are not looked at. REQUIRES: `jobs` by rising arrival, `events` by rising time.
std::vector<Claim> ClaimsWithinQuota(std::span<const ClaimingJob> jobs,
                                     std::span<const JobEvent> events,
                                     const config::PolicyConfiguration& policy);

}  // namespace berth::sim
