#include "policy/fit.h"

#include <algorithm>
#include <tuple>

#include "kube/selector.h"

namespace berth::policy {

using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::PodShape;

bool FitsNode(const kube::PodSpec& spec, const cluster::NodeInfo& node) {
  if (!node.present || !node.object.ready) return false;
  if (node.object.unschedulable && !kube::ToleratesUnschedulable(spec.tolerations)) return false;
  if (kube::FindUntoleratedTaint(spec.tolerations, node.object.taints) != nullptr) return false;
  return kube::MatchesNode(spec, node.object);
}

std::int64_t DeviceCapacity(const PodShape& shape, const topology::DeviceSet& devices) {
  if (shape.share == 0)
    return devices.WholeFree() / std::max<std::int64_t>(1, shape.device_amount / cluster::kMilli);
  std::int64_t count = 0;
  for (int i = 0; i < devices.size(); ++i) count += devices.free(i) / shape.share;
  return count;
}

int Capacity(const PodShape& shape, const Overlay& overlay, NodeIndex index, int most,
             Looking looking) {
  const cluster::Store& store = overlay.store();
  const cluster::NodeInfo& node = store.node(index);
  const bool empty = looking == Looking::kAtEmptyNode;
  const auto room = [&](cluster::ResourceId id) {
    return empty ? node.allocatable[id] : overlay.Free(index, id);
  };
  if (shape.whole_node) {
    most = std::min(most, 1);
    for (const cluster::ResourceId device : store.device_ids()) {
      if (store.IsWholeDevice(device) && room(device) < node.allocatable[device]) return 0;
    }
  }
  std::int64_t count = most;
  for (const auto& [id, amount] : shape.demand) {
    if (looking == Looking::kAtDevicesOnly &&
        std::ranges::find(store.device_ids(), id) == store.device_ids().end()) {
      continue;
    }
    count = std::min(count, std::max<std::int64_t>(room(id), 0) / amount);
    if (count == 0) return 0;
  }
  if (const topology::DeviceSet& devices = overlay.devices(index);
      devices.size() > 0 && shape.device == store.device_ids().front()) {
    count = std::min(count,
                     DeviceCapacity(shape, empty ? topology::DeviceSet(devices.size()) : devices));
  }
  return static_cast<int>(count);
}

int Capacity(const PodShape& shape, const Overlay& overlay, NodeIndex node, int most) {
  return Capacity(shape, overlay, node, most, Looking::kAtAll);
}

bool HostPortsFree(const PodInfo& pod, const Overlay& overlay, NodeIndex node) {
  const auto& ports = pod.object.spec->host_ports;
  if (ports.empty()) return true;
  for (const PodInfo* other : overlay.store().node(node).pods) {
    if (!overlay.Removed(*other) &&
        kube::HostPortsConflict(ports, other->object.spec->host_ports)) {
      return false;
    }
  }
  return std::ranges::none_of(overlay.placed(), [&](const auto& placed) {
    return placed.second == node &&
           kube::HostPortsConflict(ports, placed.first->object.spec->host_ports);
  });
}

bool FitCache::SameNodes::operator()(const Spec& a, const Spec& b) const {
  const auto said = [](const kube::PodSpec& spec) {
    return std::tie(spec.node_selector, spec.has_required_node_affinity,
                    spec.required_node_affinity, spec.tolerations);
  };
  return said(*a) < said(*b);
}

std::span<const std::uint8_t> FitCache::Row(const PodShape& shape) {
  auto it = known_.find(shape.spec.get());
  if (it == known_.end()) {
    FitRow& row = rows_.try_emplace(shape.spec).first->second;
    it = known_.emplace(shape.spec.get(), Known{.spec = shape.spec, .row = &row}).first;
  }
  CatchUp(*shape.spec, *it->second.row);
  return it->second.row->fits;
}

void FitCache::CatchUp(const kube::PodSpec& spec, FitRow& row) const {
  const cluster::ChangeLog& log = store_->object_changes();
  if (row.seen == log.end()) return;
  const auto judge = [&](const cluster::NodeInfo& node) {
    row.fits[static_cast<std::size_t>(node.index)] = FitsNode(spec, node) ? 1 : 0;
  };
  const auto changed = log.Since(row.seen);
  const bool all = row.fits.empty() || !changed || changed->size() >= store_->nodes().size();
  row.fits.resize(store_->nodes().size(), 0);
  if (all) {
    for (const auto& node : store_->nodes()) judge(*node);
  } else {
    for (const NodeIndex index : *changed) judge(store_->node(index));
  }
  row.seen = log.end();
}

void FitCache::Trim() {
  if (known_.size() <= kMaxSpecs) return;
  known_.clear();
  rows_.clear();
}

}  // namespace berth::policy
