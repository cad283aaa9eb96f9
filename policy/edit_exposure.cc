#include "policy/edit_exposure.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace berth::policy {
namespace {

bool TakesBack(const config::PolicyConfiguration& policy) {
  return policy.borrowing && std::ranges::any_of(policy.queues, [](const config::Queue& queue) {
           return queue.preemption.reclaim == config::Reclaim::kAny;
         });
}

DeviceAmounts Of(const kube::ResourceList& amounts, const std::vector<std::string>& kinds,
                 std::int64_t absent) {
  DeviceAmounts result;
  for (const std::string& kind : kinds) {
    const auto it = amounts.find(kind);
    result.push_back(it == amounts.end() ? absent : it->second);
  }
  return result;
}

FairQueue QueueOf(const config::Queue& queue, const std::vector<std::string>& kinds) {
  FairQueue result{.name = queue.name,
                   .quota = Of(queue.quota, kinds, 0),
                   .limit = Of(queue.limit, kinds, kNoLimit),
                   .kept = DeviceAmounts(kinds.size()),
                   .used = DeviceAmounts(kinds.size()),
                   .weight = queue.weight,
                   .priority = queue.priority};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto lent = queue.lending_limit.find(kinds[kind]);
    if (lent != queue.lending_limit.end()) {
      result.kept[kind] = std::max<std::int64_t>(0, result.quota[kind] - lent->second);
    }
  }
  return result;
}

/// What each queue has in use without those below it.
std::vector<DeviceAmounts> OwnUses(const FairTree& tree) {
  std::vector<DeviceAmounts> own;
  for (const FairQueue& queue : tree.queues) own.push_back(queue.used);
  for (const FairQueue& queue : tree.queues) {
    if (queue.parent < 0) continue;
    DeviceAmounts& above = own[static_cast<std::size_t>(queue.parent)];
    for (std::size_t kind = 0; kind < above.size(); ++kind) above[kind] -= queue.used[kind];
  }
  return own;
}

/// Whether work of `removed` may be work of `queue` once that queue is gone: pods that name none go
/// to a queue that lists their namespace, or to `default`.
bool MayInherit(const config::Queue& queue, const config::Queue& removed) {
  if (!queue.namespaces || !removed.namespaces) return false;
  const auto lists = [&](const std::string& ns) {
    return std::ranges::find(*queue.namespaces, ns) != queue.namespaces->end();
  };
  if (queue.name == "default" && lists("*")) return true;
  return std::ranges::any_of(*removed.namespaces,
                             [&](const std::string& ns) { return ns != "*" && lists(ns); });
}

/// The queue of `next` that gets the work of the queue of that name, which is removed; nullptr:
/// none does.
const config::Queue* HeirOf(const std::string& name, const config::PolicyConfiguration& current,
                            const config::PolicyConfiguration& next) {
  const auto removed = std::ranges::find(current.queues, name, &config::Queue::name);
  if (removed == current.queues.end()) return nullptr;
  const auto heir = std::ranges::find_if(
      next.queues, [&](const config::Queue& queue) { return MayInherit(queue, *removed); });
  return heir == next.queues.end() ? nullptr : &*heir;
}

/// The queues under the next policy.
struct Next {
  FairTree tree{};
  std::vector<int> places{};  ///< By queue of now: whose its work is then; -1: nobody's.
};

