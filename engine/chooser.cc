#include "engine/chooser.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "engine/surplus_start.h"
#include "engine/victim_choice.h"
#include "engine/victims.h"
#include "policy/neighbours.h"

namespace berth::engine {

using cluster::Charge;
using cluster::PodInfo;
using cluster::Workload;

namespace {

using Pods = std::vector<const PodInfo*>;
using PodSet = policy::QueueDemands::PodSet;

/// A set that was found is not lost because the searches are used up.
constexpr int kAnySearches = std::numeric_limits<int>::max();

/// What the workloads lose. A gang that goes whole loses all its jobs at once.
struct Losses {
  std::deque<Pods> gangs{};  ///< What some of `list` refer to.
  std::vector<policy::Loss> list{};
};

Losses LossesOf(std::span<const VictimJob* const> jobs) {
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
    losses.list.push_back(
        {.queue = job->queue, .pods = *whole.at(job->workload), .minimum = job->running});
  }
  return losses;
}

bool IsClaim(policy::Claim claim, int straddlers) {
  return straddlers > 0 ? claim == policy::Claim::kQuota : claim != policy::Claim::kNone;
}

bool MayClaim(const policy::Exchange& exchange, int straddlers, const Reservation& reserve,
              const Losses& losses, const policy::QuotaView& use) {
  return IsClaim(exchange.ClaimOf(reserve.placed, losses.list, use), straddlers);
}

/// Members that have a place, are not bound, and give it up if these jobs go: it evicts nobody,
/// and so is done before the evictions.
PodSet PlannedOf(std::span<const VictimJob* const> jobs) {
  PodSet planned;
  for (const VictimJob* job : jobs) {
    for (const PodInfo* pod : job->surplus ? job->pods : job->workload->members) {
      if (pod->charge == Charge::kPlanned) planned.insert(pod);
    }
  }
  return planned;
}

Pods PodsOf(std::span<const VictimJob* const> jobs) {
  Pods pods;
  for (const VictimJob* job : jobs) pods.insert(pods.end(), job->pods.begin(), job->pods.end());
  return pods;
}

Pods Running(std::span<const VictimJob* const> jobs) {
  Pods pods;
  for (const VictimJob* job : jobs) {
    for (const PodInfo* pod : job->pods) {
      if (job->runs && pod->charge != Charge::kPlanned) pods.push_back(pod);
    }
  }
  return pods;
}

/// Who gives up what is planned, and which of the victims are surplus.
void SortOut(Reservation& reserve, std::span<const VictimJob* const> jobs) {
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

/// Whether a plan that has not started ends with the job, and spares pods: its own, or one for
/// members that a gang lacks.
bool EndsPlan(const View& view, const VictimJob& job) {
  const std::optional<Plan>& plan = view.states.At(*job.workload).plan;
  return !job.surplus && plan && !plan->started && !job.under_way;
}

/// See policy::Exchange::Straddlers.
std::optional<int> StraddlersOf(const Beneficiary& beneficiary, const Losses& losses) {
  return beneficiary.exchange == nullptr ? 0 : beneficiary.exchange->Straddlers(losses.list);
}

}  // namespace

Chooser::Chooser(const View& view, const Beneficiary& beneficiary)
    : view_(view), for_(beneficiary), minimum_(for_.pods.begin(), for_.pods.begin() + for_.min) {
  Pods asking;
  std::ranges::copy_if(for_.pods, std::back_inserter(asking),
                       [](const PodInfo* pod) { return pod->shape->asks_device; });
  const Pods& counted = asking.empty() ? for_.pods : asking;
  least_ = for_.min - static_cast<int>(for_.pods.size() - counted.size());
  const bool alike = std::ranges::all_of(
      counted, [&](const PodInfo* pod) { return pod->shape == counted.front()->shape; });
  if (alike && least_ > 0) counted_ = &counted.front()->shape;
}

std::optional<Reservation> Chooser::Start(std::span<const VictimJob* const> jobs) {
  Pods evicted = Running(jobs);
  if (EvictionApiRefuses(evicted, view_.store)) return std::nullopt;
  std::optional<Reservation> reserve = Find(jobs, minimum_, kAnySearches);
  if (!reserve || ExchangesAmongEquals(jobs, *reserve)) return std::nullopt;
  reserve = WithMoreMembers(jobs, *std::move(reserve));
  reserve->evicts = std::move(evicted);
  SortOut(*reserve, jobs);
  NameVictims(*reserve, jobs);
  return reserve;
}

/// Where other queues lose, members within quota come, in the room that is left, before work beyond
/// quota.
Reservation Chooser::WithMoreMembers(std::span<const VictimJob* const> jobs, Reservation reserve) {
  if (minimum_.size() == for_.pods.size()) return reserve;
  const bool of_others = std::ranges::any_of(
      jobs, [&](const VictimJob* job) { return job->queue != for_.workload.queue; });
  const Ended ended = EndedWith(jobs);
  View after = view_;
  after.ended = &ended;
  if (!of_others) {
    return LeaveRoomToOthers(after, for_.workload, for_.pods, for_.min, std::move(reserve));
  }
  Pods within = MembersWithinQuota(after, for_.workload, for_.pods, for_.min);
  while (within.size() > minimum_.size()) {
    if (auto larger = Find(jobs, within, kAnySearches)) return *std::move(larger);
    within.resize((within.size() + minimum_.size()) / 2);
  }
  return reserve;
}

std::optional<Reservation> Chooser::Find(std::span<const VictimJob* const> jobs,
                                         const Pods& members, int most) {
  const Losses losses = LossesOf(jobs);
  const bool of_others = std::ranges::any_of(
      losses.list, [&](const policy::Loss& loss) { return loss.queue != for_.workload.queue; });
  const std::optional<int> straddlers = engine::StraddlersOf(for_, losses);
  if (!straddlers) return std::nullopt;
  std::optional<policy::QuotaView> use;
  if (of_others) {
    use = for_.exchange->UseWithout(losses.list);
    // It is cheaper to see that there is no claim than that there is no room.
    const policy::Claim best = for_.exchange->BestClaimOf(for_.wants, losses.list, *use);
    if (!IsClaim(best, *straddlers)) return std::nullopt;
  }
  const bool only_minimum = of_others || !for_.overlent.empty();
  std::optional<Reservation> reserve = SearchRoom(jobs, only_minimum ? members : for_.pods, most);
  if (!reserve || !of_others) return reserve;
  if (!MayClaim(*for_.exchange, *straddlers, *reserve, losses, *use)) return std::nullopt;
  if (const policy::FairShareTable* shares = SharesWithout(PlannedOf(jobs))) {
    const policy::Exchange after = for_.exchange->With(*shares);
    const std::optional<int> left = after.Straddlers(losses.list);
    if (!left || !MayClaim(after, *left, *reserve, losses, *use)) return std::nullopt;
  }
  if (*straddlers > 0) reserve->undercut = for_.exchange->UndercutBy(losses.list);
  return reserve;
}

/// Whether its own lower work would end only so that its queue ranks higher than one that loses:
/// for the room that job is not needed, and the queue is entitled to it, so that it would come
/// back, and equals would have exchanged room.
bool Chooser::ExchangesAmongEquals(std::span<const VictimJob* const> jobs,
                                   const Reservation& start) {
  const auto is_own = [&](const VictimJob* job) { return job->queue == for_.workload.queue; };
  if (std::ranges::all_of(jobs, is_own) || std::ranges::none_of(jobs, is_own)) return false;
  const Losses all = LossesOf(jobs);
  const auto claim =
      for_.exchange->ClaimOf(start.placed, all.list, for_.exchange->UseWithout(all.list));
  if (claim == policy::Claim::kQuota) return false;  // which is for no rank
  const std::set<const VictimJob*> needed = Needed({jobs.begin(), jobs.end()});
  return std::ranges::any_of(jobs, [&](const VictimJob* own) {
    if (!is_own(own) || !own->runs || needed.contains(own)) return false;
    Jobs others;
    std::ranges::copy_if(jobs, std::back_inserter(others),
                         [&](const VictimJob* job) { return job != own && !IsBefore(*own, *job); });
    const auto room = SearchRoom(others, minimum_, kAnySearches);
    if (!room) return false;
    const Losses losses = LossesOf(others);
    return for_.exchange->IsEntitled(room->placed, losses.list,
                                     for_.exchange->UseWithout(losses.list));
  });
}

bool Chooser::HasRoom(std::span<const VictimJob* const> jobs) {
  return SearchRoom(jobs, for_.pods, kMaxSearches).has_value();
}

bool Chooser::NeedsCompany() const {
  return std::ranges::any_of(for_.pods,
                             [](const PodInfo* pod) { return policy::MayAllowLater(*pod->shape); });
}

bool Chooser::IsUsedUp() const { return searches_ >= kMaxSearches; }

bool Chooser::IsSpent() const { return searches_ >= kMaxSearches + kMaxSearchesOfParts; }

std::optional<int> Chooser::StraddlersOf(std::span<const VictimJob* const> jobs) const {
  return engine::StraddlersOf(for_, LossesOf(jobs));
}

Jobs Chooser::Admit(const Jobs& order, bool straddlers) const {
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
    const policy::Loss loss{.queue = last->queue, .pods = rest, .minimum = last->running};
    if (!floors.Take(loss, /*may_straddle=*/true)) continue;
    std::ranges::copy_if(left, std::back_inserter(admitted), of_gang);
    std::erase_if(left, of_gang);
  }
  return admitted;
}

