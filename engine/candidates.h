// The work that other work may take room from, before it is chosen what of it goes
// (victim_choice.h).
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "engine/decide.h"
#include "engine/victim_job.h"
#include "policy/claims.h"

namespace berth::engine {

/// Whether the plan has evicted all that it evicts: no answer is to come that would have to be
/// noted for it, and its victims end or are gone. From then on work of higher priority in its queue
/// may have the room instead.
bool HasEvictedAll(const cluster::Store& store, const Plan& plan);

/// The work from which a workload may take room.
struct Sources {
  bool lower = false;   ///< From work of lower priority in its own queue.
  bool others = false;  ///< From other queues, as far as it has a claim (policy/claims.h).
};
/// By the policy, and by what the workload is.
Sources SourcesOf(const View& view, const cluster::Workload& workload);

/// How many members of the gang are bound or being bound, or have succeeded, and are not to be
/// evicted.
int StayingMembers(const States& states, const cluster::Workload& gang);

/// The jobs of `holder` that `workload` may take. `losable`: what other queues may lose; null:
/// nothing.
std::vector<VictimJob> TakeableOf(const View& view, const cluster::Workload& holder,
                                  const cluster::Workload& workload, Sources sources,
                                  policy::Losable* losable);

/// By elastic gang: of its surplus, the members on this node go first; for work that requires one
/// domain for all its pods, those in the domain of this node.
using SurplusFirst = std::map<const cluster::Workload*, cluster::NodeIndex>;

/// The work that `workload` may take room from, if `exchange` (null: no other queue) permits it:
/// preemptible in all its members, not evicted already, and of lower priority where it is in the
/// same queue; also what may not be evicted yet. In the order in which it is taken first: lower
/// priority, less work lost, younger, UID. Of an elastic gang that runs, its surplus comes pod by
/// pod, and then the rest: first planned members, which only give their places up, then the members
/// that `first` names, then members on nodes that the workload could use, then by the lowest pod
/// priority, then the highest rank. One member that asks for devices always stays. `wants`: the
/// devices that the workload needs to start.
std::vector<VictimJob> FindVictimJobs(const View& view, const cluster::Workload& workload,
                                      Sources sources, const policy::Exchange* exchange,
                                      const cluster::Demand& wants, const SurplusFirst& first = {});

/// Other choices of the surplus of the gangs that have some among `jobs`. For up to kExactJobs
/// jobs: a node for each of some gangs, all such choices or the first kMostExactSurplusChoices. For
/// more: one node for all gangs, the kMostSurplusChoices where most of what the jobs hold is.
std::vector<SurplusFirst> OtherSurplus(const View& view, const std::vector<VictimJob>& jobs);
inline constexpr std::size_t kMostExactSurplusChoices = 32;
inline constexpr std::size_t kMostSurplusChoices = 8;

}  // namespace berth::engine
