// Engine, part: a pass over the workloads that are to be judged. With thousands of workloads the
// work is divided: each pass spends a budget, and the next pass continues where it ended.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "cluster/users.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "policy/claims.h"
#include "policy/neighbours.h"

namespace berth::engine {

using cluster::Charge;
using cluster::PodInfo;
using cluster::Workload;

namespace {

/// The most that it costs to put a workload in line, or to judge one whose answer is known, counted
/// in nodes looked at.
constexpr std::int64_t kKnownAnswer = 50;

/// The age that orders the workload: what was evicted keeps its own. For members that a running
/// gang wants beyond its minimum, it is the age of those pods.
kube::Millis WaitingSince(const Workload& workload, const Evicted& before) {
  if (!workload.started) {
    return before.times > 0 ? std::min(workload.creation, before.since) : workload.creation;
  }
  const auto waits = [](const PodInfo* pod) {
    return !pod->bound() && pod->charge == Charge::kNone && !pod->terminating();
  };
  // Members are sorted by age.
  const auto oldest = std::ranges::find_if(workload.members, waits);
  return oldest == workload.members.end() ? workload.creation : (*oldest)->object.meta.creation;
}

/// The devices that the workload needs to start, or a running gang for the next of its members.
cluster::Demand WantedDevices(const Workload& workload, const cluster::Store& store) {
  cluster::Amounts sum;
  int needed = workload.started ? std::max(1, workload.Missing()) : workload.min_member;
  for (const PodInfo* pod : workload.members) {
    if (needed <= 0) break;
    if (pod->bound() || pod->charge != Charge::kNone || pod->terminating()) continue;
    for (const auto& [id, amount] : pod->shape->demand) sum.Add(id, amount);
    --needed;
  }
  cluster::Demand wants;
  for (const cluster::ResourceId id : store.device_ids()) {
    if (sum[id] > 0) wants.emplace_back(id, sum[id]);
  }
  return wants;
}

}  // namespace

Turn TurnOf(const Workload& workload, const cluster::Store& store, const WorkloadState& state) {
  Turn turn{.broken = workload.started && workload.Missing() > 0,
            .queue = workload.queue,
            .priority = workload.priority,
            .service = PredictedService(workload, store),
            .since = WaitingSince(workload, state.before)};
  if (workload.queue != cluster::kNoQueue) {
    turn.sharer = cluster::SharerOf(store.queue(workload.queue).config.fair_within, workload.user,
                                    workload.ns);
  }
  if (store.policy().borrowing || !turn.sharer.empty()) {
    turn.wants = WantedDevices(workload, store);
  }
  return turn;
}

std::int64_t PredictedService(const Workload& workload, const cluster::Store& store) {
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  if (workload.queue == cluster::kNoQueue ||
      store.queue(workload.queue).config.order != config::Order::kPredictedService) {
    return 0;
  }
  if (workload.expected_duration <= 0) return kUnknown;
  __int128 devices = 0;
  for (const auto& [id, amount] : WantedDevices(workload, store)) devices += amount;
  const __int128 service = devices * workload.expected_duration;
  return service < kUnknown ? static_cast<std::int64_t>(service) : kUnknown - 1;
}

void Engine::OnMemberLeft(const Workload& workload, const PodInfo& pod) {
  if (IsEvictedWhole(workload, pod)) {
    const TimePoint most = pod.object.controller ? kMadeAgainIn : kMadeAgainByHandIn;
    fair_shares_.KeepAway(workload, EvictedJobs::KeyOf(pod, workload), passed_at_ + most);
  }
  states_.RemoveMember(workload, pod);
}

/// Whether the pod, which leaves the workload, was evicted by Berth or by kube-scheduler, and all
/// others with it. In a queue that is held they would be no demand, and who has succeeded does not
/// come again.
bool Engine::IsEvictedWhole(const Workload& workload, const PodInfo& pod) const {
  if (states_.At(pod).succeeded) return false;
  const std::string& victim_of = states_.At(pod).victim_of;
  const bool evicted = workload.gang ? !victim_of.empty() && states_.At(workload).evicted
                                     : !victim_of.empty() || IsVictimOfScheduler(pod);
  if (!evicted) return false;
  const Workload* of = store_.FindWorkload(victim_of);
  const bool unsent =
      of != nullptr && states_.At(*of).plan && IsUnsent(states_.At(*of).plan->evictions.stage);
  return !unsent && workload.queue != cluster::kNoQueue &&
         store_.queue(workload.queue).held_by == cluster::kNoQueue;
}

bool Engine::IsVictimOfScheduler(const PodInfo& pod) const {
  return std::ranges::any_of(awaiting_, [&](const Workload* workload) {
    const Plan& plan = *states_.At(*workload).plan;
    return plan.by_scheduler() && std::ranges::count(plan.victims, pod.object.meta.uid) > 0;
  });
}

void Engine::OnNewIncarnation(const Workload& workload) {
  ForgetBegun(workload.key);
  states_.BeginIncarnation(workload);
  // Members that came a while ago, in whole seconds, are not waited for again.
  constexpr TimePoint kWhile = 2'000;
  const auto has_waited = [&](const PodInfo* pod) {
    return !pod->bound() && !pod->terminating() && pod->object.meta.creation + kWhile <= passed_at_;
  };
  states_[workload].gathered =
      static_cast<int>(std::ranges::count_if(workload.members, has_waited));
  if (workload.members.empty()) refusals_.ForgetWorkload(workload);
}

void Engine::OnWorkloadGone(const Workload& workload) {
  TakeMarked(workload);  // no other workload gets their room
  NoteInVain(workload, plan_ends::kWorkGone);
  if (states_.At(workload).plan) EndEvictions(workload);
  awaiting_.erase(&workload);
  active_.Rest(workload);
  claimants_.erase(&workload);
  planned_.erase(&workload);
  fair_shares_.Forget(workload);
  shown_.Forget(workload);
  refusals_.ForgetWorkload(workload);
  states_.Forget(workload);
}

void Engine::OnPodGone(const PodInfo& pod) { states_.Forget(pod); }

/// `caller`: the pod whose filter call runs the pass; null: no call does.
void Engine::PlanPass(const PodInfo* caller, TimePoint now) {
  passed_at_ = now;
  store_.SetTime(now);
  spent_ = 0;
  store_.Refresh();
  if (store_.reading()) return ReadMore(now);
  if (ReadsDemand()) {
    fair_shares_.ReadSome(MostInLine());
    if (ReadsDemand()) return;
  }
  if (!RefreshScores()) return;
  drains_.GoOn(now);
  if (fair_shares_.EndAway(now)) claims_seen_ = {};
  if (!WakeClaimants(now)) return;
  RenewPastUse(now);
  if (!Activate(now)) return;
  do {
    OrderLine();
    wakeups_.Recheck();
    const Workload* workload = active_.Pop();
    if (workload == nullptr) break;
    JudgeNext(*workload, caller, now);
  } while (spent_ < options_.pass_budget);
  if (!claimants_.empty() && !ClaimsAreSeen()) {
    claims_due_ = std::max(now, fair_shares_.fresh_until());
  }
  if (active_.empty()) ShowToAutoscalers(now);
}

/// After an edit of the policy all nodes are scored anew, which takes as long as some judgments.
/// False: it has spent the budget of the pass, and the next one goes on.
bool Engine::RefreshScores() {
  constexpr std::int64_t kForEach = 2;  // counted in nodes looked at
  const std::uint64_t policy = store_.policy_generation();
  if (std::exchange(scored_under_, policy) == policy) return true;
  scorer_.Refresh();
  spent_ += kForEach * std::ssize(store_.nodes());
  more_changed_ |= spent_ >= options_.pass_budget;
  return spent_ < options_.pass_budget;
}

/// Judges a workload that was in line.
void Engine::JudgeNext(const Workload& workload, const PodInfo* caller, TimePoint now) {
  spent_ += kKnownAnswer;
  claimants_.erase(&workload);
  if (NeedsPlan(workload)) Judge(workload, caller, now);
  shown_.Update(workload, now);
}

/// Ungates what an autoscaler is to see. Only when all workloads in line were judged, so that the
/// first in line is shown first.
void Engine::ShowToAutoscalers(TimePoint now) {
  const std::uint64_t generation = store_.generation();
  if (std::exchange(shown_generation_, generation) != generation) shown_.LookAgain(now);
  for (const PodInfo* pod : shown_.TakeNext(now)) {
    Ungate(*pod);
    states_[*pod].asked = true;  // from now on it is treated like a pod that never had the gate
    store_.MarkChanged(*pod->workload);
  }
}

/// What queues are entitled to, and what they have in use, may have changed: work of queues that do
/// not have what they are entitled to is judged again. False: some of it is left for the next pass.
bool Engine::WakeClaimants(TimePoint now) {
  constexpr std::size_t kLooks = 8;  // to look at one costs less than to put it in line
  claims_due_.reset();
  if (!woken_upto_) {
    if (claimants_.empty() || ClaimsAreSeen() || now < fair_shares_.fresh_until()) return true;
    fair_shares_.Now(now);
    woken_upto_.emplace();
    claims_seen_ = {store_.generation(), store_.policy_generation()};
  }
  const policy::FairShareTable& shares = fair_shares_.Recent(now);
  const policy::QuotaView use(store_);
  const bool any_may_lose = policy::AnyMayLose(store_, shares);
  std::map<cluster::QueueId, bool> may_claim{{cluster::kNoQueue, any_may_lose}};
  std::size_t left = MostInLine();  // of those to be judged
  std::size_t to_look_at = kLooks * left;
  auto next = claimants_.upper_bound(*woken_upto_);
  for (; next != claimants_.end() && left > 0 && to_look_at > 0; ++next, --to_look_at) {
    const Workload* workload = *next;
    const auto [known, fresh] = may_claim.try_emplace(workload->queue, false);
    if (fresh && any_may_lose) {
      known->second = policy::Exchange(shares, use, use, workload->queue).Lacks();
    }
    // With lower work of its own queue among the victims, its claim reaches further.
    const bool may = known->second || store_.HoldsBelow(workload->queue, workload->priority);
    if (!may || active_.InLine(*workload)) continue;
    store_.JudgeAgain(*workload);
    --left;
  }
  if (next == claimants_.end()) {
    woken_upto_.reset();
  } else {
    woken_upto_ = (*std::prev(next))->key;
  }
  return !woken_upto_;
}

/// What a budget forbade before may be permitted now: all that may evict others are judged again.
void Engine::BudgetsPermitMore() {
  store_.BumpFreeGeneration();
  claims_seen_ = {};
}

/// fairness.halfLife: what queues held on average changes with time alone, and orders the line.
void Engine::RenewPastUse(TimePoint now) {
  constexpr TimePoint kEvery = 1'000;
  if (store_.policy().fairness.half_life.count() == 0 || !store_.policy().borrowing) return;
  const std::uint64_t before = fair_shares_.renewals();
  const policy::FairShareTable& shares = fair_shares_.Recent(now);
  if (now < past_use_due_ && fair_shares_.renewals() == before) return;
  past_use_due_ = now + kEvery;
  active_.SetPastUse(policy::PastUseOf(store_, shares, now));
  active_.ReorderAll();
}

/// The ranks of queues, and what users have of them, change with every job that is placed.
void Engine::OrderLine() {
  const cluster::Store::ShareNews shares = store_.TakeShareNews();
  if (shares.all) active_.ReorderAll();
  for (const auto& [queue, sharer] : shares.changed) active_.Reorder(queue, sharer);
  for (const cluster::QueueId queue : store_.TakeUseNews()) active_.Reorder(queue);
}

/// After an edit of the policy, reads a part of the pods under it. Until all are read, what queues
/// have in use is not complete, so nothing is decided. What is known about room and waiting
/// workloads is forgotten first: it is about what pods asked for before.
void Engine::ReadMore(TimePoint now) {
  if (!wakeups_.ClearSome(MostInLine())) return;
  for (const std::string& gang : store_.ReadMore(std::max<std::size_t>(1, MostInLine() / 2))) {
    BeginIncarnationIfNoneRuns(gang, now);
  }
  if (store_.reading()) return;
  RecheckEvicting(now);
  wakeups_.Wake();  // all workloads come in line: earlier news adds nothing
  store_.TakeNeighbourNews();
  StartSweep(SweepOf::kAll);
}

/// How many workloads one pass puts in line, or pods it reads again.
std::size_t Engine::MostInLine() const {
  return static_cast<std::size_t>(std::max<std::int64_t>(1, options_.pass_budget / kKnownAnswer));
}

/// Puts workloads in line that found no room before and may find some now. Only this function and
/// Wakeups decide that:
/// - a workload that itself changed;
/// - a workload that is awake, when room was given back or what fits where has changed
///   (Store::free_generation), and a workload that rests on that very room;
/// - a workload whose affinity or spread counts a pod that came, or that begins to end.
/// False: some are left for the next pass. No workload is judged before all of them are in line,
/// because the order is not known earlier.
bool Engine::Activate(TimePoint now) {
  if (store_.free_generation() != swept_free_generation_) LookForRoom();
  FindRoomForWarned(now);
  // If the line was empty, the called and the awake workloads come in line together, before any is
  // judged.
  const bool line_was_empty = active_.empty();
  wakeups_.Wake();
  active_.CallOpened();
  const std::uint64_t free_generation = store_.free_generation();
  const bool freed = std::exchange(swept_free_generation_, free_generation) != free_generation;
  // No workload that a sweep has put in line was judged since.
  if (freed && !sweep_) sweep_due_ = std::max(sweep_due_, SweepOf::kAwake);
  // Workloads that were judged already get their next turn after all others have had theirs.
  // Otherwise a cluster in which pods end all the time would never reach the last ones in line.
  if (!sweep_ && line_was_empty && sweep_due_ != SweepOf::kNobody) StartSweep(sweep_due_);
  const cluster::Store::NeighbourNews news = store_.TakeNeighbourNews();
  const bool all_come = sweep_ || sweep_due_ != SweepOf::kNobody;
  if (!all_come && (news.relabelled || !news.moved.empty())) MarkNeighbours(news);
  const std::size_t most = MostInLine();
  std::vector<const Workload*> workloads;
  if (sweep_ && GoOnSweeping(most, workloads)) {
    PutInLine(workloads, now);
    return false;
  }
  const std::vector<const Workload*> changed = store_.TakeChanged(most);
  more_changed_ = changed.size() == most;
  workloads.insert(workloads.end(), changed.begin(), changed.end());
  std::ranges::sort(workloads, cluster::ByKey());
  const auto twice = std::ranges::unique(workloads);
  workloads.erase(twice.begin(), twice.end());
  PutInLine(workloads, now);
  return !more_changed_;
}

void Engine::StartSweep(SweepOf whom) {
  sweep_ = Sweep{.all = whom == SweepOf::kAll, .after = {}};
  sweep_due_ = SweepOf::kNobody;
}

/// Takes the next part of the sweep. False: it was the last one.
bool Engine::GoOnSweeping(std::size_t most, std::vector<const Workload*>& part) {
  bool more = false;
  if (sweep_->all) {
    cluster::Store::OpenPart open = store_.TakeOpen(sweep_->after, most);
    part = std::move(open.workloads);
    more = open.more;
    sweep_->after = std::move(open.upto);
  } else {
    part = active_.Awake(sweep_->after, most);
    more = part.size() == most;
    if (more) sweep_->after = part.back()->key;
  }
  if (!more) sweep_.reset();
  return more;
}

/// Pods that others count as neighbours came or begin to end: marks the workloads that this may
/// help.
void Engine::MarkNeighbours(const cluster::Store::NeighbourNews& news) {
  for (const Workload* workload : store_.NeighbourlyWorkloads()) {
    const auto helps = [&](const PodInfo* pod) {
      return !pod->bound() && std::ranges::any_of(news.moved, [&](const PodInfo* other) {
        return policy::MayOpenNode(*pod, *other, store_);
      });
    };
    if (news.relabelled || std::ranges::any_of(workload->members, helps)) {
      store_.MarkChanged(*workload);
    }
  }
}

void Engine::PutInLine(std::span<const Workload* const> workloads, TimePoint now) {
  for (const Workload* workload : workloads) {
    spent_ += kKnownAnswer;
    DropFaulty(*workload);
    TellFaulty(*workload);
  }
  store_.RefreshWorkloads();  // a pod that gave up its place asks for its own queue again
  for (const Workload* workload : workloads) {
    if (NeedsPlan(*workload)) {
      active_.Put(*workload, TurnOf(*workload, store_, states_.At(*workload)));
    } else {
      if (workload->started) TakeMarked(*workload);  // it lacks no member that could be placed
      claimants_.erase(workload);
      active_.KeepAwake(*workload);
      shown_.Update(*workload, now);
    }
  }
}

/// An ungated single pod that kube-scheduler has not asked about is not planned ahead: it is on its
/// way.
bool Engine::NeedsPlan(const Workload& workload) const {
  const WorkloadState& state = states_.At(workload);
  if (Passthrough()) return !workload.AllBound();
  if (state.plan && !state.plan->started) return false;
  const bool held =
      state.plan && std::ranges::any_of(state.plan->assignments,
                                        [](const Assignment& a) { return a.held_until != 0; });
  return held || std::ranges::any_of(workload.members, [&](const PodInfo* pod) {
           if (pod->bound() || pod->charge != Charge::kNone) return false;
           return workload.gang || states_.At(*pod).asked || HasOurGate(*pod);
         });
}

}  // namespace berth::engine
