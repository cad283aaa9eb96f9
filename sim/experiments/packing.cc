#include "sim/experiments/packing.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/baselines/baselines.h"
#include "sim/baselines/typical_pods.h"
#include "sim/experiments/stock_scorer.h"
#include "sim/random.h"

namespace berth::sim {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kModelLabel = "nvidia.com/gpu.product";
constexpr const char* kShareAnnotation = "berth.dev/gpu-milli";
constexpr std::int64_t kPodsPerNode = 1001;  // as in the published protocol
constexpr std::int64_t kMib = 1 << 20;

config::PolicyConfiguration PolicyOf(const PackingOptions& options) {
  config::PolicyConfiguration policy;
  policy.placement.score = options.weights;
  return policy;
}

kube::Node NodeOf(const OpenbNode& node) {
  kube::Node object;
  object.meta.name = node.name;
  if (!node.model.empty()) object.meta.labels[kModelLabel] = node.model;
  if (!node.rack.empty()) {
    object.meta.labels[config::PolicyConfiguration().levels[1].node_label] = node.rack;
  }
  object.allocatable = {
      {"cpu", node.cpu_milli}, {"memory", node.memory_mib * kMib}, {"pods", kPodsPerNode}};
  if (node.gpus > 0) object.allocatable[kGpu] = node.gpus * cluster::kMilli;
  return object;
}

std::unique_ptr<policy::Scorer> MakeScorer(const cluster::Store& store, const std::string& name) {
  if (name == "Berth") return std::make_unique<policy::Scorer>(store);
  if (name == "LeastAllocated") {
    return std::make_unique<policy::Scorer>(
        store, std::make_unique<StockScorer>(StockStrategy::kLeastAllocated));
  }
  if (name == "MostAllocated") {
    return std::make_unique<policy::Scorer>(
        store, std::make_unique<StockScorer>(StockStrategy::kMostAllocated));
  }
  return std::make_unique<policy::Scorer>(store, MakeBaseline(name));
}

bool IsStock(const std::string& name) {
  return std::ranges::find(StockPolicies(), name) != StockPolicies().end();
}

}  // namespace

const std::vector<std::string_view>& PackingPolicies() {
  static const std::vector<std::string_view> kPolicies = [] {
    std::vector<std::string_view> names(BaselineNames().begin(), BaselineNames().end());
    names.emplace_back("Berth");
    return names;
  }();
  return kPolicies;
}

const std::vector<std::string_view>& StockPolicies() {
  static const std::vector<std::string_view> kPolicies{"LeastAllocated", "MostAllocated"};
  return kPolicies;
}

PackingCluster::PackingCluster(const std::vector<OpenbNode>& nodes,
                               const std::vector<OpenbPod>& typical, const PackingOptions& options)
    : store_(std::make_unique<cluster::Store>(
          PolicyOf(options), cluster::StoreOptions{.shares = true, .order_seed = options.seed})),
      scorer_(MakeScorer(*store_, options.policy)),
      seed_(options.seed),
      ties_at_random_(options.policy == "Random" || IsStock(options.policy)) {
  for (const OpenbNode& node : nodes) store_->UpsertNode(NodeOf(node));
  store_->Refresh();
  if (!options.cpu_policy.empty()) cpu_scorer_ = MakeScorer(*store_, options.cpu_policy);
  std::vector<std::shared_ptr<const cluster::PodShape>> shapes;
  for (const OpenbPod& pod : typical) {
    const PodId id = Submit(pod);
    shapes.push_back(pods_.at(id).info->shape);
    Remove(id);
  }
  typical_ = TypicalPods(shapes);
  if (options.policy == "FGD") scorer_->mix().Fix(typical_);
  learns_ = options.policy == "Berth";  // it learns only from the pods that arrive
}

std::shared_ptr<const kube::PodSpec> PackingCluster::SpecOf(const OpenbPod& pod) {
  auto& spec = specs_[fmt::format("{} {} {} {}", pod.cpu_milli, pod.memory_mib, pod.gpus,
                                  fmt::join(pod.models, "|"))];
  if (spec != nullptr) return spec;
  auto fresh = std::make_shared<kube::PodSpec>();
  if (pod.cpu_milli > 0) fresh->requests["cpu"] = pod.cpu_milli;
  if (pod.memory_mib > 0) fresh->requests["memory"] = pod.memory_mib * kMib;
  if (pod.gpus > 0) fresh->requests[kGpu] = pod.gpus * cluster::kMilli;
  if (!pod.models.empty()) {
    fresh->has_required_node_affinity = true;
    fresh->required_node_affinity = {{.match_expressions = {{.key = kModelLabel,
                                                             .op = kube::SelectorOperator::kIn,
                                                             .values = pod.models}},
                                      .match_fields = {}}};
  }
  spec = std::move(fresh);
  return spec;
}

