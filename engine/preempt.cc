// Engine, part: preempt. kube-scheduler proposes pods to evict by its own count. The answer names
// the victims of Berth's own plan (eviction.h), if they are on one node: then kube-scheduler evicts
// them. Otherwise Berth does, and the answer names no pod. Only where pods must go that are in no
// queue, other victims are named (victims.h), if the pod would really be admitted there afterwards.
// One node is kept and its room is held, so that the evictions are not in vain.
#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "cluster/plan_claim.h"
#include "engine/engine.h"
#include "engine/eviction.h"
#include "engine/victims.h"
#include "kube/selector.h"
#include "policy/fit.h"
#include "policy/neighbours.h"
#include "policy/quota.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::ResourceId;
using cluster::Workload;

VictimMap Engine::Preempt(std::string_view uid, const VictimMap& candidates, TimePoint now) {
  if (listener() != nullptr) listener()->OnPreempt(uid, candidates, now);
  const PodInfo* pod = store_.FindPod(uid);
  if (pod == nullptr || pod->terminating() || pod->bound()) return {};
  if (pod->charge == Charge::kBinding) return {};
  if (pod->workload == nullptr || Passthrough()) return candidates;
  const ReasonId reason = states_[*pod->workload].verdict.reason;
  // A single pod that kube-scheduler's own count refused never came to filter: it has no verdict
  // yet.
  const bool may_help =
      reason == ReasonId::kNone || reason == ReasonId::kStarting || EvictionHelps(reason);
  if (pod->workload->gang || pod->refusal.reason != ReasonId::kNone || !may_help) return {};
  if (store_.reading()) return {};
  store_.Refresh();
  if (!MayPreempt(store_, pod->queue)) return {};
  // Where there is room the pod waits for quota, for which Berth evicts by itself in a pass, or
  // only for its turn.
  if ((reason == ReasonId::kWaitingForQuota || unfinished()) && HasPayableRoom(Now(now), *pod)) {
    return {};
  }
  if (states_[*pod->workload].hold_until > now || BacksOff(*pod->workload, now)) return {};
  if (const auto before = AnsweredBefore(*pod, candidates)) return AnswerOf(*before);
  if (auto own = DecideOwnEviction(*pod, now)) {
    std::optional<Eviction> eviction = OnOneNode(*own, candidates, now);
    own->by_scheduler = eviction.has_value();
    // kube-scheduler nominates it where it evicts; otherwise the pod must be told of its place.
    Commit(*pod->workload, *own, eviction ? pod : nullptr, now);
    return eviction ? AnswerOf(*eviction) : VictimMap();
  }
  const std::optional<Eviction> eviction = DecideEviction(Now(now), *pod, candidates);
  if (!eviction) return {};
  HoldRoomOf(*eviction, *pod, now);
  return AnswerOf(*eviction);
}

/// The victims that an earlier answer named, if none of them ends yet and they still may be
/// evicted: kube-scheduler asks once more.
std::optional<Eviction> Engine::AnsweredBefore(const PodInfo& pod,
                                               const VictimMap& candidates) const {
  const Plan* plan = PlanOf(pod);
  if (plan == nullptr || !plan->by_scheduler()) return std::nullopt;
  if (!candidates.contains(store_.node(pod.node).name)) return std::nullopt;
  Eviction eviction{.node = pod.node, .victims = {}};
  for (const std::string& uid : plan->victims) {
    const PodInfo* victim = store_.FindPod(uid);
    // Others end anyway, and are waited for.
    if (victim == nullptr || victim->node != pod.node || IsVictim(*victim)) continue;
    if (victim->terminating() || !MayGo(*victim, pod)) return std::nullopt;
    eviction.victims.push_back(victim);
  }
  if (eviction.victims.empty() || BreaksBudgets(eviction.victims, store_)) return std::nullopt;
  return eviction;
}

