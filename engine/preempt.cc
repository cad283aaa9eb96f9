// Engine, part: preempt. kube-scheduler proposes pods to evict by its own count. We keep a node
// only if the pod would really be admitted there afterwards and no gang loses a part of its
// members. One node is kept and its room is held, so that the evictions are not in vain.
#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "cluster/plan_claim.h"
#include "engine/engine.h"
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

namespace {

bool Spared(const PodInfo& pod) {
  const auto says_no = [](const auto& notes) {
    const auto it = notes.find("berth.dev/preemptible");
    return it != notes.end() && it->second == "false";
  };
  return says_no(pod.object.meta.labels) || says_no(pod.object.meta.annotations);
}

/// Priority counts only inside one queue; a pod that no queue is charged for is compared with all.
bool Below(const PodInfo& victim, cluster::QueueId queue, std::int32_t priority) {
  return victim.object.priority < priority && !Spared(victim) &&
         (victim.charged_queue == cluster::kNoQueue || victim.charged_queue == queue);
}

bool Below(const PodInfo& victim, const PodInfo& preemptor) {
  return Below(victim, preemptor.queue, preemptor.object.priority);
}

/// Whether the victim may go: it is Below the preemptor, and not part of a gang that lives on
/// elsewhere.
bool MayEvict(const PodInfo& victim, const PodInfo& preemptor,
              const std::vector<const PodInfo*>& victims) {
  if (!Below(victim, preemptor)) return false;
  if (victim.workload == nullptr || !victim.workload->gang) return true;
  return std::ranges::all_of(victim.workload->members, [&](const PodInfo* member) {
    return member->charge == cluster::Charge::kNone ||
           std::ranges::find(victims, member) != victims.end();
  });
}

/// Whether `pod`, without what it may hold now, fits the node and its queue once the victims are
/// gone.
bool Admitted(const PodInfo& pod, NodeIndex node, const std::vector<const PodInfo*>& victims,
              const cluster::Store& store) {
  policy::Overlay overlay(store);
  overlay.Remove(pod);
  for (const PodInfo* victim : victims) overlay.Remove(*victim);
  if (!policy::FitsNode(*pod.object.spec, store.node(node)) ||
      policy::Capacity(*pod.shape, overlay, node, 1) == 0 ||
      !policy::HostPortsFree(pod, overlay, node) || !policy::NeighboursAllow(pod, overlay, node)) {
    return false;
  }
  policy::QuotaView quota(store);
  for (const PodInfo* victim : victims) quota.GiveBack(*victim);
  const policy::Placed placed{.pod = &pod, .node = node};
  return policy::GrantCharge(quota, pod.queue, {&placed, 1}, /*strict=*/true).reason ==
         ReasonId::kNone;
}

/// For each of `pods`, in order: whether a PodDisruptionBudget forbids evicting it after those
/// before it.
std::vector<bool> BreakBudgets(const std::vector<const PodInfo*>& pods,
                               const cluster::Store& store) {
  std::map<std::string, std::int64_t> gone;
  std::vector<bool> breaks(pods.size(), false);
  for (std::size_t i = 0; i < pods.size(); ++i) {
    for (const auto& [uid, budget] : store.disruption_budgets()) {
      if (budget.meta.ns != pods[i]->object.meta.ns ||
          !kube::Matches(budget.selector, pods[i]->object.meta.labels)) {
        continue;
      }
      if (++gone[uid] > budget.disruptions_allowed) breaks[i] = true;
    }
  }
  return breaks;
}

/// Implements "You find the victims" (kubernetes#135486). Takes the lowest priorities first, the
/// youngest first, and pods that a budget protects last, until the pod is admitted. Then drops
/// those that turn out not to be needed, the last first.
std::vector<const PodInfo*> FindVictims(const PodInfo& pod, NodeIndex node,
                                        const cluster::Store& store) {
  std::vector<const PodInfo*> candidates;
  for (const PodInfo* other : store.node(node).pods) {
    const bool lone = other->workload == nullptr || !other->workload->gang;
    if (other->bound() && lone && Below(*other, pod)) candidates.push_back(other);
  }
  std::ranges::sort(candidates, {}, [](const PodInfo* p) {
    return std::tuple(p->object.priority, -p->object.meta.creation, p->object.meta.uid);
  });
  // The budget of an app allows a number of evictions: its lowest and youngest pods come first.
  const std::vector<bool> kept = BreakBudgets(candidates, store);
  std::vector<const PodInfo*> order;
  for (const bool last : {false, true}) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (kept[i] == last) order.push_back(candidates[i]);
    }
  }
  std::vector<const PodInfo*> victims;
  for (const PodInfo* candidate : order) {
    if (Admitted(pod, node, victims, store)) break;
    victims.push_back(candidate);
  }
  if (!Admitted(pod, node, victims, store)) return {};
  for (std::size_t i = victims.size(); i-- > 0;) {
    std::vector<const PodInfo*> fewer = victims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (Admitted(pod, node, fewer, store)) victims = std::move(fewer);
  }
  return victims;
}

}  // namespace

