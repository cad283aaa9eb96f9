// The cluster as Berth sees it: nodes, pods, workloads, queues. Plain state, changed by Store only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/dialects.h"
#include "cluster/reason.h"
#include "cluster/resources.h"
#include "cluster/usage_meter.h"
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

/// The properties that decide where a pod may run. Pods of one controller share one. Compare by
/// pointer.
struct PodShape {
  std::shared_ptr<const kube::PodSpec> spec;
  bool whole_node = false;
  Demand demand;                     ///< Includes one unit of `pods`.
  ResourceId device = kPods;         ///< The first policy device it asks for; kPods: none.
  std::int64_t device_amount = 0;    ///< Of `device`, thousandths; `share` where that is not 0.
  int share = 0;                     ///< Thousandths of one device, 1..999; 0: whole devices.
  bool asks_device = false;          ///< Of any kind in the policy: kube-scheduler then asks us.
  bool has_pod_constraints = false;  ///< Pod (anti-)affinity or spread: it depends on neighbours.
};

/// What holds room for a pod.
enum class Charge : std::uint8_t {
  kNone,
  kPlanned,  ///< A plan's reservation: expires with the plan.
  kBinding,  ///< A Binding was posted, its outcome is not seen yet.
  kBound,    ///< The API server shows it as bound.
};

struct Workload;

/// A pod, what it asks for, and the room that it holds.
struct PodInfo {
  kube::Pod object;
  std::shared_ptr<const PodShape> shape;
  const Workload* workload = nullptr;  ///< Null: not ours to plan; it occupies room once bound.
  std::shared_ptr<const PodClaims> claims;  ///< Its claims on gang and queue; set with workload.

  Charge charge = Charge::kNone;
  NodeIndex node = kNoNode;  ///< Where it is charged.
  Demand charged;            ///< What was added there: exactly that is taken back.
  QueueId charged_queue = kNoQueue;
  std::int32_t charged_priority = 0;  ///< Its priority when it was charged.
  Demand queue_charge;  ///< What was added to that queue: `charged`, and parts of it (Part).
  /// The user that is charged in that queue (cluster/users.h; of a gang, Workload::user), and the
  /// job (Workload::key). Set when it is charged, and fixed until it gives up its place, whatever
  /// its labels say then. Empty: it was not charged since.
  std::string user;
  std::string job;
  /// Where the ledger of its queue has it: see QueueInfo::shares and jobs.
  config::FairWithin shared_within = config::FairWithin::kNone;
  bool job_counted = false;
  /// What Store::BeginUsage counts of it, while it is bound: its devices, for this account of its
  /// user.
  Demand metered;
  UsageMeter::Account* metered_user = nullptr;
  /// It may not be evicted for other work. Fixed while it is planned, and once bound.
  bool non_preemptible = false;
  /// It is to start as work that may not be evicted, whatever it says: eviction.maxEvictions.
  bool exempt = false;
  /// For a whole-node pod: the devices that it was charged at binding. Until it ends it is never
  /// charged less, even while its node lists fewer.
  Demand fixed;
  topology::DeviceMask devices = 0;  ///< Which of NodeInfo::devices it was given; 0: not known.
  /// If bound: the devices that its annotation names; 0: none, or the annotation is malformed.
  topology::DeviceMask said_devices = 0;

  Verdict refusal;            ///< Its own fault (queue, conflict, bad request); kNone: none.
  QueueId queue = kNoQueue;   ///< Resolved; fixed once bound.
  std::string held_queue;     ///< The queue's name, if it held room while the policy changed.
  bool repels = false;        ///< It is one of Store::repellers().
  bool reread = false;        ///< An object that its claims come from has changed.
  std::uint64_t read_at = 0;  ///< Queue and shape were read under this policy generation.
  std::size_t place = 0;      ///< In the store's list of all pods.

  bool bound() const { return !object.node_name.empty(); }
  bool terminating() const { return object.meta.deletion.has_value(); }
};

/// An index into PolicyConfiguration::flavors.
using FlavorId = std::int32_t;
inline constexpr FlavorId kNoFlavor = -1;

/// The source of what is known about a node's hardware.
enum class HardwareSource : std::uint8_t {
  kUnknown,     ///< None: all devices are alike.
  kRefused,     ///< The description cannot be true; see NodeInfo::hardware_problem.
  kAnnotation,  ///< Our own annotation.
  kHami,
  kLabels,  ///< GPU feature discovery, for a machine known by name.
};

