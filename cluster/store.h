// The one writer of cluster state: applies what the informers say, keeps workloads and the ledger
// (which pod holds room where, charged to which queue). No I/O, no clock, no threads: the host
// serialises the calls.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/change_log.h"
#include "cluster/dialects.h"
#include "cluster/model.h"
#include "cluster/repellers.h"

namespace berth::cluster {

/// What a simulator may want otherwise than a real cluster.
struct StoreOptions {
  /// Whether `berth.dev/gpu-milli` means something: a pod that asks for one of the policy's first
  /// device takes that many thousandths of it, and devices are kept one by one.
  bool shares = false;
  /// Shuffles the one node order; 0: the order of a real cluster.
  std::uint64_t order_seed = 0;
};

/// Hears of members and workloads that are no more, before they are destroyed; for what others keep
/// about them. May not call the store.
class StoreListener {
 public:
  virtual ~StoreListener() = default;
  /// `pod` has left `workload`: it ends, or claims another gang.
  virtual void OnMemberLeft(const Workload& workload, const PodInfo& pod) = 0;
  /// See Store::BeginIncarnation.
  virtual void OnNewIncarnation(const Workload& workload) = 0;
  virtual void OnWorkloadGone(const Workload& workload) = 0;
  virtual void OnPodGone(const PodInfo& pod) = 0;
};

/// Objects are handed out as const; the calls below change them, and take them as const too.
class Store {
 public:
  /// Strings are looked up without making one.
  struct StringHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using PodMap =
      std::unordered_map<std::string, std::unique_ptr<PodInfo>, StringHash, std::equal_to<>>;

  /// `listener` must outlive the store; null: nobody listens.
  explicit Store(config::PolicyConfiguration policy, StoreOptions options = {},
                 StoreListener* listener = nullptr);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // --- What the informers say. Each call is idempotent.
  void UpsertNode(kube::Node node);
  void DeleteNode(std::string_view name);
  /// A Succeeded or Failed pod is the same as a deleted one, but for what it says of its gang's
  /// incarnation. Returns the pod, null if it is gone.
  const PodInfo* UpsertPod(kube::Pod pod);
  /// Shape, claims, queue and refusal that the pod would have, which is not kept: it has no
  /// workload. Null: it is not ours to place.
  std::unique_ptr<PodInfo> Appraise(kube::Pod pod);
  void DeletePod(std::string_view uid);
  void UpsertNamespace(kube::Namespace ns);
  void DeleteNamespace(std::string_view name);
  void UpsertDisruptionBudget(kube::PodDisruptionBudget budget);
  void DeleteDisruptionBudget(std::string_view uid);
  /// Returns the pods whose claims may have changed with it; UpsertPod reads them anew.
  std::vector<const PodInfo*> UpsertDialectObject(kube::DialectObject object);
  std::vector<const PodInfo*> DeleteDialectObject(std::string_view uid);
  /// Pods are to be read anew, which SetPolicy does: a project's controller came to life or died,
  /// and with it a dialect that is `auto` is read no more, or again; or a node has a resource that
  /// pods asked for when there was no telling it from another.
  bool reread_due() const { return reread_due_; }
  /// Re-derives everything that depends on the policy; charges and plans stay. Returns whether all
  /// pods were read anew: not where only amounts, modes, times and weights have changed.
  bool SetPolicy(config::PolicyConfiguration policy);

  // --- The ledger.
  /// Takes room for `pod` on `node`, first giving back what it held; of the node's devices those in
  /// `devices`, or as TakeDevices says. Which devices a pod has that is bound, or about to be, is
  /// fixed: by its annotation, and by what was chosen when it was planned.
  void SetCharge(const PodInfo& pod, NodeIndex node, Charge charge,
                 topology::DeviceMask devices = 0);
  /// For the claim of a whole-node pod: what it is charged of its node's devices. Others: empty.
  std::map<std::string, std::int64_t, std::less<>> WholeNodeCharge(const PodInfo& pod) const;
  /// Gives back what `pod` holds. A pod that is not bound asks for its own queue again, which may
  /// be another one under the policy of now; its workload's follows at Refresh.
  void Release(const PodInfo& pod);
  /// The same of one that is charged elsewhere at once: it keeps its queue.
  void GiveBack(const PodInfo& pod);
  /// Nobody of the gang runs any more: those that are left are a new incarnation of it, and say
  /// anew what it is and which queue pays for it.
  void BeginIncarnation(const Workload& workload);
  /// It has started (see Workload), or has not after all.
  void SetStarted(const Workload& workload, bool started);
  /// Room is reserved for its members under the plan of this name; empty: under none any more.
  void SetPlan(const Workload& workload, std::string plan);
  /// `pod` is planned as a member of its workload, and pays where that does.
  void AdoptQueue(const PodInfo& pod);

