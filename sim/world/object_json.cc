#include "sim/world/object_json.h"

#include <array>
#include <string_view>
#include <utility>

#include "config/decode.h"
#include "kube/pod_requests.h"
#include "kube/quantity.h"
#include "kube/time.h"

namespace berth::sim {
namespace {

using nlohmann::json;

constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";

/// Omits empty values, as Go's `omitempty`.
void Put(json& object, const char* key, json value) {
  const bool empty = value.is_null() ||
                     ((value.is_object() || value.is_array()) && value.empty()) || value == "" ||
                     value == 0 || value == false;
  if (!empty) object[key] = std::move(value);
}

json Metadata(const kube::ObjectMeta& meta) {
  json out = json::object();
  Put(out, "name", meta.name);
  Put(out, "namespace", meta.ns);
  Put(out, "uid", meta.uid);
  Put(out, "resourceVersion", meta.resource_version);
  if (meta.creation != 0) out["creationTimestamp"] = kube::FormatTime(meta.creation);
  if (meta.deletion) out["deletionTimestamp"] = kube::FormatTime(*meta.deletion);
  Put(out, "labels", meta.labels);
  Put(out, "annotations", meta.annotations);
  return out;
}

json Amounts(const kube::ResourceList& amounts) {
  json out = json::object();
  for (const auto& [name, amount] : amounts) out[name] = kube::Format(name, amount);
  return out;
}

const char* Word(kube::SelectorOperator op) {
  static constexpr std::array<const char*, 6> kWords{"In",           "NotIn", "Exists",
                                                     "DoesNotExist", "Gt",    "Lt"};
  return kWords[static_cast<std::size_t>(op)];
}

const char* Word(kube::TaintEffect effect) {
  static constexpr std::array<const char*, 3> kWords{"NoSchedule", "PreferNoSchedule", "NoExecute"};
  return kWords[static_cast<std::size_t>(effect)];
}

const char* Word(kube::PodPhase phase) {
  static constexpr std::array<const char*, 5> kWords{"Pending", "Running", "Succeeded", "Failed",
                                                     "Unknown"};
  return kWords[static_cast<std::size_t>(phase)];
}

const char* Word(bool value) { return value ? "True" : "False"; }

template <typename T, typename Encode>
json List(const std::vector<T>& items, Encode encode) {
  json out = json::array();
  for (const T& item : items) out.push_back(encode(item));
  return out;
}

json Requirements(const std::vector<kube::Requirement>& requirements) {
  return List(requirements, [](const kube::Requirement& requirement) {
    json out{{"key", requirement.key}, {"operator", Word(requirement.op)}};
    Put(out, "values", requirement.values);
    return out;
  });
}

/// Null: no selector, which matches nothing; an empty one matches everything.
json Selector(const std::optional<kube::LabelSelector>& selector) {
  if (!selector) return nullptr;
  json out = json::object();
  Put(out, "matchExpressions", Requirements(selector->requirements));
  return out;
}

json NodeTerms(const std::vector<kube::NodeSelectorTerm>& terms) {
  return List(terms, [](const kube::NodeSelectorTerm& term) {
    json out = json::object();
    Put(out, "matchExpressions", Requirements(term.match_expressions));
    Put(out, "matchFields", Requirements(term.match_fields));
    return out;
  });
}

json PodTerms(const std::vector<kube::PodAffinityTerm>& terms) {
  json required = List(terms, [](const kube::PodAffinityTerm& term) {
    json out{{"topologyKey", term.topology_key}};
    // Put() would omit an empty selector, which differs from an absent one.
    if (term.label_selector) out["labelSelector"] = Selector(term.label_selector);
    if (term.namespace_selector) out["namespaceSelector"] = Selector(term.namespace_selector);
    Put(out, "namespaces", term.namespaces);
    Put(out, "matchLabelKeys", term.match_label_keys);
    Put(out, "mismatchLabelKeys", term.mismatch_label_keys);
    return out;
  });
  json out = json::object();
  Put(out, kRequired, std::move(required));
  return out;
}

json Affinity(const kube::PodSpec& spec) {
  json out = json::object();
  if (spec.has_required_node_affinity) {
    out["nodeAffinity"][kRequired]["nodeSelectorTerms"] = NodeTerms(spec.required_node_affinity);
  }
  Put(out, "podAffinity", PodTerms(spec.required_pod_affinity));
  Put(out, "podAntiAffinity", PodTerms(spec.required_pod_anti_affinity));
  return out;
}

json Spread(const kube::TopologySpreadConstraint& constraint) {
  json out{{"maxSkew", constraint.max_skew},
           {"topologyKey", constraint.topology_key},
           {"whenUnsatisfiable", "DoNotSchedule"},
           {"minDomains", constraint.min_domains},
           {"nodeAffinityPolicy", constraint.honors_affinity ? "Honor" : "Ignore"},
           {"nodeTaintsPolicy", constraint.honors_taints ? "Honor" : "Ignore"}};
  if (constraint.label_selector) out["labelSelector"] = Selector(constraint.label_selector);
  Put(out, "matchLabelKeys", constraint.match_label_keys);
  return out;
}

json TolerationJson(const kube::Toleration& toleration) {
  json out{{"operator", toleration.exists ? "Exists" : "Equal"}};
  Put(out, "key", toleration.key);
  Put(out, "value", toleration.value);
  if (toleration.effect) out["effect"] = Word(*toleration.effect);
  return out;
}

json Port(const kube::HostPort& port) {
  json out{{"containerPort", port.port}, {"hostPort", port.port}};
  Put(out, "hostIP", port.ip);
  Put(out, "protocol", port.protocol);
  return out;
}

/// One container with all the requests of the pod. Devices have limits, as the API server requires.
json Container(const kube::PodSpec& spec) {
  json limits = json::object();
  for (const auto& [name, amount] : spec.requests) {
    if (kube::IsExtendedResource(name)) limits[name] = kube::Format(name, amount);
  }
  json resources = json::object();
  Put(resources, "requests", Amounts(spec.requests));
  Put(resources, "limits", std::move(limits));
  json out{{"name", "main"}, {"resources", std::move(resources)}};
  Put(out, "ports", List(spec.host_ports, Port));
  return out;
}

json Spec(const kube::Pod& pod) {
  json out{{"containers", json::array({Container(*pod.spec)})}};
  Put(out, "nodeName", pod.node_name);
  Put(out, "schedulerName", pod.scheduler_name);
  Put(out, "priorityClassName", pod.priority_class);
  Put(out, "priority", pod.priority);
  if (pod.preempt_never) out["preemptionPolicy"] = "Never";
  Put(out, "schedulingGates", List(pod.scheduling_gates, [](const std::string& gate) {
        return json{{"name", gate}};
      }));
  if (!pod.scheduling_group.empty()) {
    out["schedulingGroup"] = {{"podGroupName", pod.scheduling_group}};
  }
  json volumes = json::array();
  json claims = json::array();
  for (const auto& [kind, name] : pod.needs) {
    if (kind == kube::NeededKind::kVolumeClaim) {
      volumes.push_back({{"name", name}, {"persistentVolumeClaim", {{"claimName", name}}}});
    } else {
      const bool is_template = kind == kube::NeededKind::kDeviceClaimTemplate;
      claims.push_back({{"name", name},
                        {is_template ? "resourceClaimTemplateName" : "resourceClaimName", name}});
    }
  }
  Put(out, "volumes", std::move(volumes));
  Put(out, "resourceClaims", std::move(claims));
  Put(out, "nodeSelector", pod.spec->node_selector);
  Put(out, "affinity", Affinity(*pod.spec));
  Put(out, "topologySpreadConstraints", List(pod.spec->topology_spread, Spread));
  Put(out, "tolerations", List(pod.spec->tolerations, TolerationJson));
  return out;
}

json Status(const kube::Pod& pod) {
  json out{{"phase", Word(pod.phase)}};
  Put(out, "reason", pod.status_reason);
  Put(out, "nominatedNodeName", pod.nominated_node);
  if (pod.pod_scheduled) {
    json condition{{"type", "PodScheduled"}, {"status", Word(pod.pod_scheduled->status)}};
    Put(condition, "reason", pod.pod_scheduled->reason);
    Put(condition, "message", pod.pod_scheduled->message);
    if (pod.pod_scheduled->since != 0) {
      condition["lastTransitionTime"] = kube::FormatTime(pod.pod_scheduled->since);
    }
    out["conditions"] = json::array({std::move(condition)});
  }
  return out;
}

/// Remembers the name of the first field that differs.
class Comparison {
 public:
  template <typename T>
  Comparison& Field(const char* name, const T& a, const T& b) {
    if (first_.empty() && !(a == b)) first_ = name;
    return *this;
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

// Structured bindings make the compiler reject a field that is added to an object and forgotten
// here.

void Compare(const kube::ObjectMeta& a, const kube::ObjectMeta& b, Comparison& comparison) {
  const auto& [name, ns, uid, version, creation, deletion, labels, annotations, left_out] = a;
  comparison.Field("metadata.name", name, b.name)
      .Field("metadata.namespace", ns, b.ns)
      .Field("metadata.uid", uid, b.uid)
      .Field("metadata.resourceVersion", version, b.resource_version)
      .Field("metadata.creationTimestamp", creation, b.creation)
      .Field("metadata.deletionTimestamp", deletion, b.deletion)
      .Field("metadata.labels", labels, b.labels)
      .Field("metadata.annotations", annotations, b.annotations)
      .Field("what is left out", left_out, b.left_out);
}

void Compare(const kube::PodSpec& a, const kube::PodSpec& b, Comparison& comparison) {
  const auto& [requests, selector, node_terms, has_node_terms, near, apart, spread, tolerations,
               ports] = a;
  comparison.Field("requests", requests, b.requests)
      .Field("spec.nodeSelector", selector, b.node_selector)
      .Field("spec.affinity.nodeAffinity", node_terms, b.required_node_affinity)
      .Field("spec.affinity.nodeAffinity", has_node_terms, b.has_required_node_affinity)
      .Field("spec.affinity.podAffinity", near, b.required_pod_affinity)
      .Field("spec.affinity.podAntiAffinity", apart, b.required_pod_anti_affinity)
      .Field("spec.topologySpreadConstraints", spread, b.topology_spread)
      .Field("spec.tolerations", tolerations, b.tolerations)
      .Field("spec.containers[].ports", ports, b.host_ports);
}

bool Same(const kube::OwnerReference& a, const kube::OwnerReference& b) {
  const auto& [version, kind, name, uid, controller] = a;
  return version == b.api_version && kind == b.kind && name == b.name && uid == b.uid &&
         controller == b.controller;
}

void PutController(json& metadata, const std::optional<kube::OwnerReference>& controller) {
  if (!controller) return;
  metadata["ownerReferences"] = json::array({{{"apiVersion", controller->api_version},
                                              {"kind", controller->kind},
                                              {"name", controller->name},
                                              {"uid", controller->uid},
                                              {"controller", controller->controller}}});
}

}  // namespace

json PodJson(const kube::Pod& pod) {
  json out{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata", Metadata(pod.meta)},
           {"spec", Spec(pod)},
           {"status", Status(pod)}};
  PutController(out["metadata"], pod.controller);
  return out;
}

json NodeJson(const kube::Node& node) {
  json out{{"apiVersion", "v1"},
           {"kind", "Node"},
           {"metadata", Metadata(node.meta)},
           {"spec", json::object()}};
  Put(out["spec"], "unschedulable", node.unschedulable);
  Put(out["spec"], "taints", List(node.taints, [](const kube::Taint& taint) {
        json one{{"key", taint.key}, {"effect", Word(taint.effect)}};
        Put(one, "value", taint.value);
        return one;
      }));
  Put(out["status"], "allocatable", Amounts(node.allocatable));
  json ready = {{"type", "Ready"}, {"status", Word(node.ready)}};
  if (!node.not_ready_reason.empty()) ready["reason"] = node.not_ready_reason;
  out["status"]["conditions"] = json::array({std::move(ready)});
  return out;
}

json JobJson(kube::JobKind kind, const kube::Job& job) {
  const bool is_set = kind == kube::JobKind::kJobSet;
  json out{{"apiVersion", is_set ? "jobset.x-k8s.io/v1alpha2" : "batch/v1"},
           {"kind", is_set ? "JobSet" : "Job"},
           {"metadata", Metadata(job.meta)},
           {"spec", {{"suspend", job.suspended}}}};
  if (!is_set) out["spec"]["parallelism"] = job.most_pods;
  PutController(out["metadata"], job.controller);
  if (job.finished) {
    const char* type = is_set ? "Completed" : "Complete";
    out["status"]["conditions"] = json::array({{{"type", type}, {"status", "True"}}});
  }
  return out;
}

json BudgetJson(const kube::PodDisruptionBudget& budget) {
  json out{{"apiVersion", "policy/v1"},
           {"kind", "PodDisruptionBudget"},
           {"metadata", Metadata(budget.meta)},
           {"status", {{"disruptionsAllowed", budget.disruptions_allowed}}}};
  if (budget.selector) out["spec"]["selector"] = Selector(budget.selector);
  return out;
}

json PolicyJson(const config::PolicyConfiguration& policy) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata",
           {{"name", "berth-policy"}, {"namespace", "berth-system"}, {"resourceVersion", "1"}}},
          {"data", {{"policy.yaml", config::EncodePolicy(policy)}}}};
}