/// Whether the devices of a node are tracked individually.
enum class DeviceTrack : std::uint8_t {
  kCounted,    ///< Only counted: kubelet and device plugin choose which ones a pod gets.
  kKept,       ///< Tracked: for every pod it is known which devices it has.
  kCountOnly,  ///< It should be tracked, but is not: see NodeInfo::device_problem.
};

/// A node, with what its pods take of it.
struct NodeInfo {
  std::string name;
  NodeIndex index = kNoNode;
  bool present = false;  ///< A Node object exists; pods may be bound before it is seen.
  kube::Node object;
  Amounts allocatable;
  Amounts used;
  /// The policy's first device, one by one; empty: only counted. With StoreOptions::shares the
  /// counts above are authoritative, and if the two disagree, this is rebuilt from them. Without
  /// shares it is set only while `track` is kKept, from what the pods here hold.
  topology::DeviceSet devices;
  DeviceTrack track = DeviceTrack::kCounted;
  std::string device_problem;  ///< Why kCountOnly; it names pods, so it is for operators.
  /// How its devices are linked: an index into Store::machines(); kNoMachine: all alike.
  std::int32_t machine = kNoMachine;
  FlavorId flavor = kNoFlavor;
  HardwareSource hardware = HardwareSource::kUnknown;
  std::string hardware_problem;      ///< Why kRefused.
  std::vector<const PodInfo*> pods;  ///< Charged here, in no particular order.
  std::vector<DomainId> domains;     ///< By policy level; kNoDomain where the label is missing.
  std::uint64_t hash = 0;            ///< Its place in the one hashed node order.
  std::uint64_t generation = 0;      ///< Changes with all above but the contents of `pods`.
  Amounts counted_free;              ///< Its part of Store::free_devices.
  Amounts counted_total;             ///< Its part of Store::total_devices.
  Demand counted_size;               ///< Its devices, if it counts for Store::LeastDemandOf.

  std::int64_t free(ResourceId id) const { return allocatable[id] - used[id]; }
  /// It is Ready and not cordoned: what it has is shared out.
  bool open() const { return present && object.ready && !object.unschedulable; }
};

/// Takes from `devices` the ones that a pod of the shape gets: `wanted` where they have the room;
/// otherwise the fully free ones that `machine` chooses (null: the ones of the lowest index), or
/// the device that a share fills most. `amount` is what the pod takes in all, in thousandths.
/// Returns 0, and takes nothing, if they do not fit.
topology::DeviceMask TakeDevices(topology::DeviceSet& devices, const PodShape& shape,
                                 std::int64_t amount, topology::DeviceMask wanted,
                                 const topology::Machine* machine = nullptr);

/// A placement domain of one level: the nodes that share the label value and all wider domains.
struct Domain {
  std::string name;  ///< e.g. `b1/r2`
  int level = 0;     ///< Index into PolicyConfiguration::levels.
  std::vector<NodeIndex> nodes;
};

/// What one user, or namespace, has of a queue.
struct Share {
  Amounts used;
  int pods = 0;
};

/// A queue, with what its work takes of it.
struct QueueInfo {
  config::Queue config;
  bool present = true;  ///< The policy has it; otherwise pods that are yet to be read are in it.
  /// Itself, then its ancestors, as far as they are queues of the policy: all are charged.
  std::vector<QueueId> path;
  Amounts own;      ///< What is charged to pods of this very queue.
  Amounts used;     ///< The same of all queues that have this one on their path.
  Amounts metered;  ///< What Store::BeginUsage counts of this very queue now.
  /// Cap by resource: `limit`, or without borrowing `quota` where no limit is given. Absent: no
  /// cap.
  std::vector<std::pair<ResourceId, std::int64_t>> caps;
  Amounts quota;
  /// Of `quota`, what is promised on nodes of a single flavor.
  struct FlavorQuota {
    ResourceId whole;
    ResourceId part;  ///< Of `whole`, by which it is charged.
    std::int64_t amount;
  };
  std::vector<FlavorQuota> flavor_quotas;
  /// What non-preemptible work may use of each resource, in all and of each flavor, by the id of
  /// that part (Part). The caps of flavors for all work are among `caps`.
  std::vector<std::pair<ResourceId, std::int64_t>> non_preemptible_caps;
  bool by_flavor = false;  ///< Some queue on its path has amounts of single flavors.
  /// What others may not use of the quota, by resource: with borrowing, and above 0.
  std::vector<std::pair<ResourceId, std::int64_t>> kept;
  Amounts idle;        ///< What it and the queues below it keep and do not use.
  Amounts idle_below;  ///< What the queues below it keep and do not use.
  /// What is charged to pods of this very queue, by user or namespace as Queue::fair_within says;
  /// only of users or namespaces that hold some, and only where it is set.
  std::map<std::string, Share, std::less<>> shares;
  /// With Queue::max_jobs_per_user: by user, the pods of each job that hold devices of this very
  /// queue.
  std::map<std::string, std::map<std::string, int, std::less<>>, std::less<>> jobs;
  /// The nearest queue on its path that is held, maybe itself: nothing new starts. kNoQueue: none.
  QueueId held_by = kNoQueue;
  QueueId drained_by = kNoQueue;  ///< The same of queues whose work is evicted.

