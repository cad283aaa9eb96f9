// Engine, part: filter, and what happens when kube-scheduler does not take a planned node.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "engine/decide.h"
#include "engine/engine.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

constexpr TimePoint kFirstAvoidMs = 10'000;
constexpr TimePoint kLastAvoidMs = 300'000;
std::optional<std::size_t> Find(std::span<const std::string_view> offered, std::string_view name) {
  const auto it = std::ranges::find(offered, name);
  if (it == offered.end()) return std::nullopt;
  return static_cast<std::size_t>(it - offered.begin());
}

FilterAnswer Refuse(ReasonId reason) { return {.reason = reason}; }

/// Whether kube-scheduler offers a node, by node index.
std::function<bool(NodeIndex)> IsOffered(const FilterQuery& query, const cluster::Store& store) {
  std::vector<bool> offered(store.nodes().size(), false);
  for (const auto name : query.offered) {
    if (const NodeIndex node = store.FindNode(name); node != cluster::kNoNode) {
      offered[static_cast<std::size_t>(node)] = true;
    }
  }
  return [offered = std::move(offered)](NodeIndex node) {
    return offered[static_cast<std::size_t>(node)];
  };
}

}  // namespace

FilterAnswer Engine::Filter(const FilterQuery& query, TimePoint now) {
  store_.Refresh();
  const PodInfo* pod = store_.FindPod(query.uid);
  if (listener() != nullptr) {
    const bool matters = pod == nullptr && query.request_pod;
    listener()->OnFilter(query, matters ? query.request_pod() : nullptr, now);
  }
  if (Passthrough()) return {.keep_all = true};
  if (pod == nullptr) return FilterUnknown(query, now);
  if (pod->workload == nullptr) {
    // Not ours to plan, unless it is ending: then there is nothing left to place.
    return pod->terminating() ? Refuse(ReasonId::kNotReady) : FilterAnswer{.keep_all = true};
  }
  return FilterManaged(*pod, query, now);
}

/// The informer lags, or the caller made the pod up: answers from the request alone and holds
/// nothing. If the pod is real, bind looks at the live answer and judges again.
FilterAnswer Engine::FilterUnknown(const FilterQuery& query, TimePoint now) {
  const kube::Pod* object = query.request_pod ? query.request_pod() : nullptr;
  if (object == nullptr) return Refuse(ReasonId::kNotReady);
  if (object->phase == kube::PodPhase::kSucceeded || object->phase == kube::PodPhase::kFailed) {
    return Refuse(ReasonId::kNotReady);
  }
  kube::Pod copy = *object;
  copy.node_name.clear();
  const std::unique_ptr<PodInfo> pod = store_.Appraise(std::move(copy));
  if (pod == nullptr) return {.keep_all = true};
  if (pod->refusal.reason != ReasonId::kNone) return Refuse(pod->refusal.reason);
  if (!pod->claims->gang.name.empty()) return Refuse(ReasonId::kWaitingForMembers);
  // The best node of all is nearly always offered; looking up all offered nodes takes longer.
  policy::PlacementRequest request{.pods = {pod.get()}, .min = 1};
  auto placement = policy::Place(request, policy::Overlay(store_), scorer_);
  const auto planned = [&] {
    return placement.ok() ? Find(query.offered, store_.node(placement.placed.front().node).name)
                          : std::nullopt;
  };
  if (placement.ok() && !planned()) {
    request.allowed = IsOffered(query, store_);
    placement = policy::Place(request, policy::Overlay(store_), scorer_);
  }
  const auto at = planned();
  if (!at) {
    const bool elsewhere = placement.verdict.reason == ReasonId::kSearchExhausted;
    return Refuse(elsewhere ? ReasonId::kNodesNotOffered : placement.verdict.reason);
  }
  const std::string& name = store_.node(placement.placed.front().node).name;
  live_answers_.Note(query.uid, {name}, now);
  return {.kept = {*at}};
}

/// Whether kube-scheduler asks us about the pod before it binds it: the policy names one of its
/// resources as a device, or it has asked about this pod or one like it in the gang. Its own list
/// (managedResources) may differ from the policy's while one of them is being changed.
bool Engine::IsManaged(const PodInfo& pod, const Shapes& called) {
  return pod.shape->asks_device || called.contains(pod.shape.get());
}

/// The shapes of the members that kube-scheduler has asked about.
Engine::Shapes Engine::CalledShapes(const Workload& workload) const {
  Shapes called;
  for (const PodInfo* pod : workload.members) {
    if (states_.At(*pod).called) called.insert(pod->shape.get());
  }
  return called;
}

