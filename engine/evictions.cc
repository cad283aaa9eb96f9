// Engine, part: evictions that Berth makes by itself (eviction.h decides them). First all of them
// are tried dry, and the volume and resource claims that the members name are looked for: if an
// eviction would be refused, or a claim does not exist, no pod is evicted. Then the evictions of
// pods that a PodDisruptionBudget covers are sent, then the others. While victims are there, the
// plan holds their room and releases no member. Each victim carries the key of the workload, so
// that the next process goes on. A gang ends whole, or loses surplus only and goes on.
#include <algorithm>
#include <set>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/engine.h"
#include "engine/eviction.h"
#include "engine/eviction_texts.h"
#include "policy/quota.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

/// A pod whose eviction was refused is no victim for so long.
constexpr TimePoint kSparedFor = 60'000;

/// One more pod is evicted for the plan of `preemptor`.
void AddVictim(States& states, const PodInfo& pod, const Workload& preemptor) {
  Plan& plan = *states[preemptor].plan;
  states.SetVictim(pod, preemptor.key);
  plan.victims.push_back(pod.object.meta.uid);
  if (pod.charged_queue != preemptor.queue) plan.reclaimed.insert(pod.object.meta.uid);
}

/// The victim, which terminates, is not waited for longer than eviction.stuckAfter says.
void ExpireOnceStuck(Plan& plan, const cluster::Store& store, const PodInfo& victim) {
  plan.expires = std::min(plan.expires, StuckAt(store, victim) + 1);
}

/// Whether the queue of a plan, or its user there, has too much even once its victims have ended.
bool IsOverWithoutVictims(const Plan& plan, const cluster::Store& store) {
  policy::QuotaView quota(store);
  for (const std::string& uid : plan.victims) {
    if (const PodInfo* victim = store.FindPod(uid)) quota.GiveBack(*victim);
  }
  return std::ranges::any_of(plan.assignments, [&](const Assignment& place) {
    return policy::IsOver(quota, *place.pod) || policy::HasTooManyJobs(quota, *place.pod);
  });
}

std::vector<std::pair<std::string, std::string>> NamesOf(const std::vector<const PodInfo*>& pods,
                                                         const cluster::Store& store) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const PodInfo* pod : pods) {
    names.emplace_back(pod->object.meta.name, store.node(pod->node).name);
  }
  return names;
}

}  // namespace

void Engine::BeginEvictions(const Workload& workload, const Reservation& decision) {
  Plan& plan = *states_[workload].plan;
  if (plan.evictions.stage == Evicting::kNo) plan.evictions.stage = Evicting::kDryRun;
  plan.evictions.id = evictor_.NextId("evict");
  SetVerdict(workload, {.reason = ReasonId::kWaitingForVictims,
                        .want = std::ssize(plan.victims),
                        .subject = WhoEnds(store_, workload, decision.evicts)});
  actions_.push_back(Decision{.kind = "evict",
                              .workload = workload.key,
                              .queue = QueueName(workload.queue),
                              .plan = workload.plan,
                              .generation = store_.generation(),
                              .placed = NamesOf(decision.evicts, store_)});
  for (const PodInfo* pod : decision.surplus) plan.surplus.insert(pod->object.meta.uid);
  plan.undercut = decision.undercut;
  bool resumed = false;  // some were evicted by an earlier process; with none, it only waits
  for (const PodInfo* pod : decision.evicts) {
    states_.SetVictim(*pod, workload.key);
    if (pod->charged_queue != workload.queue) plan.reclaimed.insert(pod->object.meta.uid);
    resumed |= pod->terminating();
  }
  if (resumed) {
    for (const PodInfo* pod : decision.evicts) {
      if (!pod->terminating()) continue;
      plan.evictions.accepted.insert(pod->object.meta.uid);
      ExpireOnceStuck(plan, store_, *pod);
    }
    timers_.At(plan.expires, workload.key);
    SendEvictions(workload);
    return LookForHeirs(workload);
  }
  if (!decision.evicts.empty()) LookForNeeded(workload);
  for (const PodInfo* pod : decision.evicts) OrderEviction(workload, *pod, nullptr);
}

