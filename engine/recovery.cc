// Engine, part: rebuilding what was under way when the last process ended. The API server is the
// only durable source of truth; annotations are claims that are checked (docs/architecture.md,
// "What is believed").
#include <algorithm>
#include <tuple>

#include "cluster/plan_claim.h"
#include "engine/decide.h"
#include "engine/engine.h"

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
  for (const auto& [uid, pod] : known.pods()) pods.push_back(&pod.object);
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
  store_.SetStarted(workload, workload.SeenRunning());
  if (!workload.started) {
    // Released by the last process, and only we can wake it: plan it without being asked.
    for (const PodInfo* pod : workload.members)
      states_[*pod].asked |= ClaimOf(pod->object).has_value();
    return;
  }
  if (workload.in_tree) NoteInTreeStart(workload);
  const RecoverDecision decision = DecideRecover(Now(now), workload);
  counters_.untrusted_claims += static_cast<std::uint64_t>(decision.untrusted);
  if (decision.reserve) Commit(workload, *decision.reserve, nullptr, now);
}

}  // namespace berth::engine
