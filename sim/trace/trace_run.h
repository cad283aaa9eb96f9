// Runs one recording under one policy at fidelity `scheduler` or `instant`: kube-scheduler's queue
// and cycle in virtual time, and for the policy `Berth` the engine that production runs, including
// its gates, plans and barrier.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/policy_configuration.h"
#include "sim/trace/observer.h"
#include "sim/trace/recording.h"
#include "sim/world/fidelity.h"

namespace berth::sim {

/// `Berth`; `native` (kube-scheduler alone, LeastAllocated and BalancedAllocation); `MostAllocated`
/// (alone, tuned for packing, with GPUs); `FIFO` (native, but no job is created before all pods of
/// the previous one run: shown as a warning, Kubernetes does not do this). Then the published
/// policies (sim/baselines): Berth's engine with their score. Random is none of them, because the
/// engine breaks ties by the fixed order of nodes.
const std::vector<std::string_view>& TracePolicies();

/// Under what one replay runs.
struct TraceOptions {
  std::string policy = "Berth";
  std::uint64_t seed = 0;                       ///< For ties and delays.
  config::PolicyConfiguration configuration{};  ///< The policy of `Berth`.
  /// Whose fair shares the share error is measured by. None: those of `configuration`.
  std::optional<config::PolicyConfiguration> shares{};
  Fidelity fidelity = Fidelity::kScheduler;  ///< This, or kInstant.
};

/// Waits and completion times, in seconds, of the jobs that ended.
struct Times {
  std::vector<double> wait;      ///< From arrival until all pods run.
  std::vector<double> jct;       ///< From arrival to end.
  std::vector<double> slowdown;  ///< max(1, jct / max(service, 10 s)).
  std::size_t arrived = 0;       ///< Includes those that did not end.

  bool complete() const { return jct.size() == arrived; }
};

/// How long claims within quota waited (claims.h), in seconds, of those that were met.
struct ClaimTimes {
  std::vector<double> seconds;
  std::size_t never = 0;  ///< Claims of jobs that never started.
};

/// Result of one replay.
struct TraceResult {
  std::string experiment = "trace";
  Fidelity fidelity = Fidelity::kScheduler;
  double load = 0;      ///< Offered GPU load; 0: as recorded.
  double speed_up = 1;  ///< Factor by which recorded arrivals were compressed.
  std::string policy;
  std::uint64_t seed = 0;
  std::size_t jobs = 0;
  std::size_t never_fit = 0;            ///< Jobs that were taken out before the run (offer.h).
  std::vector<std::string> unfinished;  ///< Jobs that never started, or never got all their pods
                                        ///< back.
  Times all;
  std::map<std::int64_t, Times> by_gpus;
  std::map<std::string, Times> by_queue;  ///< By the queue that Berth charges, under every policy.
  ClaimTimes claims;
  double arrival_hours = 0;  ///< From the first arrival to the last.
  double makespan = 0;       ///< Seconds from the first arrival to the last end.
  /// GPU time of what jobs did in the run that they completed, divided by all GPU time: of the
  /// makespan, and up to the last arrival. What an evicted job did before is no part of it.
  double utilisation = 0;
  double arrival_utilisation = 0;
  int evictions = 0;                    ///< Pods of jobs that were evicted.
  std::uint64_t evictions_in_vain = 0;  ///< Accepted for plans that then did not start.
  double gpu_days = 0;                  ///< That jobs used, in the run that they completed.
  double lost_gpu_hours = 0;            ///< Work of jobs that ran and were evicted.

  /// 0 if no job used a GPU.
  double evictions_per_gpu_day() const { return gpu_days > 0 ? evictions / gpu_days : 0; }
  /// What evictions lost, as a part of all that jobs did.
  double lost_share() const {
    const double done = gpu_days * 24 + lost_gpu_hours;
    return done > 0 ? lost_gpu_hours / done : 0;
  }
  std::vector<Sample> samples;
  std::string violation;  ///< A violated invariant of the design; empty: none.
};

/// Jobs that do not fit the empty cluster never end: remove them before.
TraceResult RunTrace(const std::vector<kube::Node>& nodes, const std::vector<RecordedJob>& jobs,
                     const TraceOptions& options);

}  // namespace berth::sim
