#include "sim/packing.h"

#include <fmt/format.h>

namespace berth::sim {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kModelLabel = "nvidia.com/gpu.product";
constexpr std::int64_t kPodsPerNode = 1001;  // as in the published protocol
constexpr std::int64_t kMib = 1 << 20;

config::PolicyConfiguration PolicyOf(const PackingOptions& options) {
  config::PolicyConfiguration policy;
  policy.placement.score = options.weights;
  return policy;
}

/// The store orders nodes by a hash of their names: a seed in the name makes it another order.
kube::Node NodeOf(const OpenbNode& node, std::uint64_t seed) {
  kube::Node object;
  object.meta.name = fmt::format("s{}-{}", seed, node.name);
  if (!node.model.empty()) object.meta.labels[kModelLabel] = node.model;
  object.allocatable = {
      {"cpu", node.cpu_milli}, {"memory", node.memory_mib * kMib}, {"pods", kPodsPerNode}};
  if (node.gpus > 0) object.allocatable[kGpu] = node.gpus * cluster::kMilli;
  return object;
}

std::shared_ptr<const kube::PodSpec> MakeSpec(const OpenbPod& pod) {
  auto spec = std::make_shared<kube::PodSpec>();
  if (pod.cpu_milli > 0) spec->requests["cpu"] = pod.cpu_milli;
  if (pod.memory_mib > 0) spec->requests["memory"] = pod.memory_mib * kMib;
  if (pod.gpus > 0) spec->requests[kGpu] = pod.total_gpu_milli();
  if (!pod.models.empty()) {
    spec->has_required_node_affinity = true;
    spec->required_node_affinity = {{.match_expressions = {{.key = kModelLabel,
                                                            .op = kube::SelectorOperator::kIn,
                                                            .values = pod.models}},
                                     .match_fields = {}}};
  }
  return spec;
}

}  // namespace

const std::vector<std::string_view>& PackingPolicies() {
  static const std::vector<std::string_view> kPolicies{"Berth"};
  return kPolicies;
}

PackingCluster::PackingCluster(const std::vector<OpenbNode>& nodes, const PackingOptions& options)
    : store_(std::make_unique<cluster::Store>(PolicyOf(options))),
      scorer_(std::make_unique<policy::Scorer>(*store_)) {
  for (const OpenbNode& node : nodes) store_->UpsertNode(NodeOf(node, options.seed));
  store_->Refresh();
}

std::optional<std::uint64_t> PackingCluster::Arrive(const OpenbPod& pod) {
  kube::Pod object;
  const std::uint64_t id = next_++;
  object.meta.name = std::to_string(id);
  object.meta.uid = object.meta.name;
  object.meta.ns = "openb";
  object.scheduler_name = "berth";
  object.spec = MakeSpec(pod);
  cluster::PodInfo* info = store_->UpsertPod(std::move(object));
  store_->Refresh();
  if (pod.gpus > 0) scorer_->law().Observe(info->shape);
  const policy::Overlay overlay(*store_);
  const auto placement = policy::Place({.pods = {info}}, overlay, *scorer_);
  if (!placement.ok()) {
    store_->DeletePod(info->object.meta.uid);
    return std::nullopt;
  }
  store_->SetCharge(*info, placement.placed.front().node, cluster::Charge::kBound);
  allocated_milli_ += pod.total_gpu_milli();
  return id;
}

void PackingCluster::Depart(std::uint64_t pod) { store_->DeletePod(std::to_string(pod)); }

}  // namespace berth::sim
