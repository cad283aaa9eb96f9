// Engine, part: how a plan begins and ends, and what kube-scheduler learns of it.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "policy/fit.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

/// The member has no gate: kube-scheduler will not ask about it by itself. One that still is behind
/// the gate waits there as before it had a place; if the gate goes all the same, as that was under
/// way, kube-scheduler asks.
bool OnlyWeCanWake(const Assignment& place) {
  return place.phase > MemberPhase::kReleased || !HasOurGate(*place.pod);
}

}  // namespace

Plan& Engine::BeginPlan(const Workload& workload, std::string id) {
  store_.SetPlan(workload, std::move(id));
  planned_.insert(&workload);
  return states_[workload].plan.emplace();
}

/// Call when every member that had a place in the plan is bound or has given it up.
void Engine::EndPlan(const Workload& workload) {
  const std::optional<Plan>& plan = states_[workload].plan;
  // While it held the room of the pods that it evicted, its work was no victim that runs.
  if (plan && plan->evictions.stage == Evicting::kSent) store_.BumpFreeGeneration();
  EndEvictions(workload);
  states_[workload].plan.reset();
  planned_.erase(&workload);
  awaiting_.erase(&workload);
  store_.SetPlan(workload, "");
}

/// Ends the plan, and gives back the room of members that are not bound or binding.
void Engine::DropPlan(const Workload& workload) {
  const std::optional<Plan>& plan = states_[workload].plan;
  if (!plan) return;
  for (const Assignment& assignment : plan->assignments) {
    if (assignment.pod->charge == Charge::kPlanned) store_.Unreserve(*assignment.pod);
  }
  EndPlan(workload);
  states_[workload].verdict = {};
  store_.MarkChanged(workload);
}

/// How many members must come to bind before any is bound: the minimum, less the members that never
/// come (members without devices, planned or running already).
int Engine::BarrierOf(const Workload& workload) const {
  const auto& assignments = states_.At(workload).plan->assignments;
  const auto managed = static_cast<int>(std::ranges::count_if(assignments, &Assignment::managed));
  const int others =
      static_cast<int>(assignments.size()) - managed + workload.BoundCount() + workload.finished;
  return std::clamp(workload.min_member - others, std::min(1, managed), managed);
}

void Engine::Ungate(const PodInfo& pod) {
  if (!HasOurGate(pod)) return;
  actions_.push_back(ReleaseMember{
      .pod = {pod.object.meta.ns, pod.object.meta.name, pod.object.meta.uid}, .remove_gate = true});
}

/// Clears the nomination of a pod whose plan is gone. Its room must become free for kube-scheduler,
/// too: kube-scheduler counts a nominated pod as taking room from others of its priority and does
/// not always clear the nomination (a pod whose volume claim does not exist keeps it for ever).
/// Only our own nominations are cleared; kube-scheduler clears its own.
void Engine::Withdraw(const PodInfo& pod) {
  if (pod.bound() || pod.object.nominated_node.empty()) return;
  const auto claim = cluster::ClaimOf(pod.object);
  if (!claim || claim->node != pod.object.nominated_node) return;
  actions_.push_back(ReleaseMember{
      .pod = {pod.object.meta.ns, pod.object.meta.name, pod.object.meta.uid}, .withdraw = true});
}

void Engine::MarkReleased(Assignment& assignment) {
  const PodInfo& pod = *assignment.pod;
  if (!assignment.arrived()) {
    states_[*pod.workload].plan->assignments.SetPhase(assignment, MemberPhase::kReleased);
  }
  assignment.condition =
      pod.object.pod_scheduled ? pod.object.pod_scheduled->message : std::string();
  assignment.nomination_seen = false;
  states_[pod].asked = false;
}

void Engine::Release(const Workload& workload, Assignment& assignment) {
  MarkReleased(assignment);
  const PodInfo& pod = *assignment.pod;
  actions_.push_back(
      ReleaseMember{.pod = {pod.object.meta.ns, pod.object.meta.name, pod.object.meta.uid},
                    .node = store_.node(assignment.node).name,
                    .annotation = ClaimText(workload, assignment),
                    .remove_gate = HasOurGate(pod)});
}

