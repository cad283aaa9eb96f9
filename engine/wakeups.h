// What each workload waits for. A workload that was judged without success rests: it is not judged
// again until an event can help it. Judging searches all nodes. With thousands of workloads
// waiting, the cost of an event must depend on what the event can change, not on the number of
// workloads that wait.
//
// A workload rests only where the reason is known exactly: members of one shape that found no room
// (and do not look at neighbours), a queue without quota, or a gang without all of its members. All
// other workloads stay awake and are judged whenever any room was given back (Engine::Activate).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
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
  std::shared_ptr<const cluster::PodShape> shape;
  cluster::QueueId queue = cluster::kNoQueue;
  std::int32_t priority = 0;
  int members = 0;         ///< Of a gang: those that it needs.
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

  /// Marks the workloads that events since the last call may help to be judged again
  /// (Store::MarkChanged), and forgets results that may no longer hold. Call before the functions
  /// below.
  void Wake();
  /// Forgets about `most` results, or that as many workloads rest, because the policy has changed.
  /// Workloads at rest are judged only if the caller has all workloads judged. True: nothing is
  /// left.
  bool ClearSome(std::size_t most);

  /// Call before the workload is destroyed.
  void Forget(const cluster::Workload& workload);

  /// Why these did not fit, if they still would not fit. Null: not known.
  const cluster::Verdict* Known(const Failure& failure) const;
  void Remember(const Failure& failure, const cluster::Verdict& verdict);
  /// No eviction would admit such a pod.
  bool CannotPreempt(const Preemptor& preemptor) const { return hopeless_.contains(preemptor); }
  /// `by_count`: RoomWithVictims found it for every node.
  void RememberHopeless(const Preemptor& preemptor, bool by_count);

  /// Lets the workload rest until the room that it lacked may be there. `preemptor`: the workload
  /// might cause evictions, so it rests only as long as counting shows that none would help. Does
  /// nothing where that cannot be known, or when the failure has been forgotten meanwhile.
  void RestForRoom(const cluster::Workload& workload, const Failure& failure,
                   const std::optional<Preemptor>& preemptor);
  /// Lets the workload rest until `queue`, which is on the path of its queue, has `want` of `id`
  /// left, or eviction may help as above.
  void RestForQuota(const cluster::Workload& workload, cluster::QueueId queue,
                    cluster::ResourceId id, std::int64_t want,
                    const std::optional<Preemptor>& preemptor);

 private:
  static constexpr std::size_t kMinPurge = 4096;

  using Resting = std::pmr::unordered_set<const cluster::Workload*>;  ///< Some may rest no more.
  struct Search {
    cluster::Verdict verdict;
    Resting resting;
  };
  struct Hopeless {
    bool by_count = false;
    Resting resting;
  };
  struct Wish {
    Resting resting;
  };
  using QuotaClass = std::tuple<cluster::QueueId, cluster::ResourceId, std::int64_t>;

  void WakeAll(Resting& resting);
  template <typename Table, typename News>
  void WakeWhere(Table& table, const News& news);
  template <typename Table>
  static void Purge(Table& table, std::size_t workloads);
  void WakeEverybody();
  void WakeByRoom(const std::set<cluster::NodeIndex>& changed);
  void WakeByQuota();
  bool MayRest(const std::optional<Preemptor>& preemptor) const;
  void Rest(const cluster::Workload& workload, Resting& resting,
            const std::optional<Preemptor>& preemptor);

  cluster::Store* store_;
  ActiveQueue* active_;
  std::pmr::unsynchronized_pool_resource pool_{};  ///< For the same reason as in ActiveQueue.
  std::map<Failure, Search> searches_;
  std::map<Preemptor, Hopeless> hopeless_;
  std::map<QuotaClass, Wish> quota_;
  /// Where each workload is in the tables above, whose entries have stable addresses.
  std::pmr::unordered_map<const cluster::Workload*, std::pmr::vector<Resting*>> rests_on_{&pool_};
  cluster::ChangeLog::Position seen_ = 0;
  std::uint64_t free_generation_ = 0;
};

}  // namespace berth::engine
