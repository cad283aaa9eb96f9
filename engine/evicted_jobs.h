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
  /// How the job of a pod of that workload is known: the pods of a controller have other names each
  /// time, or names that others had before.
  static const std::string& KeyOf(const cluster::PodInfo& pod, const cluster::Workload& workload);
  /// The job of a victim, in time that does not depend on its size. `before`: what the engine knows
  /// of its earlier evictions. More may be known from the claim of the pod (cluster::PlanClaim).
  /// REQUIRES: the victim has a workload.
  static Job JobOf(const cluster::PodInfo& victim, const Evicted& before);

  /// The job was evicted. Each victim of a gang may say so: what the one that knows most says
  /// counts. `now` never goes back.
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
  /// By Job::key and Job::run. Many pods may have the same controller.
  std::map<std::string, std::map<std::string, Entries::iterator>> by_key_;
};

/// How long a job waits after it has come back, in milliseconds: 10 s, doubled each time, at most 5
/// minutes. It begins when the job is complete again, because the grace periods of its pods may
/// take longer than that.
cluster::TimePoint BackOffAfter(int evictions);

}  // namespace berth::engine
