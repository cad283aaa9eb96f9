// A scenario's nodes and pods as the Kubernetes objects that an API server accepts, so that the
// simulator and the end-to-end tests create exactly the same ones.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "sim/scenario/scenario.h"

namespace berth::scenario {

inline constexpr std::string_view kRackLabel = "cloud.provider.com/topology-rack";
inline constexpr std::string_view kBlockLabel = "cloud.provider.com/topology-block";
inline constexpr std::string_view kGpu = "nvidia.com/gpu";

/// `v1 Node`s, Ready, in order. Racks are named `rack-0`, `rack-1`..., blocks likewise.
std::vector<nlohmann::json> NodeObjects(const Nodes& nodes);

/// `v1 Pod`s in order, preceded by the PriorityClass `priority-N` that they name, if any.
std::vector<nlohmann::json> WorkloadObjects(const Workload& workload);

/// What a step creates, in its order; PriorityClasses before all pods.
std::vector<nlohmann::json> CreateObjects(const Create& create);

/// The whole scenario for another program: `{"proves", "area", "policy", "nodes": [object...],
/// "steps": [{"line", "key", "objects" | "pods" | "nodes" | "policy" | "process" | "milliseconds" |
/// "gpus" | "expect": true}]}`. Pods are `{"namespace", "name"}`.
nlohmann::json Expand(const Scenario& scenario);

}  // namespace berth::scenario