  /// Takes in what changes piled up: domains and node order, first members and faults of gangs.
  /// Call before deciding anything.
  void Refresh();
  /// The part of it that is about workloads: cheap, where many objects are yet to come.
  void RefreshWorkloads();

  // --- Reads.
  const config::PolicyConfiguration& policy() const { return policy_; }
  ResourceTable& resources() { return resources_; }
  const ResourceTable& resources() const { return resources_; }
  /// By index, those that are gone included. A slot without pods of a node that is gone is given to
  /// the next new name: keep no index over changes, unless a charge does.
  const std::vector<std::unique_ptr<NodeInfo>>& nodes() const { return nodes_; }
  const NodeInfo& node(NodeIndex index) const { return *nodes_[static_cast<std::size_t>(index)]; }
  /// kNoNode: never heard of.
  NodeIndex FindNode(std::string_view name) const;
  const PodInfo* FindPod(std::string_view uid) const;
  const PodInfo* FindPod(std::string_view ns, std::string_view name) const;
  const Workload* FindWorkload(const std::string& key) const;
  const std::map<std::string, std::unique_ptr<Workload>>& workloads() const { return workloads_; }
  const PodMap& pods() const { return pods_; }
  /// Members of gangs that have ended and still exist, by workload key and UID. Of the object that
  /// is kept which says what the pod was, not what it asked for.
  struct EndedPod {
    kube::Pod object;
    std::string incarnation;  ///< See Workload.
    std::optional<int> rank;
  };
  using EndedPods = std::map<std::pair<std::string, std::string>, EndedPod>;
  const EndedPods& ended() const { return ended_; }
  /// The gang of one of them; empty: it is none.
  std::string EndedKey(std::string_view uid) const;
  const std::vector<QueueInfo>& queues() const { return queues_; }
  const std::vector<Domain>& domains() const { return domains_; }
  /// Place of a node in the hashed order, 0..present nodes-1. REQUIRES: Refresh().
  int rank(NodeIndex index) const { return ranks_[static_cast<std::size_t>(index)]; }
  int present_nodes() const { return present_nodes_; }
  const kube::StringMap* NamespaceLabels(std::string_view name) const;
  const std::map<std::string, kube::Namespace, std::less<>>& namespaces() const {
    return namespaces_;
  }
  const std::map<std::string, kube::PodDisruptionBudget>& disruption_budgets() const {
    return budgets_;
  }
  const DialectObjects& dialect_objects() const { return *dialect_objects_; }
  /// The policy's, with every `auto` decided.
  const config::Dialects& dialects() const { return dialects_; }
  const Repellers& repellers() const { return repellers_; }
  /// Models of machines met so far; never forgotten, at most kMaxMachines.
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
  /// The annotation that tells which devices `pod` was given, for its Binding. Empty: nobody heeds
  /// it there, or its devices are not known.
  std::string DevicesNote(const PodInfo& pod) const;
  /// Device resources of the policy, in its order.
  const std::vector<ResourceId>& device_ids() const { return device_ids_; }
  /// Whether node amounts of `id` are whole devices (not handles).
  bool IsWholeDevice(ResourceId id) const;

  /// What a pod takes on `node`: its shape's demand, and for a whole-node pod every whole device
  /// there (handles are no devices).
  Demand DemandOn(const PodShape& shape, const NodeInfo& node) const;

