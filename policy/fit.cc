#include "policy/fit.h"

#include <algorithm>

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

int Capacity(const PodShape& shape, const Overlay& overlay, NodeIndex index, int most,
             Looking looking) {
  const cluster::Store& store = overlay.store();
  const cluster::NodeInfo& node = store.node(index);
  const auto room = [&](cluster::ResourceId id) {
    return looking == Looking::kAtEmptyNode ? node.allocatable[id] : overlay.Free(index, id);
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

bool FitCache::Fits(const PodShape& shape, const cluster::NodeInfo& node) {
  auto it = rows_.find(shape.spec.get());
  if (it == rows_.end()) {
    if (rows_.size() >= kMaxSpecs) rows_.clear();
    it = rows_.emplace(shape.spec.get(), Row{.spec = shape.spec, .entries = {}}).first;
  }
  auto& entries = it->second.entries;
  const auto index = static_cast<std::size_t>(node.index);
  if (index >= entries.size()) entries.resize(index + 1);
  Entry& entry = entries[index];
  if (entry.object_generation != node.object_generation || node.object_generation == 0) {
    entry = {.object_generation = node.object_generation, .fits = FitsNode(*shape.spec, node)};
  }
  return entry.fits;
}

}  // namespace berth::policy