/// A member that was planned as one that never calls has called. From now on it and the members of
/// its shape can be held at the barrier, and must be, unless the gang runs already.
void Engine::NoteCall(const PodInfo& pod) {
  states_[pod].called = true;
  const Assignment* asking = FindAssignment(pod);
  if (asking == nullptr || asking->managed) return;
  const Workload& workload = *pod.workload;
  Plan& plan = *states_[workload].plan;
  const bool runs = std::ranges::any_of(workload.members, [&](const PodInfo* other) {
    return other->shape == pod.shape && (other->bound() || other->charge == Charge::kBinding);
  });
  if (runs || workload.SeenRunning()) return;
  for (Assignment& a : plan.assignments) {
    if (a.managed || a.pod->shape != pod.shape) continue;
    plan.assignments.SetManaged(a);
    if (a.pod != &pod) {
      if (!plan.started && !AwaitsEvictions(pod)) Release(workload, a);
    } else if (a.waits_turn()) {
      plan.assignments.SetPhase(a, MemberPhase::kReleased);  // it is on its way already
    }
  }
  plan.started = false;
  store_.SetStarted(workload, false);
  plan.barrier = BarrierOf(workload);
}

FilterAnswer Engine::FilterManaged(const PodInfo& pod, const FilterQuery& query, TimePoint now) {
  NoteCall(pod);
  if (pod.bound()) {
    const auto at = Find(query.offered, pod.object.node_name);
    return at ? FilterAnswer{.kept = {*at}} : Refuse(ReasonId::kNotReady);
  }
  if (pod.charge == Charge::kBinding) {
    const auto at = Find(query.offered, store_.node(pod.node).name);
    return at ? FilterAnswer{.kept = {*at}} : Refuse(ReasonId::kNotReady);
  }
  if (pod.refusal.reason != ReasonId::kNone) {
    DropFaulty(*pod.workload);
    return Refuse(pod.refusal.reason);
  }
  if (HasOurGate(pod) || HasForeignGate(pod)) {
    // kube-scheduler saw the gates removed before the informer did: follow the plan, if there is
    // one.
    if (pod.charge == Charge::kNone) return Refuse(ReasonId::kNotReady);
  }
  const Workload& workload = *pod.workload;
  WorkloadState& state = states_[workload];
  if (workload.in_tree) return FilterInTree(pod, query, now);
  if (pod.charge == Charge::kNone) {
    // A pod that was refused before waits for the events listed at Activate; asking again is none
    // of them.
    if (!std::exchange(states_[pod].asked, true)) store_.MarkChanged(workload);
    PlanPass(&pod, now);
  }
  Assignment* assignment = FindAssignment(pod);
  if (assignment == nullptr) {
    const ReasonId reason = state.verdict.reason;  // kNone: the pass did not reach it
    return Refuse(reason == ReasonId::kNone ? ReasonId::kNotReady : reason);
  }
  if (AwaitsEvictions(pod)) return Refuse(ReasonId::kWaitingForVictims);
  if (assignment->held_until != 0) return Refuse(ReasonId::kRefusedByScheduler);
  if (assignment->waits_turn()) return Refuse(ReasonId::kStarting);
  auto at = Find(query.offered, store_.node(assignment->node).name);
  if (!at) {
    const bool probe =
        query.offered.size() == 1 && query.offered.front() == pod.object.nominated_node;
    if (probe) return Refuse(ReasonId::kNodesNotOffered);
    if (!MoveToOffered(pod, query, now)) {
      states_[pod].asked = true;
      return Refuse(state.plan ? ReasonId::kNodesNotOffered : ReasonId::kRefusedByScheduler);
    }
    assignment = FindAssignment(pod);
    at = Find(query.offered, store_.node(assignment->node).name);
    if (!at) return Refuse(ReasonId::kNodesNotOffered);
  }
  assignment->answered = true;
  FilterAnswer answer{.kept = {*at}};
  if (store_.policy().placement.max_nodes_returned > 1 && !workload.gang) {
    KeepMore(pod, query, now, answer);
  }
  return answer;
}

/// Plans `pod` on one of the offered nodes; the planned node is not among them.
bool Engine::MoveToOffered(const PodInfo& pod, const FilterQuery& query, TimePoint now) {
  const Workload& workload = *pod.workload;
  const NodeIndex planned = FindAssignment(pod)->node;
  // Nominated but not offered: kube-scheduler tried it first and refused it. If not nominated, it
  // may just be missing from the sample. Where victims are ending, it is not offered until they
  // have ended.
  if (pod.object.nominated_node == store_.node(planned).name &&
      !MayCountVictims(*states_[workload].plan, now)) {
    RememberRefusal(workload, pod, planned, now);
  }
  return ReplanMember(workload, pod, IsOffered(query, store_), /*called=*/true, now);
}

