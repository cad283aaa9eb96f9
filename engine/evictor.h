// What all evictions have in common, for a plan (evictions.cc) and in a queue that is drained
// (drains.h): how they are ordered, what pods are told before, and what is remembered of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "engine/actions.h"
#include "engine/counters.h"
#include "engine/evicted_jobs.h"
#include "engine/timers.h"
#include "engine/workload_state.h"

namespace berth::engine {

/// A pod that was to be evicted and stays.
struct Spared {
  std::string uid;
  cluster::NodeIndex node;
};

class Evictor {
 public:
  /// What it notes; all must outlive it.
  struct Output {
    std::vector<Action>& actions;
    Counters& counters;
    Timers& timers;
  };

  /// `instance`: Options::instance. The others must outlive it.
  Evictor(std::string instance, cluster::Store& store, States& states, Output output)
      : instance_(std::move(instance)), store_(store), states_(states), out_(output) {}

  // --- Orders.
  /// A new Evictions::id; `kind` is how it begins.
  std::string NextId(std::string_view kind);
  /// Orders the eviction of the pod, or asks for it (EvictPod::dry_run). Sets what is the same for
  /// all evictions: the pod, the id, and how.
  void Order(Evictions& evictions, const cluster::PodInfo& pod, EvictPod eviction);
  /// Of the pods that are to be evicted and are not yet, the next ones: the pods that a budget
  /// covers, or, if none of these is left, the others.
  std::vector<const cluster::PodInfo*> NextOf(
      const Evictions& evictions, const std::vector<const cluster::PodInfo*>& pods) const;

  // --- Results.
  /// What is noted with an eviction that is not a dry run. `surplus`: its gang goes on.
  EvictionNotice NoticeOf(const cluster::PodInfo& victim, EmitEvent event, bool surplus) const;
  /// The eviction was accepted. The pod may have ended before the answer came. Does nothing if it
  /// is noted already.
  void NoteEvicted(Evictions& evictions, const std::string& uid, TimePoint now);
  /// See EvictedJobs::Take.
  std::optional<Evicted> TakeEvicted(const cluster::Workload& workload, TimePoint now) {
    return evicted_jobs_.Take(workload, now);
  }
  /// It stays: other plans must not wait for its end any more (TakeSpared).
  void Spare(const cluster::PodInfo& victim);
  /// Since the last call.
  std::vector<Spared> TakeSpared() { return std::exchange(spared_, {}); }
  bool has_spared() const { return !spared_.empty(); }

  // --- Warnings (eviction.warning).
  /// Tells the pod that it is to be evicted at MemberState::evict_at. `reason`: a sentence.
  void Announce(const cluster::PodInfo& victim, const std::string& reason);
  /// Tells the pods that are not to be evicted any more. Call when nothing is left to be judged.
  void WithdrawWarnings(TimePoint now);
  /// Even if no workload needs them for now, the warnings of these pods hold until then: the
  /// workload that needs them may only have a pause.
  void KeepWarnings(const std::vector<std::string>& uids, TimePoint until);
  /// For a new process: notes the pods that the last process told, and keeps their warnings for a
  /// while, because a plan may need them again. A time that is later than a warning given now, or
  /// long over, is not believed; what cannot be read is no warning.
  void NoteWarned(TimePoint now);

 private:
  /// The job that ends with the victim; nullopt: kube-scheduler places it.
  std::optional<EvictedJobs::Job> JobOf(const cluster::PodInfo& victim) const;

  const std::string instance_;
  cluster::Store& store_;
  States& states_;
  Output out_;
  std::uint64_t begun_ = 0;
  EvictedJobs evicted_jobs_;
  std::vector<Spared> spared_;
  /// UIDs of pods that were told that they are to be evicted, and until when that holds although no
  /// workload needs it; 0: not.
  std::map<std::string, TimePoint> warned_;
};

}  // namespace berth::engine