bool EvictionHelps(ReasonId reason) {
  return reason == ReasonId::kInsufficientDevices || reason == ReasonId::kFragmented ||
         reason == ReasonId::kInsufficientCpuOrMemory || reason == ReasonId::kWaitingForQuota;
}

bool RoomWithVictims(const Preemptor& preemptor, NodeIndex index, const cluster::Store& store) {
  const cluster::NodeInfo& node = store.node(index);
  const cluster::Demand demand = store.DemandOn(*preemptor.shape, node);
  const auto too_small = [&node](const auto& d) { return d.second > node.allocatable[d.first]; };
  if (std::ranges::any_of(demand, too_small)) return false;
  cluster::Amounts freed;
  for (const PodInfo* other : node.pods) {
    const bool lone = other->workload == nullptr || !other->workload->gang;
    if (!other->bound() || !lone || !Below(*other, preemptor.queue, preemptor.priority)) continue;
    for (const auto& [id, amount] : other->charged) freed.Add(id, amount);
  }
  const auto enough = [&](const auto& d) {
    return node.free(d.first) + freed[d.first] >= d.second;
  };
  return std::ranges::all_of(demand, enough) && policy::FitsNode(*preemptor.shape->spec, node);
}

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
  store_.Refresh();
  // A pod that waits only for quota evicts none, nor does one that may only have to wait for its
  // turn.
  if ((reason == ReasonId::kWaitingForQuota || unfinished()) && HasRoom(*pod)) return {};
  using Rank = std::tuple<std::int64_t, std::int32_t, std::size_t, int>;
  std::optional<std::tuple<Rank, NodeIndex, std::vector<const PodInfo*>>> best;
  for (const auto& [name, set] : candidates) {
    const NodeIndex node = store_.FindNode(name);
    if (node == cluster::kNoNode || !store_.node(node).present) continue;
    if (refusals_.WasRejected(*pod->shape, node))
      continue;  // its kubelet would reject this one too
    std::vector<const PodInfo*> victims;
    bool sound = !set.uids.empty();
    for (const std::string& victim_uid : set.uids) {
      const PodInfo* victim = store_.FindPod(victim_uid);
      if (victim == nullptr) continue;  // gone already
      sound &= victim->node == node;
      victims.push_back(victim);
    }
    const auto may_evict = [&](const PodInfo* victim) { return MayEvict(*victim, *pod, victims); };
    sound = sound && std::ranges::all_of(victims, may_evict);
    // kube-scheduler named no victims, or parts of gangs: there may be others to take instead.
    if (!sound) victims = FindVictims(*pod, node, store_);
    if (victims.empty() || !Admitted(*pod, node, victims, store_)) continue;
    std::ranges::sort(victims, std::ranges::greater{}, [](const PodInfo* p) {
      return std::pair(p->object.priority, p->object.meta.uid);
    });
    const Rank rank{std::ranges::count(BreakBudgets(victims, store_), true),
                    victims.front()->object.priority, victims.size(), store_.rank(node)};
    if (!best || rank < std::get<0>(*best)) best.emplace(rank, node, std::move(victims));
  }
  if (!best) return {};
  const auto& [rank, node, victims] = *best;
  HoldRoomOf(victims, *pod, node, now);
  VictimMap answer;
  VictimSet& kept = answer[store_.node(node).name];
  for (const PodInfo* victim : victims) kept.uids.push_back(victim->object.meta.uid);
  kept.pdb_violations = std::get<0>(rank);
  return answer;
}