/// For maxNodesReturned > 1: gives kube-scheduler's scorers more nodes where the pod would fit,
/// too.
void Engine::KeepMore(const PodInfo& pod, const FilterQuery& query, TimePoint now,
                      FilterAnswer& answer) {
  const policy::Overlay overlay(store_);
  std::vector<std::pair<policy::Score, std::size_t>> others;
  for (std::size_t i = 0; i < query.offered.size(); ++i) {
    const NodeIndex node = store_.FindNode(query.offered[i]);
    if (node == cluster::kNoNode || node == pod.node) continue;
    if (const auto score = scorer_.Of(pod.shape, overlay, node)) others.emplace_back(*score, i);
  }
  std::ranges::sort(others, std::ranges::greater{});
  const auto most = static_cast<std::size_t>(store_.policy().placement.max_nodes_returned);
  std::vector<std::string> named;
  for (const auto& [score, index] : others) {
    if (answer.kept.size() >= most) break;
    answer.kept.push_back(index);
    named.emplace_back(query.offered[index]);
  }
  live_answers_.Note(pod.object.meta.uid, std::move(named), now);
}

/// The pause grows with the number of failed plans: kube-scheduler may only have lagged behind us
/// (it still counts a gang whose plan is gone), or the node may never be suitable.
void Engine::RememberRefusal(const Workload& workload, const PodInfo& pod, NodeIndex node,
                             TimePoint now) {
  const int failures = states_[workload].failures;
  const TimePoint until = now + std::min(kFirstAvoidMs << std::min(failures, 5), kLastAvoidMs);
  refusals_.Refused(workload, {.shape = pod.shape, .node = node, .until = until});
  timers_.At(until, workload.key);
}

/// Call when the node's devices or conditions have changed, or the node is gone.
void Engine::ForgetRefusals(NodeIndex node) {
  refusals_.ForgetNode(node);
  for (const PodInfo* pod : store_.node(node).pods) {
    Assignment* assignment = FindAssignment(*pod);
    if (assignment == nullptr || assignment->held_until == 0) continue;
    assignment->held_until = 1;  // it is due
    store_.MarkChanged(*pod->workload);
  }
}

/// The pod was bound after the last rejection of its shape there, and runs.
void Engine::NoticeSuccess(const PodInfo& pod) {
  if (pod.object.phase != kube::PodPhase::kRunning) return;
  refusals_.Succeeded(*pod.shape, pod.node, states_.At(pod).bound_at);
}

