#include "policy/edit_exposure.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "policy/job_losses.h"
#include "policy/quotas_left.h"

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
                   .quota = Of(config::TotalQuota(queue), kinds, 0),
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

/// What each queue has in use without the queues below it.
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

/// Work of one queue, and the queue that it belongs to under the next policy.
struct Part {
  std::size_t from = 0;  ///< Index into the queues of now.
  int to = -1;           ///< Index into the queues of then; -1: none.
  DeviceAmounts used{};
};

/// The queues under the next policy, with their jobs and what they have in use then.
struct Next {
  FairTree tree{};
  std::vector<Part> parts{};
};

void TakeOff(DeviceAmounts& amounts, const DeviceAmounts& less) {
  for (std::size_t kind = 0; kind < less.size(); ++kind) {
    amounts[kind] = std::max<std::int64_t>(0, amounts[kind] - less[kind]);
  }
}

void TakeOff(std::vector<JobSize>& jobs, const std::vector<JobSize>& less) {
  for (const JobSize& gone : less) {
    const auto like = std::ranges::find(jobs, gone.devices, &JobSize::devices);
    if (like != jobs.end()) like->count = std::max<std::int64_t>(0, like->count - gone.count);
  }
  std::erase_if(jobs, [](const JobSize& job) { return job.count == 0; });
}

/// The tree of the policy, without jobs and use.
FairTree TreeOf(const FairTree& now, const std::vector<std::string>& kinds,
                const config::PolicyConfiguration& next) {
  FairTree tree{.total = now.total, .pool = now.pool};
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
  return tree;
}

/// What belongs to no queue is not shared out.
void Charge(FairTree& tree, const Part& part) {
  if (part.to < 0) return TakeOff(tree.pool, part.used);
  for (int at = part.to; at >= 0; at = tree.queues[static_cast<std::size_t>(at)].parent) {
    DeviceAmounts& used = tree.queues[static_cast<std::size_t>(at)].used;
    for (std::size_t kind = 0; kind < used.size(); ++kind) used[kind] += part.used[kind];
  }
}

/// Non-preemptible jobs that are no demand now, because quotas have no room for them, and are then.
void AddNonPreemptible(const FairTree& now, FairTree& then, std::vector<QuotaJob> jobs) {
  const auto places_in = [](const FairTree& tree) {
    std::map<std::string_view, int> places;
    for (const FairQueue& queue : tree.queues) {
      places.emplace(queue.name, static_cast<int>(places.size()));
    }
    return places;
  };
  const auto places_now = places_in(now);
  const auto places_then = places_in(then);
  QuotasLeft left_now(now);
  QuotasLeft left_then(then);
  std::ranges::stable_sort(jobs, {}, &QuotaJob::precedence);
  for (QuotaJob& job : jobs) {
    const auto from = places_now.find(job.queue);
    const auto to = places_then.find(job.queue);
    if (from == places_now.end() || to == places_then.end()) continue;
    const bool counts_now = left_now.Take(from->second, job.now, 1) > 0;
    const bool counts_then = left_then.Take(to->second, job.then, 1) > 0;
    if (counts_now || !counts_then) continue;
    job.devices.resize(then.pool.size());
    then.queues[static_cast<std::size_t>(to->second)].jobs.push_back({std::move(job.devices), 1});
  }
}

