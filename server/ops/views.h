// What people and tools read: /api/v1/* as JSON, and the numbers behind the gauges. A page that is
// read in parts is no snapshot: each item of it is true of one moment.
#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/ops/metrics.h"
#include "server/ops/parts.h"

namespace berth::server {

/// {"items":[{name, parent, namespaces, quota, limit, used, borrowed, lent, fairShare,
/// parts:[{resource, flavor, nonPreemptible, used, quota, limit}], deviceSeconds:{resource:
/// seconds}, pending:{reason: workloads}, refused:{reason: pods}}]}, amounts as Kubernetes
/// quantities (QueueNumbers says of what). Workloads and pods without a queue come last, under
/// `(none)`. `ns` not empty: only queues that admit its pods. `namespaces`: whether they are shown,
/// and users:[{user, deviceSeconds}]. With either of them next:{namespace, name, gang, position,
/// waitingSeconds, estimatedStart} is the first workload in the queue's line, of `ns` if that is
/// not empty; estimatedStart is null where it is not known (server/ops/forecast.h).
std::string QueuesJson(const InParts& read, std::string_view ns, bool namespaces);

/// {"items":[{namespace, name, queue, phase, size, minMember, members, refused, refusals:{reason:
/// pods}, bound, reason, message, since, waitingSeconds, nodes}]}. `ns`: only of this namespace;
/// empty: of all.
std::string GangsJson(const InParts& read, std::string_view ns);

/// All waiting pods, including single ones: {"items":[{namespace, name, queue, position, gang,
/// priority, devices, phase, reason, message, since, waitingSeconds}]}. Position: of its workload
/// in the queue, from 1; 0: it is in no queue, or has its place already.
std::string PodsJson(const InParts& read, std::string_view ns);

/// {"items":[{name, unschedulable, ready, taints, model, domains:{level: name},
/// devices:{resource:{allocatable, used}}, hardware:{source, indices, free, problem}, pods:[...]}]}
std::string NodesJson(const InParts& read);

/// {pod, namespace, phase, reason, message, want, have, queue, workload, ...}. If the name is not a
/// pod's but a gang's: the gang, with an empty `pod`. Empty: there is neither.
std::string WhyJson(const engine::Engine& engine, std::string_view ns, std::string_view name,
                    engine::TimePoint now);

/// Replaces the gauges that mirror the cluster. For an engine that has not started (a follower's),
/// only those of its own memory: the others would be counted twice in a sum over all replicas.
void FeedGauges(const InParts& read, Metrics& metrics);
/// Replaces the counters of what queues and users have used. `record` must be one that a next
/// process goes on from, so that they never fall.
void FeedUsage(const cluster::UsageRecord& record, Metrics& metrics);

}  // namespace berth::server