/// Plans the lone pod on the node that its victims still fill.
void Engine::HoldRoomOf(const std::vector<const PodInfo*>& victims, const PodInfo& pod,
                        NodeIndex node, TimePoint now) {
  const Workload& workload = *pod.workload;
  DropPlan(workload);
  // As if it had called: kube-scheduler nominates by itself.
  CommitPlan(workload, {.placed = {{&pod, node}}, .verdict = {}}, NextPlanId(workload), &pod, now);
  for (const PodInfo* victim : victims) {
    states_[workload].plan->victims.push_back(victim->object.meta.uid);
  }
}

/// Whether a victim is still ending. As long as it is, kube-scheduler keeps the pod nominated there
/// and evicts no other pod for it, and no other workload may take the room.
bool Engine::VictimsEnd(const Plan& plan) const {
  return std::ranges::any_of(plan.victims, [this](const std::string& uid) {
    const PodInfo* victim = store_.FindPod(uid);
    return victim != nullptr && victim->terminating();
  });
}

/// Whether any victim still exists, ending or not: a pod evicted while its Binding is under way may
/// be gone for kube-scheduler, but is charged here until we hear of it.
bool Engine::AwaitsVictims(const Plan& plan) const {
  return std::ranges::any_of(
      plan.victims, [this](const std::string& uid) { return store_.FindPod(uid) != nullptr; });
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
  for (const auto& [uid, other] : store_.pods()) {
    if (other.get() != &pod && waits(*other)) quota.GiveBack(*other);
  }
  return policy::IsOver(quota, pod);
}

/// A pod that was on `node` has ended. A workload that waits for its room there now has the time
/// that a released pod has; or, if another pod took the room, the time that the victims of that one
/// take.
void Engine::AfterVictimGone(const std::string& uid, NodeIndex node, TimePoint now) {
  if (node == cluster::kNoNode) return;
  std::vector<Plan*> waiting;
  std::set<std::string> left;  // victims that other plans wait for on this node
  for (const PodInfo* pod : store_.node(node).pods) {
    if (pod->workload == nullptr || !states_[*pod->workload].plan) continue;
    Plan& plan = *states_[*pod->workload].plan;
    if (plan.victims.empty()) continue;
    const bool waited = std::erase(plan.victims, uid) != 0;
    if (waited && pod->charge == Charge::kPlanned) {
      plan.expires = now + store_.policy().gang.plan_timeout.count();
      timers_.emplace(plan.expires, pod->workload->key);
      waiting.push_back(&plan);
    }
    left.insert(plan.victims.begin(), plan.victims.end());
  }
  if (waiting.empty()) return;
  const auto overfull = [&](cluster::ResourceId id) { return store_.node(node).free(id) < 0; };
  if (std::ranges::any_of(store_.device_ids(), overfull)) {
    for (Plan* plan : waiting) plan->victims.assign(left.begin(), left.end());
  }
  RecheckPlans(node);  // it may have shrunk meanwhile
}

