// Every key of the policy file, told once: its name, the member it sets, its type with its bounds,
// and a sentence for editors. The decoder, the encoder, the schema and the list of keys are
// visitors of these functions, so a new key is one line here (and its row in docs/policy.md). Its
// default is what its member is initialised with. Internal to config/.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>

#include "config/decode.h"
#include "config/key_types.h"
#include "config/scalars.h"

namespace berth::config::keys {

// --- The types of values that only policies have.

/// A decimal, in thousandths, as are its bounds.
struct Decimal {
  std::int64_t min;
  std::int64_t max;
};
struct Name {
  const Form& form;
  bool required = false;
  bool unique = false;  ///< Among the elements of its list.
};
/// A list of different texts.
struct Names {
  const Form& form;
  std::size_t max;
  std::string_view empty;  ///< The error of a list without elements; empty: there may be none.
};
/// Amounts by resource.
struct Amounts {};
/// Label values by label key.
struct Labels {};
/// A mapping with keys of its own.
struct Section {};
/// A list of mappings.
struct Elements {
  std::size_t max;
  std::string_view empty;  ///< As in Names.
};
inline constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

// --- The values that are texts.

inline constexpr std::string_view kDnsLabelSchema =
    R"({"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"})";
inline constexpr std::string_view kLabelKeySchema =
    R"({"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"})";
inline constexpr std::string_view kLabelValueSchema =
    R"({"type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"})";
inline constexpr std::string_view kDeviceSchema =
    R"({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"})";
inline constexpr std::string_view kNamespaceSchema =
    R"({"type": "string", "maxLength": 63, "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?|\\*)$"})";

/// Kubernetes' extended resources, the only ones that a device plugin can offer.
inline bool IsDeviceName(std::string_view name) {
  return name.find('/') != std::string_view::npos && IsQualifiedName(name) &&
         name.find("kubernetes.io/") == std::string_view::npos && !name.starts_with("requests.");
}
inline bool IsNamespaceOrStar(std::string_view name) { return name == "*" || IsDnsLabel(name); }

inline constexpr Form kScheduler{IsDnsSubdomain, "a scheduler name (a DNS name)",
                                 R"({"type": "string", "maxLength": 253})"};
inline constexpr Form kDevice{IsDeviceName, "an extended resource such as nvidia.com/gpu",
                              kDeviceSchema};
inline constexpr Form kLevel{IsDnsLabel, "a DNS label such as rack", kDnsLabelSchema};
inline constexpr Form kNodeLabel{IsQualifiedName, "a label key such as topology.example.com/rack",
                                 kLabelKeySchema};
inline constexpr Form kQueue{IsDnsLabel, "a DNS label such as team-a", kDnsLabelSchema};
inline constexpr Form kFlavor{IsDnsLabel, "a DNS label such as h100", kDnsLabelSchema};
inline constexpr Form kClass{IsDnsLabel, "a DNS label such as training", kDnsLabelSchema};
inline constexpr Form kPriorityClass{IsDnsSubdomain, "the name of a PriorityClass",
                                     R"({"type": "string", "maxLength": 253})"};
inline constexpr Form kNamespace{IsNamespaceOrStar, "a namespace or \"*\"", kNamespaceSchema};

// --- The values of choices, in the order of their enumerators.

inline constexpr std::array<std::string_view, 2> kModes{"enforce", "passthrough"};
inline constexpr std::array<std::string_view, 2> kDeviceKinds{"whole", "handles"};
inline constexpr std::int64_t kMostQueuePriority = 1'000'000;
inline constexpr std::array<std::string_view, 3> kHolds{"none", "hold", "holdAndDrain"};
inline constexpr std::array<std::string_view, 2> kOrders{"fifo", "predictedService"};
inline constexpr std::array<std::string_view, 2> kWithin{"lower", "never"};
inline constexpr std::array<std::string_view, 2> kEvictBys{"eviction", "delete"};
inline constexpr std::array<std::string_view, 2> kReclaims{"any", "never"};
inline constexpr std::array<std::string_view, 3> kShows{"none", "withinQuota", "all"};
inline constexpr std::array<std::string_view, 3> kFairWithins{"none", "namespace", "user"};
inline constexpr std::array<std::string_view, 2> kDenyAllow{"deny", "allow"};
inline constexpr std::array<std::string_view, 2> kFalseTrue{"false", "true"};
inline constexpr std::array<std::string_view, 4> kOffOn{"off", "on", "false", "true"};
/// YAML 1.1 tools may turn `on` and `off` into `true` and `false`.
inline constexpr std::array<std::string_view, 5> kSwitches{"on", "off", "auto", "true", "false"};

