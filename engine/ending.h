// Which pods end in any case, and what is left to others without them. It is the same for all
// workloads that are judged between two changes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cluster/store.h"
#include "engine/workload_state.h"
#include "policy/overlay.h"
#include "policy/placement.h"
#include "policy/quota.h"

namespace berth::engine {

struct View;

/// Pods that are taken to have ended, and maybe others to have started, and what is left to others
/// then. Valid until the store's next change.
class Ended {
 public:
  explicit Ended(const cluster::Store& store) : room_(store), quota_(store) {}
  Ended(const cluster::Store& store, std::span<const cluster::PodInfo* const> pods) : Ended(store) {
    for (const cluster::PodInfo* pod : pods) Add(*pod);
  }
  void Add(const cluster::PodInfo& pod) {
    room_.Remove(pod);
    quota_.GiveBack(pod);
  }
  /// As if the pod had started there since.
  void Place(const policy::Placed& placed);
  const policy::Overlay& room() const { return room_; }
  const policy::QuotaView& quota() const { return quota_; }

 private:
  policy::Overlay room_;
  policy::QuotaView quota_;
};

/// When the pod, which terminates, has not ended for so long after its deletion was due that it
/// does not end by itself: its room is not expected any more.
TimePoint StuckAt(const cluster::Store& store, const cluster::PodInfo& pod);

/// Whether that is so of the pod, which may also not terminate at all.
bool IsStuck(const View& view, const cluster::PodInfo& pod);

/// Whether the pod's room is expected, see Ending::pods.
bool Ends(const View& view, const cluster::PodInfo& pod);

/// How far the evictions are of the plan for which the pod is to be evicted; kNo: of none.
Evicting StageOf(const View& view, const cluster::PodInfo& pod);

struct Ending {
  /// The pods whose room is expected, by UID: they end anyway, or are about to be evicted for other
  /// work, which has its room already. What they leave needs no eviction. Not what is to be
  /// drained and whose eviction was not ordered, or was refused.
  std::vector<const cluster::PodInfo*> pods{};
  Ended ended;  ///< These.
  std::unordered_map<cluster::NodeIndex, std::vector<const cluster::PodInfo*>> by_node{};
  /// What queues have in use once everything has ended that ends in any case. A pod that does not
  /// end although it was deleted long ago does not count as use of its queue either: it asks for
  /// nothing any more, and what its queue has besides is not to be taken in its place.
  policy::QuotaView use;
  /// The same without what is only planned, and without what is about to be drained: what is
  /// certain to be left to a queue that loses.
  policy::QuotaView running;
};

class EndingCache {
 public:
  /// REQUIRES: always called with the same store and states.
  const Ending& Of(const View& view);

 private:
  /// Of the store, of the states, and the time: some pods are stuck from then on.
  using Key = std::tuple<std::uint64_t, std::uint64_t, TimePoint>;

  Key key_;
  std::optional<Ending> known_;
};

}  // namespace berth::engine
