// Engine, part: judging one workload, and charging its plan to the ledger.
#include <fmt/format.h>

#include <algorithm>

#include "engine/engine.h"
#include "policy/neighbours.h"
#include "policy/rank_order.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::QueueId;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

/// `placeable` of its members exist, are not bound and could be placed.
Verdict WaitsForMembers(const Workload& workload, int placeable) {
  Verdict verdict{.reason = ReasonId::kWaitingForMembers,
                  .want = workload.min_member,
                  .have = placeable + workload.BoundCount() + workload.finished};
  if (workload.finished > 0) {
    verdict.subject = fmt::format(
        "The gang goes on with {} members; {} have succeeded, {} exist that can be placed.",
        workload.min_member, workload.finished, verdict.have - workload.finished);
  }
  return verdict;
}

}  // namespace

void Engine::Judge(const Workload& workload, const PodInfo* caller, TimePoint now) {
  WorkloadState& state = states_[workload];
  if (Passthrough()) {
    for (const PodInfo* pod : workload.members) Ungate(*pod);
    for (const PodInfo* pod : workload.faulty) Ungate(*pod);
    return;
  }
  std::vector<const PodInfo*> pods;
  for (const PodInfo* pod : workload.Unplaced()) {
    if (!HasForeignGate(*pod)) pods.push_back(pod);
  }
  const bool nothing_to_plan = !workload.gang && !pods.empty() && !pods.front()->shape->asks_device;
  if (nothing_to_plan) {
    for (const PodInfo* pod : pods) Ungate(*pod);
    return;
  }
  if (workload.in_tree) {
    JudgeInTree(workload, pods);
    return;
  }
  if (state.hold_until > now) {
    SetVerdict(workload, {.reason = ReasonId::kCoolingDown,
                          .want = state.failures,
                          .have = (state.hold_until - now + 999) / 1000});
    return;
  }
  pods = policy::RankOrder(pods);
  if (workload.started) {
    RetryHeld(workload, now);
    PlaceLate(workload, pods, now);
    return;
  }
  // A launcher without devices may run already, and other members may have succeeded: they count
  // towards the minimum, but need no place any more.
  const int missing = workload.Missing();
  if (static_cast<int>(pods.size()) < std::max(1, missing)) {
    state.gathered = 0;
    SetVerdict(workload, WaitsForMembers(workload, static_cast<int>(pods.size())));
    active_.Rest(workload);  // until a member comes or goes
    return;
  }
  if (ResumePreemption(workload, now)) return;
  const int have = static_cast<int>(pods.size()) + workload.BoundCount() + workload.finished;
  if (Settles(workload, have, now)) {
    Verdict verdict = WaitsForMembers(workload, static_cast<int>(pods.size()));
    verdict.subject = fmt::format(
        "The gang has its minimum of {}; {} of {} members exist, and it waits a moment for more.",
        workload.min_member, have, workload.size);
    SetVerdict(workload, std::move(verdict));
    return;
  }
  JudgeWhole(workload, std::move(pods), std::max(1, missing), caller, now);
}

/// Places at least `min` of `pods`, in order, or none. If it is known exactly what the workload
/// waits for, it rests.
void Engine::JudgeWhole(const Workload& workload, std::vector<const PodInfo*> pods, int min,
                        const PodInfo* caller, TimePoint now) {
  const bool more = static_cast<int>(workload.members.size()) + workload.finished > workload.size;
  if (more) PutStrangersLast(pods);
  const bool may_rest = pods.front()->object.nominated_node.empty();  // see ResumePreemption
  int fit = 0;
  if (const Verdict verdict = GrantMembers(workload, pods, min, fit);
      verdict.reason != ReasonId::kNone) {
    SetVerdict(workload, verdict);
    const std::optional<Preemptor> preemptor = PreemptorOf(workload);
    if (preemptor) LetPreempt(workload, *preemptor);
    // No queue event reports what in-tree groups still need. And if there are more members than the
    // gang announced, it depends on the nodes which of them come first.
    if (!may_rest || more || !in_tree_started_.empty()) return;
    wakeups_.RestForQuota(workload, store_.resources().Intern(verdict.subject), verdict.want,
                          preemptor);
    return;
  }
  pods.resize(static_cast<std::size_t>(fit));
  const std::optional<Failure> failure = PlanWhole(workload, pods, min, caller, now);
  if (states_[workload].plan) return;
  const std::optional<Preemptor> preemptor = PreemptorOf(workload);
  if (preemptor) LetPreempt(workload, *preemptor);
  if (failure && may_rest) wakeups_.RestForRoom(workload, *failure, preemptor);
}