/// Decides which pods are evicted for the pod by Berth's own rules. nullopt: none, or it has a
/// place already.
std::optional<Reservation> Engine::DecideOwnEviction(const PodInfo& pod, TimePoint now) {
  if (pod.charge != Charge::kNone) return std::nullopt;
  const Workload& workload = *pod.workload;
  const ReasonId reason = states_[workload].verdict.reason;
  return DecideStartByEviction(Now(now), workload, {&pod}, 1,
                               EvictionHelps(reason) ? reason : ReasonId::kInsufficientDevices,
                               nullptr)
      .reserve;
}

/// The victims, if kube-scheduler can evict them: they all are on the node of the pod, which it
/// offers, belong to the same queue, end whole, and need no warning; and if no pods have just
/// ended, for which Berth waits.
std::optional<Eviction> Engine::OnOneNode(const Reservation& own, const VictimMap& candidates,
                                          TimePoint now) const {
  const policy::Placed& place = own.placed.front();
  const auto fits = [&](const PodInfo* victim) {
    return victim->node == place.node && victim->charged_queue == place.pod->queue;
  };
  if (store_.policy().eviction.warning.count() > 0 || PodsEnd(now)) return std::nullopt;
  if (own.evicts.empty() || !own.surplus.empty() || !own.displaced.empty() || !own.yields.empty() ||
      !candidates.contains(store_.node(place.node).name) ||
      !std::ranges::all_of(own.evicts, fits)) {
    return std::nullopt;
  }
  return Eviction{.node = place.node, .victims = own.evicts};
}

VictimMap Engine::AnswerOf(Eviction eviction) const {
  std::ranges::sort(eviction.victims, std::ranges::greater{}, [](const PodInfo* victim) {
    return std::pair(victim->object.priority, victim->object.meta.uid);
  });
  VictimMap answer;
  VictimSet& kept = answer[store_.node(eviction.node).name];
  for (const PodInfo* victim : eviction.victims) kept.uids.push_back(victim->object.meta.uid);
  kept.pdb_violations = CountBroken(eviction.victims, store_);
  return answer;
}

/// Plans the lone pod on the node that its victims still fill. As if it had called: kube-scheduler
/// nominates it by itself.
void Engine::HoldRoomOf(const Eviction& eviction, const PodInfo& pod, TimePoint now) {
  DropPlan(*pod.workload);
  Reservation decision{.kind = Reservation::Kind::kStart,
                       .placed = {{.pod = &pod, .node = eviction.node}},
                       .by_scheduler = true};
  for (const PodInfo* victim : eviction.victims) {
    decision.victims.push_back(victim->object.meta.uid);
  }
  Commit(*pod.workload, decision, &pod, now);
}

/// Whether a victim is still ending. As long as it is, kube-scheduler keeps the pod nominated there
/// and evicts no other pod for it, and no other workload may take the room.
bool Engine::VictimsEnd(const Plan& plan) const {
  return std::ranges::any_of(plan.victims, [this](const std::string& uid) {
    const PodInfo* victim = store_.FindPod(uid);
    return victim != nullptr && victim->terminating();
  });
}

/// Whether kube-scheduler may still count a victim that is gone, and so not offer the node. It sees
/// the end of a pod some milliseconds before or after Berth does.
bool Engine::MayCountVictims(const Plan& plan, TimePoint now) const {
  const bool any = plan.victim_gone_at != 0;
  return VictimsEnd(plan) || (any && now < plan.victim_gone_at + kSchedulerLag);
}

/// Whether any victim still exists, ending or not: a pod evicted while its Binding is under way may
/// be gone for kube-scheduler, but is charged here until we hear of it.
bool Engine::AwaitsVictims(const Plan& plan) const {
  return std::ranges::any_of(
      plan.victims, [this](const std::string& uid) { return store_.FindPod(uid) != nullptr; });
}

/// Whether the members of its plan wait for pods that Berth evicts.
bool Engine::AwaitsEvictions(const PodInfo& pod) const {
  const Plan* plan = PlanOf(pod);
  return plan != nullptr && plan->evictions.stage != Evicting::kNo && AwaitsVictims(*plan);
}

