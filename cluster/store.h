// The only writer of cluster state: applies what the informers report, and keeps the workloads and
// the ledger (which pod holds room where, charged to which queue). No I/O, no clock, no threads:
// the host serialises the calls.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cluster/change_log.h"
#include "cluster/dialects.h"
#include "cluster/model.h"
#include "cluster/queue_directory.h"
#include "cluster/repellers.h"
#include "cluster/store_listener.h"
#include "cluster/topology_index.h"

namespace berth::cluster {

/// Settings that a simulator may want to change.
struct StoreOptions {
  /// Whether `berth.dev/gpu-milli` is read: a pod that asks for one of the policy's first device
  /// takes that many thousandths of it, and devices are kept one by one.
  bool shares = false;
  /// Shuffles the one node order; 0: the order of a real cluster.
  std::uint64_t order_seed = 0;
};

/// Objects are handed out as const; the calls below change them, and accept them as const, too.
class Store {
 public:
  /// Allows lookups without making a std::string. Not noexcept, so that each entry keeps its hash:
  /// a table that grows then need not read all keys.
  struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using PodMap = std::unordered_map<std::string, PodInfo, StringHash, std::equal_to<>>;

  /// `listener` must outlive the store; null: none.
  explicit Store(config::PolicyConfiguration policy, StoreOptions options = {},
                 StoreListener* listener = nullptr);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// About `pods` pods will come: makes the tables large enough, so that none has to grow in one
  /// call.
  void Expect(std::size_t pods);

  // --- Informer events. Each call is idempotent.
  void UpsertNode(kube::Node node);
  void DeleteNode(std::string_view name);
  /// A Succeeded or Failed pod is treated as deleted, except that it still counts for its gang's
  /// incarnation. Returns the pod, or null if it is gone.
  const PodInfo* UpsertPod(kube::Pod pod);
  /// Shape, claims, queue and refusal that the pod would have. The result is not kept: it has no
  /// workload. Null: the pod is not ours to place.
  std::unique_ptr<PodInfo> Appraise(kube::Pod pod);
  void DeletePod(std::string_view uid);
  void UpsertNamespace(kube::Namespace ns);
  void DeleteNamespace(std::string_view name);
  void UpsertDisruptionBudget(kube::PodDisruptionBudget budget);
  void DeleteDisruptionBudget(std::string_view uid);
  /// Returns the pods whose claims may have changed with the object; UpsertPod reads them again.
  std::vector<const PodInfo*> UpsertDialectObject(kube::DialectObject object);
  std::vector<const PodInfo*> DeleteDialectObject(std::string_view uid);
  /// Whether pods must be read again, which BeginPolicy does. Either a project's controller became
  /// alive or ceased to be, which switches an `auto` dialect on or off; or a node has a resource
  /// that pods asked for when it could not be distinguished from other unknown resources.
  bool reread_due() const { return reread_due_; }
  /// The policy holds from now on; charges and plans stay. Returns whether pods must be read again:
  /// not if only amounts, modes, times and weights have changed.
  bool BeginPolicy(config::PolicyConfiguration policy);
  /// Some pods are yet to be read under the present policy. Until then their queues and shapes are
  /// the ones under the last policy, what queues have in use is not complete, and nothing may be
  /// decided.
  bool reading() const { return reading_.has_value(); }
  /// Reads about `most` pods and nodes again; the members of a gang are read together. Returns the
  /// keys of started gangs that were read.
  std::vector<std::string> ReadMore(std::size_t most);
  /// Reads the members of this workload, if some pods are yet to be read. It may cease to be.
  void ReadNow(const Workload& workload);
  /// BeginPolicy, and ReadMore until all pods are read.
  bool SetPolicy(config::PolicyConfiguration policy);