std::vector<Chooser::Part> Chooser::Parts(const Jobs& order, bool straddlers) {
  using Indices = std::vector<std::size_t>;  // into the order
  std::map<cluster::NodeIndex, Indices> there;
  std::map<const Workload*, Indices> surplus;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i]->surplus) surplus[order[i]->workload].push_back(i);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const PodInfo* pod : order[i]->pods) {
      Indices& here = there[pod->node];
      here.push_back(i);
      if (order[i]->before == 0) continue;
      const Indices& first = surplus[order[i]->workload];
      here.insert(here.end(), first.begin(), first.end());
    }
  }
  // Of equal jobs of one queue it does not matter which ones are left for the floor.
  const bool limited =
      for_.exchange != nullptr && !std::ranges::all_of(order, [&](const auto* job) {
        return job->queue == order.front()->queue && job->devices == order.front()->devices;
      });
  std::optional<policy::Floors> floors;
  if (limited) floors.emplace(*for_.exchange);
  view_.scorer.Refresh();
  std::vector<Part> parts;
  for (auto& [node, here] : there) {
    std::ranges::sort(here);
    const auto repeats = std::ranges::unique(here);
    here.erase(repeats.begin(), repeats.end());
    Given given{.node = node, .straddlers = straddlers, .limited = limited, .jobs = {}};
    for (const std::size_t i : here) given.jobs.push_back(order[i]);
    auto known = parts_.lower_bound(given);
    if (known == parts_.end() || known->first != given) {
      auto found = PartsOf(given, floors);
      known = parts_.emplace_hint(known, std::move(given), std::move(found));
    }
    parts.insert(parts.end(), known->second.begin(), known->second.end());
  }
  std::ranges::stable_sort(parts, {}, &Part::cost);
  return parts;
}

