// The workloads that wait for a place. Each of them is in one of four states:
// - In line to be judged, in this order: first the gangs that run below their minimum; then, within
//   a queue, by PriorityClass, what its user or namespace has of the queue with it (where the queue
//   is shared among them), predicted service (where its policy says so), age and key. Priority
//   counts only inside a queue, and comes before shares there: otherwise a workload that is evicted
//   for one of higher priority could be placed before that one. Among sibling queues, the one that
//   ranks first comes next (policy/queue_order.h, the first workload in it and below it counted),
//   then the one whose first workload is the oldest: from the top of the tree downwards.
// - Awake: it was judged, and any room that is given back may help it.
// - At rest on conditions (engine/wakeups.h): it keeps its place, but is not in line. When one of
//   its conditions opens, it is in line; when they close again before its turn, it is not. So an
//   event that may help thousands costs no more than to judge the workloads that take the room.
// - At rest for another reason: an event that can help it puts it in line.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "engine/workload_state.h"
#include "policy/claims.h"
#include "policy/queue_order.h"

namespace berth::engine {

/// What decides when a workload is judged.
struct Turn {
  bool broken = false;  ///< It runs below its minimum.
  cluster::QueueId queue = cluster::kNoQueue;
  std::int32_t priority = 0;
  /// What it will use, where its queue orders by that: devices times expected duration, in any
  /// unit. All equal: ordered by age.
  std::int64_t service = 0;
  kube::Millis since = 0;  ///< The age that orders it.
  /// The devices that it needs to start. Only read with borrowing, and with a `sharer`.
  cluster::Demand wants{};
  /// The user or namespace whose share of the queue it uses (cluster::SharerOf); empty: none.
  std::string_view sharer{};
};

/// The workload's turn as of now. `sharer` refers to text that the workload owns.
Turn TurnOf(const cluster::Workload& workload, const cluster::Store& store,
            const WorkloadState& state);

/// Turn::service: the devices that the workload needs to start, times its expected duration (see Gu
/// et al., "Tiresias", NSDI 2019: two-dimensional shortest service first). What gives no duration
/// comes last. 0 where its queue does not order by it.
std::int64_t PredictedService(const cluster::Workload& workload, const cluster::Store& store);

/// Something that workloads at rest wait for. Its address must not change.
class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  /// Whether the workloads that rest on it are in line, or will be after ActiveQueue::CallOpened.
  bool open() const { return opened_ != kClosed; }
  /// How many workloads rest on it. It must not be destroyed before there are none.
  int resting() const { return resting_; }

 private:
  friend class ActiveQueue;
  static constexpr std::uint64_t kClosed = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t opened_ = kClosed;  ///< The ActiveQueue::round_ from which on they are in line.
  int resting_ = 0;
};

/// Operations that change the line take time logarithmic in its length, times the depth of the
/// tree, except as CallOpened and Close say.
class ActiveQueue {
 public:
  /// `store` must outlive it.
  explicit ActiveQueue(const cluster::Store& store) : store_(&store) {}

