#include "policy/shortage.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "policy/placement.h"

namespace berth::policy {
namespace {

using cluster::NodeIndex;
using cluster::ReasonId;
using cluster::Verdict;

/// What the matching nodes would take, counted under three readings of "free".
struct Count {
  int matching = 0;   ///< Nodes that match at all.
  int empty = 0;      ///< Members that fit into the empty cluster.
  int by_device = 0;  ///< Members whose devices are free somewhere.
  int now = 0;        ///< Members that fit now.
  int avoided = 0;    ///< Of those, on nodes that are avoided.
  std::int64_t free_devices = 0;
};

Count CountRoom(const PlacementRequest& request, const ShapeGroup& group, const Overlay& base,
                FitCache& fit, std::span<const NodeIndex> nodes) {
  Count count;
  constexpr int kMany = cluster::kMaxGangSize;
  for (const NodeIndex index : nodes) {
    const cluster::NodeInfo& node = base.store().node(index);
    if (!node.present || !fit.Fits(*group.shape, node)) continue;
    ++count.matching;
    count.empty += Capacity(*group.shape, base, index, kMany, Looking::kAtEmptyNode);
    count.by_device += Capacity(*group.shape, base, index, kMany, Looking::kAtDevicesOnly);
    const int now = Capacity(*group.shape, base, index, kMany);
    count.now += now;
    if (std::ranges::any_of(request.avoid, [&](const cluster::Avoid& avoid) {
          return avoid.node == index && avoid.shape == group.shape.get();
        })) {
      count.avoided += now;
    }
    if (group.shape->device != cluster::kPods) {
      count.free_devices += std::max<std::int64_t>(0, base.Free(index, group.shape->device));
    }
  }
  return count;
}

Verdict JudgeGroup(const PlacementRequest& request, const ShapeGroup& group, const Overlay& base,
                   FitCache& fit) {
  std::vector<NodeIndex> nodes;
  for (const auto& node : base.store().nodes()) nodes.push_back(node->index);
  const Count count = CountRoom(request, group, base, fit, nodes);
  const int want = static_cast<int>(group.pods.size());
  const cluster::PodShape& shape = *group.shape;
  if (count.matching == 0) return {.reason = ReasonId::kNoMatchingNodes, .want = want};
  if (count.empty < want) {
    return {.reason = ReasonId::kNeverFits, .want = want, .have = count.empty};
  }
  const std::int64_t devices = shape.device_amount * want;
  if (devices > count.free_devices) {
    return {.reason = ReasonId::kInsufficientDevices,
            .want = devices,
            .have = count.free_devices,
            .subject = base.store().resources().Name(shape.device)};
  }
  if (count.by_device < want) {
    return {.reason = ReasonId::kFragmented, .want = want, .have = count.by_device};
  }
  if (count.now < want) {
    return {.reason = ReasonId::kInsufficientCpuOrMemory, .want = want, .have = count.now};
  }
  if (count.now - count.avoided < want) {
    return {.reason = ReasonId::kRefusedByScheduler, .want = want};
  }
  return {};
}

/// Each shape for itself has enough: do all of them together?
Verdict JudgeSum(const std::vector<ShapeGroup>& groups, const Overlay& base, FitCache& fit) {
  std::map<cluster::ResourceId, std::pair<std::int64_t, std::set<NodeIndex>>> wanted;
  for (const ShapeGroup& group : groups) {
    if (group.shape->device == cluster::kPods) continue;
    auto& [sum, nodes] = wanted[group.shape->device];
    sum += group.shape->device_amount * std::ssize(group.pods);
    for (const auto& node : base.store().nodes()) {
      if (node->present && fit.Fits(*group.shape, *node)) nodes.insert(node->index);
    }
  }
  for (const auto& [device, want] : wanted) {
    std::int64_t free = 0;
    for (const NodeIndex node : want.second) {
      free += std::max<std::int64_t>(0, base.Free(node, device));
    }
    if (want.first <= free) continue;
    return {.reason = ReasonId::kInsufficientDevices,
            .want = want.first,
            .have = free,
            .subject = base.store().resources().Name(device)};
  }
  return {};
}

}  // namespace

std::vector<ShapeGroup> GroupByShape(std::span<const cluster::PodInfo* const> pods) {
  std::vector<ShapeGroup> groups;
  std::unordered_map<const cluster::PodShape*, std::size_t> index;
  for (const cluster::PodInfo* pod : pods) {
    const auto [it, fresh] = index.try_emplace(pod->shape.get(), groups.size());
    if (fresh) groups.push_back({.shape = pod->shape, .pods = {}});
    groups[it->second].pods.push_back(pod);
  }
  const auto cpu = [](const cluster::PodShape& shape) {
    return shape.demand.empty() || shape.demand.front().first != cluster::kCpu
               ? 0
               : shape.demand.front().second;
  };
  std::ranges::stable_sort(groups, [&](const ShapeGroup& a, const ShapeGroup& b) {
    return std::tuple(a.shape->whole_node, a.shape->device_amount, cpu(*a.shape)) >
           std::tuple(b.shape->whole_node, b.shape->device_amount, cpu(*b.shape));
  });
  return groups;
}

Verdict ExplainShortage(const PlacementRequest& request, const std::vector<ShapeGroup>& groups,
                        const Overlay& base, FitCache& fit) {
  for (const ShapeGroup& group : groups) {
    if (Verdict verdict = JudgeGroup(request, group, base, fit);
        verdict.reason != ReasonId::kNone) {
      // Which of the members, where they differ. (What all of one shape are told is told to other
      // workloads of that shape as well: no names.)
      if (verdict.reason == ReasonId::kNoMatchingNodes && groups.size() > 1) {
        verdict.subject = group.pods.front()->object.meta.name;
      }
      return verdict;
    }
  }
  if (Verdict verdict = JudgeSum(groups, base, fit); verdict.reason != ReasonId::kNone) {
    return verdict;
  }
  if (!request.topology_required.empty()) {
    const ShapeGroup& group = groups.front();
    int best = 0;
    for (const auto& [name, nodes] : GroupBy(base.store(), request.topology_required)) {
      best = std::max(best, CountRoom(request, group, base, fit, nodes).now);
    }
    const int want = static_cast<int>(group.pods.size());
    if (best < want || groups.size() == 1) {
      return {.reason = ReasonId::kTopologyUnsatisfied,
              .want = want,
              .have = best,
              .subject = request.topology_required};
    }
  }
  return {.reason = ReasonId::kSearchExhausted,
          .want = static_cast<std::int64_t>(request.pods.size())};
}

}  // namespace berth::policy