/// Whether an elastic gang with `have` existing members waits for more: until none has come for a
/// second, ten seconds at most.
bool Engine::Settles(const Workload& workload, int have, TimePoint now) {
  WorkloadState& state = states_[workload];
  constexpr TimePoint kPause = 1'000;
  constexpr TimePoint kMost = 10'000;
  if (have < workload.size && have > state.gathered) {
    if (state.gathered == 0) state.settled_at_most = now + kMost;
    state.gathered = have;
    state.settled_at = std::min(now + kPause, state.settled_at_most);
    timers_.emplace(state.settled_at, workload.key);
  }
  if (have < workload.size && state.settled_at > now) return true;
  state.settled_at = 0;
  return false;
}

/// For a gang with more members than it announced: a member that no node could ever take, or the
/// only one of its shape, must not be what the gang waits for, nor take a place of the minimum.
void Engine::PutStrangersLast(std::vector<const PodInfo*>& pods) {
  std::map<const cluster::PodShape*, int> like;
  for (const PodInfo* pod : pods) ++like[pod->shape.get()];
  std::map<const cluster::PodShape*, bool> possible;
  for (const auto& [shape, count] : like) {
    const auto& row = scorer_.fit().Row(*shape);
    possible[shape] = std::ranges::any_of(store_.nodes(), [&](const auto& node) {
      return row[static_cast<std::size_t>(node->index)] != 0 &&
             std::ranges::all_of(store_.DemandOn(*shape, *node), [&](const auto& demand) {
               return demand.second <= node->allocatable[demand.first];
             });
    });
  }
  std::ranges::stable_sort(pods, {}, [&](const PodInfo* pod) {
    const cluster::PodShape* shape = pod->shape.get();
    // A launcher is the only one of its shape, too.
    return std::pair(!possible[shape], shape->asks_device && like[shape] == 1);
  });
}

/// See policy::GrantMembers.
Verdict Engine::GrantMembers(const Workload& workload, std::span<const PodInfo* const> pods,
                             int min, int& fit) const {
  return policy::GrantMembers(QuotaFor(workload), workload.queue, pods, min, fit);
}

/// See policy::GrantCharge. Room that is held while victims end is over the cap until they are
/// gone: it moves only to where it is not over the cap.
Verdict Engine::GrantCharge(const Workload& workload,
                            std::span<const policy::Placed> placed) const {
  const std::optional<Plan>& plan = states_.At(workload).plan;
  const bool for_victims = plan && !plan->victims.empty();
  return policy::GrantCharge(QuotaFor(workload), workload.queue, placed, for_victims);
}

/// The key under which a failure to place these pods is remembered. It is known only for members of
/// one shape without special conditions: what failed before cannot fit now. Where neighbours
/// matter, the failure holds for pods with the same labels as long as no neighbour moves. nullopt:
/// not remembered.
std::optional<Failure> Engine::FailureOf(const Workload& workload,
                                         std::span<const PodInfo* const> pods, int min) const {
  const PodInfo& first = *pods.front();
  const bool alike = std::ranges::all_of(pods, [&](const PodInfo* pod) {
    return pod->shape == first.shape && !pod->shape->whole_node &&
           pod->object.spec->host_ports.empty();
  });
  if (!alike) return std::nullopt;
  Failure failure{.shape = first.shape, .count = min, .required = workload.topology_required};
  const policy::Overlay overlay(store_);
  const auto neighbourly = [&](const PodInfo* pod) {
    return policy::NeighboursMatter(*pod, overlay);
  };
  if (std::ranges::none_of(pods, neighbourly)) return failure;
  const auto same_labels = [&](const PodInfo* pod) {
    return pod->object.meta.labels == first.object.meta.labels;
  };
  if (!std::ranges::all_of(pods, same_labels)) return std::nullopt;
  failure.ns = first.object.meta.ns;
  failure.labels = first.object.meta.labels;
  failure.neighbours = store_.neighbour_generation();
  return failure;
}

