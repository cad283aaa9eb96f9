// What to do about room, as pure functions: each reads a View, changes nothing but caches, and
// returns a decision. Engine::Commit (commit.cc) applies it, and so reserves the room. Decided
// here: a workload starts, a member joins, moves or is tried again, a claim is honoured after a
// restart, a pod is bound for kube-scheduler's own gangs.
//
// Only pods that Berth does not plan get room without a decision: in passthrough mode, and where
// they belong to no workload, they are charged when they come to bind (Engine::PostNow in
// barrier.cc), or when the watch shows that they are bound.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cluster/store.h"
#include "engine/ending.h"
#include "engine/fair_share_cache.h"
#include "engine/refusals.h"
#include "engine/wakeups.h"
#include "engine/workload_state.h"
#include "policy/placement.h"
#include "policy/quota.h"

namespace berth::engine {

/// How much older than Berth's state the state may be that kube-scheduler decides by: its informers
/// may be some milliseconds behind, and an attempt goes on with the snapshot that it began with.
inline constexpr TimePoint kSchedulerLag = 2'000;

/// What decisions are made from. Valid until the store's next change.
struct View {
  const cluster::Store& store;
  const States& states;
  const Refusals& refusals;
  /// Keys of started in-tree groups: what their minimum still needs is not for others.
  const std::set<std::string>& in_tree_started;
  policy::Scorer& scorer;       ///< Its caches change, its answers do not.
  FairShareCache& fair_shares;  ///< The same, but that Recent may be of a moment ago.
  EndingCache& ending;          ///< The same.
  std::int64_t& work;           ///< Grows by the number of nodes that were looked at.
  TimePoint now = 0;
  const Ended* ended = nullptr;  ///< Null: none. Read by decisions to start.
  bool any_jobs = false;         ///< They do not look at maxJobsPerUser.
};

/// A decision to reserve room: which member goes where.
struct Reservation {
  enum class Kind : std::uint8_t {
    kStart,      ///< A plan for a whole workload.
    kJoin,       ///< A place for one more member of a gang that has started.
    kMove,       ///< Other places for members of a plan, in exchange for their own.
    kRetry,      ///< A place for a member whose node refused it: that node again, or another one.
    kRecover,    ///< Places that the last process planned, for a gang that has started.
    kDelegated,  ///< The place where kube-scheduler binds a member of an in-tree group.
  };

  Kind kind = Kind::kStart;
  std::vector<policy::Placed> placed;  ///< Not empty. kStart: in rank order.
  /// kStart: UIDs of the pods that hold its room until they have ended. No member of a gang is
  /// released before that.
  std::vector<std::string> victims{};
  /// kStart: the pods of `victims` that Berth evicts; the others end anyway.
  std::vector<const cluster::PodInfo*> evicts{};
  /// kStart: the pods of `evicts` that are surplus: their gangs go on with their minimum.
  std::vector<const cluster::PodInfo*> surplus{};
  /// kStart: members of running gangs, beyond their minimum, that give up their planned places.
  std::vector<const cluster::PodInfo*> displaced{};
  /// kStart: the floors of other queues below which the evictions leave them.
  std::vector<policy::Undercut> undercut{};
  /// kStart: workloads whose plans, which have not started, give their room up for it.
  std::vector<const cluster::Workload*> yields{};
  bool by_scheduler = false;  ///< kStart: kube-scheduler evicts `victims`.
  /// kJoin: the member keeps its place and is not released before this time; 0: no pause.
  TimePoint held_until = 0;
  std::string plan{};        ///< kRecover: the id in the claims.
  std::vector<int> ranks{};  ///< kRecover: of `placed`.
};

// --- Quota, room and gates, as decisions see them.

/// The pod has a scheduling gate that is not Berth's: it exists, and is not to be placed yet.
bool HasForeignGate(const cluster::PodInfo& pod);
/// The pod has the gate that Berth removes (cluster::kAdmissionGate).
bool HasOurGate(const cluster::PodInfo& pod);

/// The members that wait for a place and may have one, in rank order.
std::vector<const cluster::PodInfo*> Placeable(const cluster::Workload& workload);

/// The room on the nodes, without View::ended.
policy::Overlay RoomOf(const View& view);
/// The quota left for `workload`: without what the other started in-tree groups still need; by a
/// view, also without View::ended.
policy::QuotaView QuotaFor(const cluster::Store& store,
                           const std::set<std::string>& in_tree_started,
                           const cluster::Workload& workload);
policy::QuotaView QuotaFor(const View& view, const cluster::Workload& workload);
/// See policy::GrantMembers.
cluster::Verdict GrantMembers(const View& view, const cluster::Workload& workload,
                              std::span<const cluster::PodInfo* const> pods, int min, int& fit,
                              cluster::FlavorId flavor = cluster::kNoFlavor);
/// See policy::GrantCharge. Room that is held while victims end is over the cap until they are
/// gone: it moves only to where it is not over the cap.
cluster::Verdict GrantCharge(const View& view, const cluster::Workload& workload,
                             std::span<const policy::Placed> placed);
/// Whether, by counting, some node that `pod` matches has what it asks for.
bool HasRoom(const View& view, const cluster::PodInfo& pod);
/// The same of the nodes that its queue can pay for, where that depends on their flavor.
bool HasPayableRoom(const View& view, const cluster::PodInfo& pod);
/// Whether the gang is below its minimum even with the other members that are on their way.
bool NeededByMinimum(const cluster::Workload& workload, const cluster::PodInfo& pod);
/// See policy::CheckHold. What the minimum of a running gang lacks (`needed`) is only held back
/// where the queue is drained.
cluster::Verdict CheckHold(const cluster::Store& store, const cluster::Workload& workload,
                           bool needed);

/// One search of all nodes.
policy::Placement Search(const View& view, const policy::PlacementRequest& request,
                         const policy::Overlay& overlay);
/// Places the pods while avoiding all nodes that refused members like these. If that leaves no
/// room, avoids only the nodes that are not to be tried yet.
policy::Placement PlaceAround(const View& view, const cluster::Workload& workload,
                              std::span<const cluster::PodInfo* const> pods,
                              policy::PlacementRequest request, const policy::Overlay& overlay);
/// A request for `pod` that only `node` can meet.
policy::PlacementRequest OnNode(const cluster::PodInfo& pod, cluster::NodeIndex node);

// --- Starting.

/// Whether, and where, a workload starts. If it does not, why, and what it waits for.
struct StartDecision {
  enum class RestsOn : std::uint8_t {
    kNothing,  ///< It is not known exactly what it waits for.
    kQuota,    ///< Verdict::want of the resource Verdict::subject, of Verdict::queue or its own.
    kRoom,     ///< That of `failure`.
  };