/// With the work that they have then (HeirOf). What runs in a queue that is removed, and that no
/// other one gets, is nobody's to take.
Next Under(const FairTree& now, const std::vector<std::string>& kinds,
           const config::PolicyConfiguration& current, const config::PolicyConfiguration& next) {
  Next result{.tree = {.total = now.total, .pool = now.pool}};
  FairTree& tree = result.tree;
  std::map<std::string, int> places;
  for (const config::Queue& queue : next.queues) {
    places.emplace(queue.name, static_cast<int>(tree.queues.size()));
    tree.queues.push_back(QueueOf(queue, kinds));
  }
  for (const config::Queue& queue : next.queues) {
    if (queue.parent.empty()) continue;
    const auto [parent, group] = places.emplace(queue.parent, static_cast<int>(tree.queues.size()));
    if (group) tree.queues.push_back(QueueOf({.name = queue.parent}, kinds));
    tree.queues[static_cast<std::size_t>(places.at(queue.name))].parent = parent->second;
  }
  const std::vector<DeviceAmounts> own_uses = OwnUses(now);
  for (std::size_t i = 0; i < now.queues.size(); ++i) {
    const DeviceAmounts& own = own_uses[i];
    auto place = places.find(now.queues[i].name);
    // A queue that is removed may still be a plain group, above others.
    if (place == places.end() || place->second >= std::ssize(next.queues)) {
      const config::Queue* heir = HeirOf(now.queues[i].name, current, next);
      if (heir != nullptr) place = places.find(heir->name);
    }
    result.places.push_back(place == places.end() ? -1 : place->second);
    if (place == places.end()) {
      for (std::size_t kind = 0; kind < own.size(); ++kind) tree.pool[kind] -= own[kind];
      continue;
    }
    auto& jobs = tree.queues[static_cast<std::size_t>(place->second)].jobs;
    jobs.insert(jobs.end(), now.queues[i].jobs.begin(), now.queues[i].jobs.end());
    for (int at = place->second; at >= 0; at = tree.queues[static_cast<std::size_t>(at)].parent) {
      DeviceAmounts& used = tree.queues[static_cast<std::size_t>(at)].used;
      for (std::size_t kind = 0; kind < own.size(); ++kind) used[kind] += own[kind];
    }
  }
  return result;
}

/// A queue under one of the two policies.
struct Cover {
  DeviceAmounts quota{};
  DeviceAmounts share{};
};

using Covers = std::map<std::string, Cover>;

Covers CoversOf(const FairTree& tree) {
  const std::vector<DeviceAmounts> shares = FairShares(tree);
  Covers covers;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    covers[tree.queues[i].name] = {.quota = tree.queues[i].quota, .share = shares[i]};
  }
  return covers;
}

/// Of what is used, how much the first amount covers and the second one does not.
std::int64_t Uncovered(std::int64_t used, std::int64_t before, std::int64_t after) {
  return std::max<std::int64_t>(0, std::min(used, before) - after);
}

/// What is lost in all, where each queue loses so much by itself: at each queue the larger of that
/// and what is lost below it.
std::int64_t LostBelow(const FairTree& tree, const std::vector<std::int64_t>& own) {
  std::multimap<int, int> children;
  for (std::size_t i = 0; i < own.size(); ++i) {
    children.emplace(tree.queues[i].parent, static_cast<int>(i));
  }
  // There are at most 16 levels.
  const auto lost = [&](const auto& self, int queue) -> std::int64_t {
    std::int64_t below = 0;
    const auto [first, last] = children.equal_range(queue);
    for (auto it = first; it != last; ++it) below += self(self, it->second);
    return queue < 0 ? below : std::max(below, own[static_cast<std::size_t>(queue)]);
  };
  return lost(lost, -1);
}

/// The queues whose work is evicted: those that are drained, and those below them.
std::set<std::string> DrainedQueues(const config::PolicyConfiguration& policy) {
  std::set<std::string> drained;
  for (bool more = true; more;) {
    more = false;
    for (const config::Queue& queue : policy.queues) {
      const bool ends = queue.hold == config::Hold::kHoldAndDrain || drained.contains(queue.parent);
      more |= ends && drained.insert(queue.name).second;
    }
  }
  return drained;
}

/// By queue of `then`: what it has in use and could lose to other queues.
std::vector<std::int64_t> TakenBack(const FairTree& then, const Covers& before, const Covers& after,
                                    bool was_safe) {
  std::vector<std::int64_t> own(then.queues.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const FairQueue& queue = then.queues[i];
    const auto old = before.find(queue.name);
    if (old == before.end()) continue;
    const Cover& was = old->second;
    const Cover& is = after.at(queue.name);
    for (std::size_t kind = 0; kind < queue.used.size(); ++kind) {
      const std::int64_t used = queue.used[kind];
      const std::int64_t floor = was_safe ? used : std::max(was.quota[kind], was.share[kind]);
      own[i] += std::max(Uncovered(used, was.quota[kind], is.quota[kind]),
                         Uncovered(used, floor, std::max(is.quota[kind], is.share[kind])));
    }
  }
  return own;
}

