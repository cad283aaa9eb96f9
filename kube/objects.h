// Kubernetes objects, cut down to what scheduling reads. Plain values: no I/O, no JSON, no locks.
// Field names are Kubernetes' own; a field that is absent in the API object is empty here.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::kube {

/// Milliseconds since the Unix epoch, from an RFC 3339 timestamp.
using Millis = std::int64_t;

using StringMap = std::map<std::string, std::string, std::less<>>;

/// Amounts by resource name, in canonical units: thousandths for `cpu` and for every extended
/// resource (`vendor.com/name`), whole units (bytes, pieces) for everything else. Never negative;
/// saturates instead of overflowing. See kube/quantity.h.
using ResourceList = std::map<std::string, std::int64_t, std::less<>>;

/// `metadata` of any object.
struct ObjectMeta {
  std::string name;
  std::string ns;
  std::string uid;
  std::string resource_version;  ///< Opaque: compare only for equality.
  Millis creation = 0;
  std::optional<Millis> deletion;  ///< Set while the object is terminating.
  StringMap labels;
  StringMap annotations;  ///< Only the keys that Berth reads (see decode.h), the rest is dropped.
  /// What was left out because a bound was exceeded, as in `metadata.labels.x and 3 more`; empty:
  /// nothing.
  std::string left_out;
};

enum class SelectorOperator : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };

/// One requirement of a label or node selector.
struct Requirement {
  std::string key;
  SelectorOperator op = SelectorOperator::kIn;
  std::vector<std::string> values;
  auto operator<=>(const Requirement&) const = default;
};

/// metav1.LabelSelector with matchLabels folded into `In` requirements. `nullopt` selectors match
/// nothing, empty ones match everything, as in Kubernetes.
struct LabelSelector {
  std::vector<Requirement> requirements;
  auto operator<=>(const LabelSelector&) const = default;
};

/// A term of required node affinity: all its requirements must hold. An empty term matches nothing.
struct NodeSelectorTerm {
  std::vector<Requirement> match_expressions;
  std::vector<Requirement> match_fields;  ///< Only `metadata.name` exists.
  auto operator<=>(const NodeSelectorTerm&) const = default;
};

/// A required term of pod affinity or anti-affinity.
struct PodAffinityTerm {
  std::optional<LabelSelector> label_selector;
  std::vector<std::string> namespaces;              ///< Empty with no selector: the pod's own.
  std::optional<LabelSelector> namespace_selector;  ///< Matched against Namespace labels.
  std::string topology_key;
  std::vector<std::string> match_label_keys;
  std::vector<std::string> mismatch_label_keys;
  auto operator<=>(const PodAffinityTerm&) const = default;
};

/// A `DoNotSchedule` constraint; `ScheduleAnyway` ones are only preferences and are dropped.
struct TopologySpreadConstraint {
  std::int32_t max_skew = 1;
  std::string topology_key;
  std::optional<LabelSelector> label_selector;
  std::int32_t min_domains = 1;
  std::vector<std::string> match_label_keys;
  bool honors_affinity = true;  ///< nodeAffinityPolicy: only nodes that the pod selects count.
  bool honors_taints = false;   ///< nodeTaintsPolicy: only nodes whose taints it tolerates count.
  auto operator<=>(const TopologySpreadConstraint&) const = default;
};

enum class TaintEffect : std::uint8_t { kNoSchedule, kPreferNoSchedule, kNoExecute };

struct Taint {
  std::string key;
  std::string value;
  TaintEffect effect = TaintEffect::kNoSchedule;
  auto operator<=>(const Taint&) const = default;
};

struct Toleration {
  std::string key;  ///< Empty with `exists`: tolerates everything.
  bool exists = false;
  std::string value;
  std::optional<TaintEffect> effect;  ///< Absent: every effect.
  auto operator<=>(const Toleration&) const = default;
};

struct HostPort {
  std::string ip;  ///< Empty or 0.0.0.0: every address of the node.
  std::string protocol;
  std::int32_t port = 0;
  auto operator<=>(const HostPort&) const = default;
};

/// The part of a pod's spec that decides where it may run. It is equal for pods of one controller,
/// so the store interns it: compare by value once, by pointer afterwards.
struct PodSpec {
  /// Effective requests as kube-scheduler computes them (containers, init containers, sidecars,
  /// overhead, pod-level resources). Does not contain `pods`.
  ResourceList requests;
  StringMap node_selector;
  std::vector<NodeSelectorTerm> required_node_affinity;  ///< Terms are ORed; empty: no constraint.
  bool has_required_node_affinity = false;
  std::vector<PodAffinityTerm> required_pod_affinity;
  std::vector<PodAffinityTerm> required_pod_anti_affinity;
  std::vector<TopologySpreadConstraint> topology_spread;
  std::vector<Toleration> tolerations;
  std::vector<HostPort> host_ports;
  auto operator<=>(const PodSpec&) const = default;
};