/// The longest queues[].minRunTime.
inline constexpr std::chrono::hours kLongestRunTime{30 * 24};

// --- The keys.

template <typename Visitor, Is<Dialects> T>
void Keys(Visitor& key, T& dialects) {
  constexpr Choice kSwitch{kSwitches, 3};
  key("kueue", dialects.kueue, kSwitch, "");
  key("volcano", dialects.volcano, kSwitch, "");
  key("kai", dialects.kai, kSwitch, "");
  key("koordinator", dialects.koordinator, kSwitch, "");
  key("schedulerPlugins", dialects.scheduler_plugins, kSwitch, "");
  key("inTree", dialects.in_tree, kSwitch, "");
}

template <typename Visitor, Is<DeviceResource> T>
void Keys(Visitor& key, T& device) {
  key("name", device.name, Name{.form = kDevice, .required = true, .unique = true}, "");
  key("kind", device.kind, Choice{kDeviceKinds},
      "whole: one unit is one device. handles: shared handles, which are counted but are no "
      "devices of their own.");
}

template <typename Visitor, Is<TopologyLevel> T>
void Keys(Visitor& key, T& level) {
  key("name", level.name, Name{.form = kLevel, .required = true, .unique = true},
      "What users write in berth.dev/topology-required.");
  key("nodeLabel", level.node_label, Name{.form = kNodeLabel, .required = true, .unique = true},
      "Nodes with the same value are in one domain.");
}

template <typename Visitor, Is<ScoreWeights> T>
void Keys(Visitor& key, T& score) {
  constexpr Decimal kWeight{0, 1'000'000};
  key("fragmentation", score.fragmentation, kWeight, "");
  key("stranding", score.stranding, kWeight, "");
  key("rank", score.rank, kWeight, "");
  key("scarcity", score.scarcity, kWeight, "");
  key("oddRemainder", score.odd_remainder, kWeight, "");
  key("emptyNode", score.empty_node, kWeight, "");
  key("topology", score.topology, kWeight, "");
}

template <typename Visitor, Is<Placement> T>
void Keys(Visitor& key, T& placement) {
  key("maxNodesReturned", placement.max_nodes_returned, Whole{1, 100},
      "Number of nodes that a filter answer returns to kube-scheduler.");
  key("score", placement.score, Section{}, "Weights of the placement score.");
}