/// A node that went away, was cordoned, shrank or was filled by a pod that is not ours cannot keep
/// what is planned there: it is planned again before any pod is bound to the node.
void Engine::RecheckPlans(NodeIndex index) {
  if (index == cluster::kNoNode) return;
  const cluster::NodeInfo& node = store_.node(index);
  // Overfull even after the pods that must make way for the planned ones have gone.
  const auto overfull = [&] {
    std::set<const PodInfo*> victims;
    for (const PodInfo* pod : node.pods) {
      const Plan* plan = PlanOf(*pod);
      if (pod->charge != Charge::kPlanned || plan == nullptr) continue;
      for (const std::string& uid : plan->victims) {
        const PodInfo* victim = store_.FindPod(uid);
        if (victim != nullptr && victim->node == index) victims.insert(victim);
      }
    }
    cluster::Amounts freed;
    for (const PodInfo* victim : victims) {
      for (const auto& [id, amount] : victim->charged) freed.Add(id, amount);
    }
    return std::ranges::any_of(
        store_.device_ids(), [&](cluster::ResourceId id) { return node.free(id) + freed[id] < 0; });
  };
  for (const PodInfo* pod : std::vector<const PodInfo*>(node.pods)) {
    if (pod->charge != Charge::kPlanned || pod->workload == nullptr || pod->node != index) continue;
    if (policy::FitsNode(*pod->object.spec, node) && !overfull() && !CostsTooMuch(*pod)) continue;
    GiveUpPlace(*pod, plan_ends::kNodeGone);
  }
}

/// Whether `pod` is planned for a running gang that has its minimum without it, while its queue is
/// over its cap (after an edit of the policy, or because a node grew). Members that the minimum
/// needs keep their room if the cap is lowered later: an edit never leaves a gang below its
/// minimum.
bool Engine::MustGiveWay(const PodInfo& pod) const {
  const Plan* plan = PlanOf(pod);
  return pod.charge == Charge::kPlanned && plan != nullptr && plan->started &&
         policy::IsOver(policy::QuotaView(store_), pod) && pod.workload->Missing() == 0;
}

/// Whether `pod` is planned, and its queue is over its cap, because of what its node became since:
/// it lists more devices, which a whole-node pod pays for, or is of another flavor. False where a
/// running gang needs the pod, see MustGiveWay.
bool Engine::CostsTooMuch(const PodInfo& pod) const {
  const Plan* plan = PlanOf(pod);
  const bool by_node = pod.shape->whole_node ||
                       (pod.queue != cluster::kNoQueue && store_.queue(pod.queue).by_flavor);
  if (!by_node || plan == nullptr || !plan->victims.empty()) return false;
  return plan->started ? MustGiveWay(pod) : policy::IsOver(policy::QuotaView(store_), pod);
}

/// Members that became faulty hold nothing. (A conflict shows only against the first member.)
void Engine::DropFaulty(const Workload& workload) {
  for (const PodInfo* pod : std::vector<const PodInfo*>(workload.faulty)) {
    if (pod->charge != Charge::kPlanned) continue;
    ResolveTickets(pod->object.meta.uid, ResolveBind::Resolution::kError,
                   std::string(cluster::RefusalText(pod->refusal.reason)));
    GiveUpPlace(*pod, plan_ends::kFaulty);
    store_.Unreserve(*pod);
  }
}

/// Gives up the place planned for `pod`: with its whole plan while that has not started, or else
/// alone. The pod is planned again.
void Engine::GiveUpPlace(const PodInfo& pod, const PlanEnd& end) {
  const Workload& workload = *pod.workload;
  WorkloadState& state = states_[workload];
  if (!state.plan) return;
  if (!state.plan->started) {
    Dissolve(workload, end, /*hold=*/false, 0);
    return;
  }
  const bool asked = OnlyWeCanWake(*FindAssignment(pod));
  LeavePlan(pod, end);
  states_[pod].asked |= asked;
  store_.MarkChanged(workload);
}

