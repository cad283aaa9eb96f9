#include "policy/rank_order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "cluster/dialects.h"
#include "policy/neighbours.h"

namespace berth::policy {
namespace {

using cluster::NodeIndex;

constexpr int kNone = std::numeric_limits<int>::max();

/// Each is an index of a whole set of pods; each set counts its own pods from 0.
constexpr std::array<std::string_view, 3> kGroupKeys{"jobset.sigs.k8s.io/job-global-index",
                                                     "jobset.sigs.k8s.io/job-index",
                                                     "leaderworkerset.sigs.k8s.io/group-index"};

int GroupIndex(const kube::StringMap& labels) {
  for (const std::string_view key : kGroupKeys) {
    const auto label = labels.find(key);
    if (label == labels.end()) continue;
    if (const auto index = cluster::ReadIndex(label->second)) return *index;
  }
  return kNone;
}

/// Reassigns the nodes of the shape's members in the order of the tree.
void Deal(const cluster::PodShape& shape, const cluster::Store& store,
          const cluster::PodInfo* fixed, std::vector<Placed>& placed) {
  std::vector<Placed*> slots;
  std::vector<NodeIndex> nodes;
  for (Placed& p : placed) {
    if (p.pod->shape.get() != &shape || p.pod == fixed) continue;
    slots.push_back(&p);
    nodes.push_back(p.node);
  }
  std::ranges::sort(nodes, {}, [&store](NodeIndex node) { return store.rank(node); });
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i]->node = nodes[i];
}

/// Whether these members repel, and are repelled by, the same pods: then they may change places.
bool AllAlike(const ShapeGroup& group, const Overlay& base, NeighbourCache& cache) {
  const Neighbours neighbours(*group.pods.front(), base, cache);
  return std::ranges::all_of(group.pods,
                             [&](const cluster::PodInfo* pod) { return neighbours.SameFor(*pod); });
}

/// Members of one shape can differ in their labels, and so in the pods that they repel. Host ports
/// belong to the shape.
bool AllAllowed(std::span<const ShapeGroup> groups, const Overlay& base, NeighbourCache& cache,
                std::span<const Placed> placed) {
  const bool matter =
      std::ranges::any_of(placed, [&](const Placed& p) { return NeighboursMatter(*p.pod, base); });
  if (!matter || (groups.size() == 1 && AllAlike(groups.front(), base, cache))) return true;
  Overlay after = base;
  for (const Placed& p : placed) after.Place(*p.pod, p.node, p.devices);
  return std::ranges::all_of(
      placed, [&](const Placed& p) { return NeighboursAllow(*p.pod, after, cache, p.node); });
}

std::unordered_map<const cluster::PodShape*, std::ptrdiff_t> CountByShape(
    std::span<const cluster::PodInfo* const> pods) {
  std::unordered_map<const cluster::PodShape*, std::ptrdiff_t> counts;
  for (const cluster::PodInfo* pod : pods) ++counts[pod->shape.get()];
  return counts;
}

}  // namespace

std::vector<const cluster::PodInfo*> RankOrder(
    const std::vector<const cluster::PodInfo*>& members) {
  if (members.size() < 2) return members;
  struct Place {
    bool asks_device;
    int group;
    int index;
    const cluster::PodInfo* pod;
  };
  std::vector<Place> order;
  order.reserve(members.size());
  for (const cluster::PodInfo* pod : members) {
    order.push_back({pod->shape->asks_device, GroupIndex(pod->object.meta.labels),
                     pod->claims->rank.value_or(kNone), pod});
  }
  std::ranges::stable_sort(order, {}, [](const Place& place) {
    return std::tie(place.asks_device, place.group, place.index);
  });
  std::vector<const cluster::PodInfo*> pods;
  pods.reserve(order.size());
  for (const Place& place : order) pods.push_back(place.pod);
  return pods;
}

bool HasMoreThanAnnounced(const cluster::Workload& workload) {
  return static_cast<int>(workload.members.size()) + workload.finished > workload.size;
}

void PutImpossibleLast(const EmptyPlaces& places, std::vector<const cluster::PodInfo*>& pods) {
  const auto counts = CountByShape(pods);
  std::unordered_map<const cluster::PodShape*, std::ptrdiff_t> left;
  std::ranges::stable_partition(pods, [&](const cluster::PodInfo* pod) {
    const auto [it, fresh] = left.try_emplace(pod->shape.get());
    if (fresh) it->second = places(pod->shape, counts.at(pod->shape.get()));
    return it->second-- > 0;
  });
}

void PutUnlikelyLast(const EmptyPlaces& places, std::vector<const cluster::PodInfo*>& pods) {
  const auto counts = CountByShape(pods);
  std::ranges::stable_partition(pods, [&](const cluster::PodInfo* pod) {
    // A launcher is the only one of its shape, too.
    return !pod->shape->asks_device || counts.at(pod->shape.get()) > 1;
  });
  PutImpossibleLast(places, pods);
}

void AlignRanks(std::span<const cluster::PodInfo* const> members,
                std::span<const ShapeGroup> groups, const Overlay& base, NeighbourCache& cache,
                const cluster::PodInfo* fixed, std::vector<Placed>& placed) {
  std::unordered_map<const cluster::PodInfo*, std::size_t> rank;
  for (std::size_t i = 0; i < members.size(); ++i) rank[members[i]] = i;
  std::ranges::sort(placed, {}, [&](const Placed& p) { return rank[p.pod]; });
  const std::vector<Placed> chosen = placed;
  for (const ShapeGroup& group : groups) {
    if (group.shape->share == 0 && !MayAllowLater(*group.shape))
      Deal(*group.shape, base.store(), fixed, placed);
  }
  if (!AllAllowed(groups, base, cache, placed)) placed = chosen;
}

}  // namespace berth::policy