  // --- The ledger.
  /// Takes room for `pod` on `node`, after giving back what it held. Of the node's devices it takes
  /// the ones in `devices`, or as TakeDevices chooses. For a pod that is bound, or about to be, the
  /// devices are fixed: by its annotation, and by what was chosen when it was planned.
  void SetCharge(const PodInfo& pod, NodeIndex node, Charge charge,
                 topology::DeviceMask devices = 0);
  /// For the claim of a whole-node pod: what it is charged of its node's devices. Empty for other
  /// pods.
  std::map<std::string, std::int64_t, std::less<>> WholeNodeCharge(const PodInfo& pod) const;
  /// Gives back what `pod` holds. A pod that is not bound then asks for its own queue again, which
  /// may be another one under the present policy; its workload's queue follows at Refresh.
  void Unreserve(const PodInfo& pod);
  /// As Unreserve, for a pod that is charged elsewhere at once: it keeps its queue.
  void GiveBack(const PodInfo& pod);
  /// No member of the gang runs any more: the remaining ones are a new incarnation, and their
  /// claims define the gang and its queue again.
  void BeginIncarnation(const Workload& workload);
  /// Sets whether the workload has started (see Workload).
  void SetStarted(const Workload& workload, bool started);
  /// Records the plan under which room is reserved for the members; empty: none any more.
  void SetPlan(const Workload& workload, std::string plan);
  /// `pod` is planned as a member of its workload, and is charged to the workload's queue.
  void AdoptQueue(const PodInfo& pod);
  /// Its job was evicted often enough: the pod, which holds no room, starts as work that may not be
  /// evicted. That its queue denies such work is no reason to refuse it.
  void Exempt(const PodInfo& pod);
  /// What no object says before the pod is bound: PodInfo::fixed, its queue and its user. For a
  /// store that follows another one without its events.
  void SetTerms(const PodInfo& pod, Demand fixed, QueueId queue, bool non_preemptible,
                std::string user);

  // --- What queues and users have used.
  /// The time of the changes that follow.
  void SetTime(TimePoint now) { now_ = std::max(now_, now); }
  /// Counts from now on what bound pods hold, in addition to `record`. What runs already counts
  /// since `record` ended, or since it was bound, as far as the API server says when that was.
  void BeginUsage(const UsageRecord& record);
  /// nullopt: nothing is counted.
  std::optional<UsageRecord> UsageUntil(TimePoint now) const;
  /// What the queue, with the queues below it, held of devices on average (UsageMeter::Past, by
  /// fairness.halfLife). While nothing is counted: what it uses now.
  Amounts PastUse(QueueId queue, TimePoint now) const;

  /// Applies accumulated changes: domains and node order, first members and faults of gangs. Call
  /// before deciding anything. While pods are read under new levels, domains are put off until
  /// all nodes have been read.
  void Refresh();
  /// Refreshes the domains at once, for callers that move a member while changes accumulate.
  void RefreshTopology() { topology_.Refresh(nodes_); }
  /// The part of Refresh that concerns workloads: cheap, for use while many objects are yet to
  /// come.
  void RefreshWorkloads();
  /// For how many workloads RefreshWorkloads has work to do.
  std::size_t stale_workloads() const { return stale_.size(); }

