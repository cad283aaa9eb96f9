// Engine, part: members that a running gang still wants, replacements and what it has beyond its
// minimum. Each is placed for itself, in the gang's own domain.
#include <algorithm>
#include <array>

#include "engine/engine.h"

namespace berth::engine {

using cluster::Assignment;
using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

constexpr TimePoint kHoldMs = 10'000;

/// When `pod` may be tried on `node` again.
TimePoint TriedAgain(const std::vector<cluster::Avoid>& avoid, const PodInfo& pod, NodeIndex node,
                     TimePoint now) {
  TimePoint until = 0;
  for (const cluster::Avoid& a : avoid) {
    if (a.node == node && a.shape == pod.shape) until = std::max(until, a.until);
  }
  return until > now ? until : now + kHoldMs;
}

}  // namespace

void Engine::PlaceLate(Workload& workload, std::span<PodInfo* const> pods, TimePoint now) {
  for (PodInfo* pod : pods) {
    Verdict verdict = PlaceOneLate(workload, *pod, now);
    if (verdict.reason != ReasonId::kNone) SetVerdict(workload, std::move(verdict));
  }
}

Verdict Engine::PlaceOneLate(Workload& workload, PodInfo& pod, TimePoint now) {
  int fit = 0;
  const std::array<PodInfo*, 1> one{&pod};
  if (Verdict verdict = CheckQuota(workload, one, 1, fit); verdict.reason != ReasonId::kNone) {
    return verdict;
  }
  const policy::PlacementRequest request{
      .pods = {&pod}, .min = 1, .allowed = StayInDomain(workload, one)};
  const policy::Overlay overlay(store_);
  policy::Placement placement = PlaceAround(workload, one, request, overlay, now);
  Verdict verdict = placement.verdict;
  TimePoint held_until = 0;
  if (!placement.ok() && NeededByMinimum(workload, pod)) {
    // What refused it may not do so again: nobody else takes that room before it is tried.
    placement = policy::Place(request, overlay, scorer_);
    if (placement.ok()) {
      held_until = TriedAgain(AvoidFor(workload, one), pod, placement.placed.front().node, now);
    }
  }
  if (placement.ok() && ChargesFit(workload, placement.placed, verdict)) {
    Join(workload, placement.placed.front(), held_until, now);
  } else if (request.allowed && verdict.reason == ReasonId::kSearchExhausted) {
    return {
        .reason = ReasonId::kTopologyUnsatisfied, .want = 1, .subject = workload.topology_required};
  }
  return verdict;
}

void Engine::Join(Workload& workload, const policy::Placed& placed, TimePoint held_until,
                  TimePoint now) {
  const TimePoint expires = now + store_.policy().gang.plan_timeout.count();
  if (!workload.plan) {
    workload.plan.emplace();
    workload.plan->id = PlanIdFor(workload);
    ++plan_counter_;
    workload.plan->committed = true;
    workload.plan->expires = expires;
  }
  PodInfo& pod = *store_.FindPod(placed.pod->object.meta.uid);
  store_.SetCharge(pod, placed.node, Charge::kPlanned, placed.devices);
  Assignment assignment{
      .pod = &pod, .node = placed.node, .rank = 0, .managed = IsManaged(workload, pod)};
  assignment.held_until = held_until;
  if (held_until == 0) assignment.expires = expires;
  timers_.emplace(held_until == 0 ? expires : held_until, workload.key);
  workload.plan->assignments.push_back(assignment);
  if (held_until == 0) Release(workload, workload.plan->assignments.back());
}

/// The gang is below its minimum, with the others that are on their way too.
bool Engine::NeededByMinimum(const Workload& workload, const PodInfo& pod) const {
  const auto coming = std::ranges::count_if(workload.members, [&pod](const PodInfo* member) {
    return member != &pod && member->charge == Charge::kPlanned;
  });
  return workload.Missing() > coming;
}

/// Members whose room is kept until it may be tried again: they are released when it is time, or
/// elsewhere as soon as there is room.
void Engine::RetryHeld(Workload& workload, TimePoint now) {
  if (!workload.plan) return;
  for (Assignment& assignment : workload.plan->assignments) {
    if (assignment.held_until == 0) continue;
    const bool due = assignment.held_until <= now;
    const std::array<PodInfo*, 1> one{assignment.pod};
    const auto inside = StayInDomain(workload, one);
    const policy::PlacementRequest request{
        .pods = {assignment.pod}, .min = 1, .allowed = [&](NodeIndex node) {
          return (due || node != assignment.node) && (!inside || inside(node));
        }};
    policy::Overlay overlay(store_);
    overlay.Remove(*assignment.pod);
    const auto placement = PlaceAround(workload, one, request, overlay, now);
    Verdict verdict;
    if (placement.ok() && ChargesFit(workload, placement.placed, verdict)) {
      const policy::Placed& placed = placement.placed.front();
      store_.SetCharge(*assignment.pod, placed.node, Charge::kPlanned, placed.devices);
      assignment.node = placed.node;
      assignment.held_until = 0;
      assignment.answered = false;
      assignment.expires = now + store_.policy().gang.plan_timeout.count();
      timers_.emplace(assignment.expires, workload.key);
      Release(workload, assignment);
    } else if (due) {
      assignment.held_until =
          TriedAgain(AvoidFor(workload, one), *assignment.pod, assignment.node, now);
      timers_.emplace(assignment.held_until, workload.key);
    }
  }
}

}  // namespace berth::engine
