// Engine, part: filter, and what happens when kube-scheduler does not take a planned node.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/engine.h"

namespace berth::engine {

using cluster::Assignment;
using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

constexpr std::size_t kMaxLiveAnswers = 4096;
constexpr TimePoint kLiveAnswerMs = 15'000;
constexpr TimePoint kFirstAvoidMs = 10'000;
constexpr TimePoint kLastAvoidMs = 300'000;
constexpr TimePoint kCoolMs = 300'000;
constexpr std::size_t kMaxCooled = 1024;

std::optional<std::size_t> Find(std::span<const std::string_view> offered, std::string_view name) {
  const auto it = std::ranges::find(offered, name);
  if (it == offered.end()) return std::nullopt;
  return static_cast<std::size_t>(it - offered.begin());
}

FilterAnswer Refuse(ReasonId reason) { return {.reason = reason}; }

}  // namespace

FilterAnswer Engine::Filter(const FilterQuery& query, TimePoint now) {
  store_.Refresh();
  PodInfo* pod = store_.FindPod(query.uid);
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

/// The informer lags, or the caller made the pod up: answer from the request alone and hold
/// nothing. If the pod turns out to be real, bind looks at the live answer and judges again.
FilterAnswer Engine::FilterUnknown(const FilterQuery& query, TimePoint now) {
  const kube::Pod* object = query.request_pod ? query.request_pod() : nullptr;
  if (object == nullptr) return Refuse(ReasonId::kNotReady);
  // A scratch store knows the policy and this one pod: the same filing as for a real one.
  cluster::Store scratch(store_.policy());
  scratch.ShareDialects(store_);
  kube::Pod copy = *object;
  copy.node_name.clear();
  if (copy.meta.uid.empty()) copy.meta.uid = "unknown";
  PodInfo* pod = scratch.UpsertPod(std::move(copy));
  if (pod == nullptr) return Refuse(ReasonId::kNotReady);
  if (pod->workload == nullptr) return {.keep_all = true};
  if (pod->refusal.reason != ReasonId::kNone) return Refuse(pod->refusal.reason);
  if (pod->workload->gang) return Refuse(ReasonId::kWaitingForMembers);
  PodInfo probe;
  probe.object = pod->object;
  auto shape = std::make_shared<cluster::PodShape>(*pod->shape);
  shape->demand.clear();
  for (const auto& [id, amount] : pod->shape->demand) {
    shape->demand.emplace_back(store_.resources().InternOfPod(scratch.resources().Name(id)),
                               amount);
  }
  std::ranges::sort(shape->demand);
  if (shape->device != cluster::kPods) {
    shape->device = store_.resources().Intern(scratch.resources().Name(pod->shape->device));
  }
  probe.shape = shape;
  std::vector<bool> offered(store_.nodes().size(), false);
  for (const auto name : query.offered) {
    if (const NodeIndex node = store_.FindNode(name); node != cluster::kNoNode) {
      offered[static_cast<std::size_t>(node)] = true;
    }
  }
  const policy::PlacementRequest request{
      .pods = {&probe}, .min = 1, .allowed = [&](NodeIndex node) {
        return offered[static_cast<std::size_t>(node)];
      }};
  const auto placement = policy::Place(request, policy::Overlay(store_), scorer_);
  if (!placement.ok()) {
    const bool elsewhere = placement.verdict.reason == ReasonId::kSearchExhausted;
    return Refuse(elsewhere ? ReasonId::kNodesNotOffered : placement.verdict.reason);
  }
  const std::string& name = store_.node(placement.placed.front().node).name;
  if (live_answers_.size() >= kMaxLiveAnswers) live_answers_.clear();
  live_answers_[std::string(query.uid)] = {.nodes = {name}, .expires = now + kLiveAnswerMs};
  return {.kept = {*Find(query.offered, name)}};
}

FilterAnswer Engine::FilterManaged(PodInfo& pod, const FilterQuery& query, TimePoint now) {
  if (pod.bound()) {
    const auto at = Find(query.offered, pod.object.node_name);
    return at ? FilterAnswer{.kept = {*at}} : Refuse(ReasonId::kNotReady);
  }
  if (pod.charge == Charge::kBinding) {
    const auto at = Find(query.offered, store_.node(pod.node).name);
    return at ? FilterAnswer{.kept = {*at}} : Refuse(ReasonId::kNotReady);
  }
  if (pod.refusal.reason != ReasonId::kNone) return Refuse(pod.refusal.reason);
  if (HasOurGate(pod) || HasForeignGate(pod)) {
    // kube-scheduler saw the gates go before the informer did: go by the plan, if there is one.
    if (pod.charge == Charge::kNone) return Refuse(ReasonId::kNotReady);
  }
  Workload& workload = *pod.workload;
  if (workload.in_tree) return FilterInTree(pod, query, now);
  if (pod.charge == Charge::kNone) {
    pod.asked = true;
    store_.MarkChanged(workload);
    filtering_ = &pod;
    PlanPass(now);
    filtering_ = nullptr;
  }
  Assignment* assignment = FindAssignment(pod);
  if (assignment == nullptr) return Refuse(workload.verdict.reason);
  auto at = Find(query.offered, store_.node(assignment->node).name);
  if (!at) {
    const bool probe =
        query.offered.size() == 1 && query.offered.front() == pod.object.nominated_node;
    if (probe) return Refuse(ReasonId::kNodesNotOffered);
    const NodeIndex refused = assignment->node;
    // Nominated and yet not offered: kube-scheduler tried it first and refused it. Otherwise it
    // may just not be in the sample.
    if (pod.object.nominated_node == store_.node(refused).name) {
      RememberRefusal(workload, pod, refused, now);
    }
    std::vector<bool> offered(store_.nodes().size(), false);
    for (const auto name : query.offered) {
      if (const NodeIndex node = store_.FindNode(name); node != cluster::kNoNode) {
        offered[static_cast<std::size_t>(node)] = true;
      }
    }
    const auto allowed = [&](NodeIndex node) { return offered[static_cast<std::size_t>(node)]; };
    filtering_ = &pod;
    const bool moved = ReplanMember(workload, pod, allowed, now);
    filtering_ = nullptr;
    if (!moved) {
      pod.asked = true;
      return Refuse(pod.workload->plan ? ReasonId::kNodesNotOffered
                                       : ReasonId::kRefusedByScheduler);
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

/// maxNodesReturned > 1: hands kube-scheduler's scorers more nodes where the pod would fit too.
void Engine::KeepMore(PodInfo& pod, const FilterQuery& query, TimePoint now, FilterAnswer& answer) {
  const policy::Overlay overlay(store_);
  std::vector<std::pair<policy::Score, std::size_t>> others;
  for (std::size_t i = 0; i < query.offered.size(); ++i) {
    const NodeIndex node = store_.FindNode(query.offered[i]);
    if (node == cluster::kNoNode || node == pod.node) continue;
    if (const auto score = scorer_.Of(pod.shape, overlay, node)) others.emplace_back(*score, i);
  }
  std::ranges::sort(others, std::ranges::greater{});
  const auto most = static_cast<std::size_t>(store_.policy().placement.max_nodes_returned);
  if (live_answers_.size() >= kMaxLiveAnswers) live_answers_.clear();
  LiveAnswer& live = live_answers_[pod.object.meta.uid];
  live = {.nodes = {}, .expires = now + kLiveAnswerMs};
  for (const auto& [score, index] : others) {
    if (answer.kept.size() >= most) break;
    answer.kept.push_back(index);
    live.nodes.emplace_back(query.offered[index]);
  }
}

/// The pause grows with the plans that failed: kube-scheduler may only have been behind us (it
/// still counts a gang whose plan is gone), or the node may never do.
void Engine::RememberRefusal(Workload& workload, const PodInfo& pod, NodeIndex node,
                             TimePoint now) {
  const TimePoint until =
      now + std::min(kFirstAvoidMs << std::min(workload.failures, 5), kLastAvoidMs);
  workload.avoid.push_back({.shape = pod.shape.get(), .node = node, .until = until});
  timers_.emplace(until, workload.key);
}

/// Where members of these shapes are not to be tried: what kube-scheduler refused this workload,
/// and what a kubelet refused anybody.
std::vector<cluster::Avoid> Engine::AvoidFor(const Workload& workload,
                                             std::span<PodInfo* const> pods) const {
  std::vector<cluster::Avoid> avoid = workload.avoid;
  for (const Cooled& cooled : cooled_) {
    const auto alike = [&](const PodInfo* pod) { return pod->shape == cooled.shape; };
    if (std::ranges::none_of(pods, alike)) continue;
    avoid.push_back({.shape = cooled.shape.get(), .node = cooled.node, .until = cooled.until});
  }
  return avoid;
}

/// A pod that was bound and then refused by the kubelet: the next of its shape would fare no better
/// there. Only what a kubelet says of its own resources; an eviction is no such word.
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
  std::erase_if(cooled_, [&](const Cooled& c) { return c.shape == pod->shape && c.node == node; });
  if (cooled_.size() >= kMaxCooled) cooled_.erase(cooled_.begin());
  cooled_.push_back({.shape = pod->shape, .node = node, .until = now + kCoolMs});
  timers_.emplace(now + kCoolMs, std::string());
  const auto& meta = object.meta;
  actions_.push_back(EmitEvent{
      .pod = {meta.ns, meta.name, meta.uid},
      .warning = true,
      .reason = "NodeCoolingDown",
      .note = fmt::format("The kubelet of {} rejected this pod ({}). Berth plans no pod of its "
                          "shape there for {} minutes.",
                          object.node_name, reason, kCoolMs / 60'000)});
  for (PodInfo* other : std::vector<PodInfo*>(store_.node(node).pods)) {
    const bool planned = other->charge == Charge::kPlanned && other->workload != nullptr;
    if (!planned || other->shape != pod->shape || other->node != node) continue;
    GiveUpPlace(*other, "a kubelet rejected a pod of this shape there");
  }
}

/// Finds another node for a member whose planned one is refused: first moving it alone, then with
/// the members that have not been answered yet. Bounded by the plan's number of replans.
bool Engine::ReplanMember(Workload& workload, PodInfo& pod,
                          const std::function<bool(NodeIndex)>& allowed, TimePoint now) {
  cluster::Plan& plan = *workload.plan;
  const int limit = 16 + 4 * static_cast<int>(plan.assignments.size());
  if (++plan.replans <= limit) {
    if (MoveMembers(workload, {&pod}, allowed, &pod)) return true;
    std::vector<PodInfo*> moving{&pod};
    for (const Assignment& a : plan.assignments) {
      if (a.pod != &pod && !a.answered && !a.arrived && a.pod->charge == Charge::kPlanned) {
        moving.push_back(a.pod);
      }
    }
    if (moving.size() > 1 && MoveMembers(workload, moving, allowed, &pod)) return true;
  }
  if (!plan.committed) {
    Dissolve(workload, "kube-scheduler refused the planned nodes", /*hold=*/true, now);
    return false;
  }
  // The gang runs: only this member waits, and is tried again when something changes.
  store_.Release(pod);
  std::erase_if(plan.assignments, [&pod](const Assignment& a) { return a.pod == &pod; });
  if (plan.assignments.empty()) workload.plan.reset();
  workload.hold_until = std::max(workload.hold_until, now + 10'000);
  timers_.emplace(workload.hold_until, workload.key);
  return false;
}

/// Places `moving` anew, the others staying; `allowed` binds `asking` alone.
bool Engine::MoveMembers(Workload& workload, std::vector<PodInfo*> moving,
                         const std::function<bool(NodeIndex)>& allowed, PodInfo* asking) {
  store_.Refresh();  // news of pods come between passes, when nodes may be new
  policy::Overlay overlay(store_);
  for (const PodInfo* pod : moving) overlay.Remove(*pod);
  const auto inside = StayInDomain(workload, moving);
  const std::vector<cluster::Avoid> avoid = AvoidFor(workload, moving);
  policy::PlacementRequest request{.pods = {asking}, .min = 1, .avoid = avoid};
  if (!inside) request.topology_required = workload.topology_required;
  request.allowed = [&](NodeIndex node) {
    return (!allowed || allowed(node)) && (!inside || inside(node));
  };
  std::vector<policy::Placed> placed;
  const auto first = policy::Place(request, overlay, scorer_);
  if (!first.ok()) return false;
  placed = first.placed;
  if (moving.size() > 1) {
    overlay.Place(*asking, placed.front().node, placed.front().devices);
    std::vector<PodInfo*> rest(moving.begin() + 1, moving.end());
    request.pods = {rest.begin(), rest.end()};
    request.min = static_cast<int>(rest.size());
    request.allowed = inside;
    request.topology_required.clear();
    if (!inside && !workload.topology_required.empty()) {
      // Nobody stays: the domain is where the asking member went.
      for (const auto& [name, nodes] : policy::GroupBy(store_, workload.topology_required)) {
        if (std::ranges::find(nodes, placed.front().node) == nodes.end()) continue;
        request.allowed = [in = std::set<NodeIndex>(nodes.begin(), nodes.end())](NodeIndex node) {
          return in.contains(node);
        };
      }
    }
    const auto others = policy::Place(request, overlay, scorer_);
    if (!others.ok()) return false;
    placed.insert(placed.end(), others.placed.begin(), others.placed.end());
  }
  if (cluster::Verdict ignored; !ChargesFit(workload, placed, ignored)) return false;
  ++counters_.plans["replanned"];
  for (PodInfo* pod : moving) store_.Release(*pod);
  for (const policy::Placed& p : placed) {
    PodInfo& pod = *store_.FindPod(p.pod->object.meta.uid);
    Assignment& assignment = *FindAssignment(pod);
    const bool moved = assignment.node != p.node;
    assignment.node = p.node;
    store_.SetCharge(pod, p.node, Charge::kPlanned, p.devices);
    if (!moved) continue;
    assignment.answered = false;
    assignment.arrived = false;
    ResolveTickets(pod.object.meta.uid, ResolveBind::Verdict::kError,
                   "berth: planned on another node now");
    if (&pod != filtering_ && assignment.managed) Release(workload, assignment);
  }
  return true;
}

/// kube-scheduler does not call us when its own filters leave no node: then only the pod's status
/// says so. A message of ours in it, or one that stood there before the release, is no refusal.
void Engine::NoticeRefusal(PodInfo& pod, TimePoint now) {
  Assignment* assignment = FindAssignment(pod);
  if (assignment == nullptr || pod.charge != Charge::kPlanned) return;
  const std::string& planned = store_.node(assignment->node).name;
  if (pod.object.nominated_node == planned) {
    assignment->nomination_seen = true;
    return;
  }
  const auto& condition = pod.object.pod_scheduled;
  if (!condition || condition->status) return;
  const bool cleared = assignment->nomination_seen && pod.object.nominated_node.empty();
  if (condition->reason == "SchedulerError" && cleared) {
    // A bind that stood too long: kube-scheduler forgot the nomination, the plan did not.
    Release(*pod.workload, *assignment);
    return;
  }
  if (assignment->arrived || condition->reason != "Unschedulable") return;
  if (condition->message.find("berth:") != std::string::npos) return;
  if (!cleared && (!assignment->nomination_seen || condition->message == assignment->condition)) {
    return;
  }
  RememberRefusal(*pod.workload, pod, assignment->node, now);
  ReplanMember(*pod.workload, pod, {}, now);
}

}  // namespace berth::engine
