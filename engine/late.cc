// Engine, part: members that a running gang still wants: replacements, and members beyond its
// minimum. Each is placed individually, in the gang's own domain.
#include <algorithm>
#include <array>

#include "engine/engine.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

constexpr TimePoint kHoldMs = 10'000;

/// When `pod` may be tried on `node` again.
TimePoint TriedAgain(const std::vector<policy::Avoid>& avoid, const PodInfo& pod, NodeIndex node,
                     TimePoint now) {
  TimePoint until = 0;
  for (const policy::Avoid& a : avoid) {
    if (a.node == node && a.shape == pod.shape) until = std::max(until, a.until);
  }
  return until > now ? until : now + kHoldMs;
}

}  // namespace

void Engine::PlaceLate(const Workload& workload, std::span<const PodInfo* const> pods,
                       TimePoint now) {
  for (const PodInfo* pod : pods) {
    Verdict verdict = PlaceOneLate(workload, *pod, now);
    if (verdict.reason != ReasonId::kNone) SetVerdict(workload, std::move(verdict));
  }
}

Verdict Engine::PlaceOneLate(const Workload& workload, const PodInfo& pod, TimePoint now) {
  int fit = 0;
  const std::array<const PodInfo*, 1> one{&pod};
  if (Verdict verdict = GrantMembers(workload, one, 1, fit); verdict.reason != ReasonId::kNone) {
    return verdict;
  }
  const policy::PlacementRequest request{
      .pods = {&pod}, .min = 1, .allowed = StayInDomain(workload, one)};
  const policy::Overlay overlay(store_);
  policy::Placement placement = PlaceAround(workload, one, request, overlay, now);
  Verdict verdict = placement.verdict;
  TimePoint held_until = 0;
  if (!placement.ok() && NeededByMinimum(workload, pod)) {
    // A node that refused the member may accept it later; no other pod takes the room before that
    // retry.
    SpendSearch();
    placement = policy::Place(request, overlay, scorer_);
    if (placement.ok()) {
      held_until = TriedAgain(refusals_.Of(workload, one), pod, placement.placed.front().node, now);
    }
  }
  if (placement.ok()) {
    Verdict denied = GrantCharge(workload, placement.placed);
    if (denied.reason != ReasonId::kNone) return denied;
    Join(workload, placement.placed.front(), held_until, now);
  } else if (request.allowed && verdict.reason == ReasonId::kSearchExhausted) {
    return {
        .reason = ReasonId::kTopologyUnsatisfied, .want = 1, .subject = workload.topology_required};
  }
  return verdict;
}

void Engine::Join(const Workload& workload, const policy::Placed& placed, TimePoint held_until,
                  TimePoint now) {
  const TimePoint expires = now + store_.policy().gang.plan_timeout.count();
  if (!states_[workload].plan) {
    Plan& plan = BeginPlan(workload, NextPlanId(workload));
    plan.committed = true;
    plan.expires = expires;
  }
  const PodInfo& pod = *store_.FindPod(placed.pod->object.meta.uid);
  Assignment& place = AddPlace(workload, pod, CalledShapes(workload));
  Reserve(place, placed);
  place.held_until = held_until;
  timers_.emplace(held_until == 0 ? expires : held_until, workload.key);
  if (held_until != 0) return;
  place.expires = expires;
  Release(workload, place);
}

/// Whether the gang is below its minimum even with the other members that are on their way.
bool Engine::NeededByMinimum(const Workload& workload, const PodInfo& pod) const {
  const auto coming = std::ranges::count_if(workload.members, [&pod](const PodInfo* member) {
    return member != &pod && member->charge == Charge::kPlanned;
  });
  return workload.Missing() > coming;
}

/// Members whose room is kept until a retry is due: they are released when it is due, or elsewhere
/// as soon as there is room.
void Engine::RetryHeld(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  if (!state.plan) return;
  for (Assignment& assignment : state.plan->assignments) {
    if (assignment.held_until == 0) continue;
    const bool due = assignment.held_until <= now;
    const std::array<const PodInfo*, 1> one{assignment.pod};
    const auto inside = StayInDomain(workload, one);
    const policy::PlacementRequest request{
        .pods = {assignment.pod}, .min = 1, .allowed = [&](NodeIndex node) {
          return (due || node != assignment.node) && (!inside || inside(node));
        }};
    policy::Overlay overlay(store_);
    overlay.Remove(*assignment.pod);
    const auto placement = PlaceAround(workload, one, request, overlay, now);
    if (placement.ok() && GrantCharge(workload, placement.placed).reason == ReasonId::kNone) {
      Reserve(assignment, placement.placed.front());
      assignment.held_until = 0;
      assignment.answered = false;
      assignment.expires = now + store_.policy().gang.plan_timeout.count();
      timers_.emplace(assignment.expires, workload.key);
      Release(workload, assignment);
    } else if (due) {
      assignment.held_until =
          TriedAgain(refusals_.Of(workload, one), *assignment.pod, assignment.node, now);
      timers_.emplace(assignment.held_until, workload.key);
    }
  }
}

}  // namespace berth::engine
