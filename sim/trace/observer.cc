#include "sim/trace/observer.h"

#include <algorithm>
#include <span>

#include "cluster/measures.h"
#include "policy/queue_demand.h"
#include "sim/trace/recording.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

constexpr std::int64_t kWholePod = 8;

}  // namespace

double ShareError(const policy::FairTree& tree) {
  if (tree.total.empty() || tree.total.front() == 0) return 0;
  const std::vector<policy::DeviceAmounts> shares = policy::FairShares(tree);
  std::vector<std::int64_t> lacks(tree.queues.size());
  for (std::size_t i = 0; i < lacks.size(); ++i) {
    const policy::FairQueue& queue = tree.queues[i];
    const std::int64_t lack = shares[i].front() - queue.used.front();
    lacks[i] += lack;
    if (queue.parent >= 0) lacks[static_cast<std::size_t>(queue.parent)] -= lack;
  }
  std::int64_t sum = 0;
  for (const std::int64_t lack : lacks) sum += std::max<std::int64_t>(0, lack);
  return static_cast<double>(sum) / static_cast<double>(tree.total.front());
}

Observer::Observer(Environment& env, const std::vector<kube::Node>& nodes,
                   const config::PolicyConfiguration& shares)
    : env_(env),
      store_(config::PolicyConfiguration()),
      whole_pod_{kWholePod, policy::BarePod(store_, kWholePod)},
      gpus_(CountGpus(nodes).all) {
  if (shares.queues.size() > 1) queues_.emplace(shares);
  for (const kube::Node& node : nodes) {
    store_.UpsertNode(node);
    if (queues_) queues_->UpsertNode(node);
  }
  env_.api.Subscribe(Kind::kPod, life_.alive(),
                     [this] { OnPod(env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1)); });
}

void Observer::OnPod(const Change& change) {
  if (change.deleted || !Lives(*change.pod)) {
    store_.DeletePod(change.key);
    if (queues_) queues_->DeletePod(change.key);
    return;
  }
  if (!change.pod->node_name.empty()) store_.UpsertPod(*change.pod);
  if (queues_) queues_->UpsertPod(*change.pod);
}

Sample Observer::Look(double hours, double waiting) {
  store_.Refresh();
  const cluster::ResourceId gpu = store_.device_ids().front();
  std::int64_t free = 0;
  for (const auto& node : store_.nodes()) free += node->free(gpu);
  const double all = static_cast<double>(std::max<std::int64_t>(1, gpus_) * cluster::kMilli);
  return {.hours = hours,
          .allocated = 1 - static_cast<double>(free) / all,
          .fragmented = cluster::FragmentationRatio(store_, gpu),
          .largest_gang = static_cast<double>(
              policy::LargestGangs(store_, std::span(&whole_pod_, 1)).front().pods),
          .waiting = waiting,
          .share_error = LookAtShares()};
}

double Observer::LookAtShares() {
  if (!queues_) return 0;
  queues_->Refresh();
  policy::QueueDemands demands;
  for (const auto& [key, workload] : queues_->workloads()) demands.Add(*queues_, workload);
  return ShareError(demands.TreeOf(*queues_));
}

}  // namespace berth::sim
