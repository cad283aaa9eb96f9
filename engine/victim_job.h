// Jobs that may have to end so that other work can start, and sets of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
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
  /// What it holds: its bound pods, pods whose Binding is under way, and planned pods, which only
  /// give their places up.
  std::vector<const cluster::PodInfo*> pods{};
  /// The ones that are not only planned. Queues that lose them are judged by these.
  std::vector<const cluster::PodInfo*> running{};
  bool runs = false;         ///< Some must be evicted.
  bool inherits = false;     ///< Its plan has evicted others: work that takes its room inherits it.
  bool under_way = false;    ///< `inherits`, once that is done: it is under way.
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
  /// Of these more is lent than other queues would lend: others end for it only if the quotas on
  /// its path cover it then.
  std::vector<cluster::ResourceId> overlent{};
};

/// They outlive it.
using Jobs = std::vector<const VictimJob*>;

std::set<cluster::NodeIndex> NodesOf(const VictimJob& job);

Jobs WithoutRepeats(const Jobs& jobs);
/// The jobs of the first list, then the jobs of the second that are not in the first.
Jobs Joined(Jobs first, const Jobs& then);

// --- Of a gang, its surplus goes before the rest.

/// Whether `a` must go before `b`.
bool IsBefore(const VictimJob& a, const VictimJob& b);
/// Whether for each of the jobs all that must go before it are there, too.
bool IsClosed(const Jobs& jobs);
/// The jobs in that order, but each only after the jobs that must go before it.
Jobs InTurns(const Jobs& order);
/// Whether the job must wait for one of the jobs that stay.
bool Waits(const VictimJob& job, const Jobs& staying);

}  // namespace berth::engine