/// A pod was bound and then rejected by the kubelet: the next one of its shape would be rejected,
/// too. Counts only what a kubelet says about its own resources; an eviction does not count.
void Engine::NoticeRejection(const kube::Pod& object, TimePoint now) {
  if (!started_ || object.phase != kube::PodPhase::kFailed || object.node_name.empty()) return;
  static constexpr std::array<std::string_view, 4> kReasons{
      "UnexpectedAdmissionError", "TopologyAffinityError", "SMTAlignmentError", "NodeAffinity"};
  const std::string& reason = object.status_reason;
  if (!reason.starts_with("OutOf") && std::ranges::find(kReasons, reason) == kReasons.end()) return;
  const PodInfo* pod = store_.FindPod(object.meta.uid);
  const NodeIndex node = store_.FindNode(object.node_name);
  if (pod == nullptr || pod->workload == nullptr || node == cluster::kNoNode) return;
  if (!store_.node(node).present) return;  // its slot is for the next new one
  const Refusals::Pause pause = refusals_.Rejected(pod->shape, node, now);
  timers_.AllAt(pause.again);
  timers_.AllAt(pause.until);
  const auto& meta = object.meta;
  actions_.push_back(EmitEvent{
      .pod = {meta.ns, meta.name, meta.uid},
      .warning = true,
      .reason = "NodeCoolingDown",
      .note = fmt::format(
          "The kubelet of {} rejected this pod ({}). Berth plans no pod of its shape on that node "
          "for {} s, and for {} minutes only if no other node has room.",
          object.node_name, reason, SecondsUntil(pause.again, now), (pause.until - now) / 60'000)});
  for (const PodInfo* other : std::vector<const PodInfo*>(store_.node(node).pods)) {
    const bool planned = other->charge == Charge::kPlanned && other->workload != nullptr;
    if (!planned || other->shape != pod->shape || other->node != node) continue;
    GiveUpPlace(*other, plan_ends::kPodRejected);
  }
}

/// Finds another node for a member whose planned node is refused: first by moving it alone, then
/// together with the members that have not been answered yet. Bounded by the plan's number of
/// replans. `called`: its own filter call found the refusal and answers with the new node.
bool Engine::ReplanMember(const Workload& workload, const PodInfo& pod,
                          const std::function<bool(NodeIndex)>& allowed, bool called,
                          TimePoint now) {
  WorkloadState& state = states_[workload];
  Plan& plan = *state.plan;
  const int limit = 16 + 4 * static_cast<int>(plan.assignments.size());
  if (++plan.replans <= limit) {
    if (MoveMembers(workload, {&pod}, allowed, pod, called, now)) return true;
    std::vector<const PodInfo*> moving;
    for (const Assignment& a : plan.assignments) {
      const bool free_to_move = !a.answered && !a.arrived() && a.held_until == 0;
      if (a.pod == &pod || (free_to_move && a.pod->charge == Charge::kPlanned)) {
        moving.push_back(a.pod);
      }
    }
    if (moving.size() > 1 && MoveMembers(workload, moving, allowed, pod, called, now)) return true;
  }
  // The call may be older than the plan: then kube-scheduler tries the pod again once it sees its
  // nomination, and no node was refused.
  const Assignment& place = *FindAssignment(pod);
  const bool is_known = place.answered || pod.object.nominated_node == store_.node(place.node).name;
  if (called && !is_known && now < plan.made + kSchedulerLag) return false;
  const int needed = std::max(1, workload.Missing());
  const bool spare = workload.gang && std::ssize(plan.assignments) > needed;
  if (!plan.started && spare) {
    // An elastic gang starts without it.
    Withdraw(pod);
    LeavePlan(pod, plan_ends::kStartsWithout);
    states_[pod].asked = true;
    StartIfComplete(workload, now);
    return false;
  }
  // Otherwise they were evicted for nothing.
  if (AwaitsVictims(plan) || MayCountVictims(plan, now)) return false;
  if (!plan.started) {
    Dissolve(workload, plan_ends::kNodesRefused, /*hold=*/true, now);
    return false;
  }
  // The gang runs: only this member waits. A member that the minimum needs keeps its room
  // meanwhile.
  if (NeededByMinimum(workload, pod)) {
    Assignment& held = *FindAssignment(pod);
    plan.assignments.SetPhase(held, MemberPhase::kReserved);
    held.expires = 0;
    HoldPlace(workload, held, now + kFirstAvoidMs);
    return false;
  }
  // Any other member is tried again when something changes.
  LeavePlan(pod, plan_ends::kNodeRefused);
  state.hold_until = std::max(state.hold_until, now + 10'000);
  timers_.At(state.hold_until, workload.key);
  return false;
}

/// Moves these members, while the others stay; `allowed` applies to `asking` only.
bool Engine::MoveMembers(const Workload& workload, const std::vector<const PodInfo*>& moving,
                         const std::function<bool(NodeIndex)>& allowed, const PodInfo& asking,
                         bool called, TimePoint now) {
  store_.Refresh();  // pod events arrive between passes, when nodes may be new
  store_.RefreshTopology();
  const std::optional<Reservation> decision =
      DecideMove(Now(now), workload, moving, allowed, asking);
  if (!decision) return false;
  Commit(workload, *decision, called ? &asking : nullptr, now);
  return true;
}

/// kube-scheduler does not call us when its own filters leave no node: then only the pod's status
/// shows it. A message of ours in the status, or one from before the release, is no refusal.
void Engine::NoticeRefusal(const PodInfo& pod, TimePoint now) {
  Assignment* assignment = FindAssignment(pod);
  if (assignment == nullptr || pod.charge != Charge::kPlanned) return;
  if (assignment->held_until != 0 || assignment->waits_turn()) return;  // not released yet
  const std::string& planned = store_.node(assignment->node).name;
  if (pod.object.nominated_node == planned) {
    assignment->nomination_seen = true;
    return;
  }
  const auto& condition = pod.object.pod_scheduled;
  if (!condition || condition->status) return;
  const bool cleared = assignment->nomination_seen && pod.object.nominated_node.empty();
  if (condition->reason == "SchedulerError" && cleared) {
    // A bind call was parked too long: kube-scheduler forgot the nomination, but the plan did not.
    Release(*pod.workload, *assignment);
    return;
  }
  if (assignment->arrived() || condition->reason != "Unschedulable") return;
  if (condition->message.find("berth:") != std::string::npos) return;
  const bool same = condition->message == assignment->condition;
  if (!cleared && (!assignment->nomination_seen || same)) return;
  if (cleared && same && now < PlanOf(pod)->made + kSchedulerLag) {
    // The outcome of an attempt that began before the plan: it clears the nomination, too.
    Release(*pod.workload, *assignment);
    return;
  }
  RememberRefusal(*pod.workload, pod, assignment->node, now);
  ReplanMember(*pod.workload, pod, {}, /*called=*/false, now);
}

}  // namespace berth::engine