/// `jobs`: null for a dry run.
void Engine::OrderEviction(const Workload& workload, const PodInfo& victim, JobsToSuspend* jobs) {
  const bool dry_run = jobs == nullptr;
  Plan& plan = *states_[workload].plan;
  const bool surplus = plan.surplus.contains(victim.object.meta.uid);
  if (!dry_run) {
    plan.evictions.notices.insert_or_assign(
        victim.object.meta.uid,
        evictor_.NoticeOf(victim, EvictionEvent(store_, victim, workload, surplus), surplus));
  }
  evictor_.Order(plan.evictions, victim,
                 {.workload = workload.key,
                  .dry_run = dry_run,
                  .surplus = surplus,
                  .job = dry_run || surplus ? std::nullopt : jobs->Of(victim)});
}

/// Orders the evictions that come next (NextOf). From now on the members of gangs that are evicted
/// whole get no place. Ends the plan if a gang has lost members since the decision, so that its
/// surplus is none any more.
void Engine::SendEvictions(const Workload& workload) {
  Plan& plan = *states_[workload].plan;
  // Others may have been bound to a running gang meanwhile, by its user.
  if (plan.joins && workload.Missing() == 0 && plan.evictions.accepted.empty()) {
    return Dissolve(workload, plan_ends::kNoneNeeded, /*hold=*/false, plan.made);
  }
  plan.evictions.stage = Evicting::kSent;
  for (const std::string& uid : std::vector<std::string>(plan.victims)) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating() || states_[*pod].victim_of != workload.key) continue;
    if (pod->workload == nullptr || !pod->workload->gang) continue;
    if (!plan.surplus.contains(uid)) {
      BeginEviction(*pod->workload, workload);
    } else if (!plan.evictions.accepted.contains(uid) &&
               StayingMembers(states_, *pod->workload) < pod->workload->min_member) {
      return Dissolve(workload, plan_ends::kNoSurplus, /*hold=*/false, plan.made);
    }
  }
  std::vector<const PodInfo*> left;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating()) continue;
    if (states_[*pod].victim_of == workload.key) left.push_back(pod);
  }
  JobsToSuspend jobs(store_);
  for (const PodInfo* pod : evictor_.NextOf(plan.evictions, left))
    OrderEviction(workload, *pod, &jobs);
}

/// All members of the gang are about to end: none gets a place any more, and members that came
/// since the decision go with the others. (A gang whose last worker ends already is a new
/// incarnation.)
void Engine::BeginEviction(const Workload& gang, const Workload& preemptor) {
  if (!gang.started || std::exchange(states_[gang].evicted, true)) return;
  GiveUpPlannedOf(gang);
  for (const PodInfo* pod : gang.members) {
    const bool came = pod->charge != cluster::Charge::kNone && states_[*pod].victim_of.empty();
    if (!came || IsSpared(*pod)) continue;
    AddVictim(states_, *pod, preemptor);
  }
}

/// A member that was on its way when the evictions of its gang were sent, and is bound now, goes
/// with the others: for example a launcher, about which kube-scheduler does not ask.
void Engine::JoinEviction(const PodInfo& pod) {
  if (pod.workload == nullptr || !states_.At(*pod.workload).evicted || IsSpared(pod)) return;
  if (!states_.At(pod).victim_of.empty()) return;
  for (const PodInfo* member : pod.workload->members) {
    const Workload* preemptor = store_.FindWorkload(states_.At(*member).victim_of);
    if (preemptor == nullptr) continue;
    const std::optional<Plan>& plan = states_.At(*preemptor).plan;
    if (!plan || plan->evictions.stage == Evicting::kNo) continue;
    AddVictim(states_, pod, *preemptor);
    JobsToSuspend jobs(store_);
    return OrderEviction(*preemptor, pod, &jobs);
  }
}

