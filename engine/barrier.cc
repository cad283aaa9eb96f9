// Engine, part: bind. This is the only commit point: no member of a gang is bound before the gang's
// minimum has arrived here. A call that must wait is parked: the host holds it until ResolveBind.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "kube/device_notes.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;
using Resolution = ResolveBind::Resolution;

namespace {

/// Allowed beyond gang.maxStanding for gangs whose members come in turns. The port accepts 128
/// connections more than may be parked; other calls need some of these, too.
constexpr std::size_t kMoreInTurns = 64;

BindAnswer Error(std::string text) {
  return {.now = {.resolution = Resolution::kError, .error = std::move(text)}};
}

BindAnswer Bound() {
  return {.now = {.resolution = Resolution::kBound, .error = {}, .annotations = {}}};
}

}  // namespace

BindAnswer Engine::Bind(const BindQuery& query, TimePoint now) {
  if (listener() != nullptr) listener()->OnBind(query, now);
  store_.Refresh();
  const PodInfo* pod = store_.FindPod(query.uid);
  // Members that became faulty since the plan was made must not count at the barrier.
  if (pod != nullptr && pod->workload != nullptr) DropFaulty(*pod->workload);
  if (pod == nullptr) {
    return Error("berth: no such pod (deleted, or not seen yet)");
  }
  if (pod->object.meta.name != query.name || pod->object.meta.ns != query.ns) {
    return Error("berth: the UID belongs to another pod");
  }
  const NodeIndex node = store_.FindNode(query.node);
  if (node == cluster::kNoNode || !store_.node(node).present) {
    return Error("berth: no such node");
  }
  if (pod->bound()) {
    return pod->object.node_name == query.node
               ? Bound()
               : Error("berth: already bound to " + pod->object.node_name);
  }
  if (pod->terminating()) return Error("berth: the pod is being deleted");
  if (pod->charge == Charge::kBinding) {
    // A repeated call: the first one timed out while its Binding is under way.
    return pod->node == node ? Park(*pod, now)
                             : Error("berth: a Binding to another node is under way");
  }
  if (pod->workload == nullptr || Passthrough()) return PostNow(*pod, node);
  if (pod->workload->in_tree) {
    return store_.reading() ? Error("berth: the policy has just changed; try again")
                            : BindInTree(*pod, node, now);
  }
  NoteCall(*pod);
  Assignment* assignment = FindAssignment(*pod);
  if ((assignment == nullptr || assignment->node != node) && AdoptAnswer(*pod, node, now)) {
    assignment = FindAssignment(*pod);
  }
  if (assignment == nullptr || assignment->node != node) {
    return Error("berth: this pod is not planned on this node");
  }
  if (assignment->held_until != 0) {
    return Error("berth: its node has refused it, and is tried again after a pause");
  }
  // The members that kept a running gang in its queue may have ended since its place was reserved.
  if (pod->charge == Charge::kPlanned && pod->charged_queue != pod->queue) {
    GiveUpPlace(*pod, plan_ends::kAsksForElse);
    return Error("berth: its gang belongs to another queue now");
  }
  if (VictimsInTheWay(*pod) || AwaitsEvictions(*pod)) {
    return Error("berth: the pods evicted for it have not ended yet");
  }
  const Workload& workload = *pod->workload;
  WorkloadState& state = states_[workload];
  const bool counted = assignment->arrived();
  Arrive(workload, *assignment, now);
  if (state.plan && (state.plan->started || !workload.gang)) return PostNow(*pod, node);
  // If the members of a gang come in turns, kube-scheduler must not forget the members that have
  // arrived.
  auto most = static_cast<std::size_t>(store_.policy().gang.max_standing);
  if (parked_.size() >= most && ComeInTurns(*state.plan)) most += kMoreInTurns;
  if (parked_.size() >= most) {
    return Error(counted ? "berth: its gang is not complete yet"
                         : "berth: its gang is not complete yet; the arrival is counted");
  }
  return Park(*pod, now);
}

/// Adopts a node that filter answered without holding room for it: fit, quota and everything else
/// are judged now.
bool Engine::AdoptAnswer(const PodInfo& pod, NodeIndex node, TimePoint now) {
  if (pod.workload->gang || store_.reading()) return false;
  if (!live_answers_.Take(pod.object.meta.uid, store_.node(node).name, now)) return false;
  if (pod.refusal.reason != ReasonId::kNone) return false;
  const Workload& workload = *pod.workload;
  DropPlan(workload);
  const std::optional<Reservation> decision = DecideStartOn(Now(now), pod, node);
  if (!decision) return false;
  Commit(workload, *decision, &pod, now);
  return true;
}

