#include "engine/wakeups.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "policy/fit.h"
#include "policy/quota.h"

namespace berth::engine {

using cluster::NodeIndex;
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

/// Opens the conditions of the entries for which `news` is true. Entries on which no workload rests
/// are forgotten instead.
template <typename Table, typename News>
void Wakeups::OpenWhere(Table& table, const News& news) {
  for (auto it = table.begin(); it != table.end();) {
    Condition& condition = it->second;
    const bool opens = condition.open() || news(it->first, it->second);
    if (opens && condition.resting() == 0) {
      it = table.erase(it);
      continue;
    }
    if (opens) active_->Open(condition);
    ++it;
  }
}

/// Closes the conditions that are open, of the entries for which `holds` is false.
template <typename Table, typename Holds>
void Wakeups::CloseUnless(Table& table, const Holds& holds) {
  for (auto& [key, condition] : table) {
    if (condition.open() && !holds(key, condition)) active_->Close(condition);
  }
}

/// Workloads end while they rest, and shapes die out. When a table has grown too large, entries
/// that no workload rests on are forgotten, so that its size stays in proportion to the number of
/// workloads.
template <typename Table>
void Wakeups::Purge(Table& table, std::size_t workloads) {
  if (table.size() <= std::max(kMinPurge, 2 * workloads)) return;
  std::erase_if(table, [](const auto& entry) { return entry.second.resting() == 0; });
}

bool Wakeups::ClearSome(std::size_t most) {
  most -= active_->ForgetPlaces(most);
  const auto clear = [&most](auto& table) {
    for (; !table.empty() && most > 0; --most) table.erase(table.begin());
    return table.empty();
  };
  if (most > 0) outdated_.clear();
  return clear(searches_) && clear(hopeless_) && clear(searched_) && clear(quota_);
}

/// The result of a search holds as long as no changed node takes a single member: all other nodes
/// are as they were, so every way to place the members would have existed before.
bool Wakeups::MayFit(const Failure& failure, const Search& search, const Nodes& nodes) const {
  const policy::Overlay overlay(*store_);
  const policy::Looking looking = LookedAt(search.verdict.reason);
  return std::ranges::any_of(
      nodes, [&](NodeIndex node) { return MayTake(*failure.shape, node, overlay, looking); });
}

bool Wakeups::MayEvict(const Preemptor& preemptor, const Nodes& nodes) const {
  if (preemptor.shape == nullptr) return store_->HoldsBelow(preemptor.queue, preemptor.priority);
  return std::ranges::any_of(
      nodes, [&](NodeIndex node) { return RoomWithVictims(preemptor, node, *store_); });
}

/// How much can be granted of what is wished for.
std::int64_t Wakeups::LeftFor(const Wish& wish) const {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  const auto limit = [&](const std::vector<policy::QuotaView::Allowance>& allowances) {
    for (const auto& allowance : allowances) {
      if (allowance.id == wish.id) left = std::min(left, allowance.left);
    }
  };
  const policy::QuotaView quota(*store_);
  limit(quota.Of(wish.queue));
  if (wish.own) limit(quota.Loans(wish.queue));
  return left;
}

void Wakeups::Wake() {
  WakeByQuota();
  if (std::exchange(woken_at_, store_->generation()) != store_->generation()) {
    OpenWhere(hopeless_, [&](const Preemptor& preemptor, const Condition&) {
      return preemptor.shape == nullptr && MayEvict(preemptor, {});
    });
  }
  const std::uint64_t free_generation = store_->free_generation();
  if (std::exchange(free_generation_, free_generation) != free_generation) {
    // These depend on more than the changed nodes; no workload rests on them.
    std::erase_if(searches_, [](const auto& entry) { return entry.first.neighbourly(); });
    searched_.clear();
  }
  WakeByRoom();
}

void Wakeups::WakeByRoom() {
  const cluster::ChangeLog& log = store_->room_changes();
  const cluster::ChangeLog::Position seen = std::exchange(seen_, log.end());
  if (seen == log.end() || (searches_.empty() && hopeless_.empty())) return;
  const auto changes = log.Since(seen);
  if (!changes) return OpenAll();
  const Nodes changed(changes->begin(), changes->end());
  if (!active_->called() && !active_->opened()) fresh_.emplace();
  if (fresh_) fresh_->insert(changed.begin(), changed.end());
  if (fresh_ && fresh_->size() > kMostFresh) fresh_.reset();
  OpenWhere(searches_, [&](const Failure& failure, const Search& search) {
    return !failure.neighbourly() && MayFit(failure, search, changed);
  });
  OpenWhere(hopeless_, [&](const Preemptor& preemptor, const Condition&) {
    return MayEvict(preemptor, changed);
  });
}

/// It is not known any more which nodes have changed.
void Wakeups::OpenAll() {
  fresh_.reset();
  const auto all = [](const auto&, const auto&) { return true; };
  OpenWhere(searches_, all);
  OpenWhere(hopeless_, all);
}

void Wakeups::WakeByQuota() {
  const std::set<cluster::QueueId> news = store_->TakeQueueNews();
  // What a queue gives back, or keeps no longer, any other queue may borrow.
  const bool lends = !store_->keepers().empty() && woken_at_ != store_->generation();
  if (news.empty() && !lends) return;
  for (auto it = quota_.begin(); it != quota_.end();) {
    Wish wish = it->first;
    const bool concerned = news.contains(wish.queue) || (lends && wish.own);
    const std::int64_t left = concerned ? LeftFor(wish) : 0;
    // From the smallest wish to the largest that is granted now.
    for (; it != quota_.end() && it->first.amount <= left && it->first.IsLike(wish); ++it) {
      active_->Open(it->second);
    }
    wish.amount = std::numeric_limits<std::int64_t>::max();
    it = quota_.upper_bound(wish);
  }
}

void Wakeups::Recheck() {
  if (!active_->called() ||
      std::exchange(checked_at_, store_->generation()) == store_->generation())
    return;
  CloseUnless(quota_,
              [&](const Wish& wish, const Condition&) { return LeftFor(wish) >= wish.amount; });
  if (!fresh_) return;
  CloseUnless(searches_, [&](const Failure& failure, const Search& search) {
    return MayFit(failure, search, *fresh_);
  });
  CloseUnless(hopeless_, [&](const Preemptor& preemptor, const Condition&) {
    return MayEvict(preemptor, *fresh_);
  });
}

const cluster::Verdict* Wakeups::Known(const Failure& failure) const {
  const auto it = searches_.find(failure);
  return it == searches_.end() || it->second.open() ? nullptr : &it->second.verdict;
}

void Wakeups::Remember(const Failure& failure, const cluster::Verdict& verdict) {
  Purge(searches_, store_->workloads().size());
  std::erase_if(outdated_, [](const auto& search) { return search.mapped().resting() == 0; });
  const auto known = searches_.find(failure);
  if (known != searches_.end() && known->second.resting() > 0 &&
      known->second.verdict.never != verdict.never) {
    active_->Open(known->second);
    outdated_.push_back(searches_.extract(known));
  }
  Search& search = searches_[failure];
  search.verdict = verdict;
  active_->Close(search);
}

bool Wakeups::CannotPreempt(const Preemptor& preemptor) const {
  const auto it = hopeless_.find(preemptor);
  const bool by_count = it != hopeless_.end() && !it->second.open();
  return by_count || searched_.contains(preemptor);
}

void Wakeups::RememberHopeless(const Preemptor& preemptor, bool by_count) {
  if (!by_count) {
    // A workload that rests because counting found no room is in line already, and is judged too.
    if (searched_.size() > std::max(kMinPurge, 2 * store_->workloads().size())) searched_.clear();
    searched_.insert(preemptor);
    return;
  }
  Purge(hopeless_, store_->workloads().size());
  active_->Close(hopeless_[preemptor]);
}

/// Lets the workload rest on `condition`, which is closed, unless it may evict others.
void Wakeups::Rest(const Workload& workload, const Turn& turn, Condition& condition,
                   const std::optional<Preemptor>& preemptor) {
  std::array<Condition*, 2> conditions{&condition};
  std::size_t count = 1;
  if (preemptor) {
    const auto it = hopeless_.find(*preemptor);
    if (it == hopeless_.end() || it->second.open()) return;
    conditions[count++] = &it->second;
  }
  active_->RestOn(workload, turn, std::span(conditions).first(count));
}

void Wakeups::RestForRoom(const Workload& workload, const Turn& turn, const Failure& failure,
                          const std::optional<Preemptor>& preemptor) {
  const auto search = searches_.find(failure);
  if (search == searches_.end() || failure.neighbourly()) return;
  if (search->second.open()) return;
  Rest(workload, turn, search->second, preemptor);
}

void Wakeups::RestForQuota(const Workload& workload, const Turn& turn, const Wish& wish,
                           const std::optional<Preemptor>& preemptor) {
  Purge(quota_, store_->workloads().size());
  Condition& condition = quota_[wish];
  active_->Close(condition);
  Rest(workload, turn, condition, preemptor);
}

}  // namespace berth::engine
