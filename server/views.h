// What people and tools read: /api/v1/* as JSON, and the numbers behind the gauges.
#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/metrics.h"

namespace berth::server {

/// {"items":[{name, namespaces, quota, limit, used, pending:{reason: workloads}}]}, amounts as
/// Kubernetes quantities.
std::string QueuesJson(const engine::Engine& engine);

/// {"items":[{namespace, name, queue, phase, size, minMember, members, bound, reason, message,
/// waitingSeconds, nodes}]}. Phases: Gathering, Pending, Starting, Started. `ns`: of this namespace
/// alone; empty: of all.
std::string GangsJson(const engine::Engine& engine, std::string_view ns, engine::TimePoint now);

/// {"items":[{name, domains:{level: name}, devices:{resource:{allocatable, used}},
/// hardware:{source, indices, free, problem}, pods:[...]}]}
std::string NodesJson(const engine::Engine& engine);

/// {pod, phase, reason, message, want, have, queue, workload, ...}; empty: no such pod.
std::string WhyJson(const engine::Engine& engine, std::string_view ns, std::string_view name,
                    engine::TimePoint now);

/// Replaces the gauges that mirror the cluster. Of an engine that has not started, a follower's,
/// only what it keeps in memory: the rest would be counted twice where all replicas are summed up.
void FeedGauges(const engine::Engine& engine, Metrics& metrics);

}  // namespace berth::server
