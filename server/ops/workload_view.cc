#include "server/ops/workload_view.h"

#include <algorithm>

namespace berth::server {
namespace {

using cluster::Charge;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

/// If every pod of the workload is refused: the first refusal; else null.
const cluster::Verdict* WholeRefusal(const Workload& workload) {
  return workload.members.empty() && !workload.faulty.empty() ? &workload.faulty.front()->refusal
                                                              : nullptr;
}

const cluster::Verdict& VerdictOf(const engine::Engine& engine, const Workload& workload) {
  const cluster::Verdict* refusal = WholeRefusal(workload);
  return refusal != nullptr ? *refusal : engine.StateOf(workload).verdict;
}

std::string NameOf(const cluster::Store& store, cluster::QueueId queue,
                   const cluster::PodClaims* claims) {
  if (queue != cluster::kNoQueue) return store.queue(queue).config.name;
  const bool known = claims != nullptr && store.FindQueue(claims->queue) != cluster::kNoQueue;
  return known ? claims->queue : std::string(kNoQueueName);
}

}  // namespace

std::string_view PhaseOf(const engine::Engine& engine, const Workload& workload) {
  const engine::Phase phase = engine::PhaseOf(workload, engine.StateOf(workload));
  const bool delegated = phase == engine::Phase::kDelegated;
  if (phase == engine::Phase::kStarting || phase == engine::Phase::kRunning ||
      phase == engine::Phase::kEvicting || (delegated && workload.started)) {
    return "Started";
  }
  if (!workload.plan.empty()) return "Starting";
  const cluster::Verdict* refusal = WholeRefusal(workload);
  if (VerdictOf(engine, workload).reason == ReasonId::kWaitingForMembers) return "Gathering";
  return refusal != nullptr ? "Refused" : "Pending";
}

bool Waits(const Workload& workload) {
  return std::ranges::any_of(
             workload.members,
             [](const PodInfo* pod) { return !pod->bound() && pod->charge != Charge::kBinding; }) ||
         !workload.faulty.empty();
}

std::string ReasonOf(const engine::Engine& engine, const Workload& workload) {
  if (!workload.plan.empty()) return std::string(cluster::Token(ReasonId::kStarting));
  const auto reason = VerdictOf(engine, workload).reason;
  if (reason == ReasonId::kNone && engine.InLine(workload)) {
    return std::string(cluster::Token(ReasonId::kNotReady));
  }
  const auto token = cluster::Token(reason);
  return std::string(token.empty() ? kArriving : token);
}

std::string MessageOf(const engine::Engine& engine, const Workload& workload) {
  return cluster::Sentence(VerdictOf(engine, workload));
}

std::map<std::string, int> RefusalsOf(const Workload& workload) {
  std::map<std::string, int> refusals;
  for (const PodInfo* pod : workload.faulty) {
    if (pod->refusal.reason == ReasonId::kWaitingForMembers) continue;
    ++refusals[std::string(cluster::Token(pod->refusal.reason))];
  }
  return refusals;
}

std::string QueueOf(const cluster::Store& store, const Workload& workload) {
  const PodInfo* first = !workload.members.empty()  ? workload.members.front()
                         : !workload.faulty.empty() ? workload.faulty.front()
                                                    : nullptr;
  return NameOf(store, workload.queue, first == nullptr ? nullptr : first->claims.get());
}

std::string QueueOf(const cluster::Store& store, const PodInfo& pod) {
  return NameOf(store, pod.queue, pod.claims.get());
}

cluster::TimePoint WaitOf(const Workload& workload, cluster::TimePoint now) {
  return std::max<cluster::TimePoint>(0, now - workload.creation);
}

}  // namespace berth::server
