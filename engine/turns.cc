// Engine, part: gangs whose members come one after the other.
#include <algorithm>
#include <optional>

#include "engine/engine.h"
#include "policy/neighbours.h"

namespace berth::engine {

using cluster::Workload;

/// kube-scheduler itself refuses a member its planned node until the members that its spread or
/// affinity counts are there, and nothing but their Bindings would wake it: they are released one
/// after the other, in an order in which each may go where it is planned.
bool Engine::ComeInTurns(const Plan& plan) const {
  if (!plan.assignments.constrained()) return false;
  return std::ranges::any_of(plan.assignments, [this](const Assignment& a) {
    return a.managed && policy::MustComeAfter(*a.pod, store_);
  });
}

/// The next member whose turn it is, unless one that was released is still on its way.
void Engine::ReleaseNext(const Workload& workload) {
  WorkloadState& state = states_[workload];
  if (!state.plan || state.plan->started) return;
  auto& assignments = state.plan->assignments;
  if (assignments.on_their_way() > 0 || assignments.reserved() == 0) return;
  if (AwaitsEvictions(*assignments.begin()->pod)) return;
  // Counted again for each kind of member. If none of the first few may go yet, kube-scheduler is
  // asked about the first.
  constexpr int kMostKinds = 8;
  policy::Overlay overlay(store_);
  std::optional<policy::Neighbours> neighbours;
  int kinds = 0;
  Assignment* next = nullptr;
  for (const Assignment& a : assignments) {
    if (!a.arrived()) overlay.Remove(*a.pod);
  }
  for (Assignment& a : assignments) {
    if (!a.waits_turn()) continue;
    if (next == nullptr) next = &a;
    if (!neighbours || !neighbours->SameFor(*a.pod)) {
      if (++kinds > kMostKinds) break;
      neighbours.emplace(*a.pod, overlay, scorer_.neighbours());
    }
    if (!neighbours->Allow(a.node)) continue;
    next = &a;
    break;
  }
  if (next == nullptr) return;
  Release(workload, *next);
}

}  // namespace berth::engine