  // --- Reads.
  const config::PolicyConfiguration& policy() const { return policy_; }
  ResourceTable& resources() { return resources_; }
  const ResourceTable& resources() const { return resources_; }
  /// By index, including nodes that are gone. The slot of a node that is gone and has no pods is
  /// reused for the next new name: do not keep an index across changes, unless a charge keeps the
  /// slot.
  const std::vector<std::unique_ptr<NodeInfo>>& nodes() const { return nodes_; }
  const NodeInfo& node(NodeIndex index) const { return *nodes_[static_cast<std::size_t>(index)]; }
  /// kNoNode: unknown.
  NodeIndex FindNode(std::string_view name) const;
  /// Null: there is no such pod, or workload.
  const PodInfo* FindPod(std::string_view uid) const;
  const PodInfo* FindPod(std::string_view ns, std::string_view name) const;
  const Workload* FindWorkload(const std::string& key) const;
  const std::map<std::string, Workload>& workloads() const { return workloads_; }
  const PodMap& pods() const { return pods_; }
  /// By PodInfo::place: a new pod comes last, and the last one takes the place of one that goes.
  std::span<const PodInfo* const> pod_list() const { return {pod_list_.data(), pod_list_.size()}; }
  /// Members of gangs that have ended and still exist, by workload key and UID. Of the object only
  /// the part is kept that says what the pod was, not what it asked for.
  struct EndedPod {
    kube::Pod object;
    std::string incarnation;  ///< See Workload.
    std::optional<int> rank;
  };
  using EndedPods = std::map<std::pair<std::string, std::string>, EndedPod>;
  const EndedPods& ended() const { return ended_; }
  /// The gang of such a pod; empty: the pod is not one of them.
  std::string EndedKey(std::string_view uid) const;
  /// The policy's queues, in its order. A queue keeps its id as long as the policy has it.
  const std::vector<QueueId>& queues() const { return queue_order_; }
  const QueueInfo& queue(QueueId id) const { return queues_[static_cast<std::size_t>(id)]; }
  /// kNoQueue: the policy has no such queue.
  QueueId FindQueue(std::string_view name) const;
  const std::vector<Domain>& domains() const { return topology_.domains(); }
  /// The place of a node in the hashed order, 0..present nodes-1. REQUIRES: Refresh().
  int rank(NodeIndex index) const { return topology_.rank(index); }
  int present_nodes() const { return topology_.present_nodes(); }
  const kube::StringMap* NamespaceLabels(std::string_view name) const;
  const std::map<std::string, kube::Namespace, std::less<>>& namespaces() const {
    return namespaces_;
  }
  const std::map<std::string, kube::PodDisruptionBudget>& disruption_budgets() const {
    return budgets_;
  }
  const DialectObjects& dialect_objects() const { return *dialect_objects_; }
  /// The policy's dialects, with every `auto` resolved.
  const config::Dialects& dialects() const { return dialects_; }
  const Repellers& repellers() const { return repellers_; }
  /// Machine models met so far; never forgotten, at most kMaxMachines.
  const std::vector<std::unique_ptr<const topology::Machine>>& machines() const {
    return machines_;
  }
  /// Null: all devices of the node are alike.
  const topology::Machine* MachineOf(const NodeInfo& node) const {
    return node.machine == kNoMachine ? nullptr
                                      : machines_[static_cast<std::size_t>(node.machine)].get();
  }
  /// Nodes of which `track` or a problem changed since the last call.
  std::set<NodeIndex> TakeDeviceNews() { return std::exchange(device_news_, {}); }
  /// The annotation that says which devices `pod` was given, for its Binding. Empty: nothing on
  /// that node reads it, or the devices are not known.
  std::string DevicesNote(const PodInfo& pod) const;
  /// Device resources of the policy, in its order.
  const std::vector<ResourceId>& device_ids() const { return device_ids_; }
  /// Whether node amounts of `id` are whole devices (not handles).
  bool IsWholeDevice(ResourceId id) const;

  /// What a pod takes on `node`: its shape's demand, and for a whole-node pod every whole device
  /// there (handles are not devices).
  Demand DemandOn(const PodShape& shape, const NodeInfo& node) const;
  /// The least that a pod takes, wherever it goes: what its shape asks for, and for a whole-node
  /// pod every whole device of the smallest node that has as much. Selectors are not looked at, and
  /// only nodes that are ready and not cordoned count.
  Demand LeastDemandOf(const PodShape& shape) const;
  /// What its queue is charged for a pod that takes `demand` on a node of `flavor`: that, and the
  /// parts of it (Part) that the policy has amounts of.
  Demand QueueCharge(const PodInfo& pod, const Demand& demand, FlavorId flavor) const;
  /// The same for what it would take on this node.
  Demand QueueChargeOn(const PodInfo& pod, const NodeInfo& node) const {
    return QueueCharge(pod, DemandOn(*pod.shape, node), node.flavor);
  }
  /// The part of `whole` that the policy has an amount of; nullopt: it has none.
  std::optional<ResourceId> FindPart(ResourceId whole, FlavorId flavor, bool non_preemptible) const;

  const StoreOptions& options() const { return options_; }
  /// Nodes with any change, and nodes whose object changed. A new node is a change of both.
  const ChangeLog& changes() const { return changes_; }
  const ChangeLog& object_changes() const { return object_changes_; }
  /// Nodes of which the labels changed, or a pod that holds room there came, went, or changed in
  /// what affinity, anti-affinity and spread look at.
  const ChangeLog& neighbour_changes() const { return neighbour_changes_; }
  /// Counts changes of the labels of namespaces.
  std::uint64_t namespace_generation() const { return namespace_generation_; }
  /// Counts changes of domains and of the node order.
  std::uint64_t topology_generation() const { return topology_.generation(); }
  /// Counts changes of the policy.
  std::uint64_t policy_generation() const { return policy_generation_; }

