#include "policy/fair_share_table.h"

#include <algorithm>
#include <utility>

namespace berth::policy {

using cluster::QueueId;
using cluster::ResourceId;

FairShareTable::FairShareTable(const cluster::Store& store, const FairTree& tree) {
  std::vector<Entitlement> shares = Entitlements(tree);
  QueueId most = cluster::kNoQueue;
  for (const QueueId queue : store.queues()) most = std::max(most, queue);
  entries_.resize(static_cast<std::size_t>(most + 1));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    Entry& entry = entries_[static_cast<std::size_t>(tree.queues[i].id)];
    entry.share = std::move(shares[i].share);
    entry.own = std::move(shares[i].own);
  }
  for (const QueueId queue : store.queues()) {
    const std::vector<QueueId>& path = store.queue(queue).path;
    if (path.size() > 1) entries_[static_cast<std::size_t>(path[1])].below.push_back(queue);
  }
}

PastUse PastUseOf(const cluster::Store& store, const FairShareTable& shares,
                  cluster::TimePoint now) {
  PastUse past;
  for (const QueueId queue : store.queues()) {
    const auto size = static_cast<std::size_t>(queue) + 1;
    if (past.queues.size() < size) past.queues.resize(size);
  }
  for (const QueueId queue : store.queues()) {
    past.queues[static_cast<std::size_t>(queue)].held = store.PastUse(queue, now);
  }
  past.own = past.queues;
  for (const QueueId queue : store.queues()) {
    const auto index = static_cast<std::size_t>(queue);
    const std::vector<QueueId>& path = store.queue(queue).path;
    for (const ResourceId id : store.device_ids()) {
      past.queues[index].share.Add(id, shares.Share(store, {queue, false}, id));
      past.own[index].share.Add(id, shares.Share(store, {queue, true}, id));
      if (path.size() < 2) continue;
      past.own[static_cast<std::size_t>(path[1])].held.Add(id, -past.queues[index].held[id]);
    }
  }
  return past;
}

const FairShareTable::Entry& FairShareTable::EntryOf(QueueId queue) const {
  static const Entry kNothing;
  const auto index = static_cast<std::size_t>(queue);
  return queue < 0 || index >= entries_.size() ? kNothing : entries_[index];
}

std::int64_t FairShareTable::Share(const cluster::Store& store, Claimant of, ResourceId id) const {
  const auto& ids = store.device_ids();
  const auto kind = static_cast<std::size_t>(std::ranges::find(ids, id) - ids.begin());
  const Entry& entry = EntryOf(of.queue);
  const DeviceAmounts& amounts = of.own ? entry.own : entry.share;
  return kind < amounts.size() ? amounts[kind] : 0;
}

std::int64_t FairShareTable::Used(const QuotaView& view, Claimant of, ResourceId id) const {
  std::int64_t used = view.Used(of.queue, id);
  if (!of.own) return used;
  for (const QueueId below : EntryOf(of.queue).below) used -= view.Used(below, id);
  return used;
}

std::vector<Claimant> FairShareTable::PathOf(const cluster::Store& store, QueueId queue) const {
  std::vector<Claimant> path;
  if (!EntryOf(queue).below.empty()) path.push_back({.queue = queue, .own = true});
  for (const QueueId charged : store.queue(queue).path) path.push_back({.queue = charged});
  return path;
}

bool FairShareTable::OthersLack(const QuotaView& view, QueueId queue, ResourceId id,
                                bool within_quota) const {
  const cluster::Store& store = view.store();
  const std::vector<Claimant> ours = PathOf(store, queue);
  const auto is_ours = [&](Claimant of) { return std::ranges::find(ours, of) != ours.end(); };
  const auto lacks = [&](Claimant of, std::int64_t entitled) {
    return !is_ours(of) && Used(view, of, id) < entitled;
  };
  return std::ranges::any_of(store.queues(), [&](QueueId other) {
    const Claimant all{.queue = other};
    const Claimant own{.queue = other, .own = true};
    const std::int64_t share = Share(store, all, id);
    if (!within_quota) {
      return lacks(all, share) ||
             (!EntryOf(other).below.empty() && lacks(own, Share(store, own, id)));
    }
    // Quotas are compared among siblings, and own work has none.
    const auto& path = store.queue(other).path;
    const bool sibling = path.size() == 1 || is_ours({.queue = path[1]});
    return sibling && lacks(all, std::min(share, store.queue(other).quota[id]));
  });
}

}  // namespace berth::policy
