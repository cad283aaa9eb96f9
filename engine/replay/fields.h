// The fields of the engine's inputs, under Kubernetes' names; flat where Berth keeps less than the
// API object has. Enumerations are in the order of kube/objects.h.
#pragma once

#include <array>

#include "engine/engine.h"
#include "engine/replay/archive.h"
#include "kube/dialect_objects.h"
#include "kube/objects.h"

namespace berth::kube {

template <std::size_t N>
using NameList = std::array<std::string_view, N>;

inline NameList<6> Names(SelectorOperator) {
  return {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};
}
inline NameList<3> Names(TaintEffect) { return {"NoSchedule", "PreferNoSchedule", "NoExecute"}; }
inline NameList<5> Names(PodPhase) {
  return {"Pending", "Running", "Succeeded", "Failed", "Unknown"};
}

template <typename A, replay::Is<ObjectMeta> T>
void Fields(A& a, T& meta) {
  a("name", meta.name);
  a("namespace", meta.ns);
  a("uid", meta.uid);
  a("resourceVersion", meta.resource_version);
  a("creation_ms", meta.creation, Millis{0});
  a("deletion_ms", meta.deletion);
  a("labels", meta.labels);
  a("annotations", meta.annotations);
  a("leftOut", meta.left_out);
}

template <typename A, replay::Is<Requirement> T>
void Fields(A& a, T& requirement) {
  a("key", requirement.key);
  a("operator", requirement.op, SelectorOperator::kIn);
  a("values", requirement.values);
}

template <typename A, replay::Is<LabelSelector> T>
void Fields(A& a, T& selector) {
  a("matchExpressions", selector.requirements);
}

template <typename A, replay::Is<NodeSelectorTerm> T>
void Fields(A& a, T& term) {
  a("matchExpressions", term.match_expressions);
  a("matchFields", term.match_fields);
}

template <typename A, replay::Is<PodAffinityTerm> T>
void Fields(A& a, T& term) {
  a("labelSelector", term.label_selector);
  a("namespaces", term.namespaces);
  a("namespaceSelector", term.namespace_selector);
  a("topologyKey", term.topology_key);
  a("matchLabelKeys", term.match_label_keys);
  a("mismatchLabelKeys", term.mismatch_label_keys);
}

template <typename A, replay::Is<TopologySpreadConstraint> T>
void Fields(A& a, T& spread) {
  a("maxSkew", spread.max_skew, 1);
  a("topologyKey", spread.topology_key);
  a("labelSelector", spread.label_selector);
  a("minDomains", spread.min_domains, 1);
  a("matchLabelKeys", spread.match_label_keys);
  a("honorsAffinity", spread.honors_affinity, true);
  a("honorsTaints", spread.honors_taints, false);
}

template <typename A, replay::Is<Taint> T>
void Fields(A& a, T& taint) {
  a("key", taint.key);
  a("value", taint.value);
  a("effect", taint.effect, TaintEffect::kNoSchedule);
}

template <typename A, replay::Is<Toleration> T>
void Fields(A& a, T& toleration) {
  a("key", toleration.key);
  a("exists", toleration.exists, false);
  a("value", toleration.value);
  a("effect", toleration.effect);
}

template <typename A, replay::Is<HostPort> T>
void Fields(A& a, T& port) {
  a("hostIP", port.ip);
  a("protocol", port.protocol);
  a("hostPort", port.port, 0);
}

template <typename A, replay::Is<PodSpec> T>
void Fields(A& a, T& spec) {
  a("requests", spec.requests);
  a("nodeSelector", spec.node_selector);
  a("nodeAffinity", spec.required_node_affinity);
  a("hasNodeAffinity", spec.has_required_node_affinity, false);
  a("podAffinity", spec.required_pod_affinity);
  a("podAntiAffinity", spec.required_pod_anti_affinity);
  a("topologySpreadConstraints", spec.topology_spread);
  a("tolerations", spec.tolerations);
  a("hostPorts", spec.host_ports);
}

template <typename A, replay::Is<PodScheduled> T>
void Fields(A& a, T& condition) {
  a("status", condition.status, false);
  a("reason", condition.reason);
  a("message", condition.message);
  a("since_ms", condition.since, Millis{0});
}

template <typename A, replay::Is<OwnerReference> T>
void Fields(A& a, T& owner) {
  a("api_version", owner.api_version);
  a("kind", owner.kind);
  a("name", owner.name);
  a("uid", owner.uid);
  a("controller", owner.controller, false);
}

template <typename A, replay::Is<DeviceRequest> T>
void Fields(A& a, T& request) {
  a("container", request.container);
  a("resource", request.resource);
  a("amount", request.amount, std::int64_t{0});
  a("init", request.init, false);
}

inline NameList<kNeededResources.size()> Names(NeededKind) {
  NameList<kNeededResources.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kNeededResources[i].plural;
  return names;
}

template <typename A, replay::Is<NeededObject> T>
void Fields(A& a, T& object) {
  a("kind", object.kind);
  a("name", object.name);
}

template <typename A, replay::Is<Pod> T>
void Fields(A& a, T& pod) {
  a("metadata", pod.meta);
  a("spec", pod.spec);
  a("nodeName", pod.node_name);
  a("schedulerName", pod.scheduler_name);
  a("priorityClassName", pod.priority_class);
  a("priority", pod.priority, 0);
  a("preemptNever", pod.preempt_never, false);
  a("schedulingGates", pod.scheduling_gates);
  a("schedulingGroup", pod.scheduling_group);
  a("ownerReference", pod.controller);
  a("phase", pod.phase, PodPhase::kPending);
  a("reason", pod.status_reason);
  a("nominatedNodeName", pod.nominated_node);
  a("podScheduled", pod.pod_scheduled);
  a("invalidRequest", pod.invalid_request);
  a("deviceRequests", pod.device_requests);
  a("needs", pod.needs);
}

template <typename A, replay::Is<Node> T>
void Fields(A& a, T& node) {
  a("metadata", node.meta);
  a("unschedulable", node.unschedulable, false);
  a("ready", node.ready, true);
  a("taints", node.taints);
  a("allocatable", node.allocatable);
}

template <typename A, replay::Is<Namespace> T>
void Fields(A& a, T& ns) {
  a("metadata", ns.meta);
}

inline NameList<kDialectKinds> Names(DialectKind) {
  NameList<kDialectKinds> names;
  for (std::size_t i = 0; i < kDialectKinds; ++i) names[i] = kDialectResources[i].group;
  return names;
}

template <typename A, replay::Is<DialectObject> T>
void Fields(A& a, T& object) {
  a("kind", object.kind);
  a("namespace", object.ns);
  a("name", object.name);
  a("uid", object.uid);
  a("minMember", object.min_member, 0);
  a("gang", object.gang, true);
  a("size", object.size, 0);
  a("queue", object.queue);
  a("topologyRequired", object.topology_required);
  a("topologyPreferred", object.topology_preferred);
  a("tierRequired", object.tier_required, 0);
  a("tierPreferred", object.tier_preferred, 0);
  a("invalid", object.invalid);
}

template <typename A, replay::Is<PodDisruptionBudget> T>
void Fields(A& a, T& budget) {
  a("metadata", budget.meta);
  a("selector", budget.selector);
  a("disruptionsAllowed", budget.disruptions_allowed, 0);
}

}  // namespace berth::kube

namespace berth::cluster {

/// Of what was used, only what decisions depend on.
template <typename A, replay::Is<UsageEntry> T>
void Fields(A& a, T& entry) {
  a("queue", entry.queue);
  a("past", entry.past);
}

template <typename A, replay::Is<UsageRecord> T>
void Fields(A& a, T& record) {
  a("until_ms", record.until, std::int64_t{0});
  a("queues", record.queues);
}

}  // namespace berth::cluster

namespace berth::engine {

inline std::array<std::string_view, 3> Names(BindOutcome) {
  return {"bound", "refused", "unknown"};
}

template <typename A, replay::Is<VictimSet> T>
void Fields(A& a, T& victims) {
  a("uids", victims.uids);
  a("pdbViolations", victims.pdb_violations, std::int64_t{0});
}

}  // namespace berth::engine