  const StoreOptions& options() const { return options_; }
  /// Nodes with any change, and nodes whose object changed. A new node is a change of both.
  const ChangeLog& changes() const { return changes_; }
  const ChangeLog& object_changes() const { return object_changes_; }
  /// Counts changes of domains and of the node order.
  std::uint64_t topology_generation() const { return topology_generation_; }
  /// Counts changes of the policy.
  std::uint64_t policy_generation() const { return policy_generation_; }

  /// Counts every change; unequal means something may differ.
  std::uint64_t generation() const { return generation_; }
  /// Counts changes that may have made room, or changed what fits where.
  std::uint64_t free_generation() const { return free_generation_; }
  void BumpFreeGeneration() { ++free_generation_; }
  /// Nodes where room was given back, that came, changed or went, or on which a pod that holds room
  /// has changed: others may be allowed to evict it now.
  const ChangeLog& room_changes() const { return room_changes_; }
  /// Queues that were given room back since the last call.
  std::set<QueueId> TakeQueueNews() { return std::exchange(queue_news_, {}); }

  /// Has the workload put in line to be judged.
  void MarkChanged(const Workload& workload);
  /// At most `most` of the workloads that changed and have not been taken yet, by key.
  std::vector<const Workload*> TakeChanged(std::size_t most);
  /// Some of the open workloads, which have a member that has no node yet, by key: those after
  /// `after`, of at most `most` that are looked at. They need not be taken as changed any more.
  struct OpenPart {
    std::vector<const Workload*> workloads{};
    std::string upto{};  ///< The last key that was looked at.
    bool more = false;
  };
  OpenPart TakeOpen(std::string_view after, std::size_t most);
  /// Open workloads with a member that looks at its neighbours: whom a pod that comes may help.
  std::vector<const Workload*> NeighbourlyWorkloads();

  /// What pods with affinity, anti-affinity or spread look at and no room tells of.
  struct NeighbourNews {
    std::vector<const PodInfo*> moved;  ///< Took room, or began to end. In no particular order.
    bool relabelled = false;            ///< And pods that hold room changed their labels.
  };
  /// Since the last call.
  NeighbourNews TakeNeighbourNews();
  /// Counts what TakeNeighbourNews tells of.
  std::uint64_t neighbour_generation() const { return neighbour_generation_; }

  /// The ledger in text, in a fixed order: equal text, equal ledger (invariant I7).
  std::string LedgerString() const;

 private:
  struct ShapeLess {
    bool operator()(const std::shared_ptr<const PodShape>& a,
                    const std::shared_ptr<const PodShape>& b) const;
  };

  static constexpr std::size_t kMinPurge = 4096;
  static constexpr std::size_t kMaxMachines = 64;

  static PodInfo& Mutable(const PodInfo& pod) { return const_cast<PodInfo&>(pod); }
  static Workload& Mutable(const Workload& workload) { return const_cast<Workload&>(workload); }
  NodeInfo& NodeSlot(std::string_view name);
  NodeIndex TakeVacantSlot();
  void Touch(NodeInfo& node);
  void TouchObject(NodeInfo& node);
  void ReconcileDevices(NodeInfo& node);
  void ReadHardware(NodeInfo& node);
  void TrackDevices(NodeInfo& node);
  std::string AccountDevices(const NodeInfo& node, topology::DeviceSet& devices) const;
  topology::DeviceMask SaidDevices(const kube::Pod& pod) const;
  std::int64_t DevicesOf(const PodInfo& pod) const;
  void RechargeWholeNode(NodeInfo& node);
  Demand FixedCharge(const PodInfo& pod, const Demand& demand, Charge charge) const;
  Demand ClaimedCharge(const PodInfo& pod) const;
  Demand WholeDevices(const Demand& demand) const;
  void IndexDevices();
  void BuildQueues();
  void ReadQueue(const config::Queue& queue, QueueInfo& info);
  void ReadAllAnew();
  bool AsksDevice(const kube::PodSpec& spec) const;
  std::shared_ptr<const PodShape> ShapeOf(const kube::Pod& pod, bool whole_node);
  int ShareOf(const kube::Pod& pod) const;
  void PurgeShapes();
  /// Files the pod under the workload it claims, or under none.
  struct Reading;
  Reading Read(PodInfo& pod);
  void TakeReading(PodInfo& pod, const Reading& reading);
  void File(PodInfo& pod);
  void Unfile(PodInfo& pod);
  std::vector<const PodInfo*> ReadersOf(const kube::DialectObject& object);
  void CountPeer(const kube::Pod& pod, int change);
  void RefreshTopology();
  bool MovesTo(const NodeInfo& node, const kube::StringMap& labels) const;
  void RefreshWorkload(Workload& workload);
  void KeepEnded(const kube::Pod& pod, std::string key);
  void ForgetEnded(std::string_view uid);
  void CountFinished(Workload& workload) const;
  const EndedPod* GoesOnWith(const Workload& workload) const;
  void JudgeMember(const Workload& workload, PodInfo& pod, const PodInfo& first) const;
  void ChargeBound(PodInfo& pod);
  QueueId ResolveQueue(const PodInfo& pod, const PodClaims& claims, Verdict& refusal) const;
  QueueId QueueOfHeld(const PodInfo& pod) const;
  bool QueueAdmits(QueueId queue, std::string_view ns) const;
  QueueId FindQueue(std::string_view name) const;
  void NoteMoved(const PodInfo& pod);
  bool Ours(const kube::Pod& pod) const;

