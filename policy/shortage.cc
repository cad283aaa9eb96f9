#include "policy/shortage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "kube/quantity.h"
#include "policy/placement.h"

namespace berth::policy {
namespace {

using cluster::NodeIndex;
using cluster::ReasonId;
using cluster::Verdict;

/// What the matching nodes would take, counted under three definitions of "free".
struct Count {
  int matching = 0;    ///< Nodes that match at all.
  int empty = 0;       ///< Members that fit into the empty cluster.
  int by_device = 0;   ///< Members whose devices are free somewhere.
  int now = 0;         ///< Members that fit now.
  int with_ports = 0;  ///< Of these, members whose host ports are free.
  int avoided = 0;     ///< Of these, members on nodes that are avoided.
  std::int64_t free_devices = 0;
};

bool IsOfFlavor(const PlacementRequest& request, const cluster::PodShape& shape,
                const cluster::NodeInfo& node) {
  return !request.flavor || !shape.asks_device || node.flavor == *request.flavor;
}

Count CountRoom(const PlacementRequest& request, const ShapeGroup& group, const Overlay& base,
                FitCache& fit, std::span<const NodeIndex> nodes) {
  Count count;
  constexpr int kMany = cluster::kMaxGangSize;
  const bool ports = !group.shape->spec->host_ports.empty();
  for (const NodeIndex index : nodes) {
    const cluster::NodeInfo& node = base.store().node(index);
    if (!node.present || !fit.Fits(*group.shape, node) ||
        !IsOfFlavor(request, *group.shape, node)) {
      continue;
    }
    ++count.matching;
    // Two pods of one host port never share a node.
    count.empty += Capacity(*group.shape, base, index, ports ? 1 : kMany, Looking::kAtEmptyNode);
    count.by_device += Capacity(*group.shape, base, index, kMany, Looking::kAtDevicesOnly);
    int now = Capacity(*group.shape, base, index, kMany);
    count.now += now;
    if (ports) now = HostPortsFree(*group.pods.front(), base, index) ? std::min(now, 1) : 0;
    count.with_ports += now;
    if (std::ranges::any_of(request.avoid, [&](const Avoid& avoid) {
          return avoid.node == index && avoid.shape == group.shape;
        })) {
      count.avoided += now;
    }
    if (group.shape->device != cluster::kPods) {
      count.free_devices += std::max<std::int64_t>(0, base.Free(index, group.shape->device));
    }
  }
  return count;
}

std::string PortsOf(const cluster::PodShape& shape) {
  const auto& ports = shape.spec->host_ports;
  std::string text = ports.size() > 1 ? "host ports " : "host port ";
  for (const kube::HostPort& port : ports) {
    if (&port != &ports.front()) text += ", ";
    text += fmt::format("{}/{}", port.port, port.protocol);
  }
  return text;
}

/// Of what neither the policy nor a node names, the name that the pods give it; of several the
/// first.
std::string NameOf(const cluster::Store& store, const cluster::PodShape& shape,
                   cluster::ResourceId id) {
  if (id == cluster::kUnknownResource) {
    for (const auto& [name, amount] : shape.spec->requests) {
      if (!store.resources().Find(name)) return name;
    }
  }
  return store.resources().Name(id);
}

/// Why `group` is too much for the empty cluster, as a whole sentence; empty: its number alone is.
std::string WhyNeverFits(const ShapeGroup& group, const Overlay& base, FitCache& fit,
                         const Count& count, const std::string& who) {
  const cluster::Store& store = base.store();
  const auto want = group.pods.size();
  if (count.empty > 0) {
    return group.shape->spec->host_ports.empty()
               ? std::string()
               : fmt::format(
                     "{} members need {}, each on a node of its own; {} of the nodes that match "
                     "can take one.",
                     want, PortsOf(*group.shape), count.empty);
  }
  for (const auto& [id, amount] : group.shape->demand) {
    std::int64_t most = 0;
    for (const auto& node : store.nodes()) {
      if (node->present && fit.Fits(*group.shape, *node)) {
        most = std::max(most, node->allocatable[id]);
      }
    }
    if (amount <= most) continue;
    const std::string name = NameOf(store, *group.shape, id);
    const bool closed = std::ranges::any_of(store.nodes(), [&](const auto& node) {
      return node->present && !node->open() && node->allocatable[id] >= amount;
    });
    return fmt::format("{} asks for {} of {}; no node that matches has more than {}.{}", who,
                       kube::Format(name, amount), name, kube::Format(name, most),
                       closed ? " Larger ones are cordoned or not ready." : "");
  }
  return fmt::format("{} fits on no node that matches, though each of its resources alone would.",
                     who);
}

/// How many members the best domain of the required level would hold if it were empty.
int EmptyRoomOfBest(const PlacementRequest& request, const ShapeGroup& group, const Overlay& base,
                    FitCache& fit) {
  int best = 0;
  for (const auto& [name, nodes] : GroupBy(base.store(), request.topology_required)) {
    best = std::max(best, CountRoom(request, group, base, fit, nodes).empty);
  }
  return best;
}

/// Where the group asks for several kinds of devices: that the nodes that match have too few of one
/// free, all together. nullopt: of none.
std::optional<Verdict> ShortOfOthers(const PlacementRequest& request, const ShapeGroup& group,
                                     const Overlay& base, FitCache& fit) {
  const cluster::Store& store = base.store();
  for (const auto& [id, amount] : group.shape->demand) {
    if (std::ranges::find(store.device_ids(), id) == store.device_ids().end()) continue;
    std::int64_t free = 0;
    for (const auto& node : store.nodes()) {
      if (!node->present || !fit.Fits(*group.shape, *node)) continue;
      if (!IsOfFlavor(request, *group.shape, *node)) continue;
      free += std::max<std::int64_t>(0, base.Free(node->index, id));
    }
    const std::int64_t want = amount * std::ssize(group.pods);
    if (want <= free) continue;
    return Verdict{.reason = ReasonId::kInsufficientDevices,
                   .want = want,
                   .have = free,
                   .subject = store.resources().Name(id)};
  }
  return std::nullopt;
}

Verdict JudgeGroup(const PlacementRequest& request, const ShapeGroup& group, const Overlay& base,
                   FitCache& fit, const std::string& who) {
  std::vector<NodeIndex> nodes;
  for (const auto& node : base.store().nodes()) nodes.push_back(node->index);
  const Count count = CountRoom(request, group, base, fit, nodes);
  const int want = static_cast<int>(group.pods.size());
  const cluster::PodShape& shape = *group.shape;
  if (count.matching == 0) {
    return {.reason = ReasonId::kNoMatchingNodes, .want = want, .never = true};
  }
  if (count.empty < want) {
    return {.reason = ReasonId::kNeverFits,
            .want = want,
            .have = count.empty,
            .subject = WhyNeverFits(group, base, fit, count, who),
            .never = true};
  }
  if (!request.topology_required.empty()) {
    if (const int best = EmptyRoomOfBest(request, group, base, fit); best < want) {
      return {.reason = ReasonId::kTopologyUnsatisfied,
              .want = want,
              .have = best,
              .subject = request.topology_required,
              .never = true};
    }
  }
  const std::int64_t devices = shape.device_amount * want;
  if (devices > count.free_devices) {
    return {.reason = ReasonId::kInsufficientDevices,
            .want = devices,
            .have = count.free_devices,
            .subject = base.store().resources().Name(shape.device)};
  }
  if (count.by_device < want) {
    return ShortOfOthers(request, group, base, fit)
        .value_or(Verdict{.reason = ReasonId::kFragmented, .want = want, .have = count.by_device});
  }
  if (count.now < want) {
    return {.reason = ReasonId::kInsufficientCpuOrMemory, .want = want, .have = count.now};
  }
  if (count.with_ports < want) {
    return {.reason = ReasonId::kFragmented,
            .want = want,
            .have = count.with_ports,
            .subject = PortsOf(shape)};
  }
  if (count.with_ports - count.avoided < want) {
    return {.reason = ReasonId::kRefusedByScheduler, .want = want};
  }
  return {};
}

/// What all members together ask for of a resource, and the nodes that match any member that asks
/// for it.
struct Sum {
  std::int64_t wanted = 0;
  std::set<NodeIndex> nodes{};

