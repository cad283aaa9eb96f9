#include "policy/placement.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "policy/neighbours.h"
#include "policy/shortage.h"

namespace berth::policy {
namespace {

using cluster::NodeIndex;
using cluster::PodInfo;

using Nodes = std::span<const NodeIndex>;

/// Same score: the node that comes first in the hashed order.
struct Candidate {
  Score score;
  int rank;
  NodeIndex node;
  bool operator<(const Candidate& other) const {  // for a max-heap
    return score != other.score ? score < other.score : rank > other.rank;
  }
};

class Placer {
 public:
  Placer(const PlacementRequest& request, const Overlay& base, Scorer& scorer)
      : request_(request), base_(base), scorer_(scorer), groups_(GroupByShape(request.pods)) {}

  Placement Run() {
    const int all = static_cast<int>(request_.pods.size());
    const int min = std::min(std::max(1, request_.min), all);
    auto found = TryCount(all);
    if (!found && min < all) {
      found = TryCount(min);
      // Elastic: as many as fit, found by halving.
      for (int low = min, high = all; found && high - low > 1;) {
        const int middle = low + (high - low) / 2;
        auto more = TryCount(middle);
        (more ? low : high) = middle;
        if (more) found = std::move(more);
      }
    }
    Placement placement;
    if (found) {
      placement.placed = std::move(*found);
    } else {
      if (min < all) groups_ = GroupByShape(FirstPods(min));
      placement.verdict = ExplainShortage(request_, groups_, base_, scorer_.fit());
    }
    return placement;
  }

 private:
  std::vector<const PodInfo*> FirstPods(int count) const {
    return {request_.pods.begin(), request_.pods.begin() + count};
  }

  std::optional<std::vector<Placed>> TryCount(int count) {
    groups_ = GroupByShape(FirstPods(count));
    if (count == 1 && request_.topology_required.empty() &&
        !Constrained(*request_.pods.front(), base_)) {
      return PlaceSingle();
    }
    NodeGroups bounds;
    if (request_.topology_required.empty()) {
      bounds.owned.emplace("", AllNodes());
      bounds.Index();
    } else {
      bounds = GroupBy(base_.store(), request_.topology_required);
    }
    const auto preferred = PreferredLevels(count);
    for (std::size_t i = 0; i < preferred.size(); ++i) {
      const auto fill = FillKeys(std::span(preferred).first(i));
      if (auto placed = TryDomains(Split(bounds, preferred[i]), fill)) return placed;
    }
    return TryDomains(bounds, FillKeys(preferred));
  }

  static bool Constrained(const PodInfo& pod, const Overlay& overlay) {
    return NeighboursMatter(pod, overlay) || !pod.object.spec->host_ports.empty();
  }

  /// The common case, without a heap: one pod, anywhere.
  std::optional<std::vector<Placed>> PlaceSingle() {
    const PodInfo& pod = *request_.pods.front();
    ShapeScores& scores = scorer_.For(pod.shape);
    std::optional<Candidate> best;
    for (const auto& node : base_.store().nodes()) {
      const auto score = scores.Of(base_, node->index, scorer_.law(), scorer_.fit());
      if (!score || !Allowed(pod, node->index)) continue;
      const Candidate candidate{*score, base_.store().rank(node->index), node->index};
      if (!best || *best < candidate) best = candidate;
    }
    if (!best) return std::nullopt;
    return std::vector<Placed>{{&pod, best->node}};
  }

  std::vector<NodeIndex> AllNodes() const {
    std::vector<NodeIndex> nodes;
    for (const auto& node : base_.store().nodes()) {
      if (node->present) nodes.push_back(node->index);
    }
    return nodes;
  }

  bool Allowed(const PodInfo& pod, NodeIndex node) const {
    if (request_.allowed && !request_.allowed(node)) return false;
    return std::ranges::none_of(request_.avoid, [&](const cluster::Avoid& avoid) {
      return avoid.node == node && avoid.shape == pod.shape.get();
    });
  }

