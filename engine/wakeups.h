// Who waits, and for what. A workload that was judged in vain rests: it is not judged again before
// something has happened that can help it. Judging means a search over all nodes, so that with
// thousands of workloads waiting an event must cost what it can change, not what waits.
//
// Only where the reason can be told exactly: members of one shape that found no room (and look at
// no neighbours), a queue without quota, a gang without its members. Everybody else stays awake and
// is judged whenever any room was given back (Engine::Activate).
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
  std::shared_ptr<const cluster::PodShape> shape;  ///< Kept: its address is not used again.
  int count = 1;
  std::string required{};
  /// Of pods whose neighbours matter alone: theirs, as of Store::neighbour_generation.
  std::string ns{};
  kube::StringMap labels{};
  std::uint64_t neighbours = 0;

  bool neighbourly() const { return !ns.empty(); }
  /// The same, whatever neighbours they have: where even that fails, so does this.
  Failure ForRoom() const { return {.shape = shape, .count = count, .required = required}; }
  auto operator<=>(const Failure&) const = default;
};

/// A pod for which others might be evicted, by what decides for whom.
struct Preemptor {
  std::shared_ptr<const cluster::PodShape> shape;
  cluster::QueueId queue = cluster::kNoQueue;
  std::int32_t priority = 0;
  auto operator<=>(const Preemptor&) const = default;
};

/// The pod waits for what others could make way for: room, or quota.
bool EvictionHelps(cluster::ReasonId reason);

/// By counting: what is free on the node, and what bound pods of lower standing hold there, is
/// enough. No eviction makes room where it is not.
bool RoomWithVictims(const Preemptor& preemptor, cluster::NodeIndex node,
                     const cluster::Store& store);

class Wakeups {
 public:
  Wakeups(cluster::Store& store, ActiveQueue& active) : store_(&store), active_(&active) {}

  /// Has the workloads judged again (Store::MarkChanged) that may be helped by what has happened
  /// since the last call, and forgets what need not be true any more. Call before anything below.
  void Wake();
  /// Nothing is known any more, under another policy. Who rested is judged if everybody is.
  void Clear();

  /// Call before the workload is destroyed.
  void Forget(const cluster::Workload& workload);

  /// Why these did not fit, if they would not now either. Null: not known.
  const cluster::Verdict* Known(const Failure& failure) const;
  void Remember(const Failure& failure, const cluster::Verdict& verdict);
  /// No eviction would admit such a pod.
  bool CannotPreempt(const Preemptor& preemptor) const { return hopeless_.contains(preemptor); }
  /// `by_count`: RoomWithVictims said so of every node.
  void RememberHopeless(const Preemptor& preemptor, bool by_count);

  /// Rests until the room for want of which it failed may be there. `preemptor`: it might have
  /// others evicted, and rests only as long as counting says that this is no use. Does nothing
  /// where that cannot be told, or the failure has been forgotten meanwhile.
  void RestForRoom(const cluster::Workload& workload, const Failure& failure,
                   const std::optional<Preemptor>& preemptor);
  /// Rests until its queue has `want` of `id` left, or eviction may help as above.
  void RestForQuota(const cluster::Workload& workload, cluster::ResourceId id, std::int64_t want,
                    const std::optional<Preemptor>& preemptor);

 private:
  static constexpr std::size_t kMinPurge = 4096;

  using Resting = std::pmr::unordered_set<const cluster::Workload*>;  ///< And some that did.
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
  std::pmr::unsynchronized_pool_resource pool_{};  ///< As that of ActiveQueue.
  std::map<Failure, Search> searches_;
  std::map<Preemptor, Hopeless> hopeless_;
  std::map<QuotaClass, Wish> quota_;
  /// Where a workload is in the tables above, which keep their entries in place.
  std::pmr::unordered_map<const cluster::Workload*, std::pmr::vector<Resting*>> rests_on_{&pool_};
  cluster::ChangeLog::Position seen_ = 0;
  std::uint64_t free_generation_ = 0;
};

}  // namespace berth::engine