template <typename Visitor, Is<Gang> T>
void Keys(Visitor& key, T& gang) {
  using std::chrono::hours, std::chrono::minutes, std::chrono::seconds;
  key("planTimeout", gang.plan_timeout, Duration{seconds{1}, hours{24}},
      "How long a plan waits without a new arrival before it dissolves. At least bindTimeout.");
  key("bindTimeout", gang.bind_timeout, Duration{seconds{1}, minutes{5}},
      "How long one bind call waits for its gang. kube-scheduler's httpTimeout must be longer.");
  key("maxStanding", gang.max_standing, Whole{1, 100'000},
      "How many bind calls may be parked at the same time.");
}

template <typename Visitor, Is<Eviction> T>
void Keys(Visitor& key, T& eviction) {
  using std::chrono::hours, std::chrono::seconds;
  key("by", eviction.by, Choice{kEvictBys},
      "eviction: through the Eviction API, which honours PodDisruptionBudgets. delete: pods are "
      "deleted, whatever budgets say.");
  key("stuckAfter", eviction.stuck_after, Duration{seconds{10}, hours{24}},
      "How long past its deletion time an evicted pod is waited for.");
  key("warning", eviction.warning, Duration{seconds{0}, kMaxWarning},
      "How long before its eviction a pod gets the annotation berth.dev/eviction-time and an "
      "Event, "
      "so that it can write a checkpoint. 0s: not at all.");
  key("maxPerEdit", eviction.max_per_edit, Whole{0, 1'000'000},
      "How many devices in use an edit of the policy may expose to being taken back or drained. An "
      "edit that exposes more is held until it sets this key to that number. Absent: the larger of "
      "64 and a tenth of those in use.");
  key("maxEvictions", eviction.max_evictions, Whole{1, 1'000},
      "A job that was evicted this many times starts within quota only, and is not evicted again. "
      "Absent: no such bound.");
}

template <typename Visitor, Is<Autoscaler> T>
void Keys(Visitor& key, T& autoscaler) {
  key("show", autoscaler.show, Choice{kShows},
      "Which work without room loses Berth's gate, so that an autoscaler sees it. withinQuota: "
      "what "
      "its queue's quota covers. all: and what no quota is about. none: it waits behind the gate.");
}

template <typename Visitor, Is<Fairness> T>
void Keys(Visitor& key, T& fairness) {
  using std::chrono::hours, std::chrono::seconds;
  key("halfLife", fairness.half_life, Duration{seconds{0}, hours{8'760}},
      "Which queue beyond its quota gets free room next: what it held that long ago counts half as "
      "much as what it holds now. 0s: only what it holds now counts.");
}

template <typename Visitor, Is<FlavorQuota> T>
void Keys(Visitor& key, T& amounts) {
  key("flavor", amounts.flavor, Name{.form = kFlavor, .required = true, .unique = true},
      "The name of one of the policy's flavors.");
  key("quota", amounts.quota, Amounts{}, "Devices of the flavor that the queue is promised.");
  key("limit", amounts.limit, Amounts{}, "Devices of the flavor that the queue never exceeds.");
}

template <typename Visitor, Is<Flavor> T>
void Keys(Visitor& key, T& flavor) {
  key("name", flavor.name, Name{.form = kFlavor, .required = true, .unique = true},
      "What queues[].quotas[].flavor names.");
  key("nodeSelector", flavor.node_selector, Labels{},
      "Nodes with these labels are of this flavor, unless they are of an earlier one. Absent: all "
      "nodes.");
}

template <typename Visitor, Is<WorkloadClass> T>
void Keys(Visitor& key, T& workload_class) {
  key("name", workload_class.name, Name{.form = kClass, .required = true, .unique = true},
      "What users write in berth.dev/class.");
  key("preemptible", workload_class.preemptible, Choice{kFalseTrue},
      "false: its pods are never evicted by Berth, and use quota only.");
  key("minRunTime", workload_class.min_run_time, Duration{std::chrono::seconds{0}, kLongestRunTime},
      "Its running work is not evicted for other work before it has run that long, nor before the "
      "minRunTime of its queue is over.");
}

template <typename Visitor, Is<Preemption> T>
void Keys(Visitor& key, T& preemption) {
  key("within", preemption.within, Choice{kWithin},
      "lower: work may evict work of lower priority in its own queue. never: it waits.");
  key("reclaim", preemption.reclaim, Choice{kReclaims},
      "any: with borrowing, work may evict what other queues use beyond what they are entitled to. "
      "never: it waits.");
}

template <typename Visitor, Is<Queue> T>
void Keys(Visitor& key, T& queue) {
  key("name", queue.name, Name{.form = kQueue, .required = true, .unique = true},
      "What users write in berth.dev/queue.");
  key("parent", queue.parent, Name{.form = kQueue},
      "The queue, or plain group, above it. Its caps hold for what its children use, too.");
  key("namespaces", queue.namespaces, Names{.form = kNamespace, .max = kUnbounded, .empty = ""},
      "Namespaces whose pods may use it. Absent: nobody uses it directly.");
  key("quota", queue.quota, Amounts{},
      "What it and those below it are promised; without borrowing, and where there is no limit, "
      "also the most that they may use.");
  key("limit", queue.limit, Amounts{},
      "Amounts that it and those below it never exceed. Absent: no limit.");
  key("weight", queue.weight, Decimal{0, 1'000'000},
      "Its share, among its siblings, of what is free beyond quotas. 0: only what the others "
      "leave.");
  key("priority", queue.priority, Whole{-kMostQueuePriority, kMostQueuePriority},
      "Between siblings with equal claims, the higher goes first.");
  key("lendingLimit", queue.lending_limit, Amounts{},
      "Of its quota, the most that others may use. Absent: all of it.");
  key("hold", queue.hold, Choice{kHolds},
      "hold: nothing new starts in it or below it. holdAndDrain: and what runs there is evicted.");
  key("order", queue.order, Choice{kOrders},
      "fifo: by priority, then age. predictedService: by priority, then the least expected "
      "duration times devices.");
  key("preemption", queue.preemption, Section{}, "Whose running work it may evict.");
  key("fairWithin", queue.fair_within, Choice{kFairWithins},
      "Among equal priorities, the namespace or user that holds the least of its devices comes "
      "next.");
  key("maxJobsPerUser", queue.max_jobs_per_user, Whole{1, 1'000'000},
      "How many jobs of one user may hold devices in it at once. Absent: no such bound.");
  key("minRunTime", queue.min_run_time, Duration{std::chrono::seconds{0}, kLongestRunTime},
      "Running work of it is not evicted for other work before it has run that long.");
  key("quotas", queue.quotas, Elements{.max = 64, .empty = ""},
      "Amounts of single flavors, beside those in total.");
  key("classes", queue.classes, Names{.form = kClass, .max = 64, .empty = ""},
      "Workload classes that it admits. Absent: all, and work without a class.");
  key("priorityClasses", queue.priority_classes,
      Names{.form = kPriorityClass, .max = 1024, .empty = ""},
      "PriorityClasses that its pods may name. Absent: all.");
  key("nonPreemptible", queue.non_preemptible, Choice{kDenyAllow},
      "deny: work that may not be evicted is refused.");
}

/// `resources` and `topology` have no member of their own.
template <typename T>
struct ResourcesOf {
  T& policy;
};
template <typename Visitor, typename T>
void Keys(Visitor& key, ResourcesOf<T>& resources) {
  key("devices", resources.policy.devices,
      Elements{.max = 64, .empty = "must not be empty: nothing would be scheduled"},
      "The extended resources that are devices.");
}

template <typename T>
struct TopologyOf {
  T& policy;
};
template <typename Visitor, typename T>
void Keys(Visitor& key, TopologyOf<T>& topology) {
  key("levels", topology.policy.levels,
      Elements{.max = 16,
               .empty = "must not be empty: list at least the host, kubernetes.io/hostname"},
      "Widest first; the last is the host, kubernetes.io/hostname.");
}

template <typename Visitor, Is<PolicyConfiguration> T>
void Keys(Visitor& key, T& policy) {
  ResourcesOf<T> resources{policy};
  TopologyOf<T> topology{policy};
  key("apiVersion", Constant{kPolicyApiVersion});
  key("kind", Constant{kPolicyKind});
  key("mode", policy.mode, Choice{kModes},
      "passthrough: accept every node, bind at once, remove Berth's gates.");
  key("schedulerNames", policy.scheduler_names,
      Names{.form = kScheduler, .max = 64, .empty = "must not be empty: no pod would be Berth's"},
      "Pods of these schedulers are planned.");
  key("dialects", policy.dialects, Section{},
      "Whose queue and gang labels are read besides Berth's own.");
  key("resources", resources, Section{}, "");
  key("topology", topology, Section{}, "");
  key("placement", policy.placement, Section{}, "");
  key("gang", policy.gang, Section{}, "");
  key("borrowing", policy.borrowing, Choice{kOffOn, 2},
      "Whether queues may use more than their quota, up to their limit. Those that lent it take it "
      "back when they need it.");
  key("fairness", policy.fairness, Section{}, "");
  key("eviction", policy.eviction, Section{}, "");
  key("autoscaler", policy.autoscaler, Section{}, "");
  // Behind the devices, which amounts may name.
  key("queues", policy.queues,
      Elements{.max = kUnbounded,
               .empty =
                   "an empty list admits no pod at all: name a queue, or leave the key out for "
                   "one queue default that admits all"},
      "Absent: one queue default for all namespaces, without limits.");
  key("flavors", policy.flavors, Elements{.max = 64, .empty = ""},
      "Kinds of nodes, in the order in which work takes them.");
  key("classes", policy.classes, Elements{.max = 64, .empty = ""},
      "Workload classes, which pods name with the label berth.dev/class.");
}

}  // namespace berth::config::keys