BindAnswer Engine::Park(const PodInfo& pod, TimePoint now) {
  const TicketId ticket = parked_.Park(pod.object.meta.uid);
  timers_.At(now + store_.policy().gang.bind_timeout.count(), ticket);
  return {.parked = true, .ticket = ticket, .now = {}};
}

BindAnswer Engine::PostNow(const PodInfo& pod, NodeIndex node) {
  store_.SetCharge(pod, node, Charge::kBinding);
  return {.now = {.resolution = Resolution::kPost, .annotations = BindingAnnotations(pod, node)}};
}

std::map<std::string, std::string> Engine::BindingAnnotations(const PodInfo& pod,
                                                              NodeIndex node) const {
  if (pod.workload == nullptr || Passthrough()) return {};
  const Assignment* assignment = FindAssignment(pod);
  if (assignment == nullptr || assignment->node != node) return {};
  std::map<std::string, std::string> annotations{
      {std::string(cluster::kPlanAnnotation), ClaimText(*pod.workload, *assignment)}};
  if (std::string note = store_.DevicesNote(pod); !note.empty()) {
    annotations.emplace(kube::kDevicesAnnotation, std::move(note));
  }
  return annotations;
}

void Engine::Arrive(const Workload& workload, Assignment& assignment, TimePoint now) {
  Plan& plan = *states_[workload].plan;
  const bool news = !assignment.arrived();
  plan.assignments.SetPhase(assignment, MemberPhase::kArrived);
  if (plan.started || !workload.gang) return;
  // A repeated arrival does not extend the expiry. Otherwise one member could hold the room of all
  // members for ever.
  if (news) {
    plan.expires = now + store_.policy().gang.plan_timeout.count();
    timers_.At(plan.expires, workload.key);
  }
  if (plan.assignments.arrived() >= plan.barrier) return StartGang(workload, now);
  ReleaseNext(workload);
}

/// From here on the gang runs: all members with a parked call are bound, the rest keep their room.
void Engine::StartGang(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  Plan& plan = *state.plan;
  plan.started = true;
  plan.expires = now + store_.policy().gang.plan_timeout.count();
  timers_.At(plan.expires, workload.key);
  store_.SetStarted(workload, true);
  state.failures = 0;
  state.evicted_in_vain = 0;
  state.evicts_from = 0;
  ++counters_.plans["committed"];
  const std::int64_t waited = std::max<std::int64_t>(0, now - workload.creation);
  if (workload.gang) counters_.gang_waits_ms.push_back(waited);
  for (Assignment& assignment : plan.assignments) {
    if (!assignment.managed || assignment.waits_turn()) Release(workload, assignment);
  }
  Decision decision{.kind = "start",
                    .workload = workload.key,
                    .queue = QueueName(workload.queue),
                    .plan = workload.plan,
                    .generation = store_.generation(),
                    .waited_ms = waited};
  for (const Assignment& assignment : plan.assignments) {
    const PodInfo& pod = *assignment.pod;
    decision.placed.emplace_back(pod.object.meta.name, store_.node(assignment.node).name);
    // One call posts the Binding; further calls for the same pod join it.
    const std::optional<TicketId> poster = parked_.TakeOne(pod.object.meta.uid);
    if (!poster) continue;
    store_.SetCharge(pod, assignment.node, Charge::kBinding);
    actions_.push_back(ResolveBind{.ticket = *poster,
                                   .resolution = Resolution::kPost,
                                   .annotations = BindingAnnotations(pod, assignment.node)});
  }
  if (workload.gang && !workload.members.empty()) {
    const auto& first = workload.members.front()->object.meta;
    actions_.push_back(
        EmitEvent{.pod = {first.ns, first.name, first.uid},
                  .warning = false,
                  .reason = "GangStarted",
                  .note = fmt::format("Gang {} starts with {} members in queue {}.", workload.name,
                                      plan.assignments.size(), QueueName(workload.queue))});
  }
  actions_.push_back(std::move(decision));
}

