// The places that waiting workloads have in the lines of their queues.
#pragma once

#include <memory_resource>
#include <string_view>
#include <unordered_map>

#include "server/ops/parts.h"

namespace berth::server {

using Positions = std::pmr::unordered_map<std::string_view, int>;

/// In the planner's order of a queue (engine/active_queue.h), by the key of the workload. 1 is the
/// head; a workload that is in no queue, or has its place already, is not among them. Where users
/// or namespaces share a queue, the order is the one in which the jobs come if each of them is
/// placed in its turn and nothing ends. `memory` holds the keys.
Positions PositionsOf(const InParts& read, std::pmr::memory_resource& memory);

}  // namespace berth::server