PackingCluster::PodId PackingCluster::Submit(const OpenbPod& pod) {
  const PodId id = next_++;
  kube::Pod object;
  object.meta.name = std::to_string(id);
  object.meta.uid = object.meta.name;
  object.meta.ns = "sim";
  object.scheduler_name = "berth";
  object.spec = SpecOf(pod);
  if (pod.gpus == 1 && pod.gpu_milli < cluster::kMilli) {
    object.meta.annotations[kShareAnnotation] = std::to_string(pod.gpu_milli);
  }
  const Waiting& waiting =
      pods_[id] = {.info = store_->UpsertPod(std::move(object)), .milli = pod.total_gpu_milli()};
  if (learns_) {
    scorer_->mix().Observe(waiting.info->shape);  // as in the engine, which observes all pods
  }
  return id;
}

policy::PlacementRequest PackingCluster::RequestFor(std::span<const PodId> ids) const {
  policy::PlacementRequest request{.pods = {}, .min = static_cast<int>(ids.size())};
  for (const PodId id : ids) request.pods.push_back(pods_.at(id).info);
  if (ties_at_random_ || ByStock(*request.pods.front()->shape)) {
    request.tie_seed = Random(seed_, ids.front()).Next() | 1U;
  }
  return request;
}

policy::Placement PackingCluster::Find(const policy::PlacementRequest& request) {
  const bool by_stock = ByStock(*request.pods.front()->shape);
  return policy::Place(request, policy::Overlay(*store_), by_stock ? *cpu_scorer_ : *scorer_);
}

bool PackingCluster::TryPlace(std::span<const PodId> ids, const std::string& topology) {
  policy::PlacementRequest request = RequestFor(ids);
  request.topology_required = topology;
  const cluster::PodShape& shape = *request.pods.front()->shape;
  // A shape that did not fit cannot fit before room is freed. Gangs are not remembered.
  const bool single = ids.size() == 1;
  if (single) {
    const auto refused = refused_at_.find(&shape);
    if (refused != refused_at_.end() && refused->second == store_->free_generation()) return false;
  }
  const auto placement = Find(request);
  if (!placement.ok()) {
    if (single) refused_at_[&shape] = store_->free_generation();
    return false;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) Charge(pods_.at(ids[i]), placement.placed[i]);
  return true;
}

bool PackingCluster::PlaceOn(PodId id, cluster::NodeIndex node) {
  policy::PlacementRequest request = RequestFor(std::span(&id, 1));
  request.allowed = [node](cluster::NodeIndex other) { return other == node; };
  const auto placement = Find(request);
  if (placement.ok()) Charge(pods_.at(id), placement.placed.front());
  return placement.ok();
}

cluster::NodeIndex PackingCluster::Choice(PodId id) {
  const auto placement = Find(RequestFor(std::span(&id, 1)));
  return placement.ok() ? placement.placed.front().node : cluster::kNoNode;
}

std::vector<bool> PackingCluster::Feasible(PodId id) const {
  const cluster::PodShape& shape = *pods_.at(id).info->shape;
  const auto fits = scorer_->fit().Row(shape);
  const policy::Overlay overlay(*store_);
  std::vector<bool> feasible;
  for (const auto& node : store_->nodes()) {
    const auto index = static_cast<std::size_t>(node->index);
    feasible.push_back(fits[index] != 0 && policy::Capacity(shape, overlay, node->index, 1) > 0);
  }
  return feasible;
}

/// `placed` is in the order of the request.
void PackingCluster::Charge(Waiting& pod, const policy::Placed& placed) {
  store_->SetCharge(*pod.info, placed.node, cluster::Charge::kBound, placed.devices);
  allocated_milli_ += pod.milli;
  pod.placed = true;
}

bool PackingCluster::FitsEmpty(PodId id) const {
  const cluster::PodShape& shape = *pods_.at(id).info->shape;
  const policy::Overlay overlay(*store_);
  return std::ranges::any_of(store_->nodes(), [&](const auto& node) {
    return policy::FitsNode(*shape.spec, *node) &&
           policy::Capacity(shape, overlay, node->index, 1, policy::Looking::kAtEmptyNode) > 0;
  });
}

std::int64_t PackingCluster::FragmentMilli() {
  if (measure_ == nullptr) {
    measure_ = std::make_unique<policy::WorkloadMix>();
    measure_->Fix(typical_);
  }
  measure_->Refresh(*store_, scorer_->fit());
  const cluster::ResourceId gpu = store_->device_ids().front();
  std::int64_t sum = 0;  // millionths of a thousandth
  for (const auto& node : store_->nodes()) {
    sum += policy::FragmentSum(measure_->Class(measure_->ClassOf(node->index)),
                               node->free(cluster::kCpu), node->free(gpu), node->devices);
  }
  return sum / policy::kMillion;
}

void PackingCluster::Remove(PodId id) {
  const auto it = pods_.find(id);
  if (it->second.placed) allocated_milli_ -= it->second.milli;
  store_->DeletePod(std::to_string(id));
  pods_.erase(it);
}

Traced<OpenbNode> ReadPackingNodes(const std::string& path) {
  auto nodes = ReadTrace(path, &ReadOpenbNodes);
  if (!nodes) return nodes;
  for (const OpenbNode& node : *nodes) {
    if (node.gpus <= topology::DeviceSet::kMost) continue;
    return std::unexpected(InputError{path, 0, "node " + node.name + " has too many GPUs"});
  }
  return nodes;
}

}  // namespace berth::sim
