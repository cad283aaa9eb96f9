#include "engine/victim_choice.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "engine/victims.h"
#include "policy/node_groups.h"
#include "policy/quota.h"

namespace berth::engine {

using cluster::Charge;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

using Pods = std::vector<const PodInfo*>;
using PodSet = policy::QueueDemands::PodSet;
using Jobs = std::vector<const VictimJob*>;

std::set<cluster::NodeIndex> NodesOf(const VictimJob& job) {
  std::set<cluster::NodeIndex> nodes;
  for (const PodInfo* pod : job.pods) nodes.insert(pod->node);
  return nodes;
}

Jobs WithoutRepeats(const Jobs& jobs) {
  std::unordered_set<const VictimJob*> seen;
  Jobs once;
  std::ranges::copy_if(jobs, std::back_inserter(once),
                       [&](const VictimJob* job) { return seen.insert(job).second; });
  return once;
}

bool IsBefore(const VictimJob& a, const VictimJob& b) {
  return a.workload == b.workload && a.surplus && !b.surplus;
}

/// How many of the jobs must go before that one.
std::ptrdiff_t CountBefore(const Jobs& jobs, const VictimJob& job) {
  return std::ranges::count_if(jobs, [&](const VictimJob* other) { return IsBefore(*other, job); });
}

/// Whether for each of the jobs all that must go before it are there, too.
bool IsClosed(const Jobs& jobs) {
  return std::ranges::all_of(
      jobs, [&](const VictimJob* job) { return CountBefore(jobs, *job) == job->before; });
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

/// The jobs in that order, but each only after those that must go before it.
Jobs InTurns(const Jobs& order) {
  if (std::ranges::all_of(order, [](const VictimJob* job) { return job->before == 0; })) {
    return order;
  }
  Jobs jobs;
  for (const VictimJob* last : order) {
    if (last->before > 0) {
      std::ranges::copy_if(order, std::back_inserter(jobs),
                           [&](const VictimJob* job) { return IsBefore(*job, *last); });
    }
    jobs.push_back(last);
  }
  return WithoutRepeats(jobs);
}

/// Whether the job must wait for one of those that stay.
bool Waits(const VictimJob& job, const Jobs& staying) {
  return job.before > 0 && CountBefore(staying, job) > 0;
}

using Shape = std::shared_ptr<const cluster::PodShape>;

/// How many pods of one shape have room, by counting alone, once others have ended: what ends in
/// any case, and some jobs.
class Places {
 public:
  struct Freed {
    int places = 0;
    std::map<cluster::NodeIndex, Pods> ended{};  ///< On the nodes of the jobs.
  };

  /// All must outlive it. No node counts for more than `most`.
  Places(const View& view, const Shape& shape, const Ending& ending, int most)
      : view_(view), shape_(shape), ending_(ending), most_(most) {
    view.scorer.Refresh();
    const policy::Scorer::View room = view.scorer.For(shape, ending.ended.room());
    for (const auto& node : view.store.nodes()) all_ += std::min(most, room.Room(node->index));
  }

  /// Takes time in proportion to the pods of the jobs.
  Freed With(std::span<const VictimJob* const> jobs) const {
    Freed freed;
    for (const VictimJob* job : jobs) {
      for (const PodInfo* pod : job->pods) freed.ended[pod->node].push_back(pod);
    }
    policy::Overlay before(view_.store);
    policy::Overlay after(view_.store);
    for (auto& [node, pods] : freed.ended) {
      if (const auto known = ending_.by_node.find(node); known != ending_.by_node.end()) {
        for (const PodInfo* pod : known->second) before.Remove(*pod);
        pods.insert(pods.end(), known->second.begin(), known->second.end());
      }
      for (const PodInfo* pod : pods) after.Remove(*pod);
    }
    const auto nodes = std::views::keys(freed.ended);
    freed.places = all_ + Sum(nodes, after) - Sum(nodes, before);
    return freed;
  }

  /// If that has ended but the pods of `job`.
  int Without(const VictimJob& job, const Freed& freed) const {
    const std::set<cluster::NodeIndex> nodes = NodesOf(job);
    policy::Overlay before(view_.store);
    policy::Overlay after(view_.store);
    for (const cluster::NodeIndex node : nodes) {
      for (const PodInfo* pod : freed.ended.at(node)) {
        before.Remove(*pod);
        if (std::ranges::find(job.pods, pod) == job.pods.end()) after.Remove(*pod);
      }
    }
    return freed.places + Sum(nodes, after) - Sum(nodes, before);
  }

 private:
  template <typename Nodes>
  int Sum(const Nodes& nodes, const policy::Overlay& overlay) const {
    view_.scorer.Refresh();
    const policy::Scorer::View room = view_.scorer.For(shape_, overlay);
    int sum = 0;
    for (const cluster::NodeIndex node : nodes) sum += std::min(most_, room.Room(node));
    return sum;
  }

  const View& view_;
  const Shape& shape_;
  const Ending& ending_;
  const int most_;
  int all_ = 0;
};

/// Judges sets of jobs.
class Chooser {
 public:
  Chooser(const View& view, const Beneficiary& beneficiary)
      : view_(view),
        for_(beneficiary),
        minimum_(for_.pods.begin(), for_.pods.begin() + for_.min),
        alike_(std::ranges::all_of(for_.pods, [&](const PodInfo* pod) {
          return pod->shape == for_.pods.front()->shape;
        })) {}

  /// How the workload starts once these have ended, with what ends anyway. nullopt: it does not, or
  /// a budget forbids it, or there were too many searches.
  std::optional<Reservation> Start(std::span<const VictimJob* const> jobs) {
    Pods evicted = Running(jobs);
    if (BreaksBudgets(evicted, view_.store)) return std::nullopt;
    std::optional<Reservation> reserve = Search(jobs);
    if (!reserve) return std::nullopt;
    reserve->evicts = std::move(evicted);
    SortOut(*reserve, jobs);
    NameVictims(*reserve, jobs);
    return reserve;
  }

  /// The same without budgets.
  std::optional<Reservation> Search(std::span<const VictimJob* const> jobs) {
    const Losses losses = LossesOf(jobs);
    const bool of_others = std::ranges::any_of(
        losses.list, [&](const policy::Loss& loss) { return loss.queue != for_.workload.queue; });
    const std::optional<int> straddlers = StraddlersOf(losses);
    if (!straddlers) return std::nullopt;
    // It is cheaper to see that there is no claim than that there is no room.
    const bool may =
        !of_others || IsClaim(for_.exchange->BestClaimOf(for_.wants, losses.list), *straddlers);
    if (!may) return std::nullopt;
    std::optional<Reservation> reserve = SearchRoom(jobs, of_others ? minimum_ : for_.pods);
    if (!reserve || !of_others) return reserve;
    if (!MayClaim(*for_.exchange, *straddlers, *reserve, losses)) return std::nullopt;
    if (const policy::FairShareTable* shares = SharesWithout(PlannedOf(jobs))) {
      const policy::Exchange after = for_.exchange->With(*shares);
      const std::optional<int> left = after.Straddlers(losses.list);
      if (!left || !MayClaim(after, *left, *reserve, losses)) return std::nullopt;
    }
    return reserve;
  }

  /// Whether there is room and quota once they have ended, whoever has a claim to it.
  bool HasRoom(std::span<const VictimJob* const> jobs) {
    return SearchRoom(jobs, for_.pods).has_value();
  }

  /// See policy::Exchange::Straddlers.
  std::optional<int> StraddlersOf(std::span<const VictimJob* const> jobs) const {
    return StraddlersOf(LossesOf(jobs));
  }

  /// Of the jobs in that order, those that can be taken together without a straddler; with
  /// `straddlers`, then those that become one. A gang whose surplus cannot go by itself may go
  /// whole.
  Jobs Admit(const Jobs& order, bool straddlers) const {
    if (for_.exchange == nullptr) return order;
    policy::Floors floors(*for_.exchange);
    Jobs admitted;
    // Where one is left, those after it are left.
    const auto take = [&](const Jobs& from, bool may_straddle) {
      Jobs left;
      for (const VictimJob* job : from) {
        const policy::Loss loss{.queue = job->queue, .pods = job->running};
        const bool taken = !Waits(*job, left) && floors.Take(loss, may_straddle);
        (taken ? admitted : left).push_back(job);
      }
      return left;
    };
    Jobs left = take(order, /*may_straddle=*/false);
    if (!straddlers) return admitted;
    left = take(left, /*may_straddle=*/true);
    for (const VictimJob* last : Jobs(left)) {
      if (last->before == 0) continue;
      const auto of_gang = [&](const VictimJob* job) { return job->workload == last->workload; };
      Pods rest;
      for (const VictimJob* job : left) {
        if (of_gang(job)) rest.insert(rest.end(), job->running.begin(), job->running.end());
      }
      if (!floors.Take({.queue = last->queue, .pods = rest}, /*may_straddle=*/true)) continue;
      std::ranges::copy_if(left, std::back_inserter(admitted), of_gang);
      std::erase_if(left, of_gang);
    }
    return admitted;
  }

  /// By node, the jobs there in that order, with those that must go before; only nodes that could
  /// take a member. The nodes on which the fewest devices make room for one come first, each with
  /// just these jobs.
  std::vector<std::pair<cluster::NodeIndex, Jobs>> ByNode(const Jobs& order) const {
    std::map<cluster::NodeIndex, std::set<std::size_t>> there;  // places in the order
    std::map<const Workload*, std::set<std::size_t>> surplus;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i]->surplus) surplus[order[i]->workload].insert(i);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const cluster::NodeIndex node : NodesOf(*order[i])) {
        there[node].insert(i);
        if (order[i]->before > 0) there[node].merge(std::set(surplus[order[i]->workload]));
      }
    }
    // Members without devices, and small ones, find room sooner.
    const Shape& shape = LargestShape(minimum_);
    view_.scorer.Refresh();
    std::vector<std::tuple<std::int64_t, cluster::NodeIndex, Jobs>> nodes;
    for (const auto& [node, here] : there) {
      Jobs jobs;
      for (const std::size_t i : here) jobs.push_back(order[i]);
      policy::Overlay room(view_.store);
      if (const auto ending = for_.ending.by_node.find(node); ending != for_.ending.by_node.end()) {
        for (const PodInfo* pod : ending->second) room.Remove(*pod);
      }
      const policy::Scorer::View places = view_.scorer.For(shape, room);
      const int before = places.Room(node);
      if (before >= for_.min) continue;
      std::int64_t devices = 0;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        devices += jobs[i]->runs ? jobs[i]->devices : 0;
        for (const PodInfo* pod : jobs[i]->pods) {
          if (pod->node == node) room.Remove(*pod);
        }
        if (places.Room(node) <= before) continue;
        const auto end = jobs.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        nodes.emplace_back(devices, node, Jobs(jobs.begin(), end));
        break;
      }
    }
    std::ranges::sort(nodes, {}, [](const auto& node) {
      return std::pair(std::get<0>(node), std::get<1>(node));
    });
    std::vector<std::pair<cluster::NodeIndex, Jobs>> result;
    for (auto& [devices, node, jobs] : nodes) result.emplace_back(node, std::move(jobs));
    return result;
  }

  /// The nodes inside which the workload must be, if it must: one group for each domain.
  policy::NodeGroups Domains() const {
    return for_.workload.topology_required.empty()
               ? policy::NodeGroups()
               : policy::GroupBy(view_.store, for_.workload.topology_required);
  }

  /// The jobs of the set that cannot be left out, one by one, as far as counting tells.
  std::set<const VictimJob*> Needed(const Jobs& jobs) {
    std::set<const VictimJob*> needed;
    if (!alike_) return needed;
    const Places::Freed freed = Counted().With(jobs);
    for (const VictimJob* job : jobs) {
      if (Counted().Without(*job, freed) < for_.min) needed.insert(job);
    }
    return needed;
  }

  /// Whether none of them can be left out, as far as counting tells.
  bool NeedsAll(const Jobs& jobs) {
    if (jobs.size() == 1) return true;
    if (!alike_) return false;
    const Places::Freed freed = Counted().With(jobs);
    return std::ranges::all_of(
        jobs, [&](const VictimJob* job) { return Counted().Without(*job, freed) < for_.min; });
  }

  /// Of the jobs, those whose eviction some budget forbids together with those before them, and
  /// those that go only after one of these.
  Jobs BreakingBudgets(std::span<const VictimJob* const> jobs) const {
    Jobs within;
    Jobs breaking;
    for (const VictimJob* job : jobs) {
      if (Waits(*job, breaking)) {
        breaking.push_back(job);
        continue;
      }
      within.push_back(job);
      if (!BreaksBudgets(Running(within), view_.store)) continue;
      within.pop_back();
      breaking.push_back(job);
    }
    return breaking;
  }

 private:
  /// What the workloads lose. A gang that goes whole loses all its jobs at once.
  struct Losses {
    std::deque<Pods> gangs{};  ///< What some of `list` refer to.
    std::vector<policy::Loss> list{};
  };
  static Losses LossesOf(std::span<const VictimJob* const> jobs) {
    Losses losses;
    std::map<const Workload*, Pods*> whole;
    for (const VictimJob* job : jobs) {
      if (job->before > 0) whole[job->workload] = &losses.gangs.emplace_back();
    }
    std::vector<const VictimJob*> last;
    for (const VictimJob* job : jobs) {
      const auto gang = whole.find(job->workload);
      if (gang == whole.end()) {
        losses.list.push_back({.queue = job->queue, .pods = job->running});
        continue;
      }
      gang->second->insert(gang->second->end(), job->running.begin(), job->running.end());
      if (!job->surplus) last.push_back(job);
    }
    for (const VictimJob* job : last) {
      losses.list.push_back({.queue = job->queue, .pods = *whole.at(job->workload)});
    }
    return losses;
  }
  static bool IsClaim(policy::Claim claim, int straddlers) {
    return straddlers > 0 ? claim == policy::Claim::kQuota : claim != policy::Claim::kNone;
  }
  static bool MayClaim(const policy::Exchange& exchange, int straddlers, const Reservation& reserve,
                       const Losses& losses) {
    return IsClaim(exchange.ClaimOf(reserve.placed, losses.list), straddlers);
  }
  /// Members that have a place, are not bound, and give it up if these jobs go: it evicts nobody,
  /// and so is done before the evictions.
  static PodSet PlannedOf(std::span<const VictimJob* const> jobs) {
    PodSet planned;
    for (const VictimJob* job : jobs) {
      for (const PodInfo* pod : job->surplus ? job->pods : job->workload->members) {
        if (pod->charge == Charge::kPlanned) planned.insert(pod);
      }
    }
    return planned;
  }
  /// The fair shares once these have given their places up: less demand of one queue is more room
  /// for others. Null: nobody does.
  const policy::FairShareTable* SharesWithout(const PodSet& planned) {
    if (planned.empty()) return nullptr;
    const auto [it, is_new] = shares_without_.try_emplace(planned);
    if (is_new) {
      it->second = view_.fair_shares.Without(view_.now, planned);
    }
    return &it->second;
  }
  std::optional<int> StraddlersOf(const Losses& losses) const {
    return for_.exchange == nullptr ? 0 : for_.exchange->Straddlers(losses.list);
  }
  /// Of the pods that end in any case, those that do so if these jobs give way: a plan that yields
  /// spares the pods that it was about to evict.
  Pods EndingWith(std::span<const VictimJob* const> jobs) const {
    std::set<std::string_view> yield;
    for (const VictimJob* job : jobs) {
      if (!job->runs) yield.insert(job->workload->key);
    }
    Pods ending = for_.ending.pods;
    std::erase_if(ending, [&](const PodInfo* pod) {
      return !pod->terminating() && yield.contains(view_.states.At(*pod).victim_of);
    });
    return ending;
  }
  static Pods WithPodsOf(std::span<const VictimJob* const> jobs, Pods ended) {
    for (const VictimJob* job : jobs) ended.insert(ended.end(), job->pods.begin(), job->pods.end());
    return ended;
  }
  static Pods Running(std::span<const VictimJob* const> jobs) {
    Pods pods;
    for (const VictimJob* job : jobs) {
      for (const PodInfo* pod : job->pods) {
        if (job->runs && pod->charge != Charge::kPlanned) pods.push_back(pod);
      }
    }
    return pods;
  }

  /// Who gives up what is planned, and which of the victims are surplus.
  static void SortOut(Reservation& reserve, std::span<const VictimJob* const> jobs) {
    std::set<const Workload*> whole;
    for (const VictimJob* job : jobs) {
      if (!job->surplus) whole.insert(job->workload);
    }
    for (const VictimJob* job : jobs) {
      if (!job->surplus) {
        if (!job->runs) reserve.yields.push_back(job->workload);
      } else if (!job->runs) {
        reserve.displaced.push_back(job->pods.front());
      } else if (!whole.contains(job->workload)) {
        reserve.surplus.push_back(job->pods.front());
      }
    }
  }

  /// The room is held until all of these have ended.
  void NameVictims(Reservation& reserve, std::span<const VictimJob* const> jobs) const {
    for (const PodInfo* pod : reserve.evicts) reserve.victims.push_back(pod->object.meta.uid);
    for (const PodInfo* pod :
         AwaitedOf(view_, for_.workload, reserve.placed, EndingWith(jobs), WithPodsOf(jobs, {}))) {
      reserve.victims.push_back(pod->object.meta.uid);
    }
  }

  /// False: counting is enough to say that there is no room. Where plans yield, fewer pods end than
  /// are counted.
  bool HasPlaces(std::span<const VictimJob* const> jobs) {
    if (!alike_ || jobs.empty()) return true;
    return Counted().With(jobs).places >= for_.min;
  }

  const Places& Counted() {
    if (!places_) places_.emplace(view_, for_.pods.front()->shape, for_.ending, for_.min);
    return *places_;
  }

  std::optional<Reservation> SearchRoom(std::span<const VictimJob* const> jobs, const Pods& pods) {
    if (searches_ == kMaxSearches) return std::nullopt;
    if (!HasPlaces(jobs)) return std::nullopt;
    std::optional<Ended> more;
    if (!jobs.empty()) {
      const bool yields = !std::ranges::all_of(jobs, &VictimJob::runs);
      more = yields ? Ended(view_.store, EndingWith(jobs)) : for_.ending.ended;
      for (const VictimJob* job : jobs) {
        for (const PodInfo* pod : job->pods) more->Add(*pod);
      }
    }
    View view = view_;
    view.ended = more ? &*more : &for_.ending.ended;
    ++searches_;
    return DecideStart(view, for_.workload, pods, for_.min, nullptr).reserve;
  }

  const View& view_;
  const Beneficiary& for_;
  const Pods minimum_;
  const bool alike_;
  std::optional<Places> places_{};  ///< Once the pods have ended that end in any case.
  int searches_ = 0;
  std::map<PodSet, policy::FairShareTable> shares_without_;
};

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
                    std::move(priorities), work, places, std::move(ages), jobs.size(), places,
                    std::move(uids));
}