  /// Levels to keep the members together in, narrowest first: the asked one and all wider ones
  /// inside the required one. Nobody asked: a gang of several members still likes to be close.
  std::vector<std::string> PreferredLevels(int count) const {
    const auto& levels = base_.store().policy().levels;
    const int required = LevelIndex(base_.store(), request_.topology_required);
    int from = -1;
    std::vector<std::string> result;
    if (!request_.topology_preferred.empty()) {
      from = LevelIndex(base_.store(), request_.topology_preferred);
      if (from < 0) result.push_back(request_.topology_preferred);
    } else if (count > 1 && base_.store().policy().placement.score.topology > 0) {
      from = static_cast<int>(levels.size()) - 1;
    }
    for (int level = from; level > required && level >= 0; --level) {
      result.push_back(levels[static_cast<std::size_t>(level)].name);
    }
    return result;
  }

  /// What to cut a domain along when no single part of it has room: the preferred levels inside it,
  /// widest first, but for the host, which the score packs by itself.
  std::vector<int> FillKeys(std::span<const std::string> preferred) const {
    std::vector<int> keys;
    const int host = static_cast<int>(base_.store().policy().levels.size()) - 1;
    for (const std::string& name : preferred) {
      const int level = LevelIndex(base_.store(), name);
      if (level >= 0 && level != host) keys.push_back(level);
    }
    std::ranges::reverse(keys);
    return keys;
  }

  /// The parts of each domain that share a value of `level`.
  NodeGroups Split(const NodeGroups& bounds, const std::string& level) const {
    NodeGroups parts = GroupBy(base_.store(), level);
    if (request_.topology_required.empty()) return parts;
    NodeGroups result;
    for (const auto& [outer, nodes] : bounds) {
      const std::set<NodeIndex> inside(nodes.begin(), nodes.end());
      for (const auto& [name, part] : parts) {
        std::vector<NodeIndex> both;
        std::ranges::copy_if(part, std::back_inserter(both),
                             [&inside](NodeIndex node) { return inside.contains(node); });
        if (both.empty()) continue;
        std::string key(outer);
        key += '|';
        key += name;
        result.owned.emplace(std::move(key), std::move(both));
      }
    }
    result.Index();
    return result;
  }

  /// Room for `group` in these nodes, counted up to what the group needs.
  int Room(const ShapeGroup& group, Nodes nodes) const {
    const int need = static_cast<int>(group.pods.size());
    int room = 0;
    for (const NodeIndex node : nodes) {
      if (room >= need) break;
      if (!scorer_.fit().Fits(*group.shape, base_.store().node(node)) ||
          !Allowed(*group.pods.front(), node)) {
        continue;
      }
      room += Capacity(*group.shape, base_, node, need - room);
    }
    return room;
  }

  std::int64_t FreeDevices(Nodes nodes) const {
    const cluster::ResourceId device = groups_.front().shape->device;
    std::int64_t free = 0;
    for (const NodeIndex node : nodes) free += std::max<std::int64_t>(0, base_.Free(node, device));
    return free;
  }

  /// Tries every domain, tightest first. `fill` names narrower levels, widest first, whose domains
  /// are filled one after another, those with the most room first, so that few of them are used.
  std::optional<std::vector<Placed>> TryDomains(const NodeGroups& domains,
                                                const std::vector<int>& fill = {}) {
    struct Choice {
      std::int64_t free;
      std::uint64_t hash;
      std::string_view name;
      Nodes nodes;
    };
    std::vector<Choice> choices;
    for (const auto& [name, nodes] : domains) {
      const bool fits = std::ranges::all_of(groups_, [&](const ShapeGroup& group) {
        return Room(group, nodes) >= static_cast<int>(group.pods.size());
      });
      if (fits) choices.push_back({FreeDevices(nodes), cluster::NodeHash(name), name, nodes});
    }
    std::ranges::sort(choices, [](const Choice& a, const Choice& b) {
      return std::tie(a.free, a.hash, a.name) < std::tie(b.free, b.hash, b.name);
    });
    constexpr std::size_t kMaxTries = 64;
    if (choices.size() > kMaxTries) choices.resize(kMaxTries);
    for (const Choice& choice : choices) {
      if (auto placed = TryNodes(choice.nodes, fill)) return placed;
    }
    return std::nullopt;
  }