void Engine::GiveUpPlannedOf(const Workload& gang) {
  for (const PodInfo* pod : std::vector<const PodInfo*>(gang.members)) {
    if (pod->charge == cluster::Charge::kPlanned) GiveUpPlace(*pod, plan_ends::kEvicted);
  }
}

void Engine::EvictionAnswered(const std::string& key, const std::string& id, const std::string& uid,
                              bool dry_run, bool accepted, TimePoint now) {
  if (listener() != nullptr) {
    listener()->OnEvictionAnswered(key, id, uid, dry_run, accepted, now);
  }
  if (drains_.Answered(id, uid, dry_run, accepted, now)) {
    claims_seen_ = {};  // what stays after all counts for the queue that loses
    if (drains_.TakeStays()) BudgetsPermitMore();  // others waited for its room
    return;
  }
  ReleaseFromSpared(now);  // or more pods would be evicted for a plan that cannot start
  if (!StillEvicts(key, id)) return AnsweredLate(key, id, uid, dry_run, accepted, now);
  const Workload& workload = *store_.FindWorkload(key);
  Plan& plan = *states_[workload].plan;
  if (dry_run != (plan.evictions.stage == Evicting::kDryRun)) return;
  const bool is_object = uid.find('/') != std::string::npos;
  if (is_object && !accepted) return LacksNeeded(workload, uid, now);
  if (!dry_run && accepted) {
    evictor_.NoteEvicted(plan.evictions, uid, now);
    for (const policy::Undercut& floor : std::exchange(plan.undercut, {})) active_.Owe(floor);
  }
  if (plan.evictions.unanswered.erase(uid) == 0) return LookForHeirs(workload);
  const PodInfo* victim = store_.FindPod(uid);
  if (!accepted) {
    plan.evictions.notices.erase(uid);
    if (victim != nullptr) states_[*victim].spared_until = now + kSparedFor;
    timers_.AllAt(now + kSparedFor);
    evictor_.KeepWarnings(plan.victims, now + kSparedFor + 1'000);  // it is tried again then
    const bool none = plan.evictions.accepted.empty() &&
                      (dry_run || (plan.inherited == 0 && plan.evictions.unanswered.empty()));
    if (none) {
      Dissolve(workload, plan_ends::kEvictionRefused, /*hold=*/false, now);
    } else if (!dry_run && plan.evictions.unanswered.empty() && TakesOthers(workload, now)) {
      return;
    }
    // Others are done already, or on their way: it is tried again when the plan's time is over.
    return LookForHeirs(workload);
  }
  if (!dry_run) plan.evictions.accepted.insert(uid);
  if (!plan.evictions.unanswered.empty()) return;
  if (dry_run && (Warns(workload, now) || WaitsForEnds(workload, now))) return;
  SendEvictions(workload);
  LookForHeirs(workload);
}

/// The workload is complete. If it was evicted before, and has come back, it waits for a moment.
bool Engine::BacksOff(const Workload& workload, TimePoint now) {
  const auto evicted = evictor_.TakeEvicted(workload, now);
  if (!evicted) return false;
  WorkloadState& state = states_[workload];
  state.before = *evicted;
  ExemptIfEvictedOften(workload);
  state.hold_until = now + BackOffAfter(evicted->times);
  timers_.At(state.hold_until, workload.key);
  claimants_.insert(&workload);  // so that nobody starts whom it would evict then
  return true;
}

/// eviction.maxEvictions: exempts all waiting pods of a job that was evicted this often, also pods
/// that came after it was complete. Not where no queue of the path has a quota of such devices and
/// others have: there it would be unrestricted, and would keep what these are promised.
void Engine::ExemptIfEvictedOften(const Workload& workload) {
  const int most = store_.policy().eviction.max_evictions;
  if (most <= 0 || states_.At(workload).before.times < most) return;
  const cluster::Demand wants = TurnOf(workload, store_, states_.At(workload)).wants;
  const auto has_quota = [&](cluster::QueueId queue) {
    return std::ranges::any_of(
        wants, [&](const auto& part) { return store_.queue(queue).quota[part.first] > 0; });
  };
  const bool bounded = workload.queue != cluster::kNoQueue &&
                       std::ranges::any_of(store_.queue(workload.queue).path, has_quota);
  if (!bounded && std::ranges::any_of(store_.queues(), has_quota)) return;
  for (const PodInfo* pod : workload.Unplaced()) {
    if (!pod->exempt) store_.Exempt(*pod);
  }
}

bool Engine::StillEvicts(const std::string& key, const std::string& id) const {
  if (drains_.IsUnderWay(id)) return true;
  const Workload* workload = store_.FindWorkload(key);
  if (workload == nullptr) return false;
  const std::optional<Plan>& plan = states_.At(*workload).plan;
  return plan && plan->evictions.stage != Evicting::kNo && plan->evictions.id == id;
}

/// Some of its victims end, and the eviction of others was refused: ends the plan if there are
/// other victims instead. They are found when it is judged again; what ends already counts for
/// them.
bool Engine::TakesOthers(const Workload& workload, TimePoint now) {
  Plan& plan = *states_[workload].plan;
  if (plan.joins || plan.assignments.empty()) return false;
  // As if it had no places, which are where the victims are, and as if the pods that stay were no
  // victims.
  std::vector<const PodInfo*> pods;
  std::vector<policy::Placed> places;
  for (const Assignment& place : plan.assignments) {
    pods.push_back(place.pod);
    places.push_back({.pod = place.pod, .node = place.node, .devices = place.pod->devices});
    store_.GiveBack(*place.pod);
  }
  std::vector<const PodInfo*> stay;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating() || states_.At(*pod).victim_of != workload.key)
      continue;
    stay.push_back(pod);
    states_.SetVictim(*pod, {});
  }
  const int min = std::min(std::max(1, workload.Missing()), static_cast<int>(pods.size()));
  const bool others =
      DecideStartByEviction(Now(now), workload, pods, min, ReasonId::kInsufficientDevices, nullptr)
          .reserve.has_value();
  for (const PodInfo* pod : stay) states_.SetVictim(*pod, workload.key);
  for (const policy::Placed& place : places) Reserve(*FindAssignment(*place.pod), place);
  if (!others) return false;
  const std::size_t evicted = TakeEvicted(workload);  // not in vain
  Dissolve(workload, plan_ends::kEvictionRefused, /*hold=*/false, now);
  states_[workload].evicted_before = evicted;
  return true;
}