/// kube-scheduler evicted pods for this one and nominated it, and the plan that held their room is
/// gone (a restart, another policy): holds the room again.
bool Engine::ResumePreemption(const Workload& workload, TimePoint now) {
  const PodInfo& pod = *workload.members.front();
  const NodeIndex node = store_.FindNode(pod.object.nominated_node);
  if (workload.gang || node == cluster::kNoNode || pod.charge != Charge::kNone) return false;
  const auto claim = cluster::ClaimOf(pod.object);
  if (claim && claim->node == pod.object.nominated_node) return false;  // our own nomination
  std::vector<const PodInfo*> victims;
  for (const PodInfo* other : store_.node(node).pods) {
    if (other->bound() && other->terminating() && Below(*other, pod)) victims.push_back(other);
  }
  const std::array<const PodInfo*, 1> one{&pod};
  const auto there = [node](const policy::Avoid& avoid) { return avoid.node == node; };
  if (victims.empty() || std::ranges::any_of(refusals_.Of(workload, one), there) ||
      !Admitted(pod, node, victims, store_)) {
    return false;
  }
  HoldRoomOf(victims, pod, node, now);
  return true;
}

/// Whether, by counting, some node that `pod` matches has what it asks for.
bool Engine::HasRoom(const PodInfo& pod) {
  SpendSearch();
  const auto fits = scorer_.fit().Row(*pod.shape);
  return std::ranges::any_of(store_.nodes(), [&](const auto& node) {
    return fits[static_cast<std::size_t>(node->index)] != 0 &&
           std::ranges::all_of(store_.DemandOn(*pod.shape, *node), [&](const auto& demand) {
             return node->free(demand.first) >= demand.second;
           });
  });
}

/// Whether kube-scheduler would find no room for `pod`, but victims in the pod's own queue whose
/// eviction admits it. Counts first, because that is cheap, and tries the rest on a few nodes.
/// `by_count`: counting was enough to say no.
bool Engine::WouldPreempt(const PodInfo& pod, const Preemptor& preemptor, bool& by_count) {
  constexpr int kMaxTries = 16;
  by_count = false;
  if (HasRoom(pod)) return false;
  SpendSearch();
  const auto fits = scorer_.fit().Row(*pod.shape);
  int tries = 0;
  const bool found = std::ranges::any_of(store_.nodes(), [&](const auto& node) {
    if (fits[static_cast<std::size_t>(node->index)] == 0 || tries == kMaxTries) return false;
    if (!RoomWithVictims(preemptor, node->index, store_)) return false;
    ++tries;
    return !FindVictims(pod, node->index, store_).empty();
  });
  by_count = tries == 0;
  return found;
}

/// The preemptor, if the workload is a gated single pod that waits for something that an eviction
/// might free. nullopt: no pod is evicted for this workload before it is planned.
std::optional<Preemptor> Engine::PreemptorOf(const Workload& workload) const {
  if (workload.gang || workload.members.empty() ||
      !EvictionHelps(states_.At(workload).verdict.reason)) {
    return std::nullopt;
  }
  const PodInfo& pod = *workload.members.front();
  if (!HasOurGate(pod) || HasForeignGate(pod) || pod.object.preempt_never) return std::nullopt;
  return Preemptor{.shape = pod.shape, .queue = pod.queue, .priority = pod.object.priority};
}

/// kube-scheduler evicts only for pods that it tries. So a gated single pod that would run after an
/// eviction in its own queue is ungated without a plan: it comes back to us for the victims.
void Engine::LetPreempt(const Workload& workload, const Preemptor& preemptor) {
  if (wakeups_.CannotPreempt(preemptor)) return;
  const PodInfo& pod = *workload.members.front();
  bool by_count = false;
  if (!WouldPreempt(pod, preemptor, by_count)) {
    wakeups_.RememberHopeless(preemptor, by_count);
    return;
  }
  states_[pod].asked = true;  // from now on it is treated like a pod that never had the gate
  Ungate(pod);
}

}  // namespace berth::engine
