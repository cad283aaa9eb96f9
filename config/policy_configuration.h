// PolicyConfiguration: the settings of an administrator, decoded and checked. A plain value with
// defaults; decoding and validation are in decode.h. The reference with every key is
// docs/policy.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kube/objects.h"

namespace berth::config {

enum class Mode : std::uint8_t {
  kEnforce,
  kPassthrough,  ///< Accept every node, bind at once, remove our gates: the break-glass.
};

/// kAuto: off while that project's own controller is running.
enum class DialectSwitch : std::uint8_t { kOn, kOff, kAuto };

/// The projects whose queue and gang labels are read besides Berth's own.
struct Dialects {
  DialectSwitch kueue = DialectSwitch::kAuto;
  DialectSwitch volcano = DialectSwitch::kAuto;
  DialectSwitch kai = DialectSwitch::kAuto;
  DialectSwitch koordinator = DialectSwitch::kAuto;
  DialectSwitch scheduler_plugins = DialectSwitch::kOn;
  DialectSwitch in_tree = DialectSwitch::kOn;
  bool operator==(const Dialects&) const = default;
};

enum class DeviceKind : std::uint8_t {
  kWhole,    ///< Exclusive: one unit is one device.
  kHandles,  ///< Shared handles (rdma/...): counted, but not devices of their own.
};

/// An element of resources.devices.
struct DeviceResource {
  std::string name;
  DeviceKind kind = DeviceKind::kWhole;
  bool operator==(const DeviceResource&) const = default;
};

/// An element of topology.levels.
struct TopologyLevel {
  std::string name;        ///< What users write in berth.dev/topology-required.
  std::string node_label;  ///< Nodes with the same value (and the same wider domains) are in one
                           ///< domain.
  bool operator==(const TopologyLevel&) const = default;
};

/// Weights of the placement score in thousandths (1000 = 1.0); see docs/policy.md for each term,
/// and docs/simulator.md for how the defaults were chosen.
struct ScoreWeights {
  std::int64_t fragmentation = 1000;
  std::int64_t stranding = 600;
  std::int64_t rank = 5000;
  std::int64_t scarcity = 1200;
  std::int64_t odd_remainder = 500;
  std::int64_t empty_node = 1000;
  std::int64_t topology = 1000;
  bool operator==(const ScoreWeights&) const = default;
};

/// How nodes are chosen: placement.
struct Placement {
  int max_nodes_returned = 1;  ///< 1..; how many nodes filter hands back to kube-scheduler.
  ScoreWeights score;
  bool operator==(const Placement&) const = default;
};

/// How long members of gangs wait for each other, and how many: gang.
struct Gang {
  std::chrono::milliseconds plan_timeout{60'000};  ///< A plan is dissolved after this time without
                                                   ///< a new arrival.
  std::chrono::milliseconds bind_timeout{20'000};  ///< How long a bind call may be parked at the
                                                   ///< barrier.
  int max_standing = 4096;                         ///< Parked binds, over all gangs.
  bool operator==(const Gang&) const = default;
};

/// How pods are evicted: eviction.by.
enum class EvictBy : std::uint8_t {
  kEviction,  ///< Through the Eviction API: PodDisruptionBudgets hold.
  kDelete,    ///< By deleting them: no budget holds.
};

/// The most that eviction.warning may say.
inline constexpr std::chrono::hours kMaxWarning{24};

/// How, and how often, work is evicted: eviction.
struct Eviction {
  EvictBy by = EvictBy::kEviction;
  /// A pod that was evicted, and is still there that long past the end of its grace period, is not
  /// waited for any more.
  std::chrono::milliseconds stuck_after{600'000};
  /// How long before its eviction a pod is told of it. 0: not at all.
  std::chrono::milliseconds warning{0};
  /// How many devices an edit of the policy may expose to other queues unasked
  /// (policy/edit_exposure.h). -1: the larger of 64 and a tenth of those in use.
  int max_per_edit = -1;
  /// A job that was evicted this many times starts as work that may not be evicted, once it is
  /// back. -1: no such bound.
  int max_evictions = -1;
  bool operator==(const Eviction&) const = default;
};

/// Which waiting work is ungated, so that an autoscaler of nodes sees it: autoscaler.show.
enum class Show : std::uint8_t {
  kNone,
  kWithinQuota,  ///< Work without room that its queue's quota covers.
  kAll,          ///< And work without room that no quota is about.
};

/// What autoscalers see: autoscaler.
struct Autoscaler {
  Show show = Show::kWithinQuota;
  bool operator==(const Autoscaler&) const = default;
};

/// How queues with equal claims share over time.
struct Fairness {
  /// What a queue held that long ago counts half as much as what it holds now when free room is
  /// given to queues beyond their quota. 0: only what they hold now counts.
  std::chrono::milliseconds half_life{0};
  bool operator==(const Fairness&) const = default;
};

/// Whether new work of a queue, and of those below it, may start.
enum class Hold : std::uint8_t {
  kNone,
  kHold,          ///< Nothing new starts; what runs goes on.
  kHoldAndDrain,  ///< Nothing new starts, and what runs is evicted.
};

/// From whom work of a queue may take the room that it lacks: queues[].preemption.within.
enum class Within : std::uint8_t {
  kLower,  ///< From work of the same queue with lower priority, which is evicted.
  kNever,
};

/// From whom work of a queue may take the room that it is entitled to: queues[].preemption.reclaim.
enum class Reclaim : std::uint8_t {
  kAny,  ///< From any queue that has more than it is entitled to, with borrowing.
  kNever,
};

/// Whose running work a queue may evict: queues[].preemption.
struct Preemption {
  Within within = Within::kLower;
  Reclaim reclaim = Reclaim::kAny;
  bool operator==(const Preemption&) const = default;
};

/// How the work of a queue is ordered, among equal PriorityClasses.
enum class Order : std::uint8_t {
  kFifo,              ///< By age.
  kPredictedService,  ///< The least expected duration times devices first; unknown: last.
};

/// Among whom a queue shares its devices, among work of equal PriorityClass: who holds least comes
/// next.
enum class FairWithin : std::uint8_t {
  kNone,  ///< Among nobody: `order` alone decides.
  kNamespace,
  kUser,
};

/// Amounts of one flavor, beside those in total.
struct FlavorQuota {
  std::string flavor;
  kube::ResourceList quota{};
  kube::ResourceList limit{};
  bool operator==(const FlavorQuota&) const = default;
};

/// An element of queues. Amounts are in canonical units (kube::ResourceList), weights in
/// thousandths.
struct Queue {
  std::string name;
  /// The queue above it, which is charged for what this one uses; empty: none. A name that is no
  /// queue of the list is a plain group without amounts.
  std::string parent{};
  /// Which namespaces may use it: names, or "*" for all. Absent: none directly.
  std::optional<std::vector<std::string>> namespaces{};
  kube::ResourceList quota{};  ///< Canonical units (kube/objects.h).
  kube::ResourceList limit{};
  std::int64_t weight = 1000;  ///< Thousandths; 0: only what nobody with weight wants.
  std::int64_t priority = 0;   ///< Between siblings with equal claims, the higher goes first.
  /// Of its quota, the most that others may use. A resource that is absent: all of it.
  kube::ResourceList lending_limit{};
  Hold hold = Hold::kNone;
  Order order = Order::kFifo;
  Preemption preemption{};
  FairWithin fair_within = FairWithin::kNone;
  /// How many jobs of one user may hold room in it at once, without the queues below it. 0: any.
  int max_jobs_per_user = 0;
  /// Work of it is not evicted for other work before it has run that long.
  std::chrono::milliseconds min_run_time{0};
  /// By flavor, beside the totals.
  std::vector<FlavorQuota> quotas{};
  /// Workload classes that it admits. Absent: all, and work without a class.
  std::optional<std::vector<std::string>> classes{};
  /// PriorityClasses that its pods may name. Absent: all. A pod that names none is always admitted.
  std::optional<std::vector<std::string>> priority_classes{};
  bool non_preemptible = true;  ///< Whether it admits work that may not be evicted.
  bool operator==(const Queue&) const = default;
};

/// What a queue is promised in total: its quota, and of resources that this does not name the sum
/// of its flavors. Saturates.
inline kube::ResourceList TotalQuota(const Queue& queue) {
  kube::ResourceList total = queue.quota;
  for (const FlavorQuota& amounts : queue.quotas) {
    for (const auto& [resource, amount] : amounts.quota) {
      if (queue.quota.contains(resource)) continue;
      std::int64_t& sum = total[resource];
      if (__builtin_add_overflow(sum, amount, &sum)) sum = std::numeric_limits<std::int64_t>::max();
    }
  }
  return total;
}

/// A kind of nodes, such as those with one model of GPU. A node is of the first flavor in the
/// policy whose selector it matches.
struct Flavor {
  std::string name;
  kube::StringMap node_selector{};  ///< Labels that the node has; empty: any node.
  bool operator==(const Flavor&) const = default;
};

/// What pods with the label `berth.dev/class` have in common.
struct WorkloadClass {
  std::string name;
  /// Whether its pods may be evicted for other work, if their own label does not say it.
  bool preemptible = true;
  /// Running work of the class is not evicted for other work before it has run that long.
  std::chrono::milliseconds min_run_time{0};
  bool operator==(const WorkloadClass&) const = default;
};

/// All settings; the initial values are the defaults.
struct PolicyConfiguration {
  Mode mode = Mode::kEnforce;
  std::vector<std::string> scheduler_names{"default-scheduler", "berth"};
  Dialects dialects;
  std::vector<DeviceResource> devices{{.name = "nvidia.com/gpu", .kind = DeviceKind::kWhole}};
  std::vector<TopologyLevel> levels{
      {.name = "block", .node_label = "cloud.provider.com/topology-block"},
      {.name = "rack", .node_label = "cloud.provider.com/topology-rack"},
      {.name = "host", .node_label = "kubernetes.io/hostname"}};
  Placement placement;
  Gang gang;
  /// Whether queues may use more than their quota. Otherwise the quota of a queue without a limit
  /// is also its limit.
  bool borrowing = true;
  Fairness fairness{};
  Eviction eviction{};
  Autoscaler autoscaler{};
  /// If the file has no queue: one queue `default` for all namespaces, without limits.
  std::vector<Queue> queues{{.name = "default", .namespaces = std::vector<std::string>{"*"}}};
  std::vector<Flavor> flavors{};  ///< In the order in which work takes them.
  std::vector<WorkloadClass> classes{};
  bool operator==(const PolicyConfiguration&) const = default;
};

}  // namespace berth::config
