// Engine, part: why a pod waits, and until when, as people are told. Changes nothing.
#include <fmt/format.h>

#include <algorithm>

#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/forecast.h"
#include "engine/min_run_time.h"
#include "policy/rank_order.h"
#include "policy/shortage.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

TimePoint Engine::OfAgeAt(const Workload& workload, TimePoint now) const {
  return engine::OfAgeAt(store_, states_, workload, now);
}

Explanation Engine::Why(std::string_view ns, std::string_view name, TimePoint now) const {
  Explanation why;
  const PodInfo* pod = store_.FindPod(ns, name);
  if (pod == nullptr) return why;
  why.found = true;
  if (pod->node != cluster::kNoNode) why.node = store_.node(pod->node).name;
  const Workload* workload = pod->workload;
  if (workload == nullptr) {
    why.phase = pod->bound() ? "Bound" : "Unmanaged";
    return why;
  }
  why.workload = workload->name;
  why.gang = workload->gang;
  why.queue = QueueName(pod->queue);
  if (why.gang) why.gang_from = cluster::Name(pod->claims->gang_from);
  if (!pod->claims->queue.empty()) why.queue_from = cluster::Name(pod->claims->queue_from);
  why.members = static_cast<int>(workload->members.size());
  why.min_member = workload->min_member;
  why.bound = workload->BoundCount();
  if (pod->bound()) {
    why.phase = "Bound";
    return why;
  }
  why.waiting_ms = std::max<std::int64_t>(0, now - pod->object.meta.creation);
  why.phase = workload->started ? "Started" : "Pending";
  if (!started_) {
    why.verdict = {.reason = ReasonId::kNotReady};
  } else if (pod->refusal.reason != ReasonId::kNone) {
    why.verdict = pod->refusal;
  } else if (const Assignment* assignment = FindAssignment(*pod); assignment != nullptr) {
    if (assignment->held_until != 0) {
      why.verdict = {.reason = ReasonId::kRefusedByScheduler, .want = 1};
      why.verdict.subject = fmt::format(
          "kube-scheduler or a kubelet refused it on {}; its gang keeps that room, and tries again "
          "in {} s.",
          store_.node(assignment->node).name, SecondsUntil(assignment->held_until, now));
      return why;
    }
    why.phase = "Starting";
    why.verdict = OnItsWay(*workload, *assignment);
  } else {
    why.verdict = Current(*workload, now);
  }
  return why;
}

std::vector<TimePoint> Engine::ExpectedEnds(const cluster::NodeInfo& node, TimePoint now) const {
  std::int64_t work = 0;
  return engine::ExpectedEnds(ViewOf(now, work), node);
}

bool Engine::HasRoomAt(std::span<const Workload* const> line, TimePoint at, TimePoint now) const {
  std::int64_t work = 0;
  return engine::HasRoomAt(ViewOf(now, work), line, at);
}

/// The verdict of a member that has its place and is not bound yet.
Verdict Engine::OnItsWay(const Workload& workload, const Assignment& assignment) const {
  const Plan& plan = *states_.At(workload).plan;
  if (plan.evictions.stage == Evicting::kWarned) return states_.At(workload).verdict;
  if (AwaitsEvictions(*assignment.pod)) {
    return {.reason = ReasonId::kWaitingForVictims, .want = std::ssize(plan.victims)};
  }
  Verdict verdict{
      .reason = ReasonId::kStarting, .want = plan.barrier, .have = plan.assignments.arrived()};
  if (plan.started && workload.gang) {  // bound members are no longer in the plan
    verdict.want = workload.min_member;
    verdict.have = workload.BoundCount();
    verdict.subject =
        fmt::format("The gang has started: {} of its members are bound, and it needs {}.",
                    verdict.have, verdict.want);
  }
  if (assignment.bind_error.empty()) return verdict;
  verdict.subject = fmt::format(
      "{} The API server did not accept the Binding of this pod to {}: {}",
      cluster::Sentence(verdict), store_.node(assignment.node).name, assignment.bind_error);
  return verdict;
}

/// A workload is judged again when room becomes free, not when it is taken. Which resource is short
/// may have changed since then, so the answer to a query is computed from the current state.
Verdict Engine::Current(const Workload& workload, TimePoint now) const {
  const WorkloadState& state = states_.At(workload);
  if (store_.reading()) return state.verdict;  // what is in use, and domains, are not complete
  switch (state.verdict.reason) {
    case ReasonId::kWaitingForQuota:
    case ReasonId::kInsufficientDevices:
    case ReasonId::kInsufficientCpuOrMemory:
    case ReasonId::kFragmented:
    case ReasonId::kTopologyUnsatisfied:
    case ReasonId::kRefusedByScheduler:
      break;
    case ReasonId::kCoolingDown:
      return state.hold_until > now ? CoolingDown(workload, state, now) : state.verdict;
    default:
      return state.verdict;
  }
  const std::vector<const PodInfo*> pods = workload.Unplaced();
  if (pods.empty()) return state.verdict;
  const int min = std::max(1, workload.Missing());
  // Which of unlike members could start is found out when they are judged.
  const bool unlike = std::ssize(pods) > min && std::ranges::any_of(pods, [&](const PodInfo* pod) {
                        return pod->shape != pods.front()->shape;
                      });
  if (unlike) return state.verdict;
  int granted = 0;
  Verdict quota = policy::GrantMembers(QuotaFor(store_, in_tree_started_, workload), workload.queue,
                                       policy::RankOrder(pods), min, granted);
  if (quota.reason == ReasonId::kWaitingForQuota || quota.reason == ReasonId::kExceedsLimit) {
    return quota;
  }
  if (state.verdict.reason == ReasonId::kWaitingForQuota && quota.reason == ReasonId::kNone) {
    return state.verdict;
  }
  const std::vector<policy::Avoid> avoid = NotYet(refusals_.Of(workload, pods), now);
  policy::PlacementRequest request{.pods = {pods.begin(), pods.end()},
                                   .min = min,
                                   .topology_required = workload.topology_required,
                                   .avoid = avoid};
  policy::FitCache fit(store_);
  const auto needed = std::span<const PodInfo* const>(request.pods)
                          .first(std::min(pods.size(), static_cast<std::size_t>(min)));
  Verdict current =
      policy::ExplainShortage(request, policy::GroupByShape(needed), policy::Overlay(store_), fit);
  if (current.reason == ReasonId::kSearchExhausted) return state.verdict;
  if (current.reason == ReasonId::kRefusedByScheduler) current.have = SecondsLeft(avoid, now);
  return current;
}

}  // namespace berth::engine