/// The time of a plan is over whose victims have been sent for and are not all gone.
void Engine::GoOnEvicting(const Workload& workload, TimePoint now) {
  Plan& plan = *states_[workload].plan;
  const auto is_stuck = [&](const std::string& uid) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr) return false;
    if (pod->terminating()) return IsStuck(Now(now), *pod);
    return plan.made + store_.policy().eviction.stuck_after.count() < now;
  };
  if (std::ranges::any_of(plan.victims, is_stuck)) {
    return Dissolve(workload, plan_ends::kVictimsStuck, /*hold=*/false, now);
  }
  plan.expires = now + store_.policy().gang.plan_timeout.count();
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod != nullptr && pod->terminating()) ExpireOnceStuck(plan, store_, *pod);
  }
  timers_.At(plan.expires, workload.key);
  if (!plan.evictions.unanswered.empty()) return;
  std::erase_if(plan.evictions.accepted, [this](const std::string& uid) {
    const PodInfo* pod = store_.FindPod(uid);
    return pod != nullptr && !pod->terminating();
  });
  SendEvictions(workload);
}

/// After an edit of the policy: plans that pods were evicted for, and that their queue does not
/// permit any more, end.
void Engine::RecheckEvicting(TimePoint now) {
  for (const Workload* workload :
       std::vector<const Workload*>(awaiting_.begin(), awaiting_.end())) {
    const Plan& plan = *states_[*workload].plan;
    if (plan.started || plan.evictions.stage != Evicting::kSent) continue;
    const Verdict hold = CheckHold(store_, *workload, /*needed=*/workload->started);
    const bool held = hold.reason != ReasonId::kNone;
    if (held || IsOverWithoutVictims(plan, store_)) {
      Dissolve(*workload, plan_ends::kPolicyChanged, /*hold=*/false, now);
    }
  }
}

