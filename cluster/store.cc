#include "cluster/store.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

#include "cluster/plan_claim.h"
#include "cluster/users.h"

namespace berth::cluster {

std::uint64_t NodeHash(std::string_view name, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ (seed * 0x9e3779b97f4a7c15U);
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdU;
  hash ^= hash >> 33U;
  return hash;
}

Store::Store(config::PolicyConfiguration policy, StoreOptions options, StoreListener* listener)
    : policy_(std::move(policy)),
      options_(options),
      listener_(listener),
      dialects_(peers_.Decide(policy_.dialects)) {
  IndexDevices();
  ReadQueues();
  topology_.Reset(policy_.levels);
}

void Store::IndexDevices() {
  device_ids_.clear();
  whole_device_ids_.clear();
  for (const auto& device : policy_.devices) {
    device_ids_.push_back(resources_.Intern(device.name));
    if (device.kind == config::DeviceKind::kWhole) whole_device_ids_.push_back(device_ids_.back());
  }
}

bool Store::IsWholeDevice(ResourceId id) const {
  return std::ranges::find(whole_device_ids_, id) != whole_device_ids_.end();
}

void Store::Expect(std::size_t pods) {
  pods_.reserve(pods);
  pods_by_name_.reserve(pods);
  pod_list_.reserve(pods);
  demand_news_.reserve(pods);
}

// --- Nodes ---------------------------------------------------------------------------------

NodeInfo& Store::NodeSlot(std::string_view name) {
  if (const NodeIndex found = FindNode(name); found != kNoNode) {
    return *nodes_[static_cast<std::size_t>(found)];
  }
  NodeIndex index = TakeVacantSlot();
  if (index == kNoNode) {
    index = static_cast<NodeIndex>(nodes_.size());
    nodes_.push_back(std::make_unique<NodeInfo>());
  }
  NodeInfo& slot = *nodes_[static_cast<std::size_t>(index)];
  slot.name = name;
  slot.index = index;
  slot.hash = NodeHash(name, options_.order_seed);
  node_lookup_.emplace(slot.name, slot.index);
  TouchObject(slot);
  return slot;
}

/// The empty slot of a node that is gone; kNoNode: there is none. In a cluster whose nodes come and
/// go under new names, the tables so stay as large as the cluster is at any one time.
NodeIndex Store::TakeVacantSlot() {
  while (!vacant_.empty()) {
    const NodeIndex index = *vacant_.begin();
    vacant_.erase(vacant_.begin());
    NodeInfo& slot = *nodes_[static_cast<std::size_t>(index)];
    if (slot.present || !slot.pods.empty()) continue;  // it came back, or a pod did
    node_lookup_.erase(slot.name);
    slot = NodeInfo{};
    return index;
  }
  return kNoNode;
}

NodeIndex Store::FindNode(std::string_view name) const {
  const auto it = node_lookup_.find(name);
  return it == node_lookup_.end() ? kNoNode : it->second;
}

void Store::Touch(NodeInfo& node) {
  node.generation = ++generation_;
  changes_.Add(node.index);
  CountDevices(node);
}

void Store::CountDevices(NodeInfo& node) {
  const bool open = node.open();
  for (const ResourceId id : device_ids_) {
    const std::int64_t free = open ? std::max<std::int64_t>(0, node.free(id)) : 0;
    free_devices_.Add(id, free - node.counted_free[id]);
    node.counted_free.Set(id, free);
    total_devices_.Add(id, node.allocatable[id] - node.counted_total[id]);
    node.counted_total.Set(id, node.allocatable[id]);
  }
}

/// Where a size of nodes comes or goes, whole-node pods that wait may ask for another amount.
void Store::CountSize(NodeInfo& node) {
  Demand size;
  if (node.open()) {
    for (const ResourceId device : whole_device_ids_) {
      if (node.allocatable[device] > 0) size.emplace_back(device, node.allocatable[device]);
    }
  }
  if (size == node.counted_size) return;
  bool news = false;
  if (!node.counted_size.empty() && --node_sizes_.at(node.counted_size) == 0) {
    node_sizes_.erase(node.counted_size);
    news = true;
  }
  news |= !size.empty() && node_sizes_[size]++ == 0;
  node.counted_size = std::move(size);
  if (!news) return;
  for (const auto& [key, workload] : workloads_) {
    const auto is_whole = [](const PodInfo* pod) { return pod->shape->whole_node; };
    if (std::ranges::any_of(workload.members, is_whole)) NoteDemand(&workload);
  }
}

void Store::TouchObject(NodeInfo& node) {
  Touch(node);
  CountSize(node);
  object_changes_.Add(node.index);
  neighbour_changes_.Add(node.index);
  topology_.Touch(node.index);
  room_changes_.Add(node.index);
}

void Store::UpsertNode(kube::Node object) {
  NodeInfo& node = NodeSlot(object.meta.name);
  Amounts allocatable;
  for (const auto& [name, amount] : object.allocatable) {
    const std::size_t names = resources_.size();
    const auto id = resources_.InternOfNode(name);
    if (!id) continue;
    allocatable.Set(*id, std::min(amount, kAbsurdAmount - 1));
    reread_due_ |= resources_.size() > names && resources_.WasAskedFor(name);
  }
  // Heartbeats change nothing that scheduling reads: they must not wake up every waiting workload.
  const bool same = node.present && node.allocatable == allocatable &&
                    node.object.meta.labels == object.meta.labels &&
                    node.object.meta.annotations == object.meta.annotations &&
                    node.object.taints == object.taints && node.object.ready == object.ready &&
                    node.object.unschedulable == object.unschedulable;
  node.object = std::move(object);
  if (same) return;
  node.allocatable = std::move(allocatable);
  node.present = true;
  TouchObject(node);
  ++free_generation_;
  ReadHardware(node);
  ReadFlavor(node);
  ReconcileDevices(node);
  RechargeWholeNode(node);
  std::erase_if(nominated_nowhere_, [&](const PodInfo* pod) {
    if (pod->object.nominated_node != node.name) return false;
    ChargeBound(Own(*pod));
    return true;
  });
}

/// A whole-node pod is charged every device of its node: as the node is now, and never less than at
/// binding.
void Store::RechargeWholeNode(NodeInfo& node) {
  for (const PodInfo* pod : std::vector<const PodInfo*>(node.pods)) {
    if (pod->shape->whole_node) SetCharge(*pod, node.index, pod->charge);
  }
}

void Store::DeleteNode(std::string_view name) {
  const NodeIndex index = FindNode(name);
  if (index == kNoNode) return;
  NodeInfo& node = *nodes_[static_cast<std::size_t>(index)];
  node.present = false;
  node.allocatable = {};
  TouchObject(node);
  ReadHardware(node);
  ReadFlavor(node);
  ReconcileDevices(node);
  ++free_generation_;  // under the rules of spread, one domain less can make room
  RechargeWholeNode(node);
  if (node.pods.empty()) vacant_.insert(index);
}

void Store::RefreshWorkloads() {
  for (const Workload* workload : std::exchange(stale_, {})) RefreshWorkload(Own(*workload));
}

void Store::Refresh() {
  RefreshWorkloads();
  if (reading_ && !topology_.complete()) return topology_.MakeRoom(nodes_.size());
  RefreshTopology();
}

// --- Namespaces, budgets ---------------------------------------------------------------------

void Store::UpsertNamespace(kube::Namespace ns) {
  const std::string name = ns.meta.name;
  const auto known = namespaces_.find(name);
  if (known == namespaces_.end() || known->second.meta.labels != ns.meta.labels) {
    ++namespace_generation_;
  }
  namespaces_.insert_or_assign(name, std::move(ns));
  ++free_generation_;
}

void Store::DeleteNamespace(std::string_view name) {
  const auto it = namespaces_.find(name);
  if (it == namespaces_.end()) return;
  namespaces_.erase(it);
  ++namespace_generation_;
  ++free_generation_;  // anti-affinity by namespace labels no longer selects its pods
}

const kube::StringMap* Store::NamespaceLabels(std::string_view name) const {
  const auto it = namespaces_.find(name);
  return it == namespaces_.end() ? nullptr : &it->second.meta.labels;
}

void Store::UpsertDisruptionBudget(kube::PodDisruptionBudget budget) {
  const std::string uid = budget.meta.uid;
  budgets_.insert_or_assign(uid, std::move(budget));
}

void Store::DeleteDisruptionBudget(std::string_view uid) { budgets_.erase(std::string(uid)); }

// --- Dialects --------------------------------------------------------------------------------

/// Readers of a group are indexed by its name; readers of a LocalQueue may be anywhere in its
/// namespace.
std::vector<const PodInfo*> Store::ReadersOf(const kube::DialectObject& object) {
  std::vector<const PodInfo*> readers;
  const auto take = [&](const Workload& workload) {
    readers.insert(readers.end(), workload.members.begin(), workload.members.end());
    readers.insert(readers.end(), workload.faulty.begin(), workload.faulty.end());
  };
  if (object.kind != kube::DialectKind::kKueueLocalQueue) {
    if (const Workload* gang = FindWorkload(object.ns + "/gang/" + object.name)) take(*gang);
  } else {
    const std::string prefix = object.ns + '/';
    for (auto it = workloads_.lower_bound(prefix);
         it != workloads_.end() && it->first.starts_with(prefix); ++it) {
      take(it->second);
    }
  }
  for (const PodInfo* pod : readers) Own(*pod).reread = true;
  return readers;
}

std::vector<const PodInfo*> Store::UpsertDialectObject(kube::DialectObject object) {
  const kube::DialectObject copy = object;
  if (!dialect_objects_->Upsert(std::move(object))) return {};
  return ReadersOf(copy);
}

std::vector<const PodInfo*> Store::DeleteDialectObject(std::string_view uid) {
  const auto object = dialect_objects_->Remove(uid);
  return object ? ReadersOf(*object) : std::vector<const PodInfo*>{};
}

void Store::CountPeer(const kube::Pod& pod, int change) {
  if (!peers_.Count(pod, change)) return;
  reread_due_ |= peers_.Decide(policy_.dialects) != dialects_;
}

// --- Shapes ----------------------------------------------------------------------------------

bool Store::ShapeLess::operator()(const std::shared_ptr<const PodShape>& a,
                                  const std::shared_ptr<const PodShape>& b) const {
  if (a->whole_node != b->whole_node) return a->whole_node < b->whole_node;
  if (a->share != b->share) return a->share < b->share;
  return a->spec != b->spec && *a->spec < *b->spec;
}

/// Thousandths of one device that the pod asks for; 0: it takes whole devices.
int Store::ShareOf(const kube::Pod& pod) const {
  if (!options_.shares || device_ids_.empty()) return 0;
  const auto note = pod.meta.annotations.find(kShareAnnotation);
  if (note == pod.meta.annotations.end()) return 0;
  const auto asked = pod.spec->requests.find(resources_.Name(device_ids_.front()));
  if (asked == pod.spec->requests.end() || asked->second != kMilli) return 0;
  int share = 0;
  const char* end = note->second.data() + note->second.size();
  const auto [stop, error] = std::from_chars(note->second.data(), end, share);
  return error == std::errc() && stop == end && share > 0 && share < kMilli ? share : 0;
}

bool Store::AsksDevice(const kube::PodSpec& spec) const {
  return std::ranges::any_of(device_ids_, [&](ResourceId device) {
    const auto it = spec.requests.find(resources_.Name(device));
    return it != spec.requests.end() && it->second > 0;
  });
}

std::shared_ptr<const PodShape> Store::ShapeOf(const kube::Pod& pod, bool whole_node) {
  auto shape = std::make_shared<PodShape>();
  shape->spec = pod.spec;
  // Otherwise a pod that asks for no device, or is not charged, could block a node with an
  // annotation.
  whole_node = whole_node && Ours(pod) && AsksDevice(*pod.spec);
  shape->whole_node = whole_node;
  shape->share = whole_node ? 0 : ShareOf(pod);
  if (const auto it = shapes_.find(shape); it != shapes_.end()) return *it;
  for (const auto& [name, amount] : pod.spec->requests) {
    if (amount > 0) {
      shape->demand.emplace_back(resources_.OfPod(name), std::min(amount, kAbsurdAmount));
    }
  }
  shape->demand.emplace_back(kPods, 1);
  std::ranges::sort(shape->demand);
  if (shape->share > 0) {
    std::ranges::find(shape->demand, device_ids_.front(), &Demand::value_type::first)->second =
        shape->share;
  }
  for (const ResourceId device : device_ids_) {
    const auto it = std::ranges::find(shape->demand, device, &Demand::value_type::first);
    if (it == shape->demand.end()) continue;
    shape->asks_device = true;
    if (shape->device == kPods && IsWholeDevice(device)) {
      shape->device = device;
      shape->device_amount = it->second;
    }
  }
  const kube::PodSpec& spec = *shape->spec;
  shape->has_pod_constraints = !spec.required_pod_affinity.empty() ||
                               !spec.required_pod_anti_affinity.empty() ||
                               !spec.topology_spread.empty();
  if (shapes_.size() >= purge_shapes_at_) PurgeShapes();
  shapes_.insert(shape);
  return shape;
}

void Store::PurgeShapes() {
  std::erase_if(shapes_, [](const auto& shape) { return shape.use_count() == 1; });
  purge_shapes_at_ = std::max(kMinPurge, 2 * shapes_.size());
}

namespace {

/// At least `amount` of `device`. The demand is not sorted then.
void Raise(Demand& demand, ResourceId device, std::int64_t amount) {
  const auto it = std::ranges::find(demand, device, &Demand::value_type::first);
  if (it != demand.end()) {
    it->second = std::max(it->second, amount);
  } else if (amount > 0) {
    demand.emplace_back(device, amount);
  }
}

}  // namespace

Demand Store::DemandOn(const PodShape& shape, const NodeInfo& node) const {
  Demand demand = shape.demand;
  if (!shape.whole_node) return demand;
  for (const ResourceId device : whole_device_ids_) Raise(demand, device, node.allocatable[device]);
  std::ranges::sort(demand);
  return demand;
}

Demand Store::LeastDemandOf(const PodShape& shape) const {
  if (!shape.whole_node) return shape.demand;
  const auto amount_of = [](const Demand& demand, ResourceId id) {
    const auto it = std::ranges::find(demand, id, &Demand::value_type::first);
    return it == demand.end() ? 0 : it->second;
  };
  const Demand* least = nullptr;
  std::int64_t least_sum = 0;
  for (const auto& [size, count] : node_sizes_) {
    std::int64_t sum = 0;
    bool enough = true;
    for (const ResourceId device : whole_device_ids_) {
      const std::int64_t has = amount_of(size, device);
      enough &= amount_of(shape.demand, device) <= has;
      sum += has;
    }
    if (!enough || (least != nullptr && least_sum <= sum)) continue;
    least = &size;
    least_sum = sum;
  }
  Demand demand = shape.demand;
  if (least == nullptr) return demand;
  for (const auto& [device, amount] : *least) Raise(demand, device, amount);
  std::ranges::sort(demand);
  return demand;
}

}  // namespace berth::cluster
