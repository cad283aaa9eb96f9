// Engine, part: what is due. Plans whose members have not come in time end, or have one more
// planTimeout; pauses are over.
#include <algorithm>
#include <utility>
#include <variant>

#include "engine/decide.h"
#include "engine/engine.h"

namespace berth::engine {

using cluster::Charge;
using cluster::Workload;
using Resolution = ResolveBind::Resolution;

namespace {

constexpr int kFreeFailures = 2;

/// For a lone pod, and a pod that joins a running gang: whether its plan may expire without a pause
/// before the next one. The first times it may, since kube-scheduler is often only slow to try it.
bool SpareLapse(WorkloadState& state) {
  if (state.failures >= kFreeFailures) return false;
  ++state.failures;
  return true;
}

/// Our watch does not show its release, nor has kube-scheduler asked about it: a write may have
/// been refused, or lost.
bool IsReleaseUnseen(const Assignment& a) {
  return a.phase == MemberPhase::kReleased && !a.answered &&
         (HasOurGate(*a.pod) || !a.nomination_seen);
}

}  // namespace

void Engine::FireTimers(TimePoint now) {
  live_answers_.ForgetExpired(now);
  while (const auto due = timers_.Take(now)) {
    if (std::holds_alternative<Timers::All>(*due)) {
      refusals_.ExpireRejections(now);
      store_.BumpFreeGeneration();  // pods whose eviction was refused may be victims again
      sweep_due_ = SweepOf::kAll;
      continue;
    }
    if (const auto* key = std::get_if<std::string>(&*due)) {
      if (const Workload* workload = store_.FindWorkload(*key)) ExpireWorkload(*workload, now);
      continue;
    }
    const TicketId ticket = std::get<TicketId>(*due);
    if (!parked_.Drop(ticket)) continue;
    actions_.push_back(
        ResolveBind{.ticket = ticket,
                    .resolution = Resolution::kError,
                    .error = "berth: its gang is not complete yet; the arrival is counted"});
  }
}

/// Pods were evicted for the plan, and since then kube-scheduler has tried none of its members, or
/// could not try one of them: it may be away, or the release was refused. The room is not given up
/// for that, for as long as Berth would wait for a pod to end.
bool Engine::IsYetToBeTried(const Plan& plan, TimePoint now) const {
  const bool tried =
      plan.replans > 0 || std::ranges::any_of(plan.assignments, [](const Assignment& a) {
        return a.answered || a.arrived();
      });
  const bool unseen = std::ranges::any_of(plan.assignments, [](const Assignment& a) {
    return IsReleaseUnseen(a) && HasOurGate(*a.pod);
  });
  return plan.evictions.stage == Evicting::kSent && (!tried || unseen) &&
         plan.victim_gone_at != 0 &&
         now < plan.victim_gone_at + store_.policy().eviction.stuck_after.count();
}

void Engine::ExpireWorkload(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  if (refusals_.Expire(workload, now)) store_.MarkChanged(workload);
  if (state.hold_until != 0 && state.hold_until <= now) {
    state.hold_until = 0;
    store_.MarkChanged(workload);
  }
  if (state.settled_at != 0 && state.settled_at <= now) store_.MarkChanged(workload);
  if (state.starts_from != 0 && state.starts_from <= now) {
    state.starts_from = 0;
    store_.MarkChanged(workload);
  }
  if (state.evicts_from != 0 && state.evicts_from <= now) {
    state.evicts_from = 0;
    store_.MarkChanged(workload);
  }
  if (!state.plan) return;
  if (state.plan->started) return ExpireStarted(workload, now);
  if (state.plan->expires <= now) ExpireWaiting(workload, now);
}

/// A plan whose members have not all come in time.
void Engine::ExpireWaiting(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  Plan& plan = *state.plan;
  if (plan.evictions.stage == Evicting::kWarned) {
    state.warnings_over = std::ranges::any_of(plan.victims, [&](const std::string& uid) {
      const cluster::PodInfo* pod = store_.FindPod(uid);
      return pod != nullptr && states_.At(*pod).evict_at != 0;
    });
    return Dissolve(workload, plan_ends::kWarningsOver, /*hold=*/false, now);
  }
  if (plan.evictions.stage == Evicting::kSent && AwaitsVictims(plan)) {
    return GoOnEvicting(workload, now);
  }
  if (VictimsEnd(plan) || IsYetToBeTried(plan, now)) {
    for (Assignment& a : plan.assignments) {
      if (IsReleaseUnseen(a)) Release(workload, a);
    }
    plan.expires = now + store_.policy().gang.plan_timeout.count();
    return timers_.At(plan.expires, workload.key);
  }
  const auto binds = [](const Assignment& a) { return a.pod->charge == Charge::kBinding; };
  if (std::ranges::any_of(plan.assignments, binds)) return;
  const bool hold = workload.gang || !SpareLapse(state);
  Dissolve(workload, plan_ends::kNotInTime, hold, now);
}

/// Members that a running gang still waits for. Members of its minimum keep their room, and any
/// part of their release that was lost is done again. Members beyond the minimum have one more
/// planTimeout for that and then give up their room, like members that joined late.
void Engine::ExpireStarted(const Workload& workload, TimePoint now) {
  WorkloadState& state = states_[workload];
  auto& assignments = state.plan->assignments;
  const TimePoint timeout = store_.policy().gang.plan_timeout.count();
  if (state.plan->expires <= now) {
    const bool whole = workload.Missing() == 0;
    for (Assignment& a : assignments) {
      if (a.expires != 0 || a.pod->charge != Charge::kPlanned || a.held_until != 0) continue;
      Release(workload, a);
      if (whole) a.expires = now + timeout;
    }
    state.plan->expires = now + timeout;
    timers_.At(state.plan->expires, workload.key);
    // They had their time to use the room of the pods that were evicted for them.
    if (std::exchange(state.plan->evictions.stage, Evicting::kNo) != Evicting::kNo) {
      store_.BumpFreeGeneration();
    }
  }
  const auto due = [now](const Assignment& a) { return a.held_until != 0 && a.held_until <= now; };
  if (std::ranges::any_of(assignments, due)) store_.MarkChanged(workload);
  bool given_up = false;
  for (const Assignment& a : assignments) {
    if (a.expires == 0 || a.expires > now || a.pod->charge != Charge::kPlanned) continue;
    states_[*a.pod].asked = true;
    Withdraw(*a.pod);
    store_.Unreserve(*a.pod);
    store_.MarkChanged(workload);
    given_up = true;
  }
  assignments.RemoveIf([](const Assignment& a) { return a.pod->charge == Charge::kNone; });
  if (assignments.empty()) EndPlan(workload);
  if (given_up && !SpareLapse(state)) Pause(workload, timeout, now);
}

}  // namespace berth::engine