Next Under(const FairTree& now, const std::vector<std::string>& kinds,
           const config::PolicyConfiguration& next, const EditedWork& work) {
  Next result{.tree = TreeOf(now, kinds, next)};
  FairTree& tree = result.tree;
  std::map<std::string, int, std::less<>> places;  // a plain group has no work of its own
  for (std::size_t i = 0; i < next.queues.size(); ++i) {
    places.emplace(next.queues[i].name, static_cast<int>(i));
  }
  const auto place_of = [&](const std::string& name) {
    const auto place = places.find(name);
    return place == places.end() ? -1 : place->second;
  };
  const auto give = [&](int place, const std::vector<JobSize>& jobs) {
    if (place < 0) return;
    auto& all = tree.queues[static_cast<std::size_t>(place)].jobs;
    all.insert(all.end(), jobs.begin(), jobs.end());
  };
  std::vector<DeviceAmounts> stays = OwnUses(now);
  std::vector<std::vector<JobSize>> jobs;
  for (const FairQueue& queue : now.queues) jobs.push_back(queue.jobs);
  for (const Move& move : work.moves) {
    if (move.from.empty()) {
      give(place_of(move.to), move.jobs);
      continue;
    }
    const auto from = std::ranges::find(now.queues, move.from, &FairQueue::name);
    if (from == now.queues.end()) continue;
    const auto index = static_cast<std::size_t>(from - now.queues.begin());
    TakeOff(stays[index], move.used);
    TakeOff(jobs[index], move.jobs);
    const int place = move.to.empty() ? -1 : place_of(move.to);
    give(place, move.jobs);
    result.parts.push_back({.from = index, .to = place, .used = move.used});
  }
  for (std::size_t i = 0; i < now.queues.size(); ++i) {
    const int place = place_of(now.queues[i].name);
    give(place, jobs[i]);
    result.parts.push_back({.from = i, .to = place, .used = stays[i]});
  }
  for (const Part& part : result.parts) Charge(tree, part);
  AddNonPreemptible(now, tree, work.non_preemptible);
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

/// What is lost in all, where `own` is what each queue loses by itself: at each queue the larger of
/// that and what is lost below it.
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

/// The queues whose work is evicted: drained queues, and the queues below them.
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
std::vector<DeviceAmounts> TakenBack(const FairTree& then, const Covers& before,
                                     const Covers& after, bool was_safe) {
  std::vector<DeviceAmounts> own(then.queues.size(), DeviceAmounts(then.pool.size()));
  for (std::size_t i = 0; i < own.size(); ++i) {
    const FairQueue& queue = then.queues[i];
    const auto old = before.find(queue.name);
    if (old == before.end()) continue;
    const Cover& was = old->second;
    const Cover& is = after.at(queue.name);
    for (std::size_t kind = 0; kind < queue.used.size(); ++kind) {
      const std::int64_t used = queue.used[kind];
      const std::int64_t floor = was_safe ? used : std::max(was.quota[kind], was.share[kind]);
      own[i][kind] = std::max(Uncovered(used, was.quota[kind], is.quota[kind]),
                              Uncovered(used, floor, std::max(is.quota[kind], is.share[kind])));
    }
  }
  return own;
}

/// What the queue has in use above what it may keep.
DeviceAmounts ExcessOf(const FairQueue& queue, const Cover& cover) {
  DeviceAmounts excess;
  for (std::size_t kind = 0; kind < queue.used.size(); ++kind) {
    const std::int64_t floor = std::max(cover.quota[kind], cover.share[kind]);
    excess.push_back(std::max<std::int64_t>(0, queue.used[kind] - floor));
  }
  return excess;
}

/// By queue of `then`: what of its work may be evicted for other work as soon as the edit is in
/// force, for no other reason than minRunTime or preemption.within. `after`: empty if no queue
/// takes anything back.
std::vector<std::int64_t> LoosenedIn(const FairTree& then, const Covers& after,
                                     const std::vector<Loosened>& loosened) {
  std::vector<std::int64_t> lost(then.queues.size());
  for (const Loosened& work : loosened) {
    const auto queue = std::ranges::find(then.queues, work.queue, &FairQueue::name);
    if (queue == then.queues.end()) continue;
    const auto cover = after.find(work.queue);
    const DeviceAmounts excess =
        cover == after.end() ? DeviceAmounts() : ExcessOf(*queue, cover->second);
    lost[static_cast<std::size_t>(queue - then.queues.begin())] =
        std::max(work.outranked, MostTaken(work.of_age, excess));
  }
  return lost;
}

/// What queues whose work takes nothing back now, and does then, may take.
std::int64_t NewlyClaimed(const FairTree& then, const Covers& after,
                          const config::PolicyConfiguration& current,
                          const config::PolicyConfiguration& next) {
  std::set<std::string_view> never;
  for (const config::Queue& queue : current.queues) {
    if (queue.preemption.reclaim != config::Reclaim::kAny) never.insert(queue.name);
  }
  std::int64_t claimed = 0;
  for (const config::Queue& queue : next.queues) {
    const bool begins =
        queue.preemption.reclaim == config::Reclaim::kAny && never.contains(queue.name);
    if (!begins) continue;
    const FairQueue& with_use = *std::ranges::find(then.queues, queue.name, &FairQueue::name);
    const Cover& cover = after.at(queue.name);
    for (std::size_t kind = 0; kind < with_use.used.size(); ++kind) {
      const std::int64_t entitled =
          std::min(std::max(cover.quota[kind], cover.share[kind]), then.total[kind]);
      claimed += std::max<std::int64_t>(0, entitled - with_use.used[kind]);
    }
  }
  return claimed;
}

/// The queue and the queues above it, by index.
std::vector<std::size_t> PathOf(const FairTree& tree, std::size_t queue) {
  std::vector<std::size_t> path;
  for (int at = static_cast<int>(queue); at >= 0;
       at = tree.queues[static_cast<std::size_t>(at)].parent) {
    path.push_back(static_cast<std::size_t>(at));
  }
  return path;
}

/// Of what a queue has in use without the queues below it, how much no queue outside the widest one
/// on its path could take, because some queue on the path may keep it.
struct Kept {
  std::int64_t by_quota = 0;
  std::int64_t in_all = 0;  ///< By quota or fair share.
};

Kept KeptOf(const FairTree& tree, const Covers& covers, std::size_t queue, std::size_t kind,
            std::int64_t own) {
  Kept kept;
  const auto add = [&](std::int64_t& sum, std::int64_t used, std::int64_t floor) {
    sum = std::max(sum, own - std::max<std::int64_t>(0, used - floor));
  };
  for (const std::size_t at : PathOf(tree, queue)) {
    const Cover& cover = covers.at(tree.queues[at].name);
    const std::int64_t used = tree.queues[at].used[kind];
    add(kept.by_quota, used, cover.quota[kind]);
    add(kept.in_all, used, std::max(cover.quota[kind], cover.share[kind]));
  }
  return kept;
}

/// By queue of `then`: what work that moves, or that others are above then, could lose because of
/// that.
std::vector<DeviceAmounts> LostByMoves(const FairTree& now, const Next& next, const Covers& before,
                                       const Covers& after, bool was_safe) {
  const FairTree& then = next.tree;
  std::vector<DeviceAmounts> lost(then.queues.size(), DeviceAmounts(then.pool.size()));
  const auto names = [](const FairTree& tree, std::size_t queue) {
    std::vector<std::string> path;
    for (const std::size_t at : PathOf(tree, queue)) path.push_back(tree.queues[at].name);
    return path;
  };
  for (const Part& part : next.parts) {
    if (part.to < 0) continue;
    const auto place = static_cast<std::size_t>(part.to);
    if (names(now, part.from) == names(then, place)) continue;
    for (std::size_t kind = 0; kind < part.used.size(); ++kind) {
      const std::int64_t used = part.used[kind];
      Kept was = KeptOf(now, before, part.from, kind, used);
      if (was_safe) was.in_all = used;
      const Kept is = KeptOf(then, after, place, kind, used);
      lost[place][kind] +=
          std::max<std::int64_t>({0, was.by_quota - is.by_quota, was.in_all - is.in_all});
    }
  }
  return lost;
}

/// By queue of `then`: what of its use, with the queues below it, was in no drained queue and is in
/// one then.
std::vector<std::int64_t> BeginsToDrain(const FairTree& now, const Next& next,
                                        const std::set<std::string>& known,
                                        const std::set<std::string>& drained) {
  std::vector<std::int64_t> ends(next.tree.queues.size());
  for (const Part& part : next.parts) {
    if (part.to < 0 || known.contains(now.queues[part.from].name)) continue;
    const std::int64_t used = std::accumulate(part.used.begin(), part.used.end(), std::int64_t{0});
    for (const std::size_t at : PathOf(next.tree, static_cast<std::size_t>(part.to))) {
      if (drained.contains(next.tree.queues[at].name)) ends[at] += used;
    }
  }
  return ends;
}

/// By queue of `now`: what of its work belongs to no queue then. kube-scheduler may evict that for
/// any work of higher priority.
std::vector<std::int64_t> LeftWithoutQueue(const FairTree& now, const Next& next,
                                           const config::PolicyConfiguration& policy) {
  std::vector<std::int64_t> left(now.queues.size());
  const bool preempts = std::ranges::any_of(policy.queues, [](const config::Queue& queue) {
    return queue.preemption.within == config::Within::kLower;
  });
  if (!preempts) return left;
  for (const Part& part : next.parts) {
    if (part.to >= 0) continue;
    left[part.from] += std::accumulate(part.used.begin(), part.used.end(), std::int64_t{0});
  }
  return left;
}

/// By queue of `then`: the jobs that run in it and in the queues below it.
std::vector<std::vector<JobSize>> JobsIn(const FairTree& then, const RunningJobs& running) {
  std::vector<std::vector<JobSize>> jobs(then.queues.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto own = running.find(then.queues[i].name);
    if (own == running.end()) continue;
    for (const std::size_t at : PathOf(then, i)) {
      jobs[at].insert(jobs[at].end(), own->second.begin(), own->second.end());
    }
  }
  return jobs;
}

/// What ends of the jobs of a queue that may keep so much less.
std::int64_t WholeJobsOf(const std::vector<JobSize>& jobs, const DeviceAmounts& excess) {
  const std::int64_t sum = std::accumulate(excess.begin(), excess.end(), std::int64_t{0});
  return std::max(sum, MostTaken(jobs, excess));
}

/// What other queues may take under the next policy and not now.
struct Takeable {
  std::vector<std::int64_t> own;   ///< By queue of then: what it may not keep any more.
  std::vector<std::int64_t> more;  ///< Of what it may not keep now either, what none takes now.
  std::int64_t most = 0;           ///< Of the latter, all queues together.
};

Takeable TakeableIn(const FairTree& now, const Next& under, const Covers& after,
                    const config::PolicyConfiguration& current,
                    const config::PolicyConfiguration& next, const RunningJobs& running) {
  const FairTree& then = under.tree;
  const bool was_safe = !TakesBack(current);
  const Covers before = CoversOf(now);
  const auto taken = TakenBack(then, before, after, was_safe);
  const auto moved = LostByMoves(now, under, before, after, was_safe);
  const std::int64_t claimed = NewlyClaimed(then, after, current, next);
  const auto jobs = JobsIn(then, running);
  Takeable result;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    DeviceAmounts lost = taken[i];
    for (std::size_t kind = 0; kind < lost.size(); ++kind) {
      lost[kind] = std::max(lost[kind], moved[i][kind]);
    }
    result.own.push_back(WholeJobsOf(jobs[i], lost));
    const DeviceAmounts excess = ExcessOf(then.queues[i], after.at(then.queues[i].name));
    const std::int64_t most = std::max(claimed, MostTakenFor(jobs[i], claimed));
    result.more.push_back(
        std::clamp<std::int64_t>(WholeJobsOf(jobs[i], excess) - result.own[i], 0, most));
  }
  std::vector<JobSize> all;
  for (const auto& [name, own] : running) all.insert(all.end(), own.begin(), own.end());
  result.most =
      std::min(LostBelow(then, result.more), std::max(claimed, MostTakenFor(all, claimed)));
  return result;
}

}  // namespace