  /// Counts every change; unequal means something may differ.
  std::uint64_t generation() const { return generation_; }
  /// Counts changes that may have made room, or changed what fits where.
  std::uint64_t free_generation() const { return free_generation_; }
  /// For such changes that the store does not see.
  void BumpFreeGeneration() { ++free_generation_; }
  /// Nodes where room was given back, that came, changed or went, or on which a pod that holds room
  /// has changed (other pods may be allowed to evict it now).
  const ChangeLog& room_changes() const { return room_changes_; }
  /// Queues that were given room back since the last call.
  std::set<QueueId> TakeQueueNews() { return std::exchange(queue_news_, {}); }
  /// With borrowing: queues of which the use changed since the last call.
  std::set<QueueId> TakeUseNews() { return std::exchange(use_news_, {}); }
  /// Workloads of which the demand (policy/queue_demand.h) may have changed since
  /// the last call. In no particular order.
  std::vector<const Workload*> TakeDemandNews();
  /// The demand of this one is read now, and is no news.
  void DropDemandNews(const Workload& workload) { demand_news_.erase(&workload); }
  /// Shares of queues (QueueInfo::shares) that changed.
  struct ShareNews {
    std::set<std::pair<QueueId, std::string>> changed{};
    bool all = false;  ///< There were too many: any may have changed.
  };
  /// Since the last call.
  ShareNews TakeShareNews() { return std::exchange(share_news_, {}); }
  /// Queues that keep a part of their quota for themselves (QueueInfo::kept), each before the
  /// queues above it.
  const std::vector<QueueId>& keepers() const { return keepers_; }
  /// The resources of which some queue keeps a part, by id.
  const std::vector<ResourceId>& kept_ids() const { return kept_ids_; }
  /// What all queues together keep and do not use.
  const Amounts& idle() const { return idle_; }
  /// Whether a pod of this queue, or of none, of a lower priority holds room.
  bool HoldsBelow(QueueId queue, std::int32_t priority) const;
  /// Devices that are free on nodes that are ready and not cordoned.
  const Amounts& free_devices() const { return free_devices_; }
  /// Devices of all nodes that are present.
  const Amounts& total_devices() const { return total_devices_; }

  /// Has the workload put in line to be judged.
  void MarkChanged(const Workload& workload);
  /// The same for an open workload of which nothing has changed itself: this is no news of demand,
  /// and the generation stays.
  void JudgeAgain(const Workload& workload) { changed_.insert(&workload); }
  /// At most `most` of the workloads that changed and have not been taken yet, by key.
  std::vector<const Workload*> TakeChanged(std::size_t most);
  /// A part of the open workloads (those with a member that has no node yet), by key: workloads
  /// after `after`, out of at most `most` that are looked at. They need not be taken as changed any
  /// more.
  struct OpenPart {
    std::vector<const Workload*> workloads{};
    std::string upto{};  ///< The last key that was looked at.
    bool more = false;
  };
  OpenPart TakeOpen(std::string_view after, std::size_t most);
  /// Open workloads with a member that looks at its neighbours: a pod that comes may help them.
  std::vector<const Workload*> NeighbourlyWorkloads();

  /// Events that affinity, anti-affinity or spread look at and that free no room.
  struct NeighbourNews {
    std::vector<const PodInfo*> moved;  ///< Took room, or began to end. In no particular order.
    bool relabelled = false;            ///< Also: pods that hold room changed their labels.
  };
  /// Since the last call.
  NeighbourNews TakeNeighbourNews();
  /// Counts the events that TakeNeighbourNews reports.
  std::uint64_t neighbour_generation() const { return neighbour_generation_; }

  /// The ledger as text, in a fixed order: equal text means equal ledger (invariant I7).
  std::string LedgerString() const;

 private:
  struct ShapeLess {
    bool operator()(const std::shared_ptr<const PodShape>& a,
                    const std::shared_ptr<const PodShape>& b) const;
  };

  static constexpr std::size_t kMinPurge = 4096;
  static constexpr std::size_t kMaxMachines = 64;
  static constexpr std::size_t kMaxShareNews = 4096;