std::vector<Chooser::Part> Chooser::PartsOf(const Given& given,
                                            std::optional<policy::Floors> floors) const {
  const cluster::NodeIndex node = given.node;
  policy::Overlay room(view_.store);
  if (const auto ending = for_.ending.by_node.find(node); ending != for_.ending.by_node.end()) {
    for (const PodInfo* pod : ending->second) room.Remove(*pod);
  }
  // Members without devices, and small ones, find room sooner.
  const policy::Scorer::View places = view_.scorer.For(LargestShape(minimum_), room);
  int members = places.Room(node);
  std::int64_t cost = 0;
  std::int64_t devices = 0;
  std::vector<Part> parts;
  Jobs part;
  Jobs left;
  for (const VictimJob* job : given.jobs) {
    if (members >= for_.min) break;
    const policy::Loss loss{.queue = job->queue, .pods = job->running};
    if (floors && (Waits(*job, left) || !floors->Take(loss, given.straddlers))) {
      left.push_back(job);
      continue;
    }
    part.push_back(job);
    devices += job->runs ? job->devices : 0;
    for (const PodInfo* pod : job->pods) {
      if (pod->node == node) room.Remove(*pod);
    }
    const int now = places.Room(node);
    if (now <= members) continue;
    members = now;
    cost = std::max(cost, std::exchange(devices, 0));
    parts.push_back({.node = node, .jobs = std::exchange(part, {}), .cost = cost});
  }
  return parts;
}

policy::NodeGroups Chooser::Domains() const {
  return for_.workload.topology_required.empty()
             ? policy::NodeGroups()
             : policy::GroupBy(view_.store, for_.workload.topology_required);
}