  void Add(const ShapeGroup& group, std::int64_t amount, const Overlay& base, FitCache& fit) {
    wanted += amount * std::ssize(group.pods);
    for (const auto& node : base.store().nodes()) {
      if (node->present && fit.Fits(*group.shape, *node)) nodes.insert(node->index);
    }
  }
  std::int64_t Free(const Overlay& base, cluster::ResourceId id) const {
    std::int64_t free = 0;
    for (const NodeIndex node : nodes) free += std::max<std::int64_t>(0, base.Free(node, id));
    return free;
  }
};
using Sums = std::map<cluster::ResourceId, Sum>;

/// Each shape alone has enough room: checks whether all of them together would have in the empty
/// cluster, and now of what is no device.
Verdict JudgeSumOfAll(const std::vector<ShapeGroup>& groups, const Overlay& base, FitCache& fit) {
  Sums sums;
  std::int64_t members = 0;
  for (const ShapeGroup& group : groups) {
    members += std::ssize(group.pods);
    for (const auto& [id, amount] : group.shape->demand) sums[id].Add(group, amount, base, fit);
  }
  Verdict short_now;
  for (const auto& [id, sum] : sums) {
    std::int64_t all = 0;
    for (const NodeIndex node : sum.nodes) all += base.store().node(node).allocatable[id];
    const std::int64_t free = sum.Free(base, id);
    const std::string& name = base.store().resources().Name(id);
    if (sum.wanted > all) {
      return {
          .reason = ReasonId::kNeverFits,
          .want = members,
          .subject = fmt::format("Its members ask for {} of {} together; all nodes that match "
                                 "have {}.",
                                 kube::Format(name, sum.wanted), name, kube::Format(name, all))};
    }
    const auto& devices = base.store().device_ids();
    const bool is_device = std::ranges::find(devices, id) != devices.end();
    if (!is_device && sum.wanted > free && short_now.reason == ReasonId::kNone) {
      short_now = {.reason = ReasonId::kInsufficientCpuOrMemory,
                   .want = members,
                   .have = members * free / sum.wanted};
    }
  }
  return short_now;
}

/// Each shape alone has enough room: checks whether all of them together have enough devices.
Verdict JudgeSumOfDevices(const std::vector<ShapeGroup>& groups, const Overlay& base,
                          FitCache& fit) {
  Sums sums;
  for (const ShapeGroup& group : groups) {
    if (group.shape->device == cluster::kPods) continue;
    sums[group.shape->device].Add(group, group.shape->device_amount, base, fit);
  }
  for (const auto& [device, sum] : sums) {
    const std::int64_t free = sum.Free(base, device);
    if (sum.wanted <= free) continue;
    return {.reason = ReasonId::kInsufficientDevices,
            .want = sum.wanted,
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
    // Names the member if the members differ. (A message for members of one shape is also given to
    // other workloads of that shape, so it has no names.)
    const std::string who = groups.size() > 1       ? group.pods.front()->object.meta.name
                            : group.pods.size() > 1 ? "Each member"
                                                    : "It";
    if (Verdict verdict = JudgeGroup(request, group, base, fit, who);
        verdict.reason != ReasonId::kNone) {
      if (verdict.reason == ReasonId::kNoMatchingNodes && groups.size() > 1) {
        verdict.subject = group.pods.front()->object.meta.name;
      }
      return verdict;
    }
  }
  if (groups.size() > 1) {
    Verdict others = JudgeSumOfAll(groups, base, fit);
    if (others.reason == ReasonId::kNeverFits) return others;
    Verdict devices = JudgeSumOfDevices(groups, base, fit);
    if (devices.reason != ReasonId::kNone) return devices;
    if (others.reason != ReasonId::kNone) return others;
  }
  if (!request.topology_required.empty()) {
    const ShapeGroup& group = groups.front();
    int best = 0;
    int best_untried = 0;  // without the nodes that are avoided
    for (const auto& [name, nodes] : GroupBy(base.store(), request.topology_required)) {
      const Count count = CountRoom(request, group, base, fit, nodes);
      best = std::max(best, count.with_ports);
      best_untried = std::max(best_untried, count.with_ports - count.avoided);
    }
    const int want = static_cast<int>(group.pods.size());
    if (best >= want && best_untried < want) {
      return {.reason = ReasonId::kRefusedByScheduler, .want = want};
    }
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