  std::optional<Reservation> reserve{};
  cluster::Verdict verdict{};  ///< Why it does not start.
  /// The key under which the verdict holds for all workloads like this one.
  std::optional<Failure> failure{};
  RestsOn rests_on = RestsOn::kNothing;
};

/// The order in which members are tried, from rank order: if there are more than the workload
/// announced, members that are unlikely to find a place come last.
void OrderForStart(const View& view, const cluster::Workload& workload,
                   std::vector<const cluster::PodInfo*>& pods);

/// Places at least `min` of `pods`, which are in rank order, or none: where the policy has flavors,
/// all on nodes of the first flavor that has the room. Only work of a queue without amounts of
/// single flavors may be spread over several flavors, if none of them has the room. For a gang that
/// runs: places for at least `min` members that it lacks, beside the others. `memo`:
/// failures that still hold, so that their search need not be repeated; null: none is known. The
/// memo changes the cost, and never whether the workload starts.
StartDecision DecideStart(const View& view, const cluster::Workload& workload,
                          std::vector<const cluster::PodInfo*> pods, int min, const Wakeups* memo);
/// Whether the first of `pods` have room and quota on these nodes, by counting. False where that
/// does not tell, too. Much cheaper than a search.
bool StartsStill(const View& view, const cluster::Workload& workload,
                 std::span<const cluster::PodInfo* const> pods,
                 std::span<const cluster::NodeIndex> nodes);
/// The lone `pod` starts on this node, if that has the room.
std::optional<Reservation> DecideStartOn(const View& view, const cluster::PodInfo& pod,
                                         cluster::NodeIndex node);

// --- Members of a plan, or of a gang that has started.

/// Where members that move or join may go: with a required level, the domain of the members that
/// stay, and if they are in several domains, the domain of the members that Berth placed. The node
/// of a running member may be gone and come back: until that node is known again, no member joins.
/// Null: anywhere.
std::function<bool(cluster::NodeIndex)> StayInDomain(
    const View& view, const cluster::Workload& workload,
    std::span<const cluster::PodInfo* const> moving);
/// Where the queue has amounts of single flavors: that of the nodes on which the gang has its
/// places, or, of `own`, the pod itself. Absent: it does not matter.
std::optional<cluster::FlavorId> FlavorOf(const View& view, const cluster::Workload& workload,
                                          const cluster::PodInfo& own);

struct JoinDecision {
  std::optional<Reservation> reserve{};
  cluster::Verdict verdict{};  ///< Why it has no place, or must wait at the one that it has.
};
/// A place for `pod`, which has none, in the domain of its gang.
JoinDecision DecideJoin(const View& view, const cluster::Workload& workload,
                        const cluster::PodInfo& pod);

struct RetryDecision {
  std::optional<Reservation> reserve{};
  TimePoint held_until = 0;  ///< Otherwise: when it is tried next.
};
/// A place for a member that keeps the room of a node that refused it: there when the pause is
/// over, elsewhere as soon as there is room.
RetryDecision DecideRetry(const View& view, const cluster::Workload& workload,
                          const Assignment& held);

/// Other places for `moving`, which have one, while the other members stay. `allowed` limits where
/// `asking` may go; null: anywhere.
std::optional<Reservation> DecideMove(const View& view, const cluster::Workload& workload,
                                      std::span<const cluster::PodInfo* const> moving,
                                      const std::function<bool(cluster::NodeIndex)>& allowed,
                                      const cluster::PodInfo& asking);

struct RecoverDecision {
  std::optional<Reservation> reserve{};
  int untrusted = 0;  ///< Claims whose room is not available.
};
/// The places that members of a started gang claim under the plan of a bound member.
RecoverDecision DecideRecover(const View& view, const cluster::Workload& workload);

/// The verdict on a workload that is not planned before state.hold_until: its plans failed, or it
/// was evicted.
cluster::Verdict CoolingDown(const cluster::Workload& workload, const WorkloadState& state,
                             TimePoint now);

// --- In-tree groups: see in_tree.cc.

/// Checks the quota for the unplaced members that the minimum still needs, or for one if it needs
/// none.
cluster::Verdict InTreeQuota(const View& view, const cluster::Workload& workload,
                             std::span<const cluster::PodInfo* const> pods);
/// kube-scheduler binds `pod` to `node`: reserves the room there, or says why not.
std::expected<Reservation, cluster::ReasonId> DecideDelegated(const View& view,
                                                              const cluster::PodInfo& pod,
                                                              cluster::NodeIndex node);

}  // namespace berth::engine