std::string Bytes(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Difference(const kube::Pod& a, const kube::Pod& b) {
  const auto& [meta, spec, node, scheduler, priority_class, priority, never, gates, group,
               controller, phase, reason, nominated, scheduled, invalid, devices, needs] = a;
  Comparison comparison;
  Compare(meta, b.meta, comparison);
  Compare(*spec, *b.spec, comparison);
  comparison.Field("spec.nodeName", node, b.node_name)
      .Field("spec.schedulerName", scheduler, b.scheduler_name)
      .Field("spec.priorityClassName", priority_class, b.priority_class)
      .Field("spec.priority", priority, b.priority)
      .Field("spec.preemptionPolicy", never, b.preempt_never)
      .Field("spec.schedulingGates", gates, b.scheduling_gates)
      .Field("spec.schedulingGroup", group, b.scheduling_group)
      .Field("metadata.ownerReferences", controller.has_value(), b.controller.has_value())
      .Field("status.phase", phase, b.phase)
      .Field("status.reason", reason, b.status_reason)
      .Field("status.nominatedNodeName", nominated, b.nominated_node)
      .Field("status.conditions", scheduled, b.pod_scheduled)
      .Field("what cannot be read", invalid, b.invalid_request)
      .Field("spec.volumes and spec.resourceClaims", needs, b.needs);
  // For a pod that was made without containers, the document has one.
  if (!devices.empty()) {
    comparison.Field("spec.containers[].resources", devices, b.device_requests);
  }
  if (controller && b.controller) {
    comparison.Field("metadata.ownerReferences", Same(*controller, *b.controller), true);
  }
  return comparison.first();
}

std::string Difference(const kube::PodDisruptionBudget& a, const kube::PodDisruptionBudget& b) {
  const auto& [meta, selector, allowed] = a;
  Comparison comparison;
  Compare(meta, b.meta, comparison);
  return comparison.Field("spec.selector", selector, b.selector)
      .Field("status.disruptionsAllowed", allowed, b.disruptions_allowed)
      .first();
}

std::string Difference(const kube::Node& a, const kube::Node& b) {
  const auto& [meta, unschedulable, ready, not_ready_reason, taints, allocatable] = a;
  Comparison comparison;
  Compare(meta, b.meta, comparison);
  return comparison.Field("spec.unschedulable", unschedulable, b.unschedulable)
      .Field("status.conditions[].status", ready, b.ready)
      .Field("status.conditions[].reason", not_ready_reason, b.not_ready_reason)
      .Field("spec.taints", taints, b.taints)
      .Field("status.allocatable", allocatable, b.allocatable)
      .first();
}

}  // namespace berth::sim