/// The queue and those above it, by index.
std::vector<std::size_t> PathOf(const FairTree& tree, std::size_t queue) {
  std::vector<std::size_t> path;
  for (int at = static_cast<int>(queue); at >= 0;
       at = tree.queues[static_cast<std::size_t>(at)].parent) {
    path.push_back(static_cast<std::size_t>(at));
  }
  return path;
}

/// Of `own`, which the queue has in use without those below it: how much no queue outside the
/// widest one on its path could take, because some queue on the path may keep it.
std::int64_t KeptOf(const FairTree& tree, const Covers& covers, std::size_t queue, std::size_t kind,
                    std::int64_t own) {
  std::int64_t kept = 0;
  for (const std::size_t at : PathOf(tree, queue)) {
    const Cover& cover = covers.at(tree.queues[at].name);
    const std::int64_t above =
        tree.queues[at].used[kind] - std::max(cover.quota[kind], cover.share[kind]);
    kept = std::max(kept, own - std::max<std::int64_t>(0, above));
  }
  return kept;
}

/// By queue of `then`: what work of queues that others are above now, or that come to be another
/// queue's, could lose because of that.
std::vector<std::int64_t> LostByMoves(const FairTree& now, const Next& next, const Covers& before,
                                      const Covers& after, bool was_safe) {
  const FairTree& then = next.tree;
  std::vector<std::int64_t> lost(then.queues.size());
  const std::vector<DeviceAmounts> own = OwnUses(now);
  const auto names = [](const FairTree& tree, std::size_t queue) {
    std::vector<std::string> path;
    for (const std::size_t at : PathOf(tree, queue)) path.push_back(tree.queues[at].name);
    return path;
  };
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (next.places[i] < 0) continue;
    const auto place = static_cast<std::size_t>(next.places[i]);
    if (names(now, i) == names(then, place)) continue;
    for (std::size_t kind = 0; kind < own[i].size(); ++kind) {
      const std::int64_t used = own[i][kind];
      const std::int64_t kept = was_safe ? used : KeptOf(now, before, i, kind, used);
      lost[place] += std::max<std::int64_t>(0, kept - KeptOf(then, after, place, kind, used));
    }
  }
  return lost;
}

/// What runs in queues that are removed may go to one that is drained.
void AddGone(const FairTree& now, const FairTree& then, Exposure& exposure) {
  const std::vector<DeviceAmounts> own = OwnUses(now);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::string& name = now.queues[i].name;
    const std::int64_t used = std::accumulate(own[i].begin(), own[i].end(), std::int64_t{0});
    if (used == 0 || std::ranges::find(then.queues, name, &FairQueue::name) != then.queues.end()) {
      continue;
    }
    exposure.devices += used;
    exposure.queues.emplace_back(name, used);
  }
}

}  // namespace

Exposure ExposureOf(const FairTree& now, const std::vector<std::string>& kinds,
                    const config::PolicyConfiguration& current,
                    const config::PolicyConfiguration& next) {
  Exposure exposure;
  for (const FairQueue& queue : now.queues) {
    if (queue.parent >= 0) continue;
    for (const std::int64_t used : queue.used) exposure.in_use += used;
  }
  const Next under = Under(now, kinds, current, next);
  const FairTree& then = under.tree;
  std::vector<std::int64_t> own(then.queues.size());
  if (TakesBack(next)) {
    const bool was_safe = !TakesBack(current);
    const Covers before = CoversOf(now);
    const Covers after = CoversOf(then);
    own = TakenBack(then, before, after, was_safe);
    const std::vector<std::int64_t> moved = LostByMoves(now, under, before, after, was_safe);
    std::ranges::transform(own, moved, own.begin(),
                           [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  }
  const std::set<std::string> drained = DrainedQueues(next);
  const std::set<std::string> known = DrainedQueues(current);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const FairQueue& queue = then.queues[i];
    if (drained.contains(queue.name) && !known.contains(queue.name)) {
      own[i] = std::accumulate(queue.used.begin(), queue.used.end(), std::int64_t{0});
    }
    if (own[i] > 0) exposure.queues.emplace_back(queue.name, own[i]);
  }
  exposure.devices = LostBelow(then, own);
  if (!drained.empty()) AddGone(now, then, exposure);
  std::ranges::sort(exposure.queues, {}, [](const auto& queue) {
    return std::pair(-queue.second, std::string_view(queue.first));
  });
  return exposure;
}

}  // namespace berth::policy
