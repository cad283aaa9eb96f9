// Scheduler, part: the Score plugins.
#include <algorithm>
#include <array>

#include "kube/selector.h"
#include "sim/scheduler/scheduler.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

constexpr std::int64_t kTaintWeight = 3;  // weight of TaintToleration in the default profile

/// Counts PreferNoSchedule taints that the pod does not tolerate.
std::int64_t UnwelcomeTaints(const kube::Pod& pod, const kube::Node& node) {
  return std::ranges::count_if(node.taints, [&pod](const kube::Taint& taint) {
    return taint.effect == kube::TaintEffect::kPreferNoSchedule &&
           !kube::Tolerates(pod.spec->tolerations, taint);
  });
}

ResourceUse UseOf(const kube::Node& node, const std::string& name, std::int64_t used,
                  std::int64_t asks) {
  return {.allocatable = AmountOf(node.allocatable, name), .before = used, .after = used + asks};
}

}  // namespace

/// NodeResourcesFit assumes 100m and 200 MiB if there is no request, but not for a request of 0.
std::int64_t AskedCpu(const kube::Pod& pod) {
  const auto it = pod.spec->requests.find("cpu");
  return it == pod.spec->requests.end() ? kDefaultCpu : it->second;
}

std::int64_t AskedMemory(const kube::Pod& pod) {
  const auto it = pod.spec->requests.find("memory");
  return it == pod.spec->requests.end() ? kDefaultMemory : it->second;
}

/// NodeResourcesFit and NodeResourcesBalancedAllocation.
std::int64_t Scheduler::ResourceScore(const kube::Pod& pod, const NodeState& state) const {
  const kube::Node& node = *state.node;
  std::vector<ResourceUse> uses{UseOf(node, "cpu", state.cpu, AskedCpu(pod)),
                                UseOf(node, "memory", state.memory, AskedMemory(pod))};
  if (options_.strategy == StockStrategy::kMostAllocated) {
    for (const std::string& name : options_.scored_devices) {
      const std::int64_t asks = AmountOf(pod.spec->requests, name);
      if (asks > 0) uses.push_back(UseOf(node, name, RequestedOn(state, name), asks));
    }
    return MostAllocated(uses);
  }
  const std::int64_t cpu = AmountOf(pod.spec->requests, "cpu");
  const std::int64_t memory = AmountOf(pod.spec->requests, "memory");
  if (cpu == 0 && memory == 0)
    return LeastAllocated(uses);  // best-effort pods are not scored for
                                  // balance
  return LeastAllocated(uses) +
         BalancedAllocation(UseOf(node, "cpu", RequestedOn(state, "cpu"), cpu),
                            UseOf(node, "memory", RequestedOn(state, "memory"), memory));
}

std::vector<std::int64_t> Scheduler::Scores(const kube::Pod& pod,
                                            const std::vector<const NodeState*>& nodes) const {
  std::int64_t most_taints = 1;
  for (const NodeState* state : nodes) {
    most_taints = std::max(most_taints, UnwelcomeTaints(pod, *state->node));
  }
  std::vector<std::int64_t> scores;
  for (const NodeState* state : nodes) {
    const std::int64_t taints = UnwelcomeTaints(pod, *state->node) * kMaxNodeScore / most_taints;
    scores.push_back(ResourceScore(pod, *state) + (kMaxNodeScore - taints) * kTaintWeight);
  }
  return scores;
}

}  // namespace berth::sim