  /// The store's own object of one that it has handed out.
  PodInfo& Own(const PodInfo& pod) { return pods_.find(pod.object.meta.uid)->second; }
  Workload& Own(const Workload& workload) { return workloads_.find(workload.key)->second; }
  NodeInfo& NodeSlot(std::string_view name);
  NodeIndex TakeVacantSlot();
  void Touch(NodeInfo& node);
  void CountDevices(NodeInfo& node);
  void CountSize(NodeInfo& node);
  void TouchObject(NodeInfo& node);
  void ReconcileDevices(NodeInfo& node);
  void ReadHardware(NodeInfo& node);
  void TrackDevices(NodeInfo& node);
  std::string AccountDevices(const NodeInfo& node, topology::DeviceSet& devices);
  topology::DeviceMask SaidDevices(const kube::Pod& pod) const;
  std::int64_t DevicesOf(const PodInfo& pod) const;
  void RechargeWholeNode(NodeInfo& node);
  Demand FixedCharge(const PodInfo& pod, const Demand& demand, Charge charge) const;
  Demand ClaimedCharge(const PodInfo& pod) const;
  Demand WholeDevices(const Demand& demand) const;
  void IndexDevices();
  void ReadQueues();
  void DropGoneQueues();
  void ReadQueue(const config::Queue& queue, QueueInfo& info);
  void ReadQuotas(const config::Queue& queue, QueueInfo& info);
  void InternParts();
  void ReadFlavor(NodeInfo& node);
  bool MayNotBeEvicted(const PodInfo& pod, const PodClaims& claims) const;
  void RechargeQueue(PodInfo& pod);
  void FindPaths();
  void ChargeQueue(PodInfo& pod, int sign);
  PodClaims ClaimsOf(const kube::Pod& pod) const;
  std::string JobOf(const PodInfo& pod) const;
  void ChargeUser(PodInfo& pod, std::string user);
  void FixUser(PodInfo& pod, Charge next);
  void CountShare(PodInfo& pod, int sign);
  void CountJob(PodInfo& pod, int sign);
  void CountUsage(PodInfo& pod, int sign, TimePoint from);
  void HoldAlong(const QueueInfo& queue, ResourceId device, std::int64_t amount, TimePoint from);
  void CountUsageAlongPaths();
  void FindKeepers();
  void CountIdle(QueueId queue);
  QueueId NewQueue();
  void BeginReading(bool nodes);
  std::vector<PodInfo*> MembersOf(const Workload& workload);
  void ReadAgain(const std::vector<PodInfo*>& pods);
  bool AsksDevice(const kube::PodSpec& spec) const;
  std::shared_ptr<const PodShape> ShapeOf(const kube::Pod& pod, bool whole_node);
  int ShareOf(const kube::Pod& pod) const;
  void PurgeShapes();
  /// Assigns the pod to the workload that it claims, or to none.
  struct PodReading;
  PodReading Read(PodInfo& pod);
  void TakeReading(PodInfo& pod, const PodReading& reading);
  void File(PodInfo& pod);
  void Unfile(PodInfo& pod);
  std::vector<const PodInfo*> ReadersOf(const kube::DialectObject& object);
  void CountPeer(const kube::Pod& pod, int change);
  void RefreshWorkload(Workload& workload);
  void KeepEnded(const kube::Pod& pod, std::string key);
  void ForgetEnded(std::string_view uid);
  void CountFinished(Workload& workload) const;
  const EndedPod* GoesOnWith(const Workload& workload) const;
  void CheckMember(const Workload& workload, PodInfo& pod, const PodInfo& first) const;
  void ChargeBound(PodInfo& pod);
  QueueId ResolveQueue(const PodInfo& pod, const PodClaims& claims, Verdict& refusal) const;
  QueueId AdmitWork(QueueId queue, const PodInfo& pod, const PodClaims& claims,
                    Verdict& refusal) const;
  QueueId QueueOfHeld(const PodInfo& pod) const;
  bool QueueAdmits(QueueId queue, std::string_view ns) const;
  void NoteMoved(const PodInfo& pod);
  void NoteDemand(const Workload* workload);
  bool Ours(const kube::Pod& pod) const;