std::set<const VictimJob*> Chooser::Needed(const Jobs& jobs) {
  std::set<const VictimJob*> needed;
  if (counted_ == nullptr) return needed;
  const Places::Freed freed = Counted().With(jobs);
  for (const VictimJob* job : jobs) {
    if (Counted().Without(*job, freed) < least_) needed.insert(job);
  }
  return needed;
}

bool Chooser::NeedsAll(const Jobs& jobs) {
  if (jobs.size() == 1) return true;
  if (counted_ == nullptr) return false;
  const Places::Freed freed = Counted().With(jobs);
  return std::ranges::all_of(
      jobs, [&](const VictimJob* job) { return Counted().Without(*job, freed) < least_; });
}

Jobs Chooser::BreakingBudgets(std::span<const VictimJob* const> jobs) const {
  if (!EvictionApiRefuses(Running(jobs), view_.store)) return {};
  Jobs within;
  Jobs breaking;
  for (const VictimJob* job : jobs) {
    if (Waits(*job, breaking)) {
      breaking.push_back(job);
      continue;
    }
    within.push_back(job);
    if (!EvictionApiRefuses(Running(within), view_.store)) continue;
    within.pop_back();
    breaking.push_back(job);
  }
  return breaking;
}

/// The fair shares once these have given their places up: less demand of one queue is more room
/// for others. Null: nobody does.
const policy::FairShareTable* Chooser::SharesWithout(const PodSet& planned) {
  if (planned.empty()) return nullptr;
  const auto [it, is_new] = shares_without_.try_emplace(planned);
  if (is_new) {
    it->second = view_.fair_shares.Without(view_.now, planned);
  }
  return &it->second;
}

/// Of the pods that end in any case, those that do so if these jobs give way: a plan that ends
/// spares the pods that it was about to evict.
Pods Chooser::EndingWith(std::span<const VictimJob* const> jobs) const {
  std::set<std::string_view> yield;
  for (const VictimJob* job : jobs) {
    if (EndsPlan(view_, *job)) yield.insert(job->workload->key);
  }
  Pods ending = for_.ending.pods;
  std::erase_if(ending, [&](const PodInfo* pod) {
    return !pod->terminating() && yield.contains(view_.states.At(*pod).victim_of);
  });
  return ending;
}

/// All that has ended then.
Ended Chooser::EndedWith(std::span<const VictimJob* const> jobs) const {
  const bool yields =
      std::ranges::any_of(jobs, [&](const VictimJob* job) { return EndsPlan(view_, *job); });
  Ended ended = yields ? Ended(view_.store, EndingWith(jobs)) : for_.ending.ended;
  for (const VictimJob* job : jobs) {
    for (const PodInfo* pod : job->pods) ended.Add(*pod);
  }
  return ended;
}

/// The room is held until all of these have ended.
void Chooser::NameVictims(Reservation& reserve, std::span<const VictimJob* const> jobs) const {
  for (const PodInfo* pod : reserve.evicts) reserve.victims.push_back(pod->object.meta.uid);
  for (const PodInfo* pod :
       AwaitedOf(view_, for_.workload, reserve.placed, EndingWith(jobs), PodsOf(jobs))) {
    reserve.victims.push_back(pod->object.meta.uid);
  }
}

/// False: counting is enough to say that there is no room. Where plans yield, fewer pods end than
/// are counted.
bool Chooser::HasPlaces(std::span<const VictimJob* const> jobs) {
  if (counted_ == nullptr || jobs.empty()) return true;
  return Counted().With(jobs).places >= least_;
}

const Places& Chooser::Counted() {
  if (!places_) places_.emplace(view_, *counted_, for_.ending, least_);
  return *places_;
}

std::optional<Reservation> Chooser::SearchRoom(std::span<const VictimJob* const> jobs,
                                               const Pods& pods, int most) {
  if (searches_ >= most) return std::nullopt;
  if (!HasPlaces(jobs)) return std::nullopt;
  std::optional<Ended> more;
  if (!jobs.empty()) more = EndedWith(jobs);
  View view = view_;
  view.ended = more ? &*more : &for_.ending.ended;
  if (!jobs.empty() && !for_.overlent.empty() &&
      !policy::IsPromised(QuotaFor(view, for_.workload), for_.workload.queue, minimum_,
                          for_.overlent)) {
    return std::nullopt;
  }
  ++searches_;
  return DecideStart(view, for_.workload, pods, for_.min, nullptr).reserve;
}

}  // namespace berth::engine
