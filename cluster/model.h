// The cluster as Berth sees it: nodes, pods, workloads, queues. Plain state, changed by Store only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/dialects.h"
#include "cluster/reason.h"
#include "cluster/resources.h"
#include "config/policy_configuration.h"
#include "kube/objects.h"
#include "topology/device_set.h"
#include "topology/machine.h"

namespace berth::cluster {

using NodeIndex = std::int32_t;
inline constexpr NodeIndex kNoNode = -1;
using QueueId = std::int32_t;
inline constexpr QueueId kNoQueue = -1;
using DomainId = std::int32_t;
inline constexpr DomainId kNoDomain = -1;
/// Milliseconds of the host's clock; only differences and order mean something to the engine.
using TimePoint = std::int64_t;
inline constexpr std::int32_t kNoMachine = -1;

/// What decides where a pod may run; pods of one controller share it. Compare by pointer.
struct PodShape {
  std::shared_ptr<const kube::PodSpec> spec;
  bool whole_node = false;
  Demand demand;                   ///< Includes one of `pods`.
  ResourceId device = kPods;       ///< The first policy device it asks for; kPods: none.
  std::int64_t device_amount = 0;  ///< Of `device`, thousandths; `share` where that is not 0.
  int share = 0;                   ///< Thousandths of one device, 1..999; 0: whole devices.
  bool asks_device = false;        ///< Of any kind in the policy: kube-scheduler asks us about it.
  bool has_pod_constraints = false;  ///< Pod (anti-)affinity or spread: depends on its neighbours.
};

/// What holds room for a pod.
enum class Charge : std::uint8_t {
  kNone,
  kPlanned,  ///< A plan's reservation: expires with the plan.
  kBinding,  ///< A Binding was posted, its outcome is not seen yet.
  kBound,    ///< The API server says so.
};

struct Workload;

/// A pod, what it asks for, and the room that it holds.
struct PodInfo {
  kube::Pod object;
  std::shared_ptr<const PodShape> shape;
  const Workload* workload = nullptr;  ///< Null: nobody's to plan; it occupies room once bound.
  std::shared_ptr<const PodClaims> claims;  ///< What it says of gang and queue; set with workload.

  Charge charge = Charge::kNone;
  NodeIndex node = kNoNode;  ///< Where it is charged.
  Demand charged;            ///< What was added there, so that exactly that is taken back.
  QueueId charged_queue = kNoQueue;
  /// Of a whole-node pod: the devices that it was charged at binding. It is charged no less until
  /// it ends, even while its node lists fewer.
  Demand fixed;
  topology::DeviceMask devices = 0;  ///< Which it was given of NodeInfo::devices; 0: not known.
  /// Bound: which its annotation says that it was given; 0: it says nothing, or nonsense.
  topology::DeviceMask said_devices = 0;

  Verdict refusal;           ///< Its own fault (queue, conflict, bad request); kNone: none.
  QueueId queue = kNoQueue;  ///< Resolved; fixed once bound.
  std::string held_queue;    ///< Its name, where it held room while the policy changed.
  bool repels = false;       ///< It is one of Store::repellers().
  bool reread = false;       ///< An object that its claims come from has changed.

  bool bound() const { return !object.node_name.empty(); }
  bool terminating() const { return object.meta.deletion.has_value(); }
};

/// Where what is known of a node's hardware was read.
enum class HardwareSource : std::uint8_t {
  kUnknown,     ///< Nowhere: all devices are alike.
  kRefused,     ///< What is said cannot be true; see NodeInfo::hardware_problem.
  kAnnotation,  ///< Our own.
  kHami,
  kLabels,  ///< GPU feature discovery, of a machine that we know by name.
};

/// Whether the devices of a node are told apart.
enum class DeviceTrack : std::uint8_t {
  kCounted,    ///< Nobody there heeds which ones a pod is given: kubelet and plugin choose.
  kKept,       ///< Of every pod it is known which devices it has.
  kCountOnly,  ///< It was meant to be, but is not: see NodeInfo::device_problem.
};

struct NodeInfo {
  std::string name;
  NodeIndex index = kNoNode;
  bool present = false;  ///< A Node object exists; pods may be bound before it is seen.
  kube::Node object;
  Amounts allocatable;
  Amounts used;
  /// Of the policy's first device, one by one; empty: only counted. With StoreOptions::shares the
  /// counts above are the truth, and where the two part, this is made anew from them. Without, only
  /// while `track` is kKept, by what the pods here hold.
  topology::DeviceSet devices;
  DeviceTrack track = DeviceTrack::kCounted;
  std::string device_problem;  ///< Why kCountOnly; names pods: for operators.
  /// What its devices are to each other, index into Store::machines(); kNoMachine: all alike.
  std::int32_t machine = kNoMachine;
  HardwareSource hardware = HardwareSource::kUnknown;
  std::string hardware_problem;      ///< Why kRefused.
  std::vector<const PodInfo*> pods;  ///< Charged here, in no particular order.
  std::vector<DomainId> domains;     ///< By policy level; kNoDomain where the label is missing.
  std::uint64_t hash = 0;            ///< Its place in the one hashed node order.
  std::uint64_t generation = 0;      ///< Changes with anything above but `pods`' contents.

