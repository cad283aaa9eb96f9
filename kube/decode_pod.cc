// DecodePod: the largest of the decoders, and the only lenient one (see decode.h).
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/decode.h"
#include "kube/decode_reader.h"
#include "kube/pod_requests.h"

namespace berth::kube {
namespace {

using internal::Reader;
using Object = Reader::Object;
using Element = Reader::Element;

constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr std::size_t kMaxMessage = 32 * 1024;  // For a condition, in the API server.

struct NamedStatus {
  std::string_view name;
  StatusResources resources;
};

std::vector<NodeSelectorTerm> ReadNodeTerms(Reader& reader, Object selector) {
  std::vector<NodeSelectorTerm> terms;
  reader.ObjectList(selector, "nodeSelectorTerms", kMaxItems, [&](Object term) {
    terms.push_back({.match_expressions = reader.Requirements(term, "matchExpressions"),
                     .match_fields = reader.Requirements(term, "matchFields")});
  });
  return terms;
}

std::vector<PodAffinityTerm> ReadPodTerms(Reader& reader, Object affinity, std::string_view kind) {
  std::vector<PodAffinityTerm> terms;
  reader.ObjectField(affinity, kind, [&](Object fields) {
    reader.ObjectList(fields, kRequired, kMaxItems, [&](Object term) {
      terms.push_back({.label_selector = reader.Selector(term, "labelSelector"),
                       .namespaces = reader.Texts(term, "namespaces"),
                       .namespace_selector = reader.Selector(term, "namespaceSelector"),
                       .topology_key = std::string(reader.Text(term, "topologyKey")),
                       .match_label_keys = reader.Texts(term, "matchLabelKeys"),
                       .mismatch_label_keys = reader.Texts(term, "mismatchLabelKeys")});
    });
  });
  return terms;
}

void ReadAffinity(Reader& reader, Object spec, PodSpec& result) {
  reader.ObjectField(spec, "affinity", [&](Object affinity) {
    reader.ObjectField(affinity, "nodeAffinity", [&](Object node_affinity) {
      result.has_required_node_affinity =
          reader.ObjectField(node_affinity, kRequired, [&](Object selector) {
            result.required_node_affinity = ReadNodeTerms(reader, selector);
          });
    });
    result.required_pod_affinity = ReadPodTerms(reader, affinity, "podAffinity");
    result.required_pod_anti_affinity = ReadPodTerms(reader, affinity, "podAntiAffinity");
  });
}

void ReadTopologySpread(Reader& reader, Object spec, PodSpec& result) {
  reader.ObjectList(spec, "topologySpreadConstraints", kMaxItems, [&](Object constraint) {
    if (reader.Text(constraint, "whenUnsatisfiable") != "DoNotSchedule") return;
    result.topology_spread.push_back(
        {.max_skew = reader.Int32(constraint, "maxSkew", 1),
         .topology_key = std::string(reader.Text(constraint, "topologyKey")),
         .label_selector = reader.Selector(constraint, "labelSelector"),
         .min_domains = reader.Int32(constraint, "minDomains", 1),
         .match_label_keys = reader.Texts(constraint, "matchLabelKeys"),
         .honors_affinity = reader.Text(constraint, "nodeAffinityPolicy") != "Ignore",
         .honors_taints = reader.Text(constraint, "nodeTaintsPolicy") == "Honor"});
  });
}

void ReadTolerations(Reader& reader, Object spec, PodSpec& result) {
  reader.ObjectList(spec, "tolerations", kMaxItems, [&](Object fields) {
    Toleration toleration{.key = std::string(reader.Text(fields, "key")),
                          .exists = false,
                          .value = std::string(reader.Text(fields, "value")),
                          .effect = std::nullopt};
    const std::string_view op = reader.Text(fields, "operator");
    if (op == "Exists") {
      toleration.exists = true;
    } else if (!op.empty() && op != "Equal") {
      return;  // `Lt` and `Gt` are off in 1.36, where they tolerate nothing.
    }
    const std::string_view effect = reader.Text(fields, "effect");
    if (effect == "NoSchedule") {
      toleration.effect = TaintEffect::kNoSchedule;
    } else if (effect == "PreferNoSchedule") {
      toleration.effect = TaintEffect::kPreferNoSchedule;
    } else if (effect == "NoExecute") {
      toleration.effect = TaintEffect::kNoExecute;
    } else if (!effect.empty()) {
      return;
    }
    result.tolerations.push_back(std::move(toleration));
  });
}

void ReadHostPorts(Reader& reader, Object container, PodSpec& result) {
  reader.ObjectList(container, "ports", kMaxItems, [&](Object port) {
    const std::int32_t number = reader.Int32(port, "hostPort");
    if (number <= 0) return;
    result.host_ports.push_back({.ip = std::string(reader.Text(port, "hostIP")),
                                 .protocol = std::string(reader.Text(port, "protocol")),
                                 .port = number});
  });
}

/// The status fields `resources` and `allocatedResources`, if the first one is there.
std::optional<StatusResources> ReadStatusResources(Reader& reader, Object status) {
  std::optional<StatusResources> result;
  reader.ObjectField(status, "resources", [&](Object resources) {
    result.emplace().actuated = reader.Amounts(resources, "requests");
  });
  if (result) result->allocated = reader.Amounts(status, "allocatedResources");
  return result;
}

void ReadContainerStatuses(Reader& reader, Object status, std::string_view key,
                           std::vector<NamedStatus>& result) {
  reader.ObjectList(status, key, kMaxContainers, [&](Object container) {
    std::optional<StatusResources> resources = ReadStatusResources(reader, container);
    if (!resources) return;
    result.push_back({.name = reader.Text(container, "name"), .resources = std::move(*resources)});
  });
}

/// Adds the devices that a container asks for. A limit without a request counts as the request.
void AddDeviceRequests(std::string_view name, const ContainerResources& container, bool init,
                       std::vector<DeviceRequest>& requests) {
  ResourceList asked = container.limits;
  for (const auto& [resource, amount] : container.requests) asked[resource] = amount;
  for (const auto& [resource, amount] : asked) {
    if (amount <= 0 || !IsExtendedResource(resource)) continue;
    requests.push_back({.container = std::string(name),
                        .resource = resource,
                        .amount = amount,
                        .init = init && !container.restart_always});
  }
}

/// Reads containers or init containers: their resources, and the host ports of those that keep
/// running.
std::vector<ContainerResources> ReadContainers(Reader& reader, Object spec, std::string_view key,
                                               const std::vector<NamedStatus>& statuses, Pod& pod,
                                               PodSpec& result) {
  std::vector<ContainerResources> containers;
  const bool init = key == "initContainers";
  reader.ObjectList(spec, key, kMaxContainers, [&](Object fields) {
    ContainerResources& container = containers.emplace_back();
    reader.ObjectField(fields, "resources", [&](Object resources) {
      container.requests = reader.Amounts(resources, "requests");
      container.limits = reader.Amounts(resources, "limits");
    });
    container.restart_always = init && reader.Text(fields, "restartPolicy") == "Always";
    if (!init || container.restart_always) ReadHostPorts(reader, fields, result);
    const std::string_view name = reader.Text(fields, "name");
    AddDeviceRequests(name, container, init, pod.device_requests);
    if (statuses.empty()) return;
    const auto status = std::find_if(statuses.begin(), statuses.end(),
                                     [&](const NamedStatus& s) { return s.name == name; });
    if (status != statuses.end()) container.status = status->resources;
  });
  return containers;
}

PodPhase PhaseFrom(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, PodPhase>, 5> kPhases = {{
      {"", PodPhase::kPending},
      {"Pending", PodPhase::kPending},
      {"Running", PodPhase::kRunning},
      {"Succeeded", PodPhase::kSucceeded},
      {"Failed", PodPhase::kFailed},
  }};
  for (const auto& [name, phase] : kPhases) {
    if (name == text) return phase;
  }
  return PodPhase::kUnknown;
}

void ReadConditions(Reader& reader, Object status, Pod& pod, PodResources& resources) {
  bool resize_seen = false;  // As upstream, the first of its type decides.
  reader.ObjectList(status, "conditions", kMaxItems, [&](Object condition) {
    const std::string_view type = reader.Text(condition, "type");
    if (type == "PodScheduled") {
      pod.pod_scheduled =
          PodScheduled{.status = reader.Text(condition, "status") == "True",
                       .reason = std::string(reader.Text(condition, "reason")),
                       .message = std::string(reader.Text(condition, "message", kMaxMessage)),
                       .since = reader.Time(condition, "lastTransitionTime").value_or(0)};
    } else if (type == "PodResizePending" && !resize_seen) {
      resize_seen = true;
      resources.resize_infeasible = reader.Text(condition, "reason") == "Infeasible";
    }
  });
}

void ReadNeeds(Reader& reader, Object spec, Pod& pod) {
  const auto read = [&](Object object, const char* field, NeededKind kind) {
    if (const std::string_view name = reader.Text(object, field); !name.empty()) {
      pod.needs.push_back({.kind = kind, .name = std::string(name)});
    }
  };
  reader.ObjectList(spec, "volumes", kMaxItems, [&](Object volume) {
    reader.ObjectField(volume, "persistentVolumeClaim",
                       [&](Object source) { read(source, "claimName", NeededKind::kVolumeClaim); });
  });
  reader.ObjectList(spec, "resourceClaims", kMaxItems, [&](Object claim) {
    read(claim, "resourceClaimName", NeededKind::kDeviceClaim);
    read(claim, "resourceClaimTemplateName", NeededKind::kDeviceClaimTemplate);
  });
}

/// Reads the plain fields of a pod's spec; the fields that decide where it may run go into PodSpec.
void ReadSpecFields(Reader& reader, Object spec, Pod& pod) {
  pod.node_name = reader.Text(spec, "nodeName");
  pod.scheduler_name = reader.Text(spec, "schedulerName");
  pod.priority_class = reader.Text(spec, "priorityClassName");
  pod.priority = reader.Int32(spec, "priority");
  pod.preempt_never = reader.Text(spec, "preemptionPolicy") == "Never";
  reader.ObjectList(spec, "schedulingGates", kMaxItems, [&](Object gate) {
    pod.scheduling_gates.emplace_back(reader.Text(gate, "name"));
  });
  reader.ObjectField(spec, "schedulingGroup", [&](Object group) {
    pod.scheduling_group = reader.Text(group, "podGroupName");
  });
  ReadNeeds(reader, spec, pod);
}

void ReadPodSpec(Reader& reader, Object spec, const std::vector<NamedStatus>& statuses,
                 PodResources& resources, Pod& pod, PodSpec& result) {
  result.node_selector = reader.TextMap(spec, "nodeSelector", kMaxItems);
  ReadAffinity(reader, spec, result);
  ReadTopologySpread(reader, spec, result);
  ReadTolerations(reader, spec, result);
  resources.containers = ReadContainers(reader, spec, "containers", statuses, pod, result);
  resources.init_containers = ReadContainers(reader, spec, "initContainers", statuses, pod, result);
  resources.overhead = reader.Amounts(spec, "overhead");
  reader.ObjectField(spec, "resources", [&](Object pod_level) {
    resources.pod_requests = reader.Amounts(pod_level, "requests");
  });
}

/// The error, if the pod cannot be distinguished from other pods.
std::optional<DecodeError> Unusable(const ObjectMeta& meta,
                                    const std::optional<DecodeError>& problem) {
  const std::array<std::pair<std::string_view, const std::string*>, 3> fields = {
      {{"name", &meta.name}, {"namespace", &meta.ns}, {"uid", &meta.uid}}};
  for (const auto& [name, value] : fields) {
    if (!value->empty()) continue;
    const std::string path = "metadata." + std::string(name);
    if (problem && (problem->path == path || problem->path == "metadata")) return problem;
    return DecodeError{.path = path, .text = "missing"};
  }
  return std::nullopt;
}

}  // namespace

std::expected<Pod, DecodeError> DecodePod(Element json) {
  Object object;
  if (json.get_object().get(object) != simdjson::SUCCESS) {
    return std::unexpected(DecodeError{.path = "", .text = "not an object"});
  }
  Reader reader;
  Pod pod;
  pod.meta = reader.Meta(object, Author::kUser);
  if (auto error = Unusable(pod.meta, reader.problem())) return std::unexpected(std::move(*error));
  pod.controller = reader.Controller(object);

  PodResources resources;
  std::vector<NamedStatus> statuses;
  reader.ObjectField(object, "status", [&](Object status) {
    pod.phase = PhaseFrom(reader.Text(status, "phase"));
    pod.status_reason = reader.Text(status, "reason");
    pod.nominated_node = reader.Text(status, "nominatedNodeName");
    ReadConditions(reader, status, pod, resources);
    ReadContainerStatuses(reader, status, "initContainerStatuses", statuses);
    ReadContainerStatuses(reader, status, "containerStatuses", statuses);
    resources.pod_status = ReadStatusResources(reader, status);
  });
  auto spec = std::make_shared<PodSpec>();
  reader.ObjectField(object, "spec", [&](Object fields) {
    ReadSpecFields(reader, fields, pod);
    ReadPodSpec(reader, fields, statuses, resources, pod, *spec);
  });
  if (pod.scheduler_name.empty()) pod.scheduler_name = "default-scheduler";
  spec->requests = EffectiveRequests(resources);
  pod.spec = std::move(spec);
  pod.meta.left_out = reader.LeftOut();
  pod.invalid_request = reader.problem() ? reader.problem()->ToString() : InvalidRequest(resources);
  return pod;
}

}  // namespace berth::kube