  /// About `pods` pods will come: makes the tables large enough for them.
  void Expect(std::size_t pods) { turns_.reserve(pods); }
  /// Puts the workload in line at the place that `turn` gives it, whatever its place was before.
  void Put(const cluster::Workload& workload, const Turn& turn);
  /// Takes the next workload out of the line and keeps it awake. Returns null if the line is empty.
  const cluster::Workload* Pop();
  /// The heads that may hide a job which comes before work of `queue` that wants `wants`: of each
  /// queue that would rank higher with a small job, the first workload in line in it and below it,
  /// if other workloads have a place there. Takes time in proportion to the siblings of the queues
  /// on the path.
  std::vector<const cluster::Workload*> FirstOfBetter(cluster::QueueId queue,
                                                      const cluster::Demand& wants) const;
  /// Makes the workload awake and takes it out of the line.
  void KeepAwake(const cluster::Workload& workload);
  /// Makes the workload neither awake nor in line, without a place. Also call this before the
  /// workload is destroyed.
  void Rest(const cluster::Workload& workload);
  /// Makes the workload rest on one or two conditions, none of which is open. It keeps the place
  /// that `turn` gives it.
  void RestOn(const cluster::Workload& workload, const Turn& turn,
              std::span<Condition* const> conditions);
  /// The workloads that rest on the condition come in line with the next CallOpened. Does nothing
  /// if it is open.
  void Open(Condition& condition);
  /// The workloads that rest on the condition leave the line, unless another condition of theirs is
  /// open. The next Put or Pop then takes time in proportion to the number of queues in which
  /// workloads wait.
  void Close(Condition& condition);
  /// Brings the workloads in line that rest on opened conditions. Takes time in proportion to the
  /// number of queues in which workloads rest on conditions, and at most once to the number of
  /// these workloads.
  void CallOpened();
  /// Whether CallOpened would bring any workload in line.
  bool opened() const { return opened_ > 0; }
  /// Whether any workload is in line because of a condition.
  bool called() const { return called_ > 0; }
  /// Takes the places of at most `most` of the workloads that rest on conditions; they still rest.
  /// Returns how many places were taken.
  std::size_t ForgetPlaces(std::size_t most);
  /// At most `most` of the awake workloads, ordered by key, starting with the first key after
  /// `after`; fewer than `most` means that there are no more. Forgets workloads whose members are
  /// all bound.
  std::vector<const cluster::Workload*> Awake(std::string_view after, std::size_t most);

  /// The queue lost a straddler, and is below that floor: of the queues that ask for more than
  /// their quotas it comes first, with a job that reaches from below the floor to above it. (A
  /// smaller job has a claim, and a job that the floor does not cover could be taken from it at
  /// once.)
  void Owe(const policy::Undercut& floor);
  /// Queues that have their floors again are owed nothing more. Call when a plan was charged.
  void MakeGood();
  /// No queue is owed anything, and queues may be others: the policy has changed.
  void ForgetOwed() { owed_.clear(); }

  /// The use of `queue` has changed, and with it its rank.
  void Reorder(cluster::QueueId queue);
  /// What `sharer` has of `queue` has changed.
  void Reorder(cluster::QueueId queue, std::string_view sharer);
  /// What queues held in the past, which counts for their ranks. To be followed by ReorderAll.
  void SetPastUse(policy::PastUse past) { past_ = std::move(past); }
  /// The same of all queues. To be called whenever the policy has changed, before anything else:
  /// the line is kept by the paths of the queues. Takes time in proportion to their number, and to
  /// that of the users or namespaces that share them.
  void ReorderAll();

  bool InLine(const cluster::Workload& workload) const;
  /// Also true of a workload whose members are all bound.
  bool Rests(const cluster::Workload& workload) const {
    return !InLine(workload) && !awake_.contains(&workload);
  }
  bool empty() const { return in_line_ == 0 && called_ == 0; }

 private:
  /// A workload that has a place.
  struct Waiting {
    Turn turn;
    std::array<Condition*, 2> conditions{};  ///< Null: none.

    bool rests() const { return conditions.front() != nullptr; }
  };
  struct Place {
    std::int64_t descending_priority;
    std::int64_t service;
    kube::Millis since;
    const cluster::Workload* workload;
    bool operator<(const Place& other) const;
  };
  /// The rank of a queue among its siblings, or of a queue's own work among the queues below it.
  struct Head {
    policy::Standing standing;
    kube::Millis since;
    const cluster::Workload* workload;  ///< The first one in it and below it.
    cluster::QueueId queue;
    bool operator<(const Head& other) const;
  };
  using Line = std::pmr::set<Place>;
  /// The first workload of a Lane, as it is ordered among the first ones of the queue's other
  /// lanes.
  struct Turning {
    std::int64_t share;  ///< Of its sharer, with this one: policy::LargestPart.
    Place place;
    bool operator<(const Turning& other) const;
  };
  /// The work of one sharer of a queue; in a queue without any, all of its work.
  struct Lane {
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit Lane(const allocator_type& allocator) : line(allocator), resting(allocator) {}