  /// Members of several shapes: the order in which shapes are placed can matter; try a few.
  std::optional<std::vector<Placed>> TryNodes(Nodes nodes, const std::vector<int>& fill) {
    std::vector<std::size_t> order(groups_.size());
    std::iota(order.begin(), order.end(), 0U);
    constexpr int kMaxOrders = 6;
    for (int attempt = 0; attempt < kMaxOrders; ++attempt) {
      if (auto placed = Fill(order, nodes, fill)) return placed;
      if (!std::ranges::next_permutation(order).found) break;
    }
    return std::nullopt;
  }

  std::optional<std::vector<Placed>> Fill(const std::vector<std::size_t>& order, Nodes nodes,
                                          const std::vector<int>& fill) {
    Overlay overlay = base_;
    std::vector<Placed> placed;
    for (const std::size_t index : order) {
      const ShapeGroup& group = groups_[index];
      std::size_t next = 0;
      for (const auto& part : Parts(group, nodes, fill, overlay)) {
        PlaceGroup(group, next, part, overlay, placed);
        if (next == group.pods.size()) break;
      }
      if (next != group.pods.size()) return std::nullopt;
    }
    AlignRanks(placed, overlay);
    return placed;
  }

  /// `nodes` cut along `fill`; a wide part with more room comes first, inside it a narrow one.
  std::vector<std::vector<NodeIndex>> Parts(const ShapeGroup& group, Nodes nodes,
                                            const std::vector<int>& fill,
                                            const Overlay& overlay) const {
    // Affinity and spread decide themselves how members relate.
    if (fill.empty() || group.pods.size() == 1 || MayAllowLater(*group.shape)) {
      return {{nodes.begin(), nodes.end()}};
    }
    using Path = std::vector<cluster::DomainId>;
    std::map<Path, std::vector<NodeIndex>> cut;
    std::map<Path, int> room;  // of every prefix of a path
    for (const NodeIndex index : nodes) {
      const cluster::NodeInfo& node = base_.store().node(index);
      const int here = scorer_.fit().Fits(*group.shape, node)
                           ? Capacity(*group.shape, overlay, index, cluster::kMaxGangSize)
                           : 0;
      Path path;
      for (const int level : fill) {
        path.push_back(node.domains[static_cast<std::size_t>(level)]);
        room[path] += here;
      }
      cut[path].push_back(index);
    }
    std::vector<std::pair<std::vector<std::pair<int, cluster::DomainId>>, Path>> order;
    for (const auto& [path, part] : cut) {
      std::vector<std::pair<int, cluster::DomainId>> key;
      Path prefix;
      for (const cluster::DomainId domain : path) {
        prefix.push_back(domain);
        key.emplace_back(-room[prefix], domain);
      }
      order.emplace_back(std::move(key), path);
    }
    std::ranges::sort(order);
    std::vector<std::vector<NodeIndex>> parts;
    for (const auto& [key, path] : order) parts.push_back(std::move(cut[path]));
    return parts;
  }

