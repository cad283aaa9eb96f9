// Which running work of a queue is evicted so that a gang of higher priority in the same queue can
// start, as pure functions. Victims are whole jobs: a gang loses all of its members or none, and
// the gang that gets their room is placed, whole, in the same decision. evictions.cc carries it
// out. (victims.h is about the evictions that kube-scheduler proposes for single pods.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/decide.h"
#include "engine/victims.h"

namespace berth::engine {

/// A pod that has not ended so long after its deletion was due does not end by itself: its room is
/// not expected.
inline constexpr TimePoint kStuckAfter = 600'000;

/// Work that may be evicted, or whose plan may end, for other work.
struct VictimJob {
  const cluster::Workload* workload = nullptr;
  /// What it holds: its bound pods, those whose Binding is under way, and those that are planned,
  /// which only give their places up.
  std::vector<const cluster::PodInfo*> pods{};
  bool runs = false;         ///< Some must be evicted.
  std::int64_t devices = 0;  ///< What they are charged, thousandths.
  TimePoint from = 0;        ///< It may not be evicted before that: see OfAgeAt.
};

/// The work that `workload` may take room from: of lower priority, in the same queue, preemptible
/// in all its members, and not evicted already; also what may not be evicted yet. In the order in
/// which it is taken first: lower priority, younger, UID.
std::vector<VictimJob> FindVictimJobs(const View& view, const cluster::Workload& workload);

/// Decides for a gang that was refused for `reason` and needs `min` of `pods`, which are in rank
/// order. Nobody is evicted if the room that pods give up which end already is enough. Of all sets
/// of victims that let the gang start and break no PodDisruptionBudget, takes the one with the
/// fewest gangs, then the fewest devices, the lowest priority, the youngest, by UID. That is exact
/// for up to kExactJobs candidates; for more of them, no victim can be left out, as far as
/// kMaxSearches placements tell.
PreemptorDecision DecideStartByEviction(const View& view, const cluster::Workload& workload,
                                        std::vector<const cluster::PodInfo*> pods, int min,
                                        cluster::ReasonId reason, const Wakeups* memo);
inline constexpr std::size_t kExactJobs = 8;
inline constexpr int kMaxSearches = 256;

/// An earlier process evicted `marked` for the workload: it starts in their room, and the evictions
/// go on. nullopt: none of them ends, or it would not fit.
std::optional<Reservation> DecideResumedStart(const View& view, const cluster::Workload& workload,
                                              std::vector<const cluster::PodInfo*> pods, int min,
                                              std::vector<const cluster::PodInfo*> marked);

}  // namespace berth::engine
