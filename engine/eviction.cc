#include "engine/eviction.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/min_run_time.h"
#include "engine/victim_choice.h"
#include "policy/fit.h"
#include "policy/neighbours.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

using Pods = std::vector<const PodInfo*>;

/// Evictions that are under way are looked at again after that time, if not sooner.
constexpr TimePoint kSoon = 1'000;

/// Leaves out the jobs that may not be evicted yet (VictimJob::from). Returns when the first of
/// them may be; 0: there are none.
TimePoint LeaveOutYoung(std::vector<VictimJob>& jobs, TimePoint now) {
  TimePoint first = 0;
  std::erase_if(jobs, [&](const VictimJob& job) {
    if (job.from <= now) return false;
    first = Earlier(first, job.from);
    return true;
  });
  return first;
}

/// Whether it depends on the shape of the pods alone where they have room: neighbours do not
/// matter, and no node has refused them.
bool IsPlain(const View& view, const Workload& workload, const Pods& pods) {
  const policy::Overlay room(view.store);
  return view.refusals.Of(workload, pods).empty() &&
         std::ranges::none_of(
             pods, [&](const PodInfo* pod) { return policy::NeighboursMatter(*pod, room); });
}

/// How the workload is known where it is remembered that nobody can be evicted for it. nullopt:
/// counting does not tell, because its members differ.
std::optional<Preemptor> PreemptorOf(const View& view, const Workload& workload, const Pods& pods,
                                     int min) {
  const auto alike = [&](const PodInfo* pod) { return pod->shape == pods.front()->shape; };
  if (!std::ranges::all_of(pods, alike)) return std::nullopt;
  const bool capped = view.store.queue(workload.queue).config.max_jobs_per_user > 0;
  return Preemptor{.shape = pods.front()->shape,
                   .queue = workload.queue,
                   .priority = workload.priority,
                   .members = workload.gang ? min : 0,
                   .required = workload.topology_required,
                   .user = capped ? workload.user : std::string()};
}

/// Whether, by counting, some node has room for a member without the work that the gang may evict.
/// Counts for one queue only.
bool MakesRoomByCount(const View& view, const std::optional<Preemptor>& preemptor) {
  if (!preemptor) return true;
  view.work += std::ssize(view.store.nodes());
  return std::ranges::any_of(view.store.nodes(), [&](const auto& node) {
    return RoomWithVictims(*preemptor, node->index, view.store);
  });
}

/// What counting, or the memo, tells about the work of lower priority in its own queue. `lower`:
/// there is some.
PreemptorDecision CountLower(const View& view, const Workload& workload, const Pods& pods, int min,
                             bool lower, const Wakeups* memo) {
  PreemptorDecision decision;
  if (!lower) {
    decision.preemptor = {.shape = nullptr, .queue = workload.queue, .priority = workload.priority};
    decision.by_count = true;
    return decision;
  }
  const bool plain = IsPlain(view, workload, pods);
  if (plain || !workload.gang) decision.preemptor = PreemptorOf(view, workload, pods, min);
  decision.known =
      plain && decision.preemptor && memo != nullptr && memo->CannotPreempt(*decision.preemptor);
  if (decision.known) return decision;
  decision.by_count = !MakesRoomByCount(view, decision.preemptor);
  // What is found for one that is not plain is found for it alone.
  if (!plain && !decision.by_count) decision.preemptor.reset();
  decision.unsure = !decision.preemptor;
  return decision;
}

/// The devices that `min` of the pods ask for.
cluster::Demand WantedDevices(const View& view, const Pods& pods, int min) {
  cluster::Demand wanted;
  for (const cluster::ResourceId id : view.store.device_ids()) {
    std::int64_t sum = 0;
    for (const PodInfo* pod : std::span(pods).first(static_cast<std::size_t>(min))) {
      for (const auto& [asked, amount] : pod->shape->demand) sum += asked == id ? amount : 0;
    }
    if (sum > 0) wanted.emplace_back(id, sum);
  }
  return wanted;
}

/// The claims of the workload's queue, by these fair shares.
policy::Exchange ExchangeOf(const View& view, const Workload& workload,
                            const policy::FairShareTable& shares) {
  const Ending& ending = view.ending.Of(view);
  return {shares, ending.use, ending.running, workload.queue};
}