/// The plan ends: victims that are not evicted yet stay, but for the rest of gangs of which others
/// are.
void Engine::EndEvictions(const Workload& workload) {
  Plan& plan = *states_[workload].plan;
  if (plan.evictions.stage == Evicting::kNo) return;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod != nullptr && states_[*pod].victim_of == workload.key) evictor_.Spare(*pod);
  }
  for (const auto& [key, incarnation] : plan.evictions.begun) {
    const Workload* gang = store_.FindWorkload(key);
    if (gang == nullptr || gang->incarnation != incarnation) continue;
    EvictRest(*gang, workload.key, EvictionReason(gang->queue, workload), plan.evictions);
  }
  if (plan.evictions.stage != Evicting::kSent || plan.evictions.unanswered.empty()) return;
  late_.insert_or_assign(plan.evictions.id, std::move(plan.evictions));
}

/// What was sent before its plan ended may have been done all the same; what was not sent yet is
/// answered as refused.
void Engine::AnsweredLate(const std::string& key, const std::string& id, const std::string& uid,
                          bool dry_run, bool accepted, TimePoint now) {
  const auto late = late_.find(id);
  if (dry_run || late == late_.end()) return;
  Evictions& evictions = late->second;
  evictions.unanswered.erase(uid);
  if (const auto notice = evictions.notices.find(uid); notice != evictions.notices.end()) {
    const EvictionNotice told = notice->second;
    if (accepted) {
      evictions.accepted.insert(uid);
      evictor_.NoteEvicted(evictions, uid, now);
    }
    const Workload* gang = told.gang.empty() ? nullptr : store_.FindWorkload(told.gang);
    const auto begun = evictions.begun.find(told.gang);
    if (gang != nullptr && begun != evictions.begun.end() && gang->incarnation == begun->second) {
      EvictRest(*gang, key, told.event.reason, evictions);
    }
  }
  if (evictions.unanswered.empty()) late_.erase(late);
}

/// A gang ends as a whole: some of its members were evicted for `work`, and the others must be,
/// although that is not planned any more. `reason`: of the Event. `sent`: evictions for the plan;
/// pods of which one is done, or not answered yet, are left out.
void Engine::EvictRest(const Workload& gang, const std::string& work, const std::string& reason,
                       const Evictions& sent) {
  if (!gang.started || Passthrough()) return;
  std::vector<const PodInfo*> rest;
  for (const PodInfo* pod : gang.members) {
    const std::string& uid = pod->object.meta.uid;
    const bool runs = pod->bound() && !pod->terminating() && !IsSpared(*pod);
    const bool ends = sent.accepted.contains(uid) || sent.unanswered.contains(uid) ||
                      !states_.At(*pod).victim_of.empty();
    if (runs && !ends) rest.push_back(pod);
  }
  if (!rest.empty()) drains_.EvictRest(gang, rest, work, reason, passed_at_);
}

/// The gang begins anew: what was evicted of it before is no reason to evict it now.
void Engine::ForgetBegun(const std::string& gang) {
  const auto forget = [&](Evictions& evictions) {
    evictions.begun.erase(gang);
    for (auto& [uid, notice] : evictions.notices) {
      if (notice.gang == gang) notice.gang.clear();
    }
  };
  for (const Workload* workload : awaiting_) {
    if (auto& plan = states_[*workload].plan) forget(plan->evictions);
  }
  for (auto& [id, evictions] : late_) forget(evictions);
}