/// Plans the workload, or returns the failure under which it is remembered that this is not
/// possible. nullopt: it is planned, or nothing is remembered.
std::optional<Failure> Engine::PlanWhole(const Workload& workload,
                                         const std::vector<const PodInfo*>& pods, int min,
                                         const PodInfo* caller, TimePoint now) {
  refusals_.Expire(workload, now);
  std::optional<Failure> key =
      refusals_.Of(workload, pods).empty() ? FailureOf(workload, pods, min) : std::nullopt;
  wakeups_.Wake();  // room may have been given back since the pass began
  // If it fails for lack of room alone, it fails with any neighbours.
  if (key && key->neighbourly() && wakeups_.Known(key->ForRoom()) != nullptr) key = key->ForRoom();
  if (const Verdict* known = key ? wakeups_.Known(*key) : nullptr) {
    SetVerdict(workload, *known);
    return key;
  }
  policy::PlacementRequest request{
      .pods = {pods.begin(), pods.end()},
      .min = min,
      .topology_required = workload.topology_required,
      .topology_preferred = workload.topology_preferred,
      .allowed = policy::PayableNodes(QuotaFor(workload), workload.queue, pods)};
  const policy::Overlay overlay(store_);
  policy::Placement placement = PlaceAround(workload, pods, request, overlay, now);
  if (!placement.ok() && request.allowed) {
    // Also look at nodes that the queue cannot pay for, to find whether quota or room is short.
    request.allowed = {};
    placement = PlaceAround(workload, pods, request, overlay, now);
  }
  if (!placement.ok()) {
    // No node has room for a single one of them, with any neighbours.
    if (key && key->neighbourly() && !HasRoom(*pods.front())) key = key->ForRoom();
    if (key) wakeups_.Remember(*key, placement.verdict);
    SetVerdict(workload, placement.verdict);
    return key;
  }
  if (Verdict verdict = GrantCharge(workload, placement.placed);
      verdict.reason != ReasonId::kNone) {
    SetVerdict(workload, std::move(verdict));
    return std::nullopt;
  }
  const std::string id = NextPlanId(workload);
  LogPlan(workload, placement, id);
  CommitPlan(workload, placement, id, caller, now);
  return std::nullopt;
}

/// Charges the placement and releases its members. A lone pod that is `caller` needs no writes: the
/// answer to its call is enough.
void Engine::CommitPlan(const Workload& workload, const policy::Placement& placement,
                        const std::string& id, const PodInfo* caller, TimePoint now) {
  Plan& plan = BeginPlan(workload, id);
  plan.made = now;
  plan.expires = now + store_.policy().gang.plan_timeout.count();
  int rank = 0;
  const Shapes called = CalledShapes(workload);
  for (const policy::Placed& placed : placement.placed) {
    const PodInfo& pod = *store_.FindPod(placed.pod->object.meta.uid);
    store_.AdoptQueue(pod);  // the queue that was asked: the pod's own may have changed with a plan
                             // just dropped
    Assignment& place = AddPlace(workload, pod, called);
    place.rank = rank++;
    Reserve(place, placed);
  }
  plan.barrier = BarrierOf(workload);
  ++counters_.plans["made"];
  timers_.emplace(plan.expires, workload.key);
  SetVerdict(workload, {.reason = ReasonId::kStarting, .want = plan.barrier});
  if (plan.barrier == 0) {  // no member will come to the barrier
    CommitGang(workload, now);
    return;
  }
  const bool in_turns = plan.barrier > 1 && ComeInTurns(plan);
  for (Assignment& assignment : plan.assignments) {
    if (!assignment.managed || in_turns) continue;
    if (assignment.pod == caller && !workload.gang) {
      MarkReleased(assignment);
    } else {
      Release(workload, assignment);
    }
  }
  ReleaseNext(workload);
}

