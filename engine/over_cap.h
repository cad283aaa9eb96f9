// Whether a pod holds room that its queue should not have lent it: an edit of the policy, or a node
// that grew, may bring a queue over its cap.
#pragma once

#include <algorithm>

#include "cluster/store.h"

namespace berth::engine {

/// The queue that the pod is charged to has more than its cap in use of what the pod takes.
inline bool QueueIsOver(const cluster::PodInfo& pod, const cluster::Store& store) {
  if (pod.charged_queue == cluster::kNoQueue) return false;
  const auto& queue = store.queues()[static_cast<std::size_t>(pod.charged_queue)];
  return std::ranges::any_of(queue.caps, [&](const auto& entry) {
    const auto& [id, cap] = entry;
    const auto takes = [id = id](const auto& part) { return part.first == id; };
    return queue.used[id] > cap && std::ranges::any_of(pod.charged, takes);
  });
}

/// The same of a member planned for a running gang that has its minimum without it. Members that
/// the minimum needs keep their room over a cap that was lowered later: an edit of the policy never
/// leaves a gang below its minimum.
inline bool MustGiveWay(const cluster::PodInfo& pod, const cluster::Store& store) {
  const cluster::Workload* workload = pod.workload;
  return pod.charge == cluster::Charge::kPlanned && workload != nullptr && workload->plan &&
         workload->plan->committed && QueueIsOver(pod, store) && workload->Missing() == 0;
}

}  // namespace berth::engine
