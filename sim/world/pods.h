// What pods say of themselves in labels, annotations and requests. Read without Berth's own code,
// so that the checker does not repeat a mistake of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kube/objects.h"

namespace berth::sim {

inline constexpr const char* kGpu = "nvidia.com/gpu";
/// The schedulerName of the pods that another scheduler places.
inline constexpr const char* kOtherScheduler = "other-scheduler";

/// The pod has not ended: it takes room where it is bound.
bool Lives(const kube::Pod& pod);
/// The value of a label; empty: the pod has none.
std::string LabelOf(const kube::Pod& pod, std::string_view key);
/// A gang's name is local to its namespace. Empty: no gang.
std::string GangOf(const kube::Pod& pod);
/// How many members its gang needs, by the pod's own claim; 0: it is in no gang.
int MinimumOf(const kube::Pod& pod);
/// Whether it takes all devices of its node.
bool WholeNode(const kube::Pod& pod);
/// Amount of a resource such as GPUs or CPUs; 0: not in the list.
std::int64_t AmountOf(const kube::ResourceList& list, std::string_view name);

}  // namespace berth::sim
