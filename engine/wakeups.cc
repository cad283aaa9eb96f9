#include "engine/wakeups.h"

#include <algorithm>
#include <utility>

#include "policy/fit.h"
#include "policy/quota.h"

namespace berth::engine {

using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::Workload;

namespace {

/// Whether a member of the shape may have a place on the node.
bool MayTake(const cluster::PodShape& shape, NodeIndex node, const policy::Overlay& overlay,
             policy::Looking looking) {
  return policy::Capacity(shape, overlay, node, 1, looking) > 0 &&
         policy::FitsNode(*shape.spec, overlay.store().node(node));
}

/// What a search that gave this reason looked at: the free room, or else the nodes themselves, full
/// or not.
policy::Looking LookedAt(cluster::ReasonId reason) {
  return EvictionHelps(reason) ? policy::Looking::kAtAll : policy::Looking::kAtEmptyNode;
}

}  // namespace

void Wakeups::WakeAll(Resting& resting) {
  while (!resting.empty()) {
    const Workload& workload = **resting.begin();
    Forget(workload);
    store_->MarkChanged(workload);
  }
}

void Wakeups::Forget(const Workload& workload) {
  const auto it = rests_on_.find(&workload);
  if (it == rests_on_.end()) return;
  for (Resting* resting : it->second) resting->erase(&workload);
  rests_on_.erase(it);
}

void Wakeups::WakeEverybody() {
  for (auto& [failure, search] : searches_) WakeAll(search.resting);
  for (auto& [preemptor, hopeless] : hopeless_) WakeAll(hopeless.resting);
  searches_.clear();
  hopeless_.clear();
}

/// Workloads end while they rest, and shapes die out. When a table has grown too large, entries
/// that no workload rests on are forgotten, so that its size stays in proportion to the number of
/// workloads.
template <typename Table>
void Wakeups::Purge(Table& table, std::size_t workloads) {
  if (table.size() <= std::max(kMinPurge, 2 * workloads)) return;
  std::erase_if(table, [](const auto& entry) { return entry.second.resting.empty(); });
}

bool Wakeups::ClearSome(std::size_t most) {
  for (; !rests_on_.empty(); --most) {
    if (most == 0) return false;
    Forget(*rests_on_.begin()->first);
  }
  const auto clear = [&most](auto& table) {
    for (; !table.empty() && most > 0; --most) table.erase(table.begin());
    return table.empty();
  };
  return clear(searches_) && clear(hopeless_) && clear(quota_);
}

void Wakeups::Wake() {
  WakeByQuota();
  const cluster::ChangeLog& log = store_->room_changes();
  const std::uint64_t free_generation = store_->free_generation();
  const bool freed = std::exchange(free_generation_, free_generation) != free_generation;
  if (freed) {  // these depend on more than the changed nodes; no workload rests on them
    std::erase_if(searches_, [](const auto& entry) { return entry.first.neighbourly(); });
    std::erase_if(hopeless_, [](const auto& entry) { return !entry.second.by_count; });
  }
  const cluster::ChangeLog::Position seen = std::exchange(seen_, log.end());
  if (seen == log.end() || (searches_.empty() && hopeless_.empty())) return;
  const auto changes = log.Since(seen);
  if (!changes) return WakeEverybody();
  WakeByRoom({changes->begin(), changes->end()});
}

/// The result of a search holds as long as no changed node takes a single member: all other nodes
/// are as they were, so every way to place the members would have existed before.
void Wakeups::WakeByRoom(const std::set<NodeIndex>& changed) {
  const policy::Overlay overlay(*store_);
  WakeWhere(searches_, [&](const Failure& failure, const Search& search) {
    if (failure.neighbourly()) return false;
    const policy::Looking looking = LookedAt(search.verdict.reason);
    return std::ranges::any_of(
        changed, [&](NodeIndex node) { return MayTake(*failure.shape, node, overlay, looking); });
  });
  WakeWhere(hopeless_, [&](const Preemptor& preemptor, const Hopeless& hopeless) {
    return hopeless.by_count && std::ranges::any_of(changed, [&](NodeIndex node) {
             return RoomWithVictims(preemptor, node, *store_);
           });
  });
}

/// Forgets the entries for which `news` is true, and wakes the workloads that rest on them.
template <typename Table, typename News>
void Wakeups::WakeWhere(Table& table, const News& news) {
  for (auto it = table.begin(); it != table.end();) {
    if (news(it->first, it->second)) {
      WakeAll(it->second.resting);
      it = table.erase(it);
    } else {
      ++it;
    }
  }
}

void Wakeups::WakeByQuota() {
  const std::set<cluster::QueueId> news = store_->TakeQueueNews();
  const policy::QuotaView view(*store_);
  for (const cluster::QueueId queue : news) {
    for (const auto& [charged, id, cap, left] : view.Of(queue)) {
      if (left < 0) continue;
      // From the smallest wish to the largest that is granted now.
      const auto from = quota_.lower_bound({queue, id, 0});
      const auto to = quota_.upper_bound({queue, id, left});
      for (auto it = from; it != to; ++it) WakeAll(it->second.resting);
      quota_.erase(from, to);
    }
  }
}

const cluster::Verdict* Wakeups::Known(const Failure& failure) const {
  const auto it = searches_.find(failure);
  return it == searches_.end() ? nullptr : &it->second.verdict;
}

void Wakeups::Remember(const Failure& failure, const cluster::Verdict& verdict) {
  Purge(searches_, store_->workloads().size());
  searches_.try_emplace(failure, Search{.verdict = verdict, .resting = Resting(&pool_)});
}

void Wakeups::RememberHopeless(const Preemptor& preemptor, bool by_count) {
  Purge(hopeless_, store_->workloads().size());
  hopeless_.try_emplace(preemptor, Hopeless{.by_count = by_count, .resting = Resting(&pool_)});
}

bool Wakeups::MayRest(const std::optional<Preemptor>& preemptor) const {
  if (!preemptor) return true;
  const auto it = hopeless_.find(*preemptor);
  return it != hopeless_.end() && it->second.by_count;
}

/// REQUIRES: MayRest(preemptor).
void Wakeups::Rest(const Workload& workload, Resting& resting,
                   const std::optional<Preemptor>& preemptor) {
  Forget(workload);
  auto& places = rests_on_[&workload];
  places.push_back(&resting);
  if (preemptor) places.push_back(&hopeless_.at(*preemptor).resting);
  for (Resting* place : places) place->insert(&workload);
  active_->Rest(workload);
}

void Wakeups::RestForRoom(const Workload& workload, const Failure& failure,
                          const std::optional<Preemptor>& preemptor) {
  const auto search = searches_.find(failure);
  if (search == searches_.end() || failure.neighbourly() || !MayRest(preemptor)) return;
  Rest(workload, search->second.resting, preemptor);
}

void Wakeups::RestForQuota(const Workload& workload, cluster::QueueId queue, cluster::ResourceId id,
                           std::int64_t want, const std::optional<Preemptor>& preemptor) {
  if (!MayRest(preemptor)) return;
  Purge(quota_, store_->workloads().size());
  const auto [wish, fresh] =
      quota_.try_emplace({queue, id, want}, Wish{.resting = Resting(&pool_)});
  Rest(workload, wish->second.resting, preemptor);
}

}  // namespace berth::engine
