// Which running work is evicted so that other work can start, as pure functions: work of lower
// priority in the same queue, and work of queues that use more than they are entitled to. Victims
// are whole jobs: a gang loses all of its members or none, and the work that gets their room is
// placed, whole, in the same decision. evictions.cc carries it out. (victims.h is about pods that
// are in no queue, which kube-scheduler evicts.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/candidates.h"
#include "engine/decide.h"
#include "engine/victims.h"

namespace berth::engine {

/// Whether a workload that was refused might run after an eviction.
struct PreemptorDecision {
  /// How it starts in the room of the victims that Berth evicts.
  std::optional<Reservation> reserve{};
  /// The workload, as far as it depends on it whether work of its own queue can be evicted for it.
  /// nullopt: it evicts none of its own queue, or it is not known exactly on what that depends.
  std::optional<Preemptor> preemptor{};
  bool known = false;          ///< The memo was enough to say no, as far as its own queue goes.
  bool by_count = false;       ///< Counting was.
  bool would_preempt = false;  ///< kube-scheduler would find victims that let it run.
  /// Not 0: by then some work may be evicted (OfAgeAt), or pods that should have ended are expected
  /// no more.
  TimePoint again = 0;
  bool unsure = false;  ///< Whatever changes, it may be able to evict: it must not rest.
  bool claims = false;  ///< It may come to have a claim on other queues.
  bool waits = false;   ///< The room of pods that end in any case is enough.
};

/// Whether a gang that is refused for that reason might run after evictions. Besides what helps a
/// single pod (EvictionHelps): a domain may have room once its work has ended.
bool EvictionHelpsGang(cluster::ReasonId reason);

/// Decides for a workload that was refused for `reason` and needs `min` of `pods`, which are in
/// rank order. No pod is evicted if the room of pods that already end is enough. See ChooseVictims
/// for which jobs it takes. `memo`: the workloads that are known to find no victims in their own
/// queue; null: none are known.
PreemptorDecision DecideStartByEviction(const View& view, const cluster::Workload& workload,
                                        std::vector<const cluster::PodInfo*> pods, int min,
                                        cluster::ReasonId reason, const Wakeups* memo);

/// An earlier process evicted `marked` for the workload: it starts in their room, and the evictions
/// go on. nullopt: none of them ends, or it would not fit.
std::optional<Reservation> DecideResumedStart(const View& view, const cluster::Workload& workload,
                                              std::vector<const cluster::PodInfo*> pods, int min,
                                              std::vector<const cluster::PodInfo*> marked);

}  // namespace berth::engine