/// The plan ends before a member is bound, and pods were evicted for it. The work may get their
/// room later all the same.
void Engine::NoteInVain(const Workload& workload, const PlanEnd& end) {
  WorkloadState& state = states_[workload];
  std::size_t evicted = std::exchange(state.evicted_before, 0);
  if (state.plan && !state.plan->started) {
    evicted += state.plan->evictions.accepted.size() + state.plan->inherited;
  }
  if (evicted > 0) counters_.evictions_in_vain[std::string(end.token)] += evicted;
}

/// The plan is about to give its room up for another one. Returns how many pods were evicted for
/// it, which from now on count for the other one.
std::size_t Engine::TakeEvicted(const Workload& workload) {
  Plan& plan = *states_[workload].plan;
  return std::exchange(plan.evictions.accepted, {}).size() + std::exchange(plan.inherited, 0);
}

/// If all that are evicted for the workload end, work of higher priority may have their room, and
/// is judged again.
void Engine::LookForHeirs(const Workload& workload) {
  const std::optional<Plan>& plan = states_.At(workload).plan;
  if (plan && !plan->started && HasEvictedAll(store_, *plan)) store_.BumpFreeGeneration();
}

/// The victim begins to end. It is not waited for longer than eviction.stuckAfter says.
void Engine::LookForHeirsOf(const std::string& victim) {
  const PodInfo* pod = store_.FindPod(victim);
  for (const Workload* workload : awaiting_) {
    Plan& plan = *states_[*workload].plan;
    if (std::ranges::find(plan.victims, victim) == plan.victims.end()) continue;
    if (pod != nullptr && pod->terminating() && plan.evictions.stage == Evicting::kSent) {
      ExpireOnceStuck(plan, store_, *pod);
      timers_.At(plan.expires, workload->key);
    }
    LookForHeirs(*workload);
  }
}

/// Evictions were refused. Of the plans that waited for these pods to end, the ones that have room
/// and quota without that go on, and the others end.
void Engine::ReleaseFromSpared(TimePoint now) {
  for (const auto& [uid, node] : evictor_.TakeSpared()) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating() || !states_[*pod].victim_of.empty()) continue;
    std::vector<std::string> keys;
    for (const Workload* workload : awaiting_) {
      if (std::erase(states_[*workload].plan->victims, uid) != 0) keys.push_back(workload->key);
    }
    if (keys.empty()) continue;
    RecheckPlans(node);
    for (const std::string& key : keys) {
      const Workload* workload = store_.FindWorkload(key);
      if (workload == nullptr || !states_[*workload].plan) continue;
      const Plan& plan = *states_[*workload].plan;
      if (!plan.started && IsOverWithoutVictims(plan, store_)) {
        Dissolve(*workload, plan_ends::kQuotaStays, /*hold=*/false, now);
      } else {
        AfterLastVictim(*workload, now);
      }
    }
  }
}

/// All victims are gone: the members go to their nodes.
void Engine::AfterLastVictim(const Workload& workload, TimePoint now) {
  Plan& plan = *states_[workload].plan;
  if (plan.evictions.stage == Evicting::kNo || plan.started || AwaitsVictims(plan)) return;
  // While it waited its nodes may have shrunk, or grown beyond what its queue can pay.
  std::set<cluster::NodeIndex> nodes;
  for (const Assignment& place : plan.assignments) nodes.insert(place.node);
  const std::string id = workload.plan;
  for (const cluster::NodeIndex node : nodes) RecheckPlans(node);
  if (workload.plan != id) return;
  plan.evictions.unanswered.clear();  // what is answered from now on changes nothing
  plan.evictions.begun.clear();
  plan.evictions.stage = Evicting::kSent;
  SetVerdict(workload, {.reason = ReasonId::kStarting, .want = plan.barrier});
  ReleasePlan(workload, nullptr, now);
}

}  // namespace berth::engine
