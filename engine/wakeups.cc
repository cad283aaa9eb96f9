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

/// A member of the shape may have a place on the node.
bool MayTake(const cluster::PodShape& shape, NodeIndex node, const policy::Overlay& overlay,
             policy::Looking looking) {
  return policy::Capacity(shape, overlay, node, 1, looking) > 0 &&
         policy::FitsNode(*shape.spec, overlay.store().node(node));
}

/// What a search looks at, so that it says this: the room that is free, or else the nodes
/// themselves, full or not.
policy::Looking LookedAt(cluster::ReasonId reason) {
  return EvictionHelps(reason) ? policy::Looking::kAtAll : policy::Looking::kAtEmptyNode;
}

}  // namespace

void Wakeups::WakeAll(const Keys& keys) {
  for (const std::string& key : keys) {
    if (const Workload* workload = store_->FindWorkload(key)) store_->MarkChanged(*workload);
  }
}

void Wakeups::WakeEverybody() {
  for (const auto& [failure, search] : searches_) WakeAll(search.resting);
  for (const auto& [preemptor, hopeless] : hopeless_) WakeAll(hopeless.resting);
  searches_.clear();
  hopeless_.clear();
}

/// Workloads end while they rest, and shapes die out: what nobody rests on is forgotten, so that
/// the tables stay in proportion to the workloads there are.
void Wakeups::CountAdded() {
  if (++added_ > std::max(kMinPurge, 2 * store_->workloads().size())) Purge();
}

void Wakeups::Purge() {
  added_ = 0;
  const auto rests = [this](const std::string& key) {
    const Workload* workload = store_->FindWorkload(key);
    return workload != nullptr && store_->Rests(*workload) && !workload->Unplaced().empty();
  };
  const auto purge = [&rests](Keys& keys) {
    std::erase_if(keys, [&](const std::string& key) { return !rests(key); });
  };
  for (auto& [failure, search] : searches_) purge(search.resting);
  for (auto& [preemptor, hopeless] : hopeless_) purge(hopeless.resting);
  for (auto& [quota, keys] : quota_) purge(keys);
  std::erase_if(searches_, [](const auto& entry) { return entry.second.resting.empty(); });
  std::erase_if(hopeless_, [](const auto& entry) { return entry.second.resting.empty(); });
  std::erase_if(quota_, [](const auto& entry) { return entry.second.empty(); });
}

void Wakeups::Clear() {
  searches_.clear();
  hopeless_.clear();
  quota_.clear();
}

void Wakeups::Wake() {
  WakeByQuota();
  const cluster::ChangeLog& log = store_->room_changes();
  const std::uint64_t free_generation = store_->free_generation();
  const bool freed = std::exchange(free_generation_, free_generation) != free_generation;
  if (freed) {  // what depends on more than the nodes that changed
    std::erase_if(searches_, [](const auto& entry) { return entry.first.neighbourly(); });
    std::erase_if(hopeless_, [](const auto& entry) { return !entry.second.by_count; });
  }
  if (seen_ == log.end()) return;
  const auto changes = log.Since(std::exchange(seen_, log.end()));
  if (!changes) return WakeEverybody();
  WakeByRoom({changes->begin(), changes->end()});
}

/// What is known of a search holds as long as no node that changed takes a single member: all
/// others are as they were, and every way to place the members would have been there before.
void Wakeups::WakeByRoom(const std::set<NodeIndex>& changed) {
  const policy::Overlay overlay(*store_);
  std::erase_if(searches_, [&](const auto& entry) {
    const auto& [failure, search] = entry;
    if (failure.neighbourly()) return false;
    const policy::Looking looking = LookedAt(search.verdict.reason);
    const bool stays = std::ranges::none_of(
        changed, [&](NodeIndex node) { return MayTake(*failure.shape, node, overlay, looking); });
    if (!stays) WakeAll(search.resting);
    return !stays;
  });
  std::erase_if(hopeless_, [&](const auto& entry) {
    const auto& [preemptor, hopeless] = entry;
    if (!hopeless.by_count) return false;
    const bool stays = std::ranges::none_of(
        changed, [&](NodeIndex node) { return RoomWithVictims(preemptor, node, *store_); });
    if (!stays) WakeAll(hopeless.resting);
    return !stays;
  });
}

void Wakeups::WakeByQuota() {
  const std::set<cluster::QueueId> news = store_->TakeQueueNews();
  const policy::QuotaView view(*store_);
  for (const cluster::QueueId queue : news) {
    for (const auto& [id, cap, left] : view.Of(queue)) {
      if (left < 0) continue;
      // From the smallest wish to the largest that is granted now.
      const auto from = quota_.lower_bound({queue, id, 0});
      const auto to = quota_.upper_bound({queue, id, left});
      for (auto it = from; it != to; ++it) WakeAll(it->second);
      quota_.erase(from, to);
    }
  }
}

const cluster::Verdict* Wakeups::Known(const Failure& failure) const {
  const auto it = searches_.find(failure);
  return it == searches_.end() ? nullptr : &it->second.verdict;
}

void Wakeups::Remember(const Failure& failure, const cluster::Verdict& verdict) {
  CountAdded();
  searches_.try_emplace(failure, Search{.verdict = verdict, .resting = {}});
}

void Wakeups::RememberHopeless(const Preemptor& preemptor, bool by_count) {
  CountAdded();
  hopeless_.try_emplace(preemptor, Hopeless{.by_count = by_count, .resting = {}});
}

bool Wakeups::MayRest(const std::optional<Preemptor>& preemptor) const {
  if (!preemptor) return true;
  const auto it = hopeless_.find(*preemptor);
  return it != hopeless_.end() && it->second.by_count;
}

/// REQUIRES: MayRest(preemptor).
void Wakeups::Rest(const Workload& workload, Keys& keys,
                   const std::optional<Preemptor>& preemptor) {
  keys.insert(workload.key);
  if (preemptor) hopeless_.at(*preemptor).resting.insert(workload.key);
  store_->Rest(workload);
  CountAdded();
}

void Wakeups::RestForRoom(const Workload& workload, const Failure& failure,
                          const std::optional<Preemptor>& preemptor) {
  const auto search = searches_.find(failure);
  if (search == searches_.end() || failure.neighbourly() || !MayRest(preemptor)) return;
  Rest(workload, search->second.resting, preemptor);
}

void Wakeups::RestForQuota(const Workload& workload, cluster::ResourceId id, std::int64_t want,
                           const std::optional<Preemptor>& preemptor) {
  if (!MayRest(preemptor)) return;
  Rest(workload, quota_[{workload.queue, id, want}], preemptor);
}

}  // namespace berth::engine
