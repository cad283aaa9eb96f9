// What is said about evictions for other work: to those whose pods are evicted, and to the work
// that takes their room.
#pragma once

#include <string>
#include <vector>

#include "cluster/store.h"
#include "engine/actions.h"

namespace berth::engine {

/// The reason of the Event that a pod of the queue gets when it is evicted for the workload.
const char* EvictionReason(cluster::QueueId victims, const cluster::Workload& workload);

/// Why the pod is evicted for the workload, as a sentence. `surplus`: its gang goes on without it.
std::string WhyEvicted(const cluster::Store& store, const cluster::PodInfo& victim,
                       const cluster::Workload& workload, bool surplus);

/// The Event that the pod gets when it is evicted for the workload.
EmitEvent EvictionEvent(const cluster::Store& store, const cluster::PodInfo& victim,
                        const cluster::Workload& workload, bool surplus);

/// Which queues' pods end for the workload, and by which rule, as a sentence. Empty: none is
/// evicted.
std::string WhoEnds(const cluster::Store& store, const cluster::Workload& workload,
                    const std::vector<const cluster::PodInfo*>& pods);

}  // namespace berth::engine
