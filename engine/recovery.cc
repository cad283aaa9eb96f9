// Engine, part: rebuilding what was under way when the last process ended. The API server is the
// only durable source of truth; annotations are claims that are checked (docs/architecture.md,
// "What is believed").
#include <limits>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/succession.h"

namespace berth::engine {

using cluster::Charge;
using cluster::ClaimOf;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::Workload;

std::unique_ptr<Engine> Engine::WithClusterOf(const Engine& other, Options options, TimePoint now) {
  Succession succession(other, std::move(options));
  while (succession.GoOn(now)) {
  }
  return succession.Take();
}

void Engine::Start(TimePoint now) {
  if (listener() != nullptr) listener()->OnStart(now);
  while (store_.reading()) store_.ReadMore(std::numeric_limits<std::size_t>::max());
  store_.Refresh();
  std::vector<std::string> keys;
  for (const auto& [key, workload] : store_.workloads()) keys.push_back(key);
  for (const std::string& key : keys) {
    const Workload* workload = store_.FindWorkload(key);
    if (workload == nullptr) continue;
    Recover(*workload, now);
    if (Passthrough()) GiveUpPlaces(*workload);
  }
  NoteMarked();
  evictor_.NoteWarned(now);
  drains_.LookAt(now);
  started_ = true;
  scorer_.Refresh();
  StartSweep(SweepOf::kAll);
}

/// A gang with a bound member has started. Its other members keep the room planned for them, if a
/// bound member carries the same plan and the room is still free.
void Engine::Recover(const Workload& workload, TimePoint now) {
  store_.SetStarted(workload, workload.SeenRunning());
  if (!workload.started) {
    // Released by the last process, and only we can wake it: plan it without being asked.
    for (const PodInfo* pod : workload.members) {
      states_[*pod].asked |= ClaimOf(pod->object).has_value() && !HasOurGate(*pod);
    }
    return;
  }
  if (workload.in_tree) NoteInTreeStart(workload);
  const RecoverDecision decision = DecideRecover(Now(now), workload);
  counters_.untrusted_claims += static_cast<std::uint64_t>(decision.untrusted);
  if (decision.reserve) Commit(workload, *decision.reserve, nullptr, now);
}

}  // namespace berth::engine
