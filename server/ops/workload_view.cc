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

std::string_view ShownPhaseOf(const engine::Engine& engine, const Workload& workload) {
  switch (engine::PhaseOf(workload, engine.StateOf(workload))) {
    case engine::Phase::kReserved:
      return "Starting";
    case engine::Phase::kStarting:
    case engine::Phase::kRunning:
    case engine::Phase::kEvicting:
      return "Started";
    case engine::Phase::kDelegated:
      if (workload.started) return "Started";
      break;
    case engine::Phase::kGathering:
    case engine::Phase::kPending:
      break;
  }
  // It holds nothing. What it waits for is in the verdict, not in the number of its members alone:
  // its PodGroup may be missing, or all its pods may be refused.
  if (VerdictOf(engine, workload).reason == ReasonId::kWaitingForMembers) return "Gathering";
  return WholeRefusal(workload) != nullptr ? "Refused" : "Pending";
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