/// Where members that move or join may go: with a required level, the domain of the members that
/// stay. The node of a running member may be gone and come back: until that node is known again, no
/// member joins.
std::function<bool(NodeIndex)> Engine::StayInDomain(const Workload& workload,
                                                    std::span<const PodInfo* const> moving) {
  if (workload.topology_required.empty()) return {};
  const auto stays = [&](const PodInfo* pod) {
    return pod->node != cluster::kNoNode && std::ranges::find(moving, pod) == moving.end();
  };
  // A launcher may have run ahead in another domain.
  const bool workers = std::ranges::any_of(
      workload.members, [&](const PodInfo* pod) { return stays(pod) && pod->shape->asks_device; });
  bool unknown = false;
  for (const PodInfo* pod : workload.members) {
    if (!stays(pod) || pod->shape->asks_device != workers) continue;
    unknown |= pod->bound() && !store_.node(pod->node).present;
    for (const auto& [name, nodes] : policy::GroupBy(store_, workload.topology_required)) {
      if (std::ranges::find(nodes, pod->node) != nodes.end()) {
        return [inside = std::set<NodeIndex>(nodes.begin(), nodes.end())](NodeIndex node) {
          return inside.contains(node);
        };
      }
    }
  }
  if (unknown) return [](NodeIndex) { return false; };
  return {};
}

/// Each refused pod gets an Event with its own reason, once.
void Engine::TellFaulty(const Workload& workload) {
  for (const PodInfo* pod : workload.faulty) {
    if (std::exchange(states_[*pod].told, pod->refusal.reason) == pod->refusal.reason) continue;
    const auto& meta = pod->object.meta;
    actions_.push_back(EmitEvent{.pod = {meta.ns, meta.name, meta.uid},
                                 .warning = true,
                                 .reason = std::string(cluster::Token(pod->refusal.reason)),
                                 .note = cluster::Sentence(pod->refusal)});
  }
}

void Engine::SetVerdict(const Workload& workload, Verdict verdict) {
  WorkloadState& state = states_[workload];
  const bool news = state.verdict.reason != verdict.reason;
  state.verdict = std::move(verdict);
  if (!news || state.verdict.reason == ReasonId::kStarting || workload.members.empty()) return;
  const auto& first = workload.members.front()->object.meta;
  actions_.push_back(EmitEvent{.pod = {first.ns, first.name, first.uid},
                               .warning = true,
                               .reason = std::string(cluster::Token(state.verdict.reason)),
                               .note = cluster::Sentence(state.verdict)});
  actions_.push_back(Decision{.kind = "refuse",
                              .workload = workload.key,
                              .queue = QueueName(workload.queue),
                              .generation = store_.generation(),
                              .verdict = state.verdict});
}

void Engine::LogPlan(const Workload& workload, const policy::Placement& placement,
                     const std::string& id) {
  Decision decision{.kind = "plan",
                    .workload = workload.key,
                    .queue = QueueName(workload.queue),
                    .plan = id,
                    .generation = store_.generation()};
  for (const policy::Placed& placed : placement.placed) {
    decision.placed.emplace_back(placed.pod->object.meta.name, store_.node(placed.node).name);
  }
  if (options_.explain_decisions) {
    const PodInfo& first = *placement.placed.front().pod;
    const NodeIndex chosen = placement.placed.front().node;
    const policy::Overlay overlay(store_);
    NodeIndex runner_up = cluster::kNoNode;
    policy::Score best = 0;
    const auto view = scorer_.For(first.shape, overlay);
    for (const auto& node : store_.nodes()) {
      const policy::Score score = view.Of(node->index);
      if (score == policy::ShapeScores::kNoRoom) continue;
      ++decision.candidates;
      if (node->index == chosen) continue;
      if (runner_up == cluster::kNoNode || score > best) {
        runner_up = node->index;
        best = score;
      }
    }
    decision.chosen = scorer_.Terms(*first.shape, overlay, chosen);
    if (runner_up != cluster::kNoNode) {
      decision.runner_up = store_.node(runner_up).name;
      decision.next_best = scorer_.Terms(*first.shape, overlay, runner_up);
    }
  }
  actions_.push_back(std::move(decision));
}

}  // namespace berth::engine
