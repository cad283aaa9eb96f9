// The jobs that Berth has evicted, until they come back: their owners create new pods, under the
// name of the gang or with the same controller. So a job keeps its place in line, waits a moment
// before it is planned again, and is not evicted time after time.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "cluster/store.h"

namespace berth::engine {

/// What the evictions of one job have left.
struct Evicted {
  int times = 0;           ///< How often it was evicted; at least 1.
  kube::Millis since = 0;  ///< The age that orders it: when it first came.
};

/// Memory is bounded: what has not come back for an hour is forgotten, and the oldest first if
/// there are too many. Nothing outlives the process: what comes back after a restart is new.
class EvictedJobs {
 public:
  static constexpr cluster::TimePoint kKept = 3'600'000;
  static constexpr std::size_t kMost = 10'000;

  /// A job as it runs. Its pods may be gone when it is known that they were evicted.
  struct Job {
    std::string key;  ///< How it is known when it comes back.
    std::string run;  ///< What is evicted once, by however many pods: its plan, or the pod.
    Evicted next;     ///< What is remembered once it was evicted.
  };
  /// `before`: what the engine knows of its earlier evictions. More may be known from the claims of
  /// its pods (cluster::PlanClaim).
  /// REQUIRES: the workload has a member.
  static Job JobOf(const cluster::Workload& workload, const Evicted& before);

  /// The job was evicted. `now` never goes back.
  void Note(const Job& job, cluster::TimePoint now);
  /// Whether the workload is such a job, or one pod of several that were evicted under the same
  /// controller. Each of these is returned once.
  /// REQUIRES: the workload has a member.
  std::optional<Evicted> Take(const cluster::Workload& workload, cluster::TimePoint now);

 private:
  struct Entry {
    Job job;
    cluster::TimePoint until;
  };
  using Entries = std::list<Entry>;  ///< The oldest first.

  void Forget(Entries::iterator entry);
  void ForgetOld(cluster::TimePoint now);

  Entries entries_;
  std::multimap<std::string, Entries::iterator, std::less<>> by_key_;
};

/// How long a job waits after it has come back, in milliseconds: 10 s, doubled each time, at most 5
/// minutes. It begins when the job is complete again, because the grace periods of its pods may
/// take longer than that.
cluster::TimePoint BackOffAfter(int evictions);

}  // namespace berth::engine