/// Takes `pod` out of its plan and frees its room. Its parked bind call ends, because it would post
/// to a node that the next plan need not name.
void Engine::LeavePlan(const PodInfo& pod, const PlanEnd& end) {
  ResolveTickets(pod.object.meta.uid, ResolveBind::Resolution::kError,
                 fmt::format("berth: {}", end.why));
  store_.Unreserve(pod);
  const Workload& workload = *pod.workload;
  WorkloadState& state = states_[workload];
  state.plan->assignments.Remove(pod);
  if (state.plan->assignments.empty()) EndPlan(workload);
}

/// In passthrough mode kube-scheduler may put any pod anywhere, so planned places hold no room.
void Engine::GiveUpPlaces(const Workload& workload) {
  for (const PodInfo* pod : std::vector<const PodInfo*>(workload.members)) {
    if (pod->charge == Charge::kPlanned) GiveUpPlace(*pod, plan_ends::kPassthrough);
  }
}

/// Gives up a plan that has not started; frees all of its room. `hold`: a pause follows, but not
/// for a gang that runs: members that it lacks may find room elsewhere.
void Engine::Dissolve(const Workload& workload, const PlanEnd& end, bool hold, TimePoint now) {
  WorkloadState& state = states_[workload];
  if (!state.plan || state.plan->started) return;
  for (const Assignment& assignment : state.plan->assignments) {
    ResolveTickets(assignment.pod->object.meta.uid, ResolveBind::Resolution::kError,
                   fmt::format("berth: {}", end.why));
    states_[*assignment.pod].asked |= OnlyWeCanWake(assignment);
    Withdraw(*assignment.pod);
  }
  ++counters_.plans["dissolved"];
  actions_.push_back(Decision{.kind = "dissolve",
                              .workload = workload.key,
                              .queue = QueueName(workload.queue),
                              .plan = workload.plan,
                              .generation = store_.generation(),
                              .verdict = {.subject = std::string(end.why)}});
  NoteInVain(workload, end);
  // It may still evict others: work that would start before it is judged must not be among them.
  if (IsUnsent(state.plan->evictions.stage)) claimants_.insert(&workload);
  if (end.token == plan_ends::kNotInTime.token) RefrainFromEvicting(workload, now);
  const TimePoint held = now - state.plan->made;
  hold &= !state.plan->joins;
  DropPlan(workload);
  if (!hold) return;
  Pause(workload, held, now);
  SetVerdict(workload, {.reason = ReasonId::kRefusedByScheduler, .want = workload.min_member});
}

/// Delays the next plan after a failed one that had `held` its room for that long: 10 s, doubled
/// each time, at most 10 min or, if that is longer, nine times `held`, so that room is held for at
/// most a tenth of the time (I6).
void Engine::Pause(const Workload& workload, TimePoint held, TimePoint now) {
  WorkloadState& state = states_[workload];
  const TimePoint pause = 10'000LL << std::min(state.failures, 40);
  ++state.failures;
  state.hold_until = now + std::min(pause, std::max<TimePoint>(600'000, 9 * held));
  timers_.At(state.hold_until, workload.key);
}

/// For a started gang with no member that is bound or about to be: the remaining members must start
/// as a whole again, with their present claims. A plan with room for their minimum waits for them
/// at the barrier; any other is given up.
void Engine::BeginIncarnation(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  if (state.plan) {
    Plan& plan = *state.plan;
    plan.started = false;
    plan.joins = false;
    if (static_cast<int>(plan.assignments.size()) >= workload.Missing()) {
      for (Assignment& assignment : plan.assignments) {
        if (assignment.arrived()) {
          plan.assignments.SetPhase(assignment, MemberPhase::kReleased);
        }
        assignment.expires = 0;
        if (std::exchange(assignment.held_until, 0) != 0) Release(workload, assignment);
      }
      plan.barrier = BarrierOf(workload);
      plan.expires = now + store_.policy().gang.plan_timeout.count();
      timers_.At(plan.expires, workload.key);
    } else {
      Dissolve(workload, plan_ends::kNoneRuns, /*hold=*/false, now);
    }
  }
  store_.BeginIncarnation(workload);
}

}  // namespace berth::engine