  config::PolicyConfiguration policy_;
  StoreOptions options_;
  StoreListener* listener_;
  ResourceTable resources_;
  std::vector<ResourceId> device_ids_;
  std::vector<ResourceId> whole_device_ids_;

  std::vector<std::unique_ptr<const topology::Machine>> machines_;
  std::set<NodeIndex> device_news_;
  std::vector<std::unique_ptr<NodeInfo>> nodes_;
  std::unordered_map<std::string_view, NodeIndex> node_lookup_;
  std::set<NodeIndex> vacant_;  ///< Of nodes that are gone, and some that are back.
  std::vector<Domain> domains_;
  std::vector<int> ranks_;
  int present_nodes_ = 0;
  bool topology_dirty_ = true;

  PodMap pods_;                                             // by UID
  std::unordered_map<std::string, PodInfo*> pods_by_name_;  // ns/name
  std::set<std::shared_ptr<const PodShape>, ShapeLess> shapes_;
  std::size_t purge_shapes_at_ = kMinPurge;  ///< So many shapes are worth a look for dead ones.
  Repellers repellers_;
  std::set<const PodInfo*> moved_;
  /// Not ours, and nominated to a node that is not known.
  std::set<const PodInfo*> nominated_nowhere_;
  bool relabelled_ = false;
  std::map<std::string, std::unique_ptr<Workload>> workloads_;
  EndedPods ended_;
  std::unordered_map<std::string, std::string> ended_keys_;  ///< By UID.
  using Workloads = std::set<const Workload*, ByKey>;
  Workloads changed_;
  Workloads open_;         ///< And some that are not any more: see TakeOpen.
  Workloads neighbourly_;  ///< With a member of pod constraints, bound or not.
  Workloads stale_;        ///< Their members changed since the last Refresh.
  std::vector<QueueInfo> queues_;
  std::map<std::string, kube::Namespace, std::less<>> namespaces_;
  std::map<std::string, kube::PodDisruptionBudget> budgets_;
  std::shared_ptr<DialectObjects> dialect_objects_ = std::make_shared<DialectObjects>();
  PeersAlive peers_;
  config::Dialects dialects_;
  bool reread_due_ = false;

  std::uint64_t generation_ = 0;
  std::uint64_t free_generation_ = 0;
  std::uint64_t neighbour_generation_ = 0;
  std::uint64_t topology_generation_ = 0;
  std::uint64_t policy_generation_ = 0;
  ChangeLog changes_;
  ChangeLog object_changes_;
  ChangeLog room_changes_;
  std::set<QueueId> queue_news_;
};

/// The hash that gives the one node order (FNV-1a with an avalanche step). Another seed, another
/// order.
std::uint64_t NodeHash(std::string_view name, std::uint64_t seed = 0);

}  // namespace berth::cluster