using Rank = decltype(RankOf({}, 0));

/// All closed sets, the best first.
std::optional<Reservation> ChooseExactly(const std::vector<VictimJob>& jobs, Chooser& chooser) {
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
    if (auto start = chooser.Start(set)) return start;
  }
  return std::nullopt;
}

/// Of `jobs`, those on the nodes of the plan, with those that must go before, if they are enough.
void DropElsewhere(Jobs& jobs, const Reservation& plan, Chooser& chooser) {
  std::set<cluster::NodeIndex> nodes;
  for (const policy::Placed& placed : plan.placed) nodes.insert(placed.node);
  const auto is_there = [&](const PodInfo* pod) { return nodes.contains(pod->node); };
  Jobs there = ClosedPart(
      jobs, [&](const VictimJob* job) { return std::ranges::any_of(job->pods, is_there); });
  if (there.size() < jobs.size() && chooser.Search(there)) jobs = std::move(there);
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
  // Who is needed now is all the more needed in a smaller set.
  const std::set<const VictimJob*> needed = chooser.Needed(jobs);
  for (std::size_t i = jobs.size(); i-- > 0 && jobs.size() > 1;) {
    const auto follows = [&](const VictimJob* other) { return IsBefore(*jobs[i], *other); };
    if (needed.contains(jobs[i])) continue;
    if (jobs[i]->surplus && std::ranges::any_of(jobs, follows)) continue;
    Jobs fewer = jobs;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (chooser.Search(fewer)) jobs = std::move(fewer);
  }
  return jobs;
}