/// As long as the victims exist, the plan in their place overfills node and queue. `pod` is bound
/// only when bound pods, and plans that do not wait for victims, leave it enough of both. This is
/// checked at bind and not at filter: kube-scheduler often learns of a victim's end before we do,
/// and a pod that is refused at filter preempts once more.
bool Engine::VictimsInTheWay(const PodInfo& pod) const {
  const auto waits = [this](const PodInfo& other) {
    const Plan* plan = PlanOf(other);
    return other.charge == Charge::kPlanned && plan != nullptr && AwaitsVictims(*plan);
  };
  if (!waits(pod)) return false;
  const cluster::NodeInfo& node = store_.node(pod.node);
  cluster::Amounts waiting;
  for (const PodInfo* other : node.pods) {
    if (other == &pod || !waits(*other)) continue;
    for (const auto& [id, amount] : other->charged) waiting.Add(id, amount);
  }
  const auto full = [&](ResourceId id) {
    return node.free(id) + waiting[id] < 0 &&
           std::ranges::any_of(
               pod.charged, [id](const auto& part) { return part.first == id && part.second > 0; });
  };
  if (std::ranges::any_of(store_.device_ids(), full)) return true;
  policy::QuotaView quota(store_);
  for (const Workload* workload : planned_) {
    for (const Assignment& assignment : states_.At(*workload).plan->assignments) {
      if (assignment.pod != &pod && waits(*assignment.pod)) quota.GiveBack(*assignment.pod);
    }
  }
  return policy::IsOver(quota, pod) || policy::HasTooManyJobs(quota, pod);
}

/// A pod that was on `node` has ended. A workload that waits for its room there now has the time
/// that a released pod has; or, if another pod took the room, the time that the victims of that one
/// take.
void Engine::AfterVictimGone(const std::string& uid, NodeIndex node, TimePoint now) {
  if (node == cluster::kNoNode) return;
  std::vector<const Workload*> waiting;
  for (const Workload* workload : awaiting_) {
    if (std::erase(states_[*workload].plan->victims, uid) != 0) waiting.push_back(workload);
  }
  if (waiting.empty()) return;
  std::set<std::string> left;   // victims that plans wait for on this node
  std::set<const Plan*> there;  // plans with a place on this node
  for (const PodInfo* pod : store_.node(node).pods) {
    const Plan* plan = pod->workload == nullptr ? nullptr : PlanOf(*pod);
    if (plan == nullptr || pod->charge != Charge::kPlanned) continue;
    there.insert(plan);
    left.insert(plan->victims.begin(), plan->victims.end());
  }
  const auto is_full_for = [&](const Workload& workload) {
    cluster::Amounts later;
    for (const PodInfo* pod : LaterPlacesOn(node, workload)) {
      for (const auto& [id, amount] : pod->charged) later.Add(id, amount);
    }
    return std::ranges::any_of(store_.device_ids(), [&](cluster::ResourceId id) {
      return store_.node(node).free(id) + later[id] < 0;
    });
  };
  std::vector<std::string> keys;
  for (const Workload* workload : waiting) {
    Plan& plan = *states_[*workload].plan;
    plan.victim_gone_at = now;
    // The others of a plan whose victims were told keep their time.
    if (plan.evictions.stage != Evicting::kWarned || plan.victims.empty()) {
      plan.expires = now + store_.policy().gang.plan_timeout.count();
      timers_.At(plan.expires, workload->key);
    }
    if (there.contains(&plan) && is_full_for(*workload)) {
      plan.victims.assign(left.begin(), left.end());
    }
    keys.push_back(workload->key);
  }
  RecheckPlans(node);  // it may have shrunk meanwhile
  for (const std::string& key : keys) {
    const Workload* workload = store_.FindWorkload(key);
    if (workload != nullptr && states_[*workload].plan) AfterLastVictim(*workload, now);
  }
}

/// kube-scheduler evicts only for pods that it tries. So a gated single pod that would run after an
/// eviction of pods that are in no queue is ungated without a plan: it comes back to us for the
/// victims.
void Engine::LetPreempt(const PodInfo& pod) {
  states_[pod].asked = true;  // from now on it is treated like a pod that never had the gate
  Ungate(pod);
}

}  // namespace berth::engine
