#include "engine/victim_choice.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "engine/chooser.h"
#include "engine/victims.h"
#include "policy/node_groups.h"
#include "policy/quota.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

using Pods = std::vector<const PodInfo*>;

/// The less is the better set.
auto RankOf(std::span<const VictimJob* const> jobs, int straddlers) {
  bool unwarned = false;
  std::int64_t minima = 0;  // devices of work that ends whole
  std::int64_t gangs = 0;
  std::int64_t devices = 0;
  std::int64_t least_excess = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> priorities;
  std::int64_t work = 0;
  std::int64_t places = 0;
  std::vector<std::int64_t> ages;
  std::vector<std::string_view> uids;
  for (const VictimJob* job : jobs) {
    if (!job->runs) continue;
    unwarned |= !job->warned;
    minima += job->surplus ? 0 : job->devices;
    places += job->place;
    gangs += job->workload->gang && !job->surplus ? 1 : 0;
    devices += job->devices;
    least_excess = std::min(least_excess, job->excess);
    priorities.push_back(job->workload->priority);
    work += job->surplus ? 0 : job->work;
    ages.push_back(-job->workload->creation);
    uids.push_back(job->pods.front()->object.meta.uid);
  }
  std::ranges::sort(priorities, std::ranges::greater{});
  std::ranges::sort(ages, std::ranges::greater{});
  std::ranges::sort(uids);
  return std::tuple(straddlers, unwarned, minima, gangs, devices, -least_excess,
                    std::move(priorities), work, places, std::move(ages), jobs.size(),
                    std::move(uids));
}

using Rank = decltype(RankOf({}, 0));

/// A set that is found, and how good it is.
struct Found {
  Rank rank;
  Reservation start;
};

/// All closed sets, the best first.
std::optional<Found> ChooseExactly(const std::vector<VictimJob>& jobs, Chooser& chooser) {
  std::vector<std::pair<Rank, Jobs>> sets;
  for (unsigned mask = 1; mask < 1U << jobs.size(); ++mask) {
    Jobs set;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if ((mask >> i & 1U) != 0) set.push_back(&jobs[i]);
    }
    if (!IsClosed(set)) continue;
    if (const std::optional<int> straddlers = chooser.StraddlersOf(set)) {
      sets.emplace_back(RankOf(set, *straddlers), std::move(set));
    }
  }
  std::ranges::stable_sort(sets, {}, [](const auto& set) -> const Rank& { return set.first; });
  for (const auto& [rank, set] : sets) {
    if (auto start = chooser.Start(set)) return Found{.rank = rank, .start = *std::move(start)};
  }
  return std::nullopt;
}

/// Of the jobs in that order, those for which `wanted` is true, and those that must go before one
/// of them.
template <typename Wanted>
Jobs ClosedPart(const Jobs& order, const Wanted& wanted) {
  std::set<const Workload*> whole;
  for (const VictimJob* job : order) {
    if (!job->surplus && wanted(job)) whole.insert(job->workload);
  }
  Jobs part;
  std::ranges::copy_if(order, std::back_inserter(part), [&](const VictimJob* job) {
    return wanted(job) || (job->surplus && whole.contains(job->workload));
  });
  return part;
}

/// Of `jobs`, those on the nodes of the plan, with those that must go before, if they are enough.
void DropElsewhere(Jobs& jobs, const Reservation& plan, Chooser& chooser) {
  std::set<cluster::NodeIndex> nodes;
  for (const policy::Placed& placed : plan.placed) nodes.insert(placed.node);
  const auto is_there = [&](const PodInfo* pod) { return nodes.contains(pod->node); };
  Jobs there = ClosedPart(
      jobs, [&](const VictimJob* job) { return std::ranges::any_of(job->pods, is_there); });
  if (there.size() < jobs.size() && chooser.SearchPart(there)) jobs = std::move(there);
}

std::ptrdiff_t Signed(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }

