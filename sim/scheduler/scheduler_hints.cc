#include "sim/scheduler/scheduler_hints.h"

#include <algorithm>

#include "kube/selector.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

/// NodeResourcesFit: the pod fits into the empty node, and the node has more of what it asks for.
bool HasMoreRoom(const kube::Pod& pod, const kube::Node* before, const kube::Node& after) {
  const auto& requests = pod.spec->requests;
  if (after.allocatable.contains("pods") && AmountOf(after.allocatable, "pods") < 1) return false;
  if (std::ranges::any_of(requests, [&](const auto& r) {
        return r.second > AmountOf(after.allocatable, r.first);
      })) {
    return false;
  }
  if (before == nullptr ||
      AmountOf(after.allocatable, "pods") > AmountOf(before->allocatable, "pods")) {
    return true;
  }
  return std::ranges::any_of(requests, [&](const auto& r) {
    return r.second > 0 &&
           AmountOf(after.allocatable, r.first) > AmountOf(before->allocatable, r.first);
  });
}

bool Tolerated(const kube::Pod& pod, const kube::Node& node) {
  return kube::FindUntoleratedTaint(pod.spec->tolerations, node.taints) == nullptr;
}

/// kube-scheduler reports the end of a cordon as a change of taints too.
bool TaintsChanged(const kube::Node* before, const kube::Node& after) {
  return before != nullptr &&
         (before->taints != after.taints || (before->unschedulable && !after.unschedulable));
}

bool NodeHelps(const kube::Pod& pod, Rejectors rejectors, const kube::Node* before,
               const kube::Node& after) {
  const auto became = [&](Rejector who, auto accepts) {
    return (rejectors & who) != 0 && accepts(after) && (before == nullptr || !accepts(*before));
  };
  // Plugins that register for new nodes and not for taints are registered for taints without a hint
  // (buildQueueingHintMap, kubernetes issue 109437).
  constexpr Rejectors kWithoutHint = kNodeAffinity | kNodeResourcesFit;
  return (rejectors & (kExtender | kVolumeBinding | kNeighbours)) != 0 ||
         ((rejectors & kWithoutHint) != 0 && TaintsChanged(before, after)) ||
         became(kNodeUnschedulable, [](const kube::Node& n) { return !n.unschedulable; }) ||
         became(kTaintToleration, [&](const kube::Node& n) { return Tolerated(pod, n); }) ||
         became(kNodeAffinity,
                [&](const kube::Node& n) { return kube::MatchesNode(*pod.spec, n); }) ||
         ((rejectors & kNodeResourcesFit) != 0 && HasMoreRoom(pod, before, after));
}

}  // namespace

bool MayHelp(const ClusterEvent& event, const kube::Pod& pod, Rejectors rejectors) {
  using What = ClusterEvent::What;
  switch (event.what) {
    case What::kAssignedPodDelete:
      // The real VolumeBinding waits for volumes; the model has none, but for whether claims exist.
      return (rejectors & (kExtender | kNodeResourcesFit | kVolumeBinding | kNeighbours)) != 0;
    case What::kNodeAdd:
    case What::kNodeUpdate:
      return NodeHelps(pod, rejectors, event.before.get(), *event.after);
    case What::kAssignedPodAdd:
    case What::kNodeDelete:
      // Which pods the terms select is not checked: a pod whose terms do not match is tried in
      // vain.
      return (rejectors & (kExtender | kNeighbours)) != 0;
    case What::kClaimAdd:
      return (rejectors & kVolumeBinding) != 0;
    case What::kAssignedPodUpdate:
    case What::kPodUpdate:
      break;
  }
  return (rejectors & kExtender) != 0;
}

}  // namespace berth::sim
