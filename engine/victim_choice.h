// Which jobs end so that a workload can start: the search among those that may be taken.
// eviction.h says which these are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/decide.h"
#include "policy/claims.h"

namespace berth::engine {

/// Work that may be evicted, or whose plan may end, for other work: a pod by itself, a gang, or of
/// an elastic gang that runs one surplus member, or all the others, which go only together with all
/// its surplus.
struct VictimJob {
  const cluster::Workload* workload = nullptr;
  int before = 0;        ///< How many surplus jobs must go before it.
  int place = 0;         ///< Of surplus, how late it goes where nothing else decides: 0, 1, ...
  bool surplus = false;  ///< The gang goes on without it.
  cluster::QueueId queue = cluster::kNoQueue;  ///< That all of its pods are charged to.
  /// What it holds: its bound pods, those whose Binding is under way, and those that are planned,
  /// which only give their places up.
  std::vector<const cluster::PodInfo*> pods{};
  /// Those of them that are not only planned. What queues that lose them are judged by.
  std::vector<const cluster::PodInfo*> running{};
  bool runs = false;         ///< Some must be evicted.
  bool warned = false;       ///< It was told of it (MemberState::evict_at), as it was then.
  std::int64_t devices = 0;  ///< What they are charged, thousandths.
  TimePoint from = 0;        ///< It may not be evicted before that: see OfAgeAt.
  /// What is lost if all of the workload that runs ends, in device seconds: all since LostSince.
  std::int64_t work = 0;
  std::int64_t excess = 0;  ///< policy::Exchange::Excess of its queue; 0 in the same queue.
};

/// The work that would start.
struct Beneficiary {
  const cluster::Workload& workload;
  std::vector<const cluster::PodInfo*> pods;  ///< In rank order; at least `min` must start.
  int min = 1;
  cluster::Demand wants;  ///< The devices that `min` of them ask for.
  const Ending& ending;   ///< What ends in any case.
  /// Its claims on other queues. Null: only jobs of its own queue may be taken.
  const policy::Exchange* exchange = nullptr;
};

/// Whether it would start once those have ended that end in any case.
bool OnlyHasToWait(const View& view, const Beneficiary& beneficiary);

/// Of all sets of jobs that let it start, break no PodDisruptionBudget and are what it may claim
/// (policy/claims.h): first without a straddler, then those of which all jobs were warned, then
/// with the fewest devices that are no surplus, the fewest gangs, the fewest devices, of the queues
/// furthest above what they are entitled to, with the lowest priority, the least work lost, the
/// youngest, by UID. That is exact for up to kExactJobs candidates; for more of them, no victim can
/// be left out, as far as kMaxSearches placements tell. Where other queues lose, only the minimum
/// is placed. nullopt: there is none, or what ends in any case is enough.
std::optional<Reservation> ChooseVictims(const View& view, const Beneficiary& beneficiary,
                                         const std::vector<VictimJob>& candidates);
inline constexpr std::size_t kExactJobs = 8;
inline constexpr int kMaxSearches = 300;  ///< More than the sets of kExactJobs.

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