Exposure ExposureOf(const FairTree& now, const std::vector<std::string>& kinds,
                    const config::PolicyConfiguration& current,
                    const config::PolicyConfiguration& next, const EditedWork& work) {
  Exposure exposure;
  for (const FairQueue& queue : now.queues) {
    if (queue.parent >= 0) continue;
    for (const std::int64_t used : queue.used) exposure.in_use += used;
  }
  const Next under = Under(now, kinds, next, work);
  const FairTree& then = under.tree;
  std::vector<std::int64_t> own =
      BeginsToDrain(now, under, DrainedQueues(current), DrainedQueues(next));
  std::vector<std::int64_t> more(own.size());
  Covers after;
  if (TakesBack(next)) {
    after = CoversOf(then);
    const Takeable taken = TakeableIn(now, under, after, current, next, work.running);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = std::max(own[i], taken.own[i]);
    more = taken.more;
    exposure.devices = taken.most;
  }
  const std::vector<std::int64_t> of_age = LoosenedIn(then, after, work.loosened);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = std::max(own[i], of_age[i]);
  exposure.devices += LostBelow(then, own);
  const std::vector<std::int64_t> left = LeftWithoutQueue(now, under, next);
  for (std::size_t i = 0; i < left.size(); ++i) {
    exposure.devices += left[i];
    if (left[i] > 0) exposure.queues.emplace_back(now.queues[i].name, left[i]);
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] + more[i] > 0) exposure.queues.emplace_back(then.queues[i].name, own[i] + more[i]);
  }
  std::ranges::sort(exposure.queues, {}, [](const auto& queue) {
    return std::pair(-queue.second, std::string_view(queue.first));
  });
  return exposure;
}

}  // namespace berth::policy