/// The claims that the workload may have on other queues, by recent fair shares; nullopt: it has
/// none. Where it may also evict lower work of its own queue (`lower`), its claim can reach
/// further.
std::optional<policy::Exchange> ExchangeFor(const View& view, const Workload& workload,
                                            const cluster::Demand& wanted, bool lower) {
  if (wanted.empty()) return std::nullopt;
  const auto& recent = view.fair_shares.Recent(view.now);
  const policy::QuotaView use(view.store);
  const policy::Exchange rough(recent, use, use, workload.queue);
  if (!lower && !rough.MayClaim(wanted)) return std::nullopt;
  return ExchangeOf(view, workload, recent);
}

/// Whether the workload has room and quota, once that has ended which ends in any case, and its
/// user too many jobs already: for that alone none of them is evicted.
bool OnlyJobsAreTooMany(const View& view, const Workload& workload, const Pods& pods, int min) {
  if (policy::CheckJobs(QuotaFor(view, workload), workload).reason == ReasonId::kNone) return false;
  View after = view;
  after.ended = &view.ending.Of(view).ended;
  after.any_jobs = true;
  return DecideStart(after, workload, pods, min, nullptr).reserve.has_value();
}

/// Whether its queue has more than it may have already, or its user more jobs. Nobody is evicted so
/// that it has less again.
bool IsOverCap(const policy::QuotaView& quota, const Workload& workload,
               std::span<const PodInfo* const> pods) {
  const cluster::Verdict jobs = policy::CheckJobs(quota, workload);
  return jobs.have > jobs.want || policy::IsOverCap(quota, workload.queue, pods);
}

/// Of the pods that an earlier process was about to evict, the rest of gangs of which a part ends
/// already: they go on ending. Pods that end are no members any more, but were bound by one plan.
std::set<const PodInfo*> RestOf(const Pods& marked) {
  std::set<std::string> plans;
  for (const PodInfo* pod : marked) {
    const auto mark = cluster::EvictionMarkOf(pod->object);
    const auto claim = cluster::ClaimOf(pod->object);
    if (pod->terminating() && mark && !mark->surplus && claim) plans.insert(claim->plan);
  }
  std::set<const PodInfo*> rest;
  for (const PodInfo* pod : marked) {
    const auto claim = cluster::ClaimOf(pod->object);
    const bool gang = pod->workload != nullptr && pod->workload->gang;
    if (gang && claim && plans.contains(claim->plan) && !IsSpared(*pod)) rest.insert(pod);
  }
  return rest;
}

/// Whether other queues may lose what does not end yet of these pods: surplus pod by pod, and other
/// jobs at once.
bool MayLoseAll(const Pods& marked, const std::set<const PodInfo*>& rest, const Workload& workload,
                const policy::Exchange& exchange) {
  std::vector<policy::Loss> losses;
  std::map<const Workload*, Pods, cluster::ByKey> jobs;
  for (const PodInfo* const& pod : marked) {
    if (pod->terminating() || pod->charged_queue == workload.queue) continue;
    if (rest.contains(pod)) continue;
    const auto mark = cluster::EvictionMarkOf(pod->object);
    if (mark && mark->surplus) {
      losses.push_back({.queue = pod->charged_queue, .pods = {&pod, 1}});
    } else {
      jobs[pod->workload].push_back(pod);
    }
  }
  for (const auto& [job, pods] : jobs) {
    losses.push_back({.queue = pods.front()->charged_queue, .pods = pods});
  }
  return exchange.Straddlers(losses).has_value();
}

/// Whether a pod that an earlier process has marked, and that does not end yet, may go all the
/// same. Its time was judged by who marked it: another clock, or an edit since, leaves no eviction
/// half done.
bool MayGoOn(const PodInfo& pod, const std::vector<VictimJob>& jobs) {
  const auto mark = cluster::EvictionMarkOf(pod.object);
  if (!mark || !mark->surplus) return !jobs.empty() && !jobs.back().surplus;
  return std::ranges::any_of(
      jobs, [&](const VictimJob& job) { return job.surplus && job.pods.front() == &pod; });
}

