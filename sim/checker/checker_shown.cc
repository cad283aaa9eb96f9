// Checker, part: I11, what autoscalers see of the work that waits, by plain counting of one
// resource.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "sim/checker/checker.h"

namespace berth::sim {
namespace {

bool WaitsForNodes(const engine::Engine& engine, const kube::Pod& pod, TimePoint now) {
  const cluster::ReasonId reason = engine.Why(pod.meta.ns, pod.meta.name, now).verdict.reason;
  return reason == cluster::ReasonId::kInsufficientDevices ||
         reason == cluster::ReasonId::kNeverFits;
}

/// Nothing but its GPUs decides whether a quota covers it.
bool IsPlain(const kube::Pod& pod) {
  return GangOf(pod).empty() && !WholeNode(pod) && !pod.meta.labels.contains("berth.dev/class") &&
         !pod.meta.labels.contains("berth.dev/preemptible");
}

}  // namespace

/// I11: no single pod waits for nodes behind the gate that the quotas on its path cover, and their
/// limits permit, beside what they have in use and what waits without a gate.
void Checker::CheckShown(const engine::Engine& engine) {
  const config::PolicyConfiguration& policy = env_.api.policy();
  if (policy.autoscaler.show == config::Show::kNone) return;
  std::map<std::string, std::int64_t> counted;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (!Lives(*pod) || !pod->node_name.empty() || !pod->scheduling_gates.empty()) continue;
    const std::string queue = QueueByPolicy(*pod, policy);
    if (queue.empty()) continue;
    // A whole node is charged as many as the smallest node has: nothing is claimed beside one.
    const std::int64_t gpus = WholeNode(*pod) ? std::numeric_limits<std::int32_t>::max()
                                              : AmountOf(pod->spec->requests, kGpu);
    for (const std::string& charged : PathOf(queue, policy)) counted[charged] += gpus;
  }
  const auto covers = [&](const std::string& name, std::int64_t gpus) {
    bool any = false;
    for (const std::string& charged : PathOf(name, policy)) {
      const auto queue = std::ranges::find(policy.queues, charged, &config::Queue::name);
      if (queue == policy.queues.end()) continue;  // a plain group
      const bool others = !queue->quotas.empty() || queue->quota.size() > 1 ||
                          queue->limit.size() > 1 || queue->max_jobs_per_user > 0;
      if (others) return false;  // not counted here
      const std::int64_t used = usage_.GpusOf(charged) + counted[charged] + gpus;
      if (queue->limit.contains(kGpu) && used > AmountOf(queue->limit, kGpu)) return false;
      const std::int64_t quota = AmountOf(queue->quota, kGpu);
      if (quota == 0) continue;
      any = true;
      if (used > quota) return false;
    }
    return any;
  };
  for (const auto& [key, pod] : env_.api.pods()) {
    if (!Lives(*pod) || !pod->node_name.empty() || pod->meta.deletion || !IsPlain(*pod)) continue;
    if (pod->scheduling_gates != std::vector<std::string>{"berth.dev/admission"}) continue;
    const std::string queue = QueueByPolicy(*pod, policy);
    const std::int64_t gpus = AmountOf(pod->spec->requests, kGpu);
    if (queue.empty() || gpus == 0 || !covers(queue, gpus)) continue;
    if (!WaitsForNodes(engine, *pod, env_.now())) continue;
    Broken(fmt::format("I11: {} waits for nodes that its quota covers, and no autoscaler sees it",
                       key));
  }
}

}  // namespace berth::sim