  /// Places members of the group from `next` on, while there is room.
  void PlaceGroup(const ShapeGroup& group, std::size_t& next, const std::vector<NodeIndex>& nodes,
                  Overlay& overlay, std::vector<Placed>& placed) {
    ShapeScores& scores = scorer_.For(group.shape);
    const auto score = [&](NodeIndex node) {
      return scores.Of(overlay, node, scorer_.law(), scorer_.fit());
    };
    std::vector<Candidate> heap;
    for (const NodeIndex node : nodes) {
      if (!Allowed(*group.pods.front(), node)) continue;
      if (const auto s = score(node)) heap.push_back({*s, base_.store().rank(node), node});
    }
    std::make_heap(heap.begin(), heap.end());
    std::vector<Candidate> refused;  // by neighbours, for the member at hand
    const bool constrained = Constrained(*group.pods.front(), overlay);
    while (next < group.pods.size() && !heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate best = heap.back();
      heap.pop_back();
      const PodInfo& pod = *group.pods[next];
      if (constrained &&
          !(NeighboursAllow(pod, overlay, best.node) && HostPortsFree(pod, overlay, best.node))) {
        refused.push_back(best);
        continue;
      }
      overlay.Place(pod, best.node);
      placed.push_back({&pod, best.node});
      ++next;
      if (const auto again = score(best.node)) {
        heap.push_back({*again, best.rank, best.node});
        std::push_heap(heap.begin(), heap.end());
      }
      if (!MayAllowLater(*group.shape)) refused.clear();
      for (const Candidate& candidate : std::exchange(refused, {})) {
        heap.push_back(candidate);
        std::push_heap(heap.begin(), heap.end());
      }
    }
  }

  /// Affinity and spread may open a node that was closed before; anti-affinity and ports never do.
  static bool MayAllowLater(const cluster::PodShape& shape) {
    return !shape.spec->required_pod_affinity.empty() || !shape.spec->topology_spread.empty();
  }

  /// Neighbours in rank become neighbours in the tree: inside one shape, where members are
  /// interchangeable, the chosen nodes are dealt out in tree order.
  void AlignRanks(std::vector<Placed>& placed, const Overlay& overlay) const {
    const cluster::Store& store = base_.store();
    const auto tree_order = [&](NodeIndex a, NodeIndex b) {
      const auto& da = store.node(a).domains;
      const auto& db = store.node(b).domains;
      return da != db ? da < db : store.rank(a) < store.rank(b);
    };
    std::map<const PodInfo*, std::size_t> rank;
    for (std::size_t i = 0; i < request_.pods.size(); ++i) rank[request_.pods[i]] = i;
    for (const ShapeGroup& group : groups_) {
      if (Constrained(*group.pods.front(), overlay)) continue;
      std::vector<NodeIndex> nodes;
      for (const Placed& p : placed) {
        if (p.pod->shape == group.shape) nodes.push_back(p.node);
      }
      std::ranges::stable_sort(nodes, tree_order);
      std::vector<Placed*> slots;
      for (Placed& p : placed) {
        if (p.pod->shape == group.shape) slots.push_back(&p);
      }
      std::ranges::sort(slots, {}, [&](const Placed* p) { return rank[p->pod]; });
      for (std::size_t i = 0; i < slots.size(); ++i) slots[i]->node = nodes[i];
    }
    std::ranges::sort(placed, {}, [&](const Placed& p) { return rank[p.pod]; });
  }

  const PlacementRequest& request_;
  const Overlay& base_;
  Scorer& scorer_;
  std::vector<ShapeGroup> groups_;
};

}  // namespace

int LevelIndex(const cluster::Store& store, const std::string& level_or_label) {
  const auto& levels = store.policy().levels;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].name == level_or_label || levels[i].node_label == level_or_label) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void NodeGroups::Index() {
  groups.clear();
  for (const auto& [name, nodes] : owned) groups.push_back({name, nodes});
}

NodeGroups GroupBy(const cluster::Store& store, const std::string& level_or_label) {
  NodeGroups result;
  const int level = LevelIndex(store, level_or_label);
  if (level >= 0) {
    for (const cluster::Domain& domain : store.domains()) {
      if (domain.level == level) result.groups.push_back({domain.name, domain.nodes});
    }
    return result;
  }
  for (const auto& node : store.nodes()) {
    const auto label = node->object.meta.labels.find(level_or_label);
    if (node->present && label != node->object.meta.labels.end()) {
      result.owned[label->second].push_back(node->index);
    }
  }
  result.Index();
  return result;
}

Placement Place(const PlacementRequest& request, const Overlay& base, Scorer& scorer) {
  scorer.Refresh();
  return Placer(request, base, scorer).Run();
}

}  // namespace berth::policy