/// Whether it counts on pods that were only told of their eviction for other work: they may still
/// be spared.
bool CountsOnTold(const View& view, const Reservation& reserve) {
  return std::ranges::any_of(reserve.victims, [&](const std::string& uid) {
    const PodInfo* pod = view.store.FindPod(uid);
    return pod != nullptr && !pod->terminating() && StageOf(view, *pod) == Evicting::kWarned;
  });
}

/// Whether one of the plans that give their room up has evictions under way.
bool IsUnderWay(const std::vector<VictimJob>& plans, const Reservation& reserve) {
  return std::ranges::any_of(plans, [&](const VictimJob& job) {
    return job.under_way && std::ranges::find(reserve.yields, job.workload) != reserve.yields.end();
  });
}

/// When the first pod that ends in any case is waited for no more; 0: none ends.
TimePoint FirstStuckAt(const View& view) {
  TimePoint first = 0;
  for (const PodInfo* pod : view.ending.Of(view).pods) {
    if (pod->terminating()) first = Earlier(first, StuckAt(view.store, *pod) + 1);
  }
  return first;
}

/// Sets decision.reserve, if there is anybody to be evicted, and decision.again.
void DecideVictims(const View& view, const Beneficiary& beneficiary, Sources sources,
                   PreemptorDecision& decision) {
  const auto find = [&](const SurplusFirst& first) {
    view.work += std::ssize(view.store.nodes()) + std::ssize(view.store.pods()) / 4;
    return FindVictimJobs(view, beneficiary.workload, sources, beneficiary.exchange,
                          beneficiary.wants, first);
  };
  std::vector<VictimJob> jobs = find({});
  decision.again = Earlier(decision.again, LeaveOutYoung(jobs, view.now));
  // A workload that takes over room for which another plan has evicted pods evicts no others: that
  // room would lie idle until these have ended.
  if (std::ranges::any_of(jobs, &VictimJob::inherits)) {
    std::vector<VictimJob> plans;
    std::ranges::copy_if(jobs, std::back_inserter(plans), std::logical_not{}, &VictimJob::runs);
    decision.reserve = ChooseVictims(view, beneficiary, plans);
    if (decision.reserve && IsUnderWay(plans, *decision.reserve)) {
      // In a moment it inherits that room. It is judged then (Engine::LookForHeirs), or after that.
      decision = {.again = view.now + kSoon, .unsure = true, .claims = decision.claims};
      return;
    }
    if (decision.reserve && !CountsOnTold(view, *decision.reserve)) return;
    decision.reserve.reset();
    std::erase_if(jobs, [](const VictimJob& job) { return job.inherits; });
  }
  // It matters which of its members a gang loses as its surplus.
  std::vector<std::function<std::vector<VictimJob>()>> others;
  for (SurplusFirst& first : OtherSurplus(view, jobs)) {
    others.emplace_back([&find, &view, first = std::move(first)] {
      std::vector<VictimJob> other = find(first);
      LeaveOutYoung(other, view.now);
      std::erase_if(other, [](const VictimJob& job) { return job.inherits; });
      return other;
    });
  }
  decision.reserve = ChooseVictims(view, beneficiary, jobs, others);
}

}  // namespace

bool EvictionHelpsGang(ReasonId reason) {
  return EvictionHelps(reason) || reason == ReasonId::kTopologyUnsatisfied ||
         reason == ReasonId::kSearchExhausted;
}