  std::int64_t free(ResourceId id) const { return allocatable[id] - used[id]; }
};

/// Which of its node's devices a pod takes: `wanted` where they have the room, else the fully free
/// ones that `machine` chooses (null: those of the lowest index), or the device that a share fills
/// most. `amount` is what it takes in all, thousandths. Takes them. 0, and nothing taken: they do
/// not fit.
topology::DeviceMask TakeDevices(topology::DeviceSet& devices, const PodShape& shape,
                                 std::int64_t amount, topology::DeviceMask wanted,
                                 const topology::Machine* machine = nullptr);

/// A placement domain of one level: the nodes that share the label value and all wider domains.
struct Domain {
  std::string name;  ///< e.g. `b1/r2`
  int level = 0;     ///< Index into PolicyConfiguration::levels.
  std::vector<NodeIndex> nodes;
};

struct QueueInfo {
  config::Queue config;
  Amounts used;
  /// Cap by resource: `limit`, or `quota` where no limit is given. Absent: no cap.
  std::vector<std::pair<ResourceId, std::int64_t>> caps;
};

/// A gang, or one pod on its own: its members, and what they ask for together. What was decided for
/// it is the engine's (engine/workload_state.h).
struct Workload {
  std::string key;  ///< `ns/gang/name` or `ns/pod/name`: the last word on ties.
  std::string ns;
  std::string name;
  bool gang = false;
  bool in_tree = false;  ///< kube-scheduler starts it whole: never planned (in_tree.cc).
  std::vector<const PodInfo*> members;  ///< Live, without a fault; by (creation, uid) if `sorted`.
  bool sorted = false;                  ///< No member came since the last Refresh.
  std::vector<const PodInfo*> faulty;   ///< Refused alone (conflict, queue, bad request).

  // What the member that speaks for the gang asks for; of a gang that has started, what was
  // accepted then.
  int size = 1;
  int min_member = 1;
  QueueId queue = kNoQueue;
  std::int32_t priority = 0;
  kube::Millis creation = 0;
  std::string topology_required;  ///< Level name or node label key; empty: none.
  std::string topology_preferred;

  /// Its minimum came to bind, and a member that it bound still lives: the terms above are fixed.
  /// Set by Store::SetStarted.
  bool started = false;
  /// Id of the plan under which room is reserved for its members; empty: there is none. Set by
  /// Store::SetPlan.
  std::string plan;
  /// Which the present incarnation is: the plan that its members run, or ran, under. Empty: it has
  /// not run yet, or not by a Binding of Berth.
  std::string incarnation;
  /// Members of that incarnation that have succeeded: they count for its minimum.
  int finished = 0;

  /// Members that are neither bound nor hold room nor being deleted.
  std::vector<const PodInfo*> Unplaced() const;
  /// Nobody is left to be placed, the faulty ones included.
  bool AllBound() const;
  int BoundCount() const;
  /// How many more must be bound until its minimum is, or has been and has succeeded.
  int Missing() const { return std::max(0, min_member - BoundCount() - finished); }
  /// Some member asks for devices.
  bool AsksDevices() const;
  /// A member that asks for devices is bound, or a Binding of one is under way.
  bool Runs() const;
  /// A bound member means that it runs. One without devices runs ahead of its gang by itself, so
  /// it counts only where no member has any.
  bool SeenRunning() const;
};

/// The order of workloads in which nothing else decides.
struct ByKey {
  using is_transparent = void;
  bool operator()(const Workload* a, const Workload* b) const { return a->key < b->key; }
  bool operator()(const Workload* a, std::string_view b) const { return a->key < b; }
  bool operator()(std::string_view a, const Workload* b) const { return a < b->key; }
};

}  // namespace berth::cluster