  config::PolicyConfiguration policy_;
  StoreOptions options_;
  StoreListener* listener_;
  ResourceTable resources_;
  std::vector<ResourceId> device_ids_;
  std::vector<ResourceId> whole_device_ids_;
  /// By whole, flavor and whether of non-preemptible work only.
  std::map<std::tuple<ResourceId, FlavorId, bool>, ResourceId> parts_;

  std::vector<std::unique_ptr<const topology::Machine>> machines_;
  std::set<NodeIndex> device_news_;
  std::vector<std::unique_ptr<NodeInfo>> nodes_;
  std::unordered_map<std::string_view, NodeIndex> node_lookup_;
  std::set<NodeIndex> vacant_;  ///< Slots of nodes that are gone, and of some that are back.
  TopologyIndex topology_;

  PodMap pods_;                                             // by UID
  std::vector<PodInfo*> pod_list_;                          // see PodInfo::place
  std::unordered_map<std::string, PodInfo*> pods_by_name_;  // ns/name
  std::set<std::shared_ptr<const PodShape>, ShapeLess> shapes_;
  std::size_t purge_shapes_at_ = kMinPurge;  ///< From this size on, unused shapes are purged.
  Repellers repellers_;
  std::set<const PodInfo*> moved_;
  /// Pods that are not ours and are nominated to an unknown node.
  std::set<const PodInfo*> nominated_nowhere_;
  bool relabelled_ = false;
  std::map<std::string, Workload> workloads_;
  EndedPods ended_;
  std::unordered_map<std::string, std::string> ended_keys_;  ///< By UID.
  using Workloads = std::set<const Workload*, ByKey>;
  Workloads changed_;
  Workloads open_;                    ///< Also some that are no longer open: see TakeOpen.
  Workloads neighbourly_;             ///< With a member that has pod constraints, bound or not.
  Workloads stale_;                   ///< Workloads whose members changed since the last Refresh.
  std::vector<QueueInfo> queues_;     ///< By id, with queues that are gone while `reading`.
  std::vector<QueueId> queue_order_;  ///< Queues of the policy.
  QueueDirectory directory_;          ///< Of the policy.
  std::unordered_map<std::string, QueueId, StringHash, std::equal_to<>> queue_ids_;
  std::map<std::string, kube::Namespace, std::less<>> namespaces_;
  std::map<std::string, kube::PodDisruptionBudget> budgets_;
  std::shared_ptr<DialectObjects> dialect_objects_ = std::make_shared<DialectObjects>();
  PeersAlive peers_;
  config::Dialects dialects_;
  bool reread_due_ = false;
  /// What is yet to be read under the present policy.
  struct Reading {
    std::size_t nodes = 0;        ///< Nodes with an index below it.
    std::size_t pods = 0;         ///< Pods with a place below it, unless they have been read.
    EndedPods::key_type ended{};  ///< Pods after this key.
  };
  std::optional<Reading> reading_;
  std::uint64_t reading_generation_ = 0;  ///< Of the policy under which pods are read.

  std::uint64_t generation_ = 0;
  std::uint64_t free_generation_ = 0;
  std::uint64_t neighbour_generation_ = 0;
  std::uint64_t policy_generation_ = 0;
  std::uint64_t namespace_generation_ = 0;
  ChangeLog changes_;
  ChangeLog object_changes_;
  ChangeLog neighbour_changes_;
  ChangeLog room_changes_;
  std::set<QueueId> queue_news_;
  std::set<QueueId> use_news_;
  std::unordered_set<const Workload*> demand_news_;
  ShareNews share_news_;
  std::vector<QueueId> keepers_;
  std::vector<ResourceId> kept_ids_;
  Amounts idle_;
  /// How many pods hold room, by queue (maybe none) and priority.
  std::map<std::pair<QueueId, std::int32_t>, int> priorities_;
  Amounts free_devices_;
  Amounts total_devices_;
  /// How many nodes that are ready and not cordoned have just these whole devices.
  std::map<Demand, int> node_sizes_;
  std::optional<UsageMeter> meter_;
  TimePoint now_ = 0;  ///< For the meter.
};

/// The hash that gives the one node order (FNV-1a with an avalanche step). Another seed gives
/// another order.
std::uint64_t NodeHash(std::string_view name, std::uint64_t seed = 0);

}  // namespace berth::cluster