/// A set that is found, and how good it is.
struct Found {
  Rank rank;
  Reservation start;
};

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

/// The jobs of the first list, then those of the second that are not among them.
Jobs Joined(Jobs first, const Jobs& then) {
  first.insert(first.end(), then.begin(), then.end());
  return WithoutRepeats(first);
}

/// In which order jobs are taken where not all sets can be tried, each after those before it:
/// by their rank; and, where other queues may not lose all of them, the largest first, by node, for
/// each domain that the workload must be in, and for a pod by itself for each of some nodes.
std::vector<Jobs> OrdersOf(const std::vector<VictimJob>& candidates, const Beneficiary& beneficiary,
                           const Chooser& chooser) {
  constexpr std::size_t kMaxGroups = 64;
  Jobs by_rank;
  for (const VictimJob& job : candidates) by_rank.push_back(&job);
  std::ranges::stable_sort(by_rank, {}, [](const VictimJob* job) {
    const bool minimum = job->runs && !job->surplus;
    return std::tuple(job->runs, !job->warned, minimum, minimum && job->workload->gang,
                      -job->excess);
  });
  std::vector<Jobs> orders{InTurns(by_rank)};
  if (beneficiary.exchange == nullptr) return orders;
  Jobs by_size = by_rank;
  std::ranges::stable_sort(by_size, std::ranges::greater{}, &VictimJob::devices);
  by_size = InTurns(by_size);
  if (by_size != orders[0]) orders.push_back(std::move(by_size));
  for (const Jobs& order : std::vector(orders)) {
    const auto by_node = chooser.ByNode(order);
    Jobs nodes;
    for (const auto& [node, jobs] : by_node) nodes.insert(nodes.end(), jobs.begin(), jobs.end());
    orders.push_back(Joined(std::move(nodes), order));
    for (const policy::NodeGroup& group : chooser.Domains()) {
      const std::set<cluster::NodeIndex> inside(group.nodes.begin(), group.nodes.end());
      Jobs there;
      for (const auto& [node, jobs] : by_node) {
        if (inside.contains(node)) there.insert(there.end(), jobs.begin(), jobs.end());
      }
      if (!there.empty() && orders.size() < kMaxGroups) orders.push_back(WithoutRepeats(there));
    }
    for (std::size_t i = 0; beneficiary.min == 1 && i < by_node.size(); ++i) {
      if (orders.size() < kMaxGroups) orders.push_back(by_node[i].second);
    }
  }
  return orders;
}

std::optional<Reservation> ChooseBySearch(const std::vector<VictimJob>& candidates,
                                          const Beneficiary& beneficiary, Chooser& chooser) {
  const std::vector<Jobs> orders = OrdersOf(candidates, beneficiary, chooser);
  std::optional<Found> best;
  for (const bool straddlers : {false, true}) {
    for (const Jobs& order : orders) {
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
  if (!best) return std::nullopt;
  return std::move(best->start);
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

std::optional<Reservation> ChooseVictims(const View& view, const Beneficiary& beneficiary,
                                         const std::vector<VictimJob>& candidates) {
  if (candidates.empty()) return std::nullopt;
  Chooser chooser(view, beneficiary);
  Jobs all;
  for (const VictimJob& job : candidates) all.push_back(&job);
  // It only has to wait, or it never fits.
  if (chooser.HasRoom({}) || !chooser.HasRoom(all)) return std::nullopt;
  return candidates.size() <= kExactJobs ? ChooseExactly(candidates, chooser)
                                         : ChooseBySearch(candidates, beneficiary, chooser);
}

}  // namespace berth::engine