void Engine::BindFinished(std::string_view uid, BindOutcome outcome, TimePoint now,
                          std::string_view error) {
  if (listener() != nullptr) listener()->OnBindFinished(uid, outcome, error, now);
  const PodInfo* pod = store_.FindPod(uid);
  static constexpr std::array<const char*, 3> kNames{"bound", "refused", "unknown"};
  ++counters_.binds[kNames[static_cast<std::size_t>(outcome)]];
  if (outcome == BindOutcome::kBound) {
    ResolveTickets(uid, Resolution::kBound, "");
    if (pod != nullptr && pod->workload != nullptr) {
      actions_.push_back(
          Decision{.kind = "bind",
                   .workload = pod->workload->key,
                   .queue = QueueName(pod->queue),
                   .plan = pod->workload->plan,
                   .generation = store_.generation(),
                   .placed = {{pod->object.meta.name,
                               pod->node == cluster::kNoNode ? "" : store_.node(pod->node).name}},
                   .waited_ms = std::max<std::int64_t>(0, now - pod->object.meta.creation)});
      store_.SetStarted(*pod->workload, true);
    }
    return;
  }
  ResolveTickets(uid, Resolution::kError, "berth: the Binding was not accepted");
  if (pod == nullptr || pod->charge != Charge::kBinding) return;
  Assignment* assignment = FindAssignment(*pod);
  if (assignment != nullptr && outcome == BindOutcome::kRefused) assignment->bind_error = error;
  if (outcome == BindOutcome::kUnknown) {
    // The pod stays charged until it is read.
    actions_.push_back(SettleBind{{pod->object.meta.ns, pod->object.meta.name, std::string(uid)}});
    return;
  }
  SettlePod(uid, now);
}

void Engine::BindSettled(std::string_view uid, TimePoint now) {
  if (listener() != nullptr) listener()->OnBindSettled(uid, now);
  SettlePod(uid, now);
}

void Engine::SettlePod(std::string_view uid, TimePoint now) {
  const PodInfo* pod = store_.FindPod(uid);
  if (pod == nullptr || pod->charge != Charge::kBinding || pod->bound()) return;
  // Calls that came while the Binding was under way have nothing left to wait for.
  ResolveTickets(uid, Resolution::kError, "berth: the Binding did not take effect");
  const NodeIndex node = pod->node;
  const Workload* workload = pod->workload;
  const bool is_victim = !states_.At(*pod).victim_of.empty();
  if (FindAssignment(*pod) == nullptr) {
    store_.Unreserve(*pod);
    if (workload != nullptr) store_.MarkChanged(*workload);
    // The Binding may have been posted in passthrough mode; the plan of the other members was made
    // while that Binding counted towards the minimum.
    const Plan* others = PlanOf(*pod);
    if (workload != nullptr && others != nullptr && !others->started && !others->joins &&
        static_cast<int>(others->assignments.size()) < workload->Missing()) {
      Dissolve(*workload, plan_ends::kBindingLost, /*hold=*/false, now);
    }
  } else if (Passthrough()) {
    GiveUpPlace(*pod, plan_ends::kPassthrough);
  } else {
    store_.SetCharge(*pod, node, Charge::kPlanned);
    Plan& plan = *states_[*workload].plan;
    if (!plan.started) {
      plan.expires = now + store_.policy().gang.plan_timeout.count();
      timers_.At(plan.expires, workload->key);
    }
    if (is_victim) {
      GiveUpPlace(*pod, plan_ends::kEvicted);
    } else if (MustGiveWay(*pod)) {
      GiveUpPlace(*pod, plan_ends::kOverLimit);
    }
  }
  if (is_victim) {  // it does not run: no plan waits for its end
    states_.SetVictim(*pod, {});
    AfterVictimGone(std::string(uid), node, now);
  }
  if (workload != nullptr && workload->started && workload->gang && !workload->Runs()) {
    BeginIncarnation(*workload, now);
  }
  RecheckPlans(node);  // the node may have shrunk while the Binding was under way
}

bool Engine::BindAbandoned(TicketId ticket) {
  if (listener() != nullptr) listener()->OnBindAbandoned(ticket);
  return parked_.Drop(ticket);
}

void Engine::ResolveTickets(std::string_view uid, Resolution resolution, const std::string& error) {
  for (const TicketId ticket : parked_.TakeAll(uid)) {
    actions_.push_back(
        ResolveBind{.ticket = ticket, .resolution = resolution, .error = error, .annotations = {}});
  }
}

