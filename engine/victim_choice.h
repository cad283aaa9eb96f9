// Which jobs end so that a workload can start: the search among those that may be taken.
// eviction.h says which these are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/victim_job.h"

namespace berth::engine {

/// Whether it would start once those have ended that end in any case.
bool OnlyHasToWait(const View& view, const Beneficiary& beneficiary);

/// Of all sets of jobs that let it start, break no PodDisruptionBudget and are what it may claim
/// (policy/claims.h): first without a straddler, then those of which all jobs were warned, then
/// with the fewest devices that are no surplus, the fewest gangs, the fewest devices, of the queues
/// furthest above what they are entitled to, with the lowest priority, the least work lost, the
/// youngest, by UID. That is exact for up to kExactJobs candidates; for more of them, no victim can
/// be left out, and a set may be missed if several queues that lose, or jobs of several sizes, only
/// just permit it, or if it cannot be told with so many searches which of its victims are needed.
/// Where other queues lose, only the minimum is placed. nullopt: none is found, or what ends in any
/// case is enough.
///
/// Which members of an elastic gang are its surplus is given by the candidates; `others` are lists
/// of candidates that differ in that, made when they are looked at: up to kExactJobs candidates all
/// of them are; for more, only when no set of those before consists of surplus alone, without a
/// straddler.
std::optional<Reservation> ChooseVictims(
    const View& view, const Beneficiary& beneficiary, const std::vector<VictimJob>& candidates,
    std::span<const std::function<std::vector<VictimJob>()>> others = {});
inline constexpr std::size_t kExactJobs = 8;
inline constexpr int kMaxSearches = 300;  ///< More than the sets of kExactJobs.
/// Further ones, to leave out of a set what is not needed.
inline constexpr int kMaxSearchesOfParts = 1'000;

/// Of the pod that asks for most: a whole node, or else the most devices. There is at least one.
const std::shared_ptr<const cluster::PodShape>& LargestShape(
    std::span<const cluster::PodInfo* const> pods);

/// Of the pods that end in any case, those whose end a workload that is placed so has to wait for,
/// besides `evicted`: those on its nodes; if the quota or its user's cap is not enough before, all.
std::vector<const cluster::PodInfo*> AwaitedOf(const View& view, const cluster::Workload& workload,
                                               std::span<const policy::Placed> placed,
                                               const std::vector<const cluster::PodInfo*>& ending,
                                               const std::vector<const cluster::PodInfo*>& evicted);

}  // namespace berth::engine
