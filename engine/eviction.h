// Which running work is evicted so that other work can start, as pure functions: work of lower
// priority in the same queue, and work of queues that use more than they are entitled to. Victims
// are whole jobs: a gang loses all of its members or none, and the work that gets their room is
// placed, whole, in the same decision. evictions.cc carries it out. (victims.h is about pods that
// are in no queue, which kube-scheduler evicts.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/decide.h"
#include "engine/victim_choice.h"
#include "engine/victims.h"

namespace berth::engine {

/// Whether the plan has evicted all that it evicts: every eviction was answered, and its victims
/// end or are gone. From then on work of higher standing in its queue may have the room instead.
bool HasEvictedAll(const cluster::Store& store, const Plan& plan);

/// From whom a workload may take room.
struct Sources {
  bool lower = false;   ///< From work of lower priority in its own queue.
  bool others = false;  ///< From other queues, as far as it has a claim (policy/claims.h).
};
/// By the policy, and by what the workload is.
Sources SourcesOf(const View& view, const cluster::Workload& workload);

/// How many members of the gang are bound or being bound, or have succeeded, and are not to be
/// evicted.
int StayingMembers(const States& states, const cluster::Workload& gang);

/// The work that `workload` may take room from, if `exchange` (null: no other queue) permits it:
/// preemptible in all its members, not evicted already, and of lower priority where it is in the
/// same queue; also what may not be evicted yet. In the order in which it is taken first: lower
/// priority, less work lost, younger, UID. Of an elastic gang that runs, its surplus comes pod by
/// pod, and then the rest: first planned members, which only give their places up, then those on
/// nodes that the workload could use, the lowest pod priority, the highest rank. One that asks for
/// devices always stays. `wants`: the devices that the workload needs to start.
std::vector<VictimJob> FindVictimJobs(const View& view, const cluster::Workload& workload,
                                      Sources sources, const policy::Exchange* exchange,
                                      const cluster::Demand& wants);

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
};

/// Decides for a workload that was refused for `reason` and needs `min` of `pods`, which are in
/// rank order. Nobody is evicted if the room that pods give up which end already is enough. See
/// ChooseVictims for whom it takes. `memo`: who is known to find no victims in the own queue; null:
/// nobody is.
PreemptorDecision DecideStartByEviction(const View& view, const cluster::Workload& workload,
                                        std::vector<const cluster::PodInfo*> pods, int min,
                                        cluster::ReasonId reason, const Wakeups* memo);

/// An earlier process evicted `marked` for the workload: it starts in their room, and the evictions
/// go on. nullopt: none of them ends, or it would not fit.
std::optional<Reservation> DecideResumedStart(const View& view, const cluster::Workload& workload,
                                              std::vector<const cluster::PodInfo*> pods, int min,
                                              std::vector<const cluster::PodInfo*> marked);

}  // namespace berth::engine