/// `asked_device`: whether the member that is gone asked for devices.
void Engine::AfterMemberGone(const std::string& key, bool asked_device, TimePoint now) {
  if (in_tree_started_.contains(key)) store_.BumpFreeGeneration();  // it may need less quota
  const Workload* workload = store_.FindWorkload(key);
  if (workload == nullptr) return;
  // Pods that were in conflict with this member may be the gang now.
  if (workload->started && !workload->faulty.empty()) store_.RefreshWorkloads();
  // Members without devices run ahead of a gang by themselves. If no member has any, the gang stays
  // started until the last one is gone.
  const bool ran = workload->gang && (asked_device || workload->AsksDevices());
  if (workload->started && ran && !workload->Runs()) BeginIncarnation(*workload, now);
  WorkloadState& state = states_[*workload];
  // Nothing is held for it and nothing waits: the next pass handles the change.
  if (workload->started && !state.plan && state.hold_until == 0) return;
  store_.Refresh();
  DropFaulty(*workload);
  if (workload->started && state.hold_until != 0 && workload->Missing() > 0) {
    state.hold_until = 0;  // the pause was for other members
    store_.MarkChanged(*workload);
  }
  if (!state.plan) return;
  if (!state.plan->started) return RecheckBarrier(*workload, plan_ends::kMemberGone, now);
  if (state.plan->assignments.empty()) EndPlan(*workload);
}

/// The gang changed while its plan, of which no member is faulty, waits at the barrier. A plan
/// without room for the minimum ends, for the reason `end`; but not if the gang runs, and others
/// end already for some of what it lacks.
void Engine::RecheckBarrier(const Workload& workload, const PlanEnd& end, TimePoint now) {
  const Plan& plan = *states_[workload].plan;
  const bool goes_on = plan.joins && plan.evictions.stage == Evicting::kSent;
  const int least = goes_on ? 1 : std::max(1, workload.Missing());
  if (static_cast<int>(plan.assignments.size()) < least) {
    return Dissolve(workload, end, /*hold=*/false, now);
  }
  StartIfComplete(workload, now);
}

/// The plan, or its barrier, has become smaller: the members that have arrived may now be enough.
void Engine::StartIfComplete(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  if (!state.plan) return;
  Plan& plan = *state.plan;
  plan.barrier = BarrierOf(workload);
  // If no member has a parked call just now, the next one that comes back starts the gang.
  const bool parked = std::ranges::any_of(
      plan.assignments, [&](const Assignment& a) { return parked_.Has(a.pod->object.meta.uid); });
  if (parked && plan.assignments.arrived() >= plan.barrier) return StartGang(workload, now);
  ReleaseNext(workload);
}

/// Removes a member that is bound from the plan, and ends a plan that has no member left to bind.
void Engine::PruneBound(const PodInfo& pod, TimePoint now) {
  const Workload& workload = *pod.workload;
  WorkloadState& state = states_[workload];
  if (started_ && !workload.started && workload.SeenRunning()) store_.SetStarted(workload, true);
  if (!state.plan) return;
  const Assignment* place = FindAssignment(pod);
  const bool as_planned = place != nullptr && place->node == pod.node;
  state.plan->assignments.Remove(pod);
  if (!state.plan->assignments.empty()) {
    if (!state.plan->started && !state.plan->joins) BoundAhead(workload, as_planned, now);
    return;
  }
  if (state.plan->joins && !as_planned) NoteInVain(workload, plan_ends::kBoundAhead);
  EndPlan(workload);
  if (workload.Unplaced().empty()) state.failures = 0;
}

/// A member is bound while the plan of its gang waits at the barrier: a launcher, one that its user
/// or passthrough bound, or any where kube-scheduler does not ask Berth and binds by itself.
void Engine::BoundAhead(const Workload& workload, bool as_planned, TimePoint now) {
  DropFaulty(workload);  // what the bound member says of the gang holds from now on
  const std::optional<Plan>& plan = states_[workload].plan;
  if (!plan) return;
  if (workload.started) {
    const bool enough = static_cast<int>(plan->assignments.size()) >= workload.Missing();
    if (as_planned && enough && plan->victims.empty()) return StartGang(workload, now);
    // Its members join it one by one, where the bound one is.
    return Dissolve(workload, plan_ends::kBoundAhead, /*hold=*/false, now);
  }
  RecheckBarrier(workload, plan_ends::kBoundAhead, now);
}

}  // namespace berth::engine