enum class PodPhase : std::uint8_t { kPending, kRunning, kSucceeded, kFailed, kUnknown };

/// The PodScheduled condition.
struct PodScheduled {
  bool status = false;
  std::string reason;  ///< `Unschedulable`, `SchedulingGated`, `SchedulerError`, ...
  std::string message;
  /// lastTransitionTime, when `status` last changed: of a bound pod, when its Binding was made.
  /// Whole seconds of the API server's clock; 0: not known.
  Millis since = 0;
  auto operator<=>(const PodScheduled&) const = default;
};

struct OwnerReference {
  std::string api_version{};
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
};

/// What one container asks for of an extended resource.
struct DeviceRequest {
  std::string container;
  std::string resource;
  std::int64_t amount = 0;  ///< Thousandths, above 0.
  bool init = false;        ///< Of an init container that ends before the others start.
  bool operator==(const DeviceRequest&) const = default;
};

/// Objects of a pod's namespace without which kube-scheduler places the pod nowhere.
enum class NeededKind : std::uint8_t {
  kVolumeClaim,          ///< spec.volumes[].persistentVolumeClaim
  kDeviceClaim,          ///< spec.resourceClaims[].resourceClaimName
  kDeviceClaimTemplate,  ///< spec.resourceClaims[].resourceClaimTemplateName
};

/// How the API server and people name a kind.
struct NeededResource {
  std::string_view group;   ///< The path of its group and version.
  std::string_view plural;  ///< For example `persistentvolumeclaims`.
  std::string_view kind;    ///< For example `PersistentVolumeClaim`.
};

/// By NeededKind.
inline constexpr std::array<NeededResource, 3> kNeededResources{
    {{"/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim"},
     {"/apis/resource.k8s.io/v1", "resourceclaims", "ResourceClaim"},
     {"/apis/resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate"}}};

constexpr const NeededResource& ResourceOf(NeededKind kind) {
  return kNeededResources[static_cast<std::size_t>(kind)];
}

/// An object that a pod names, in the pod's namespace.
struct NeededObject {
  NeededKind kind = NeededKind::kVolumeClaim;
  std::string name;
  auto operator<=>(const NeededObject&) const = default;
};

/// A pod. Copies share `spec`.
struct Pod {
  ObjectMeta meta;
  std::shared_ptr<const PodSpec> spec = std::make_shared<PodSpec>();
  std::string node_name;
  std::string scheduler_name;
  std::string priority_class;
  std::int32_t priority = 0;
  bool preempt_never = false;  ///< preemptionPolicy: Never.
  std::vector<std::string> scheduling_gates;
  std::string scheduling_group;  ///< spec.schedulingGroup.podGroupName (in-tree gangs).
  std::optional<OwnerReference> controller;
  PodPhase phase = PodPhase::kPending;
  std::string status_reason;  ///< e.g. `UnexpectedAdmissionError` from the kubelet.
  std::string nominated_node;
  std::optional<PodScheduled> pod_scheduled;
  /// A device was requested with request != limit, or in a fraction: Berth cannot allocate whole
  /// devices for it. Or a part of the pod could not be read (kube/decode.h).
  std::string invalid_request;                 ///< Empty, or which resource or field and why.
  std::vector<DeviceRequest> device_requests;  ///< By container, in their order.
  std::vector<NeededObject> needs;             ///< As the pod names them.
};

struct Node {
  ObjectMeta meta;
  bool unschedulable = false;
  bool ready =
      true;  ///< False only where a Ready condition says so: kube-scheduler uses the taints.
  std::string not_ready_reason;  ///< That condition's reason, such as `KubeletNotReady`.
  std::vector<Taint> taints;
  ResourceList allocatable;
};

struct Namespace {
  ObjectMeta meta;
};

struct PriorityClass {
  ObjectMeta meta;
  std::int32_t value = 0;
  bool global_default = false;
};

struct PodDisruptionBudget {
  ObjectMeta meta;
  std::optional<LabelSelector> selector;
  std::int32_t disruptions_allowed = 0;
};

/// What creates pods, replaces them, and can be suspended as a whole.
enum class JobKind : std::uint8_t {
  kJob,     ///< batch/v1
  kJobSet,  ///< jobset.x-k8s.io/v1alpha2: creates Jobs, and suspends and resumes them.
};

/// The label that the JobSet controller gives to Jobs and their pods: the name of the JobSet.
inline constexpr std::string_view kJobSetLabel = "jobset.sigs.k8s.io/jobset-name";

/// A Job or a JobSet.
struct Job {
  ObjectMeta meta;
  bool suspended = false;  ///< spec.suspend
  /// Of a Job: how many pods it may have that have not ended; not negative.
  std::int64_t most_pods = 1;
  bool finished = false;   ///< It is complete, or has failed.
  std::string managed_by;  ///< Empty, or who runs it instead of its usual controller.
  std::optional<OwnerReference> controller;
};

struct ConfigMap {
  ObjectMeta meta;
  StringMap data;
};

}  // namespace berth::kube
