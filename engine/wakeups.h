// What each workload waits for. A workload that was judged without success rests: it is not judged
// again until an event can help it. Judging searches all nodes. With thousands of workloads
// waiting, the cost of an event must depend on what the event can change, not on the number of
// workloads that wait.
//
// A workload rests only where the reason is known exactly: members of one shape that found no room
// (and do not look at neighbours), a queue without quota, or a gang without all of its members. All
// other workloads stay awake and are judged whenever any room was given back (Engine::Activate).
//
// A workload that rests for room or quota keeps its place in the line, on conditions
// (engine/active_queue.h) that it shares with all workloads that wait for the same. An event opens
// conditions. They close when a workload that rested on them is refused again, or when workloads
// that came first have taken the room.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/store.h"
#include "engine/active_queue.h"

namespace berth::engine {

/// What did not fit: `count` members of one shape, in one domain of `required` (empty: anywhere).
struct Failure {
  std::shared_ptr<const cluster::PodShape> shape;  ///< Held, so that its address is not reused.
  int count = 1;
  std::string required{};
  std::optional<cluster::FlavorId> flavor{};  ///< See policy::PlacementRequest.
  /// Set only for pods whose neighbours matter: their namespace, labels and
  /// Store::neighbour_generation.
  std::string ns{};
  kube::StringMap labels{};
  std::uint64_t neighbours = 0;

  bool neighbourly() const { return !ns.empty(); }
  /// The same failure without regard to neighbours: where this one fails, the original fails, too.
  Failure ForRoom() const {
    return {.shape = shape, .count = count, .required = required, .flavor = flavor};
  }
  auto operator<=>(const Failure&) const = default;
};

/// A pod, or a gang of pods of one shape, that others might be evicted for, reduced to the
/// properties that decide for which pods.
struct Preemptor {
  /// Null: any, because no pod of lower priority holds room (Store::HoldsBelow).
  std::shared_ptr<const cluster::PodShape> shape;
  cluster::QueueId queue = cluster::kNoQueue;
  std::int32_t priority = 0;
  int members = 0;         ///< Of a gang: how many it needs.
  std::string required{};  ///< Of a gang: the level inside which it must be; empty: anywhere.
  std::string user{};      ///< Only where its queue caps the jobs of a user.
  auto operator<=>(const Preemptor&) const = default;
};

/// The pod waits for something that an eviction can free: room or quota.
bool EvictionHelps(cluster::ReasonId reason);

/// Whether, by counting alone, the free room on the node plus the room of pods there that it may
/// evict (see Below in victims.cc) is enough for one pod. If not, no eviction can make room there.
bool RoomWithVictims(const Preemptor& preemptor, cluster::NodeIndex node,
                     const cluster::Store& store);

class Wakeups {
 public:
  Wakeups(cluster::Store& store, ActiveQueue& active) : store_(&store), active_(&active) {}

  /// Opens the conditions that events since the last call may have made true, and forgets results
  /// that may no longer hold. Call before the functions below.
  void Wake();
  /// Closes the conditions that are open, and that what was reserved since has made false again.
  void Recheck();
  /// For when the policy has changed: takes the places of the workloads that rest, and then forgets
  /// the results, `most` of both together. Workloads at rest are judged only if the caller has all
  /// workloads judged. True: nothing is left.
  bool ClearSome(std::size_t most);

  /// Why these members did not fit, if they still would not fit. Null: not known.
  const cluster::Verdict* Known(const Failure& failure) const;
  void Remember(const Failure& failure, const cluster::Verdict& verdict);
  /// No eviction would admit such a pod.
  bool CannotPreempt(const Preemptor& preemptor) const;
  /// `by_count`: RoomWithVictims found it for every node.
  void RememberHopeless(const Preemptor& preemptor, bool by_count);

  /// Lets the workload rest until the room that it lacked may be there; `turn` is its place in the
  /// line. `preemptor`: the workload might cause evictions, so it rests only as long as counting
  /// shows that none would help. Does nothing where that cannot be known, or when the failure has
  /// been forgotten meanwhile.
  void RestForRoom(const cluster::Workload& workload, const Turn& turn, const Failure& failure,
                   const std::optional<Preemptor>& preemptor);

  /// Some of the quota of a queue.
  struct Wish {
    cluster::QueueId queue = cluster::kNoQueue;
    /// Of the queue of the workload itself: other queues must not keep it for themselves either.
    bool own = true;
    cluster::ResourceId id{};
    std::int64_t amount = 0;
    auto operator<=>(const Wish&) const = default;
    /// Equal but for the amount.
    bool IsLike(const Wish& other) const {
      return queue == other.queue && own == other.own && id == other.id;
    }
  };
  /// Lets the workload rest until `wish` is granted, or eviction may help as above.
  void RestForQuota(const cluster::Workload& workload, const Turn& turn, const Wish& wish,
                    const std::optional<Preemptor>& preemptor);

 private:
  static constexpr std::size_t kMinPurge = 4096;
  /// Most nodes in `fresh_`. Beyond that, Recheck does not look at room: conditions for room close
  /// only when a workload that rested on them is refused.
  static constexpr std::size_t kMostFresh = 64;

  using Nodes = std::set<cluster::NodeIndex>;
  /// A search that failed. The condition: that a node takes a member now.
  struct Search : Condition {
    cluster::Verdict verdict{};
  };

  template <typename Table, typename News>
  void OpenWhere(Table& table, const News& news);
  template <typename Table, typename Holds>
  void CloseUnless(Table& table, const Holds& holds);
  template <typename Table>
  static void Purge(Table& table, std::size_t workloads);
  bool MayFit(const Failure& failure, const Search& search, const Nodes& nodes) const;
  bool MayEvict(const Preemptor& preemptor, const Nodes& nodes) const;
  std::int64_t LeftFor(const Wish& wish) const;
  void OpenAll();
  void WakeByRoom();
  void WakeByQuota();
  void Rest(const cluster::Workload& workload, const Turn& turn, Condition& condition,
            const std::optional<Preemptor>& preemptor);

  cluster::Store* store_;
  ActiveQueue* active_;
  std::map<Failure, Search> searches_;
  /// Searches whose answer to whether it can ever fit has changed, because nodes have come or gone.
  /// The workloads that rest on the old answer are in line, to be told the new one.
  std::list<std::map<Failure, Search>::node_type> outdated_;
  std::map<Preemptor, Condition> hopeless_;  ///< That counting finds room with victims.
  /// For these, counting found room with victims, and a search did not. No workload rests on that.
  std::set<Preemptor> searched_;
  std::map<Wish, Condition> quota_;
  cluster::ChangeLog::Position seen_ = 0;
  std::uint64_t free_generation_ = 0;
  std::uint64_t woken_at_ = 0;    ///< Store::generation of the last Wake.
  std::uint64_t checked_at_ = 0;  ///< The same of the last Recheck.
  /// The nodes that may have opened conditions which are still open. nullopt: any may have.
  std::optional<Nodes> fresh_{std::in_place};
};

}  // namespace berth::engine
