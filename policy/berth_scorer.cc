#include "policy/berth_scorer.h"

#include <algorithm>
#include <limits>

namespace berth::policy {

using cluster::PodShape;

/// The weighted terms of one placement, without PlaceTerms.
struct BerthScorer::Parts {
  Score fragmentation = 0;
  Score stranding = 0;
  Score scarcity = 0;
  Score odd_remainder = 0;
  Score empty_node = 0;
  Score topology = 0;
  topology::DeviceMask devices = 0;  ///< As in Scored.
  Score sum() const {
    return fragmentation + stranding + scarcity + odd_remainder + empty_node + topology;
  }
};

namespace {

/// Thousandths of devices that the free CPU cannot serve.
std::int64_t Strand(std::int64_t cpu, std::int64_t devices, std::int64_t cpu_per_device) {
  if (cpu_per_device <= 0) return 0;
  return std::max<std::int64_t>(
      0, devices - MulDiv(std::max<std::int64_t>(cpu, 0), cluster::kMilli, cpu_per_device));
}

/// A pod without devices belongs where few devices are free: penalty in thousandths per free
/// device.
constexpr std::int64_t kFreeDeviceShunned = 200;

bool Odd(std::int64_t devices) { return (devices / cluster::kMilli) % 2 == 1; }

/// The device that decides the score here: what the pod asks for, else the policy's first.
cluster::ResourceId ScoredDevice(const PodShape& shape, const cluster::Store& store) {
  if (shape.device != cluster::kPods) return shape.device;
  return store.device_ids().empty() ? cluster::kPods : store.device_ids().front();
}

struct After {
  std::int64_t fragment = 0;
  topology::DeviceMask devices = 0;
};

/// The smallest fragment that can be left behind, and the devices that leave it.
After BestDevices(const PodShape& shape, const NodeState& node, std::int64_t cpu,
                  std::int64_t left) {
  topology::DeviceSet devices = node.devices;
  if (shape.share == 0) {
    devices.Take(devices.LowestWhole(static_cast<int>(shape.device_amount / cluster::kMilli)),
                 topology::DeviceSet::kWhole);
    return {.fragment = Fragment(*node.mix, cpu, left, devices)};
  }
  After best{.fragment = std::numeric_limits<std::int64_t>::max()};
  devices.ForEachShare(
      shape.share, [&](topology::DeviceMask alike, const topology::DeviceSet& after) {
        const std::int64_t fragment = Fragment(*node.mix, cpu, left, after);
        if (fragment > best.fragment) return;
        const unsigned also = fragment == best.fragment ? best.devices : 0U;
        best = {.fragment = fragment, .devices = static_cast<topology::DeviceMask>(also | alike)};
      });
  return best;
}

/// How badly the node's free devices suit `count` of them, in thousandths: half for links that are
/// worse than the best, half for breaking into a socket.
std::int64_t Misfit(const NodeState& node, std::int64_t count) {
  const topology::DeviceMask chosen =
      node.machine->Choose(node.free_devices, static_cast<int>(count));
  if (chosen == 0) return 0;
  const auto left = static_cast<topology::DeviceMask>(node.free_devices & ~chosen);
  const bool breaks =
      node.machine->PartSockets(left) > node.machine->PartSockets(node.free_devices);
  return (node.machine->Loss(chosen) + (breaks ? cluster::kMilli : 0)) / 2;
}

}  // namespace

BerthScorer::Parts BerthScorer::Evaluate(const PodShape& shape, const NodeState& node) const {
  const config::ScoreWeights& weights = store_->policy().placement.score;
  const cluster::ResourceId device = ScoredDevice(shape, *store_);
  const bool counted = device == cluster::kPods;
  const std::int64_t all = counted ? 0 : node.all(device);
  const std::int64_t free = counted ? 0 : node.free(device);
  const std::int64_t cpu = node.free(cluster::kCpu);
  const std::int64_t takes = shape.whole_node ? free : DemandOf(shape, device);
  const std::int64_t left = free - takes;
  const std::int64_t cpu_left = cpu - DemandOf(shape, cluster::kCpu);
  // Devices are known one by one only for the policy's first kind.
  const bool by_device = node.devices.size() > 0 && device == store_->device_ids().front();
  Parts parts;
  std::int64_t before = 0;
  After after;
  if (by_device) {
    before = Fragment(*node.mix, cpu, free, node.devices);
    if (takes > 0 && !shape.whole_node) {
      after = BestDevices(shape, node, cpu_left, left);
    } else if (takes == 0) {
      after.fragment = Fragment(*node.mix, cpu_left, left, node.devices);
    }
  } else {
    before = Fragment(*node.mix, cpu, free, {});
    after.fragment = Fragment(*node.mix, cpu_left, left, {});
  }
  parts.devices = after.devices;
  // Weights are thousandths: thousandths x thousandths = millionths.
  parts.fragmentation = weights.fragmentation * (before - after.fragment);
  parts.stranding = -weights.stranding * (Strand(cpu_left, left, mix_->cpu_per_device()) -
                                          Strand(cpu, free, mix_->cpu_per_device()));
  parts.scarcity = -MulDiv(weights.scarcity * takes, node.mix->price, kMillion);
  if (takes > 0 && !by_device) {
    parts.odd_remainder =
        -weights.odd_remainder * cluster::kMilli * (int{Odd(left)} - int{Odd(free)});
    const bool opened = free == all && left > 0;
    parts.empty_node = opened ? -weights.empty_node * cluster::kMilli : 0;
  } else if (takes == 0 && all > 0) {
    parts.empty_node = -kFreeDeviceShunned * free;
  }
  if (node.machine != nullptr && takes > 0 && device == store_->device_ids().front()) {
    parts.topology = -weights.topology * Misfit(node, takes / cluster::kMilli);
  }
  return parts;
}

Scored BerthScorer::Of(const PodShape& shape, const NodeState& node) const {
  const Parts parts = Evaluate(shape, node);
  return {.score = parts.sum(), .devices = parts.devices};
}

Score BerthScorer::RankWeight() const {
  return store_->policy().placement.score.rank * cluster::kMilli;
}

Score BerthScorer::DomainWeight() const {
  return store_->policy().placement.score.topology * cluster::kMilli;
}

std::map<std::string, Score> BerthScorer::Terms(const PodShape& shape,
                                                const NodeState& node) const {
  const Parts parts = Evaluate(shape, node);
  std::map<std::string, Score> terms{{"fragmentation", parts.fragmentation},
                                     {"stranding", parts.stranding},
                                     {"scarcity", parts.scarcity},
                                     {"oddRemainder", parts.odd_remainder},
                                     {"emptyNode", parts.empty_node}};
  if (node.machine != nullptr) terms["topology"] = parts.topology;
  return terms;
}

}  // namespace berth::policy