/// How many of the jobs before `end`, from the back, might be left out together: none of them is
/// needed, or has to go before one that stays. At least one job stays.
std::size_t CountDroppable(const Jobs& jobs, std::size_t end,
                           const std::set<const VictimJob*>& needed) {
  std::size_t count = 0;
  const auto may_go = [&](std::size_t i) {
    if (needed.contains(jobs[i])) return false;
    const auto follows = [&](const VictimJob* other) { return IsBefore(*jobs[i], *other); };
    return !jobs[i]->surplus || (std::none_of(jobs.begin(), jobs.begin() + Signed(i), follows) &&
                                 std::none_of(jobs.begin() + Signed(end), jobs.end(), follows));
  };
  while (count < end && count + 1 < jobs.size() && may_go(end - count - 1)) ++count;
  return count;
}

/// Drops jobs without which the others are enough, the last ones first. Returns whether there are
/// some.
bool DropNeedless(Jobs& jobs, Chooser& chooser) {
  const std::size_t before = jobs.size();
  // Who is needed now is all the more needed in a smaller set.
  const std::set<const VictimJob*> needed = chooser.Needed(jobs);
  for (std::size_t end = jobs.size(); end > 0 && jobs.size() > 1;) {
    const auto without = [&](std::size_t count) {
      Jobs fewer(jobs.begin(), jobs.begin() + Signed(end - count));
      fewer.insert(fewer.end(), jobs.begin() + Signed(end), jobs.end());
      return fewer;
    };
    // Of hundreds of jobs mostly a few are needed: 1, 2, 4, ... are left out, and then, after the
    // first that are too many, ever fewer.
    const std::size_t most = CountDroppable(jobs, end, needed);
    std::size_t dropped = 0;
    bool grows = true;
    for (std::size_t step = 1; step > 0 && dropped < most;) {
      const std::size_t count = std::min(most, dropped + step);
      const bool enough = chooser.SearchPart(without(count)).has_value();
      if (enough) dropped = count;
      grows &= enough;
      step = grows ? 2 * step : step / 2;
    }
    jobs = without(dropped);
    end -= std::min(end, dropped + 1);  // the one before these is needed
  }
  return jobs.size() < before;
}