    bool empty() const { return line.empty() && resting.empty(); }

    Line line;
    Line resting;                    ///< Work that rests on conditions, in line or not.
    std::optional<Turning> first{};  ///< Its entry in Group::firsts.
    /// No entry of `resting` before `next` is in line. Valid in round `searched` only.
    Line::iterator next{};
    std::uint64_t searched = 0;
  };
  using Lanes = std::pmr::map<std::pmr::string, Lane, std::less<>>;
  /// A queue with work that has a place in it or below it. That of kNoQueue is above all others.
  struct Group {
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit Group(const allocator_type& allocator)
        : lanes(allocator), firsts(allocator), heads(allocator) {}

    Lanes lanes;                      ///< Its own work; none of them is empty.
    std::pmr::set<Turning> firsts;    ///< The first one of each lane that has one in line.
    std::pmr::set<Head> heads;        ///< The queues below it, and its own work.
    std::optional<Head> own{};        ///< The entry of `heads` for its own work.
    std::optional<Head> in_parent{};  ///< Its entry in the `heads` of the group above.
  };

  static Place PlaceOf(const cluster::Workload& workload, const Turn& turn);
  static const Head& FirstOf(const Group& group);
  const Place* FirstOf(Lane& lane) const;
  bool IsOpen(const Condition& condition) const { return condition.opened_ <= round_; }
  bool IsInLine(const Waiting& waiting) const;
  void Count(const Condition& condition, int members);
  Lanes::iterator Enter(Group& group, Waiting& waiting);
  void LeaveLine(const cluster::Workload& workload);
  void LeaveLane(Lane& lane, const Place& place, Waiting& waiting);
  void DropStale();
  template <typename Concerned>
  void ReorderLanes(const Concerned& concerned);
  /// As if no workload were in line, until the lanes are reordered.
  void ForgetFirsts();
  bool ReorderLane(cluster::QueueId queue, Group& group, Lanes::iterator lane);
  /// Whether the claimant is owed a turn with a job that wants so much; nullptr: with any.
  bool IsOwed(policy::Claimant of, const cluster::Demand* wants) const;
  std::int64_t UsedOf(const policy::Undercut& floor) const;
  /// The rank of a queue, or of the work of a queue itself, with a job that wants so much.
  policy::Standing StandingOf(policy::Claimant of, const cluster::Demand& wants) const;
  bool MayStandBefore(cluster::QueueId above, const Head& head,
                      const policy::Standing& standing) const;
  static bool HasSeveral(const Group& group);
  bool HasSeveralBelow(cluster::QueueId queue) const;
  cluster::QueueId ParentOf(cluster::QueueId queue) const;
  Group& GroupOf(cluster::QueueId queue) { return groups_.try_emplace(queue).first->second; }
  static void Replace(std::pmr::set<Head>& heads, std::optional<Head>& entry,
                      const std::optional<Head>& by);

  const cluster::Store* store_;
  policy::PastUse past_;
  std::vector<policy::Undercut> owed_;  ///< One for each claimant and resource.
  /// A round over all workloads allocates and frees entries by the hundred thousand. malloc would
  /// return them to its bins during some later call, which took 15 ms under the host's lock.
  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::unordered_map<const cluster::Workload*, Waiting> turns_{&pool_};
  std::int64_t in_line_ = 0;  ///< Entries of `turns_` that rest on no condition.
  std::int64_t called_ = 0;   ///< Workloads that rest on each condition in line, summed.
  std::int64_t opened_ = 0;   ///< The same of conditions that wait for CallOpened.
  std::uint64_t round_ = 1;   ///< Of CallOpened.
  /// The first workload of a lane may not be in line any more: a condition was closed.
  bool stale_ = false;
  Line broken_{&pool_};
  std::pmr::map<cluster::QueueId, Group> groups_{&pool_};  ///< Some may be empty.
  /// None of these is in line.
  std::pmr::set<const cluster::Workload*, cluster::ByKey> awake_{&pool_};
};

}  // namespace berth::engine