PreemptorDecision DecideStartByEviction(const View& view, const Workload& workload, Pods pods,
                                        int min, ReasonId reason, const Wakeups* memo) {
  OrderForStart(view, workload, pods);
  const Sources sources = SourcesOf(view, workload);
  if (!EvictionHelpsGang(reason) || (!sources.others && !sources.lower)) return {};
  if (OnlyJobsAreTooMany(view, workload, pods, min)) {
    return {.again = FirstStuckAt(view), .claims = sources.others};
  }
  const std::span minimum = std::span(pods).first(static_cast<std::size_t>(min));
  const policy::QuotaView quota = QuotaFor(view, workload);
  std::vector<cluster::ResourceId> overlent = policy::LentTooMuch(quota, workload.queue, minimum);
  // Lower work of a queue that borrows may not end so that it borrows less.
  const bool borrows = !overlent.empty() &&
                       (!sources.lower || !policy::IsPromised(quota, workload.queue, {}, overlent));
  if (borrows || IsOverCap(quota, workload, minimum)) {
    return {.unsure = true, .claims = sources.others};
  }
  const bool lower = sources.lower && view.store.HoldsBelow(workload.queue, workload.priority);
  PreemptorDecision decision;
  std::optional<policy::Exchange> exchange;
  const cluster::Demand wanted = WantedDevices(view, pods, min);
  if (sources.others) exchange = ExchangeFor(view, workload, wanted, lower);
  if (sources.lower) decision = CountLower(view, workload, pods, min, lower, memo);
  decision.claims = sources.others;
  // A gang that has claims, too, may find victims by both together where counting finds none.
  decision.unsure |= workload.gang && sources.others && lower;
  decision.unsure |= !overlent.empty();
  if (!exchange && (!lower || decision.known || decision.by_count)) return decision;
  Beneficiary beneficiary{.workload = workload,
                          .pods = std::move(pods),
                          .min = min,
                          .wants = wanted,
                          .ending = view.ending.Of(view),
                          .exchange = exchange ? &*exchange : nullptr,
                          .overlent = std::move(overlent)};
  decision.again = Earlier(decision.again, FirstStuckAt(view));
  decision.waits = OnlyHasToWait(view, beneficiary);
  if (decision.waits) return decision;
  const Sources from{.lower = lower, .others = sources.others};
  const bool of_now = view.fair_shares.IsOfNow();
  const std::uint64_t shares = view.fair_shares.renewals();
  DecideVictims(view, beneficiary, from, decision);
  if (decision.reserve && exchange && !of_now) {
    const policy::FairShareTable& now = view.fair_shares.Now(view.now);
    // Neither this nor the search has changed the shares that the decision was made by.
    if (view.fair_shares.renewals() == shares) return decision;
    exchange = ExchangeOf(view, workload, now);
    DecideVictims(view, beneficiary, from, decision);
  }
  return decision;
}

std::optional<Reservation> DecideResumedStart(const View& view, const Workload& workload, Pods pods,
                                              int min, Pods marked) {
  const Sources sources = SourcesOf(view, workload);
  std::optional<policy::Exchange> exchange;
  if (sources.others) exchange = ExchangeOf(view, workload, view.fair_shares.Now(view.now));
  std::optional<policy::Losable> losable;
  if (exchange) losable.emplace(*exchange);
  std::erase_if(marked, [&](const PodInfo* pod) { return IsStuck(view, *pod); });
  // A mark is only a claim: who does not end yet must be one that may be evicted.
  const std::set<const PodInfo*> rest = RestOf(marked);
  const auto goes_on = [&](const PodInfo* pod) { return pod->terminating() || rest.contains(pod); };
  std::erase_if(marked, [&](const PodInfo* pod) {
    if (goes_on(pod)) return false;
    return pod->workload == nullptr ||
           !MayGoOn(*pod, TakeableOf(view, *pod->workload, workload, sources,
                                     losable ? &*losable : nullptr));
  });
  if (exchange && !MayLoseAll(marked, rest, workload, *exchange)) {
    std::erase_if(marked, [&](const PodInfo* pod) { return !goes_on(pod); });
  }
  if (std::ranges::none_of(marked, &PodInfo::terminating)) return std::nullopt;
  // As in any other decision, what ends for others makes room, too.
  Pods ending = view.ending.Of(view).pods;
  std::erase_if(ending,
                [&](const PodInfo* pod) { return std::ranges::find(marked, pod) != marked.end(); });
  Ended ended(view.store, marked);
  for (const PodInfo* pod : ending) ended.Add(*pod);
  View after = view;
  after.ended = &ended;
  StartDecision start = DecideStart(after, workload, std::move(pods), min, nullptr);
  if (!start.reserve) return std::nullopt;
  for (const PodInfo* pod : AwaitedOf(view, workload, start.reserve->placed, ending, marked)) {
    start.reserve->victims.push_back(pod->object.meta.uid);
  }
  for (const PodInfo* pod : marked) {
    start.reserve->victims.push_back(pod->object.meta.uid);
    start.reserve->evicts.push_back(pod);
    const auto mark = cluster::EvictionMarkOf(pod->object);
    if (mark && mark->surplus) start.reserve->surplus.push_back(pod);
  }
  return std::move(start.reserve);
}

}  // namespace berth::engine