/// Of `jobs`, the shortest part from the front that is enough, and of that what cannot be left out:
/// the last ones are left out first. Empty: all together are not enough.
Jobs MinimalOf(Jobs jobs, Chooser& chooser) {
  // Mostly a few are enough: parts of 1, 2, 4, ... jobs are tried before all of them.
  std::optional<Reservation> plan;
  std::size_t least = 1;  // fewer are not enough
  std::size_t most = 0;   // so many are
  while (!plan && most < jobs.size()) {
    least = most + 1;
    most = std::min(jobs.size(), std::max<std::size_t>(1, 2 * most));
    plan = chooser.Search(std::span(jobs).first(most));
  }
  if (!plan) return {};
  while (least < most) {
    const std::size_t middle = (least + most) / 2;
    if (auto fewer = chooser.Search(std::span(jobs).first(middle))) {
      plan = std::move(fewer);
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  jobs.resize(most);
  DropElsewhere(jobs, *plan, chooser);
  // Without the jobs of one queue, fewer of another one may be enough: it needs another claim.
  while (DropNeedless(jobs, chooser) && chooser.claims()) {
  }
  // Nobody is evicted that is not known to be needed.
  if (chooser.IsSpent() && !chooser.NeedsAll(jobs)) return {};
  return jobs;
}

/// Out of `order`. Where budgets forbid the set that is found, it is looked for again without the
/// jobs that they forbid.
std::optional<Found> ChooseMinimal(Jobs order, Chooser& chooser) {
  constexpr int kMaxRounds = 16;
  for (int round = 0; round < kMaxRounds; ++round) {
    const Jobs jobs = MinimalOf(order, chooser);
    if (jobs.empty()) return std::nullopt;
    const Jobs forbidden = chooser.BreakingBudgets(jobs);
    if (forbidden.empty()) {
      auto start = chooser.Start(jobs);
      if (!start) return std::nullopt;
      return Found{.rank = RankOf(jobs, chooser.StraddlersOf(jobs).value_or(0)),
                   .start = *std::move(start)};
    }
    std::erase_if(order, [&](const VictimJob* job) {
      return std::ranges::any_of(forbidden, [&](const VictimJob* other) {
        return other == job || IsBefore(*other, *job);
      });
    });
  }
  return std::nullopt;
}

/// The jobs of the parts on these nodes, and then, in `order`, what else is there.
Jobs Inside(const policy::NodeGroup& group, std::span<const Chooser::Part> parts,
            const Jobs& order) {
  const std::set<cluster::NodeIndex> inside(group.nodes.begin(), group.nodes.end());
  Jobs there;
  for (const Chooser::Part& part : parts) {
    if (inside.contains(part.node)) there.insert(there.end(), part.jobs.begin(), part.jobs.end());
  }
  const auto is_inside = [&](const PodInfo* pod) { return inside.contains(pod->node); };
  const auto wanted = [&](const VictimJob* job) {
    return std::ranges::any_of(job->pods, is_inside);
  };
  return Joined(std::move(there), ClosedPart(order, wanted));
}

/// The domains with parts, first those where parts make room for most of the `min` members.
std::vector<policy::NodeGroup> Promising(const policy::NodeGroups& domains,
                                         std::span<const Chooser::Part> parts, int min) {
  std::map<cluster::NodeIndex, int> room;
  for (const Chooser::Part& part : parts) ++room[part.node];
  std::vector<std::pair<int, policy::NodeGroup>> by_room;
  for (const policy::NodeGroup& domain : domains) {
    int members = 0;
    for (const cluster::NodeIndex node : domain.nodes) {
      if (const auto it = room.find(node); it != room.end()) members += it->second;
    }
    if (members > 0) by_room.emplace_back(std::min(members, min), domain);
  }
  std::ranges::stable_sort(by_room, std::ranges::greater{},
                           [](const auto& of) { return of.first; });
  std::vector<policy::NodeGroup> promising;
  for (const auto& [members, domain] : by_room) promising.push_back(domain);
  return promising;
}

/// The jobs of the parts one after the other: first that part, and then always the one for which
/// the fewest further devices end. A gang on several nodes is in a part of each.
Jobs ByFurtherCost(std::span<const Chooser::Part> parts, const Chooser::Part& first) {
  Jobs jobs = first.jobs;
  std::set<const VictimJob*> taken(jobs.begin(), jobs.end());
  std::vector<const Chooser::Part*> left;
  for (const Chooser::Part& part : parts) {
    if (&part != &first) left.push_back(&part);
  }
  const auto cost = [&](const Chooser::Part* part) {
    std::int64_t devices = 0;
    for (const VictimJob* job : part->jobs) {
      if (job->runs && !taken.contains(job)) devices += job->devices;
    }
    return devices;
  };
  while (!left.empty()) {
    const auto next = std::ranges::min_element(left, {}, cost);
    jobs.insert(jobs.end(), (*next)->jobs.begin(), (*next)->jobs.end());
    taken.insert((*next)->jobs.begin(), (*next)->jobs.end());
    left.erase(next);
  }
  return WithoutRepeats(jobs);
}

/// Orders that begin with parts of which a job is on several nodes.
void AddSpanning(std::span<const Chooser::Part> parts, std::vector<Jobs>& orders) {
  constexpr std::size_t kMaxParts = 32;
  constexpr int kMaxOrders = 8;
  parts = parts.first(std::min(parts.size(), kMaxParts));
  const auto spans = [](const Chooser::Part& part) {
    return std::ranges::any_of(part.jobs,
                               [](const VictimJob* job) { return NodesOf(*job).size() > 1; });
  };
  for (const auto& part : parts | std::views::filter(spans) | std::views::take(kMaxOrders)) {
    orders.push_back(ByFurtherCost(parts, part));
  }
}

/// Of the jobs of several queues, those of the queue `own` alone, and with them those of one other
/// queue each: a claim on one queue may need no claim on others, and one's own work needs none.
std::vector<Jobs> ByQueue(const Jobs& order, cluster::QueueId own) {
  constexpr std::size_t kMaxQueues = 8;
  std::vector<cluster::QueueId> queues{own};
  for (const VictimJob* job : order) {
    if (std::ranges::find(queues, job->queue) == queues.end()) queues.push_back(job->queue);
  }
  std::vector<Jobs> parts;
  for (const cluster::QueueId queue : queues | std::views::take(kMaxQueues)) {
    Jobs part;
    std::ranges::copy_if(order, std::back_inserter(part), [&](const VictimJob* job) {
      return job->queue == queue || job->queue == own;
    });
    if (!part.empty() && part.size() < order.size()) parts.push_back(std::move(part));
  }
  return parts;
}

/// In which order jobs are taken where not all sets can be tried, each after those before it: by
/// their rank, the largest first, and the smallest first; by their rank, those of some queues
/// alone; and each of these by the parts that make room for a member, also for each domain that the
/// workload must be in, and for each of some parts alone if that can be enough: a pod by itself
/// needs no more, and a straddler goes before others have used up what it needs.
std::vector<Jobs> OrdersOf(const std::vector<VictimJob>& candidates, const Beneficiary& beneficiary,
                           bool straddlers, Chooser& chooser) {
  constexpr int kMaxGroups = 16;
  Jobs by_rank;
  for (const VictimJob& job : candidates) by_rank.push_back(&job);
  std::ranges::stable_sort(by_rank, {}, [](const VictimJob* job) {
    const bool minimum = job->runs && !job->surplus;
    return std::tuple(job->runs, !job->warned, minimum, minimum && job->workload->gang,
                      -job->excess);
  });
  std::vector<Jobs> orders{InTurns(by_rank)};
  const auto add_by_size = [&](const auto& before) {
    Jobs by_size = by_rank;
    std::ranges::stable_sort(by_size, before, &VictimJob::devices);
    by_size = InTurns(by_size);
    if (std::ranges::find(orders, by_size) == orders.end()) orders.push_back(std::move(by_size));
  };
  add_by_size(std::ranges::greater{});
  add_by_size(std::ranges::less{});
  for (const Jobs& part : ByQueue(by_rank, beneficiary.workload.queue)) {
    orders.push_back(InTurns(part));
  }
  for (const Jobs& order : std::vector(orders)) {
    const std::vector<Chooser::Part> parts = chooser.Parts(order, straddlers);
    Jobs all;
    for (const Chooser::Part& part : parts) {
      all.insert(all.end(), part.jobs.begin(), part.jobs.end());
    }
    orders.push_back(Joined(std::move(all), order));
    const policy::NodeGroups domains = chooser.Domains();
    const auto promising = Promising(domains, parts, beneficiary.min);
    for (const auto& domain : promising | std::views::take(kMaxGroups)) {
      orders.push_back(Inside(domain, parts, order));
    }
    if (beneficiary.min > 1) AddSpanning(parts, orders);
    if (beneficiary.min > 1 && !straddlers) continue;
    for (const auto& part : parts | std::views::take(kMaxGroups)) orders.push_back(part.jobs);
  }
  return orders;
}

std::optional<Found> ChooseBySearch(const std::vector<VictimJob>& candidates,
                                    const Beneficiary& beneficiary, Chooser& chooser) {
  std::optional<Found> best;
  for (const bool straddlers : {false, true}) {
    for (const Jobs& order : OrdersOf(candidates, beneficiary, straddlers, chooser)) {
      if (chooser.IsUsedUp()) break;
      Jobs admitted = chooser.Admit(order, straddlers);
      // Where no job can be left out, there is one set, whose rank is known without a search.
      const auto rank = [&] {
        return RankOf(admitted, chooser.StraddlersOf(admitted).value_or(0));
      };
      if (best && !(rank() < best->rank) && chooser.NeedsAll(admitted)) continue;
      std::optional<Found> found = ChooseMinimal(std::move(admitted), chooser);
      if (found && (!best || found->rank < best->rank)) best = std::move(found);
    }
    if (best || beneficiary.exchange == nullptr) break;
  }
  return best;
}

/// No other choice of surplus can be better: nobody loses a minimum, and no queue more than it has
/// beyond its floor.
bool TakesSurplusAlone(const Rank& rank) {
  return std::get<0>(rank) == 0 && std::get<2>(rank) == 0;
}

/// Whether the set is better whatever the places of surplus and the UIDs are: these say which of
/// equal sets of one list of candidates is taken.
bool IsBetter(const Rank& one, const Rank& other) {
  const auto compared = [](const Rank& rank) {
    const auto& [straddlers, unwarned, minima, gangs, devices, excess, priorities, work, places,
                 ages, jobs, uids] = rank;
    return std::tie(straddlers, unwarned, minima, gangs, devices, excess, priorities, work, ages,
                    jobs);
  };
  return compared(one) < compared(other);
}

std::optional<Found> ChooseOf(const View& view, const Beneficiary& beneficiary,
                              const std::vector<VictimJob>& candidates) {
  if (candidates.empty()) return std::nullopt;
  Chooser chooser(view, beneficiary);
  Jobs all;
  for (const VictimJob& job : candidates) all.push_back(&job);
  if (chooser.HasRoom({})) return std::nullopt;  // it only has to wait
  // It never fits, unless it needs the company of some of them.
  if (!chooser.NeedsCompany() && !chooser.HasRoom(all)) return std::nullopt;
  return candidates.size() <= kExactJobs ? ChooseExactly(candidates, chooser)
                                         : ChooseBySearch(candidates, beneficiary, chooser);
}

}  // namespace

const std::shared_ptr<const cluster::PodShape>& LargestShape(std::span<const PodInfo* const> pods) {
  const PodInfo& largest = **std::ranges::max_element(pods, {}, [](const PodInfo* pod) {
    return std::pair(pod->shape->whole_node, pod->shape->device_amount);
  });
  return largest.shape;
}

Pods AwaitedOf(const View& view, const Workload& workload, std::span<const policy::Placed> placed,
               const Pods& ending, const Pods& evicted) {
  std::set<cluster::NodeIndex> nodes;
  for (const policy::Placed& place : placed) nodes.insert(place.node);
  Pods awaited;
  std::ranges::copy_if(ending, std::back_inserter(awaited),
                       [&](const PodInfo* pod) { return nodes.contains(pod->node); });
  Ended ended(view.store, evicted);
  for (const PodInfo* pod : awaited) ended.Add(*pod);
  View after = view;
  after.ended = &ended;
  const bool enough =
      GrantCharge(after, workload, placed).reason == ReasonId::kNone &&
      policy::CheckJobs(QuotaFor(after, workload), workload).reason == ReasonId::kNone;
  return enough ? awaited : ending;
}

bool OnlyHasToWait(const View& view, const Beneficiary& beneficiary) {
  return !beneficiary.ending.pods.empty() && Chooser(view, beneficiary).HasRoom({});
}

std::optional<Reservation> ChooseVictims(
    const View& view, const Beneficiary& beneficiary, const std::vector<VictimJob>& candidates,
    std::span<const std::function<std::vector<VictimJob>()>> others) {
  std::optional<Found> best = ChooseOf(view, beneficiary, candidates);
  for (const auto& find : others) {
    if (best && candidates.size() > kExactJobs && TakesSurplusAlone(best->rank)) break;
    std::optional<Found> found = ChooseOf(view, beneficiary, find());
    if (found && (!best || IsBetter(found->rank, best->rank))) best = std::move(found);
  }
  if (!best) return std::nullopt;
  return std::move(best->start);
}

}  // namespace berth::engine
