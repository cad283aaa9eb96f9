// Engine, part: rebuilding what was under way when the last process ended. The API server is the
// only durable source of truth; annotations are claims that are checked (docs/architecture.md,
// "What is believed").
#include <algorithm>
#include <array>
#include <tuple>

#include "cluster/plan_claim.h"
#include "engine/engine.h"
#include "policy/fit.h"

namespace berth::engine {

using cluster::Charge;
using cluster::ClaimOf;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::Workload;

std::unique_ptr<Engine> Engine::WithClusterOf(const Engine& other, Options options, TimePoint now) {
  const cluster::Store& known = other.store();
  auto fresh = std::make_unique<Engine>(known.policy(), std::move(options));
  for (const auto& [name, ns] : known.namespaces()) fresh->OnNamespace(ns);
  for (const auto& [uid, budget] : known.disruption_budgets()) fresh->OnDisruptionBudget(budget);
  for (const auto& [uid, object] : known.dialect_objects().by_uid()) {
    fresh->OnDialectObject(object, now);
  }
  for (const auto& node : known.nodes()) {
    if (node->present) fresh->OnNode(node->object, now);
  }
  std::vector<const kube::Pod*> pods;
  pods.reserve(known.pods().size());
  for (const auto& [uid, pod] : known.pods()) pods.push_back(&pod->object);
  // The order in which the API server lists them.
  std::ranges::sort(pods, {}, [](const kube::Pod* pod) {
    return std::tie(pod->meta.ns, pod->meta.name, pod->meta.uid);
  });
  for (const kube::Pod* pod : pods) fresh->OnPod(*pod, now);
  for (const auto& [id, pod] : known.ended()) fresh->OnPod(pod.object, now);
  return fresh;
}

/// A gang with a bound member has started. Its other members keep the room planned for them, if a
/// bound member carries the same plan and the room is still free.
void Engine::Recover(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  std::string plan_id;
  for (const PodInfo* pod : workload.members) {
    if (!pod->bound() || !pod->shape->asks_device) continue;
    if (const auto claim = ClaimOf(pod->object)) plan_id = claim->plan;
  }
  store_.SetStarted(workload, workload.SeenRunning());
  if (!workload.started) {
    // Released by the last process, and only we can wake it: plan it without being asked.
    for (const PodInfo* pod : workload.members)
      states_[*pod].asked |= ClaimOf(pod->object).has_value();
    return;
  }
  if (workload.in_tree) NoteInTreeStart(workload);
  if (plan_id.empty() || workload.in_tree) return;
  const Shapes called = CalledShapes(workload);
  for (const PodInfo* pod : workload.members) {
    const auto claim = ClaimOf(pod->object);
    if (pod->charge != Charge::kNone || !claim || claim->plan != plan_id) continue;
    const NodeIndex node = store_.FindNode(claim->node);
    const policy::Overlay overlay(store_);
    const std::array<const PodInfo*, 1> one{pod};
    const auto inside = StayInDomain(workload, one);
    if (node == cluster::kNoNode || (inside && !inside(node)) ||
        !scorer_.fit().Fits(*pod->shape, store_.node(node)) ||
        policy::Capacity(*pod->shape, overlay, node, 1) == 0) {
      ++counters_.untrusted_claims;
      continue;
    }
    const policy::Placement placement{.placed = {{pod, node}}};
    if (GrantCharge(workload, placement.placed).reason != cluster::ReasonId::kNone) {
      ++counters_.untrusted_claims;
      continue;
    }
    if (!state.plan) BeginPlan(workload, plan_id).committed = true;
    Assignment& place = AddPlace(workload, *pod, called);
    Reserve(place, placement.placed.front());
    place.rank = claim->rank;
    place.phase = MemberPhase::kReleased;  // by the process that planned it
  }
  if (!state.plan) return;
  for (Assignment& assignment : state.plan->assignments) {
    const auto& object = assignment.pod->object;
    if (HasOurGate(*assignment.pod) || object.nominated_node != store_.node(assignment.node).name) {
      Release(workload, assignment);
    }
  }
  state.plan->expires = now + store_.policy().gang.plan_timeout.count();
  timers_.emplace(state.plan->expires, workload.key);
}

}  // namespace berth::engine
