#include "sim/gym/packing_env.h"

#include <algorithm>
#include <set>

namespace berth::sim {
namespace {

double Of(std::int64_t amount, std::int64_t unit) {
  return static_cast<double>(amount) / static_cast<double>(unit);
}

constexpr std::int64_t kMibPerGib = 1024;
constexpr std::int64_t kGib = std::int64_t{1} << 30U;

template <std::size_t N>
void Raise(std::array<double, N>& most, const std::array<double, N>& row) {
  for (std::size_t i = 0; i < N; ++i) most[i] = std::max(most[i], row[i]);
}

}  // namespace

std::string PackingEnv::Problem(const std::vector<OpenbNode>& nodes, const OpenbList& list) {
  std::set<std::string> names;
  for (const OpenbNode& node : nodes) {
    if (!names.insert(node.name).second) return "node " + node.name + " is there twice";
  }
  if (CapacityMilli(nodes) == 0) return "no node has a GPU";
  PackingCluster empty(nodes, list.pods, {});
  const bool fits = std::ranges::any_of(
      list.pods, [&](const OpenbPod& pod) { return empty.FitsEmpty(empty.Submit(pod)); });
  return fits ? "" : "no pod of the list fits on any node";
}

PackingEnv::PackingEnv(std::vector<OpenbNode> nodes, OpenbList list,
                       const config::ScoreWeights& weights)
    : nodes_(std::move(nodes)),
      list_(std::move(list)),
      weights_(weights),
      capacity_(CapacityMilli(nodes_)),
      curve_(capacity_) {
  std::set<std::string> models;
  for (const OpenbNode& node : nodes_) models.insert(node.model);
  models.erase("");
  models_.assign(models.begin(), models.end());
}

void PackingEnv::Reset(std::uint64_t seed) {
  cluster_.emplace(nodes_, list_.pods,
                   PackingOptions{.policy = "Berth", .seed = seed, .weights = weights_});
  curve_ = LoadCurve(capacity_);
  order_ = ArrivalOrder(list_.pods, capacity_, seed);
  next_ = 0;
  arrived_ = 0;
  dropped_ = 0;
  fragment_ = cluster_->FragmentMilli();
  changed_.clear();
  done_ = order_.empty();
  if (done_) return;
  Submit();
  GoToNext();
}

PackingEnv::Result PackingEnv::Step(std::int64_t node) {
  const double lost = lost_percent();
  changed_.clear();
  const bool fits = node >= 0 && static_cast<std::size_t>(node) < mask_.size() &&
                    mask_[static_cast<std::size_t>(node)];
  const bool placed = fits && cluster_->PlaceOn(id_, static_cast<cluster::NodeIndex>(node));
  if (placed) {
    changed_.push_back(static_cast<std::size_t>(node));
    fragment_ = cluster_->FragmentMilli();
  }
  Arrived(placed);
  GoToNext();
  return {.reward = lost - lost_percent(), .done = done_};
}

/// Submits the next pod to the cluster.
void PackingEnv::Submit() {
  id_ = cluster_->Submit(*pod());
  mask_ = cluster_->Feasible(id_);
}

/// Records whether the pod was placed, and goes to the next one, if there is one.
void PackingEnv::Arrived(bool placed) {
  const std::int64_t milli = pod()->total_gpu_milli();
  arrived_ += milli;
  if (!placed) {
    cluster_->Remove(id_);
    dropped_ += milli;
  }
  curve_.Record(arrived_, cluster_->allocated_milli());
  done_ = ++next_ == order_.size();
  if (done_) {
    mask_.clear();
  } else {
    Submit();
  }
}

/// Drops pods that fit nowhere.
void PackingEnv::GoToNext() {
  while (!done_ && std::ranges::find(mask_, true) == mask_.end()) Arrived(/*placed=*/false);
}

PackingEnv::PodRow PackingEnv::RowOf(const OpenbPod& pod) const {
  return {Of(pod.cpu_milli, cluster::kMilli), Of(pod.memory_mib, kMibPerGib),
          static_cast<double>(pod.gpus), Of(pod.gpu_milli, cluster::kMilli),
          pod.models.empty() ? 0.0 : 1.0};
}

PackingEnv::PodRow PackingEnv::PodFeatures() const { return done_ ? PodRow() : RowOf(*pod()); }

PackingEnv::PodRow PackingEnv::PodMost() const {
  PodRow most{};
  for (const OpenbPod& pod : list_.pods) Raise(most, RowOf(pod));
  return most;
}

PackingEnv::NodeRow PackingEnv::NodeMost() const {
  NodeRow most{};
  for (const OpenbNode& node : nodes_) {
    const auto gpus = static_cast<double>(node.gpus);
    Raise(most, {Of(node.cpu_milli, cluster::kMilli), Of(node.memory_mib, kMibPerGib), gpus, gpus,
                 1.0, gpus, static_cast<double>(models_.size())});
  }
  return most;
}

PackingEnv::NodeRow PackingEnv::NodeFeatures(std::size_t node) const {
  const cluster::NodeInfo& info = cluster_->store().node(static_cast<cluster::NodeIndex>(node));
  int largest = 0;
  for (int i = 0; i < info.devices.size(); ++i) largest = std::max(largest, info.devices.free(i));
  const auto model = std::ranges::find(models_, nodes_[node].model);
  return {Of(info.free(cluster::kCpu), cluster::kMilli),
          Of(info.free(cluster::kMemory), kGib),
          Of(info.devices.total(), cluster::kMilli),
          static_cast<double>(info.devices.WholeFree()),
          Of(largest, cluster::kMilli),
          static_cast<double>(nodes_[node].gpus),
          model == models_.end() ? 0.0 : static_cast<double>(model - models_.begin() + 1)};
}

cluster::NodeIndex PackingEnv::BerthChoice() {
  return done_ ? cluster::kNoNode : cluster_->Choice(id_);
}

}  // namespace berth::sim