  /// `idle`, if it has `in_use` in use and the queues below it keep `below`, which is a part of
  /// what it keeps itself.
  std::int64_t Idle(ResourceId id, std::int64_t in_use, std::int64_t below) const {
    for (const auto& [kept_id, most] : kept) {
      if (kept_id == id) return std::max(below, most - in_use);
    }
    return below;
  }
};

/// A gang, or a single pod: its members, and what they ask for together. What was decided for it is
/// in the engine (engine/workload_state.h).
struct Workload {
  std::string key;  ///< `ns/gang/name` or `ns/pod/name`: the final tie-breaker.
  std::string ns;
  std::string name;
  bool gang = false;
  bool in_tree = false;  ///< kube-scheduler starts it as a whole: never planned (in_tree.cc).
  std::vector<const PodInfo*> members;  ///< Live, without a fault; by (creation, uid) if `sorted`.
  bool sorted = false;                  ///< No member came since the last Refresh.
  std::vector<const PodInfo*> faulty;   ///< Refused individually (conflict, queue, bad request).

  // What the gang's representative member asks for; for a started gang, what was accepted at the
  // start.
  int size = 1;
  int min_member = 1;
  QueueId queue = kNoQueue;
  std::int32_t priority = 0;
  std::string user;  ///< See cluster/users.h.
  kube::Millis creation = 0;
  kube::Millis expected_duration = 0;  ///< 0: not known.
  std::string topology_required;       ///< Level name or node label key; empty: none.
  std::string topology_preferred;

  /// Its minimum came to bind, and a member that it bound is still alive: the terms above are
  /// fixed. Set by Store::SetStarted.
  bool started = false;
  /// Id of the plan under which room is reserved for its members; empty: there is none. Set by
  /// Store::SetPlan.
  std::string plan;
  /// Identifies the present incarnation: the plan that its members run, or ran, under. Empty: it
  /// has not run yet, or not by a Binding of Berth.
  std::string incarnation;
  /// Members of that incarnation that have succeeded: they count towards its minimum.
  int finished = 0;

  /// Members that are not bound, hold no room and are not being deleted.
  std::vector<const PodInfo*> Unplaced() const;
  /// No member is left to be placed, including the faulty ones.
  bool AllBound() const;
  /// Members that have a node, or whose Binding is under way.
  int BoundCount() const;
  /// How many more members must be bound until the minimum is bound, or was bound and has
  /// succeeded.
  int Missing() const { return std::max(0, min_member - BoundCount() - finished); }
  /// Some member asks for devices.
  bool AsksDevices() const;
  /// A member that asks for devices is bound, or a Binding of one is under way.
  bool Runs() const;
  /// Whether bound members show that it runs. A bound member without devices runs ahead of its gang
  /// by itself, so it counts only where no member asks for devices.
  bool SeenRunning() const;
};

/// The order of workloads where nothing else decides.
struct ByKey {
  using is_transparent = void;
  bool operator()(const Workload* a, const Workload* b) const { return a->key < b->key; }
  bool operator()(const Workload* a, std::string_view b) const { return a->key < b; }
  bool operator()(std::string_view a, const Workload* b) const { return a < b->key; }
};

}  // namespace berth::cluster
