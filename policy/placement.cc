#include "policy/placement.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <tuple>

#include "policy/neighbours.h"
#include "policy/rank_order.h"
#include "policy/shortage.h"

namespace berth::policy {
namespace {

using cluster::NodeIndex;
using cluster::PodInfo;

using Nodes = std::span<const NodeIndex>;

/// On equal scores, the node with the lower tie wins; it comes first in the hashed order.
struct Candidate {
  Score score;
  std::uint64_t tie;
  NodeIndex node;
  bool operator<(const Candidate& other) const {  // for a max-heap
    return score != other.score ? score < other.score : tie > other.tie;
  }
};

std::uint64_t Mix(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t hash = (seed ^ value) * 0xff51afd7ed558ccdU;
  hash = (hash ^ hash >> 33U) * 0xc4ceb9fe1a85ec53U;
  return hash ^ hash >> 33U;
}

class Placer {
 public:
  Placer(const PlacementRequest& request, const Overlay& base, Scorer& scorer)
      : request_(request), base_(base), scorer_(scorer) {}

  Placement Run() {
    const int all = static_cast<int>(request_.pods.size());
    const int min = std::min(std::max(1, request_.min), all);
    auto found = TryCount(all);
    if (!found && min < all) {
      found = TryCount(min);
      // Elastic: as many as fit, found by bisection.
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
    } else if (request_.explain) {
      groups_ = Groups(min);
      placement.verdict = ExplainShortage(request_, groups_, base_, scorer_.fit());
    }
    return placement;
  }

 private:
  std::vector<const PodInfo*> FirstPods(int count) const {
    return {request_.pods.begin(), request_.pods.begin() + count};
  }

  /// By shape; the asking pod comes first, in a group of its own.
  std::vector<ShapeGroup> Groups(int count) const {
    std::vector<ShapeGroup> groups = GroupByShape(FirstPods(count));
    for (std::size_t i = 0; request_.asking != nullptr && i < groups.size(); ++i) {
      if (std::erase(groups[i].pods, request_.asking) == 0) continue;
      const ShapeGroup alone{.shape = groups[i].shape, .pods = {request_.asking}};
      if (groups[i].pods.empty()) groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
      groups.insert(groups.begin(), alone);
      break;
    }
    return groups;
  }

  std::optional<std::vector<Placed>> TryCount(int count) {
    if (count == 1 && request_.topology_required.empty() &&
        !Constrained(*request_.pods.front(), base_)) {
      return PlaceSingle();
    }
    groups_ = Groups(count);
    CountRooms();
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

  /// Without a look at each of thousands of members for every domain, where their shape says it.
  static bool Constrained(const ShapeGroup& group, const Overlay& overlay) {
    const cluster::PodShape& shape = *group.shape;
    if (shape.has_pod_constraints || !shape.spec->host_ports.empty()) return true;
    if (!overlay.Repels() && overlay.store().repellers().empty()) return false;
    return std::ranges::any_of(group.pods,
                               [&](const PodInfo* pod) { return Constrained(*pod, overlay); });
  }

  std::uint64_t Tie(NodeIndex node) const {
    if (request_.tie_seed == 0) return static_cast<std::uint64_t>(base_.store().rank(node));
    return Mix(request_.tie_seed, base_.store().node(node).hash);
  }

  /// One of the devices that are equally good.
  topology::DeviceMask OneOf(topology::DeviceMask devices) const {
    unsigned left = devices;
    if (request_.tie_seed != 0 && left != 0) {
      const auto choices = static_cast<unsigned>(std::popcount(left));
      for (auto skip = Mix(request_.tie_seed, 0) % choices; skip > 0; --skip) left &= left - 1U;
    }
    return static_cast<topology::DeviceMask>(left & (~left + 1U));
  }

  /// The common case, without a heap: one pod, anywhere.
  std::optional<std::vector<Placed>> PlaceSingle() {
    const PodInfo& pod = *request_.pods.front();
    const Scorer::View view = scorer_.For(pod.shape, base_);
    Candidate best{.score = ShapeScores::kNoRoom, .tie = 0, .node = cluster::kNoNode};
    const auto consider = [&](NodeIndex node, Score score) {
      const Candidate candidate{.score = score, .tie = Tie(node), .node = node};
      if (best < candidate && Allowed(pod, node)) best = candidate;
    };
    const bool touched = base_.TouchedAny();
    for (std::size_t i = 0; i < view.nodes(); ++i) {
      const auto node = static_cast<NodeIndex>(i);
      const Score score = touched ? view.Of(node) : view.Untouched(i);
      if (score >= best.score && score != ShapeScores::kNoRoom) consider(node, score);
    }
    if (best.node == cluster::kNoNode) return std::nullopt;
    return std::vector<Placed>{{&pod, best.node, OneOf(view.Devices(best.node))}};
  }

  std::vector<NodeIndex> AllNodes() const {
    std::vector<NodeIndex> nodes;
    for (const auto& node : base_.store().nodes()) {
      if (node->present) nodes.push_back(node->index);
    }
    return nodes;
  }

  bool Allowed(const PodInfo& pod, NodeIndex node) const {
    if (request_.flavor && pod.shape->asks_device &&
        base_.store().node(node).flavor != *request_.flavor)
      return false;
    if (request_.allowed && !request_.allowed(node)) return false;
    if (request_.payable && !request_.payable(pod, node)) return false;
    if (&pod == request_.asking && request_.asking_allowed && !request_.asking_allowed(node)) {
      return false;
    }
    return std::ranges::none_of(request_.avoid, [&](const Avoid& avoid) {
      return avoid.node == node && avoid.shape == pod.shape;
    });
  }

  /// Levels to keep the members together in, narrowest first: the preferred one and all wider ones
  /// inside the required one. A gang of several members is kept close even if it asks for no level.
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

  /// The levels to divide a domain by when no single part of it has room: the preferred levels
  /// inside it, widest first, except the host, which the score packs by itself.
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
    std::vector<const NodeGroup*> outer(base_.store().nodes().size(), nullptr);
    for (const NodeGroup& bound : bounds) {
      for (const NodeIndex node : bound.nodes) outer[static_cast<std::size_t>(node)] = &bound;
    }
    NodeGroups result;
    for (const auto& [name, part] : parts) {
      const NodeGroup* last = nullptr;
      std::vector<NodeIndex>* both = nullptr;
      for (const NodeIndex node : part) {
        const NodeGroup* bound = outer[static_cast<std::size_t>(node)];
        if (bound == nullptr) continue;
        if (bound != last) {
          std::string key(bound->name);
          key += '|';
          key += name;
          both = &result.owned[std::move(key)];
          last = bound;
        }
        both->push_back(node);
      }
    }
    result.Index();
    return result;
  }

  /// Counts, once for all levels, how many members of each group every node takes.
  void CountRooms() {
    rooms_.clear();
    most_on_one_.clear();
    for (const ShapeGroup& group : groups_) {
      const Scorer::View view = scorer_.For(group.shape, base_);
      const int need = static_cast<int>(group.pods.size());
      std::vector<int>& room = rooms_.emplace_back(base_.store().nodes().size(), 0);
      int most = 0;
      for (std::size_t i = 0; i < room.size(); ++i) {
        const auto node = static_cast<NodeIndex>(i);
        room[i] = std::min(need, view.Room(node));
        if (room[i] > 0 && !Allowed(*group.pods.front(), node)) room[i] = 0;
        most = std::max(most, room[i]);
      }
      most_on_one_.push_back(most);
    }
  }

  /// Whether each group by itself finds room in these nodes.
  bool EachFits(Nodes nodes) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto need = static_cast<std::int64_t>(groups_[g].pods.size());
      if (static_cast<std::int64_t>(nodes.size()) * most_on_one_[g] < need) return false;
      std::int64_t room = 0;
      for (const NodeIndex node : nodes) {
        room += rooms_[g][static_cast<std::size_t>(node)];
        if (room >= need) break;
      }
      if (room < need) return false;
    }
    return true;
  }

  std::int64_t FreeDevices(Nodes nodes, const Scorer::View& view) const {
    const cluster::ResourceId device = groups_.front().shape->device;
    std::int64_t free = 0;
    for (const NodeIndex node : nodes) free += std::max<std::int64_t>(0, view.Free(node, device));
    return free;
  }

  /// The number of pairs among the members of the first group that would share a domain of `level`
  /// if the domains with the most room were filled first.
  std::int64_t PairsTogether(Nodes nodes, int level) const {
    std::map<cluster::DomainId, std::int64_t> rooms;
    for (const NodeIndex node : nodes) {
      const auto domain = base_.store().node(node).domains[static_cast<std::size_t>(level)];
      if (domain != cluster::kNoDomain) rooms[domain] += rooms_[0][static_cast<std::size_t>(node)];
    }
    std::vector<std::int64_t> order;
    for (const auto& [domain, room] : rooms) order.push_back(room);
    std::ranges::sort(order, std::ranges::greater{});
    auto left = static_cast<std::int64_t>(groups_.front().pods.size());
    std::int64_t pairs = 0;
    for (const std::int64_t room : order) {
      const std::int64_t here = std::min(room, left);
      pairs += here * (here - 1) / 2;
      left -= here;
    }
    return pairs;
  }

  /// Tries every domain: first domains in which most members would share a domain of the narrowest
  /// level of `fill`, then the tightest. `fill` names narrower levels, widest first, whose domains
  /// are filled one after another, domains with the most room first, so that few of them are used.
  std::optional<std::vector<Placed>> TryDomains(const NodeGroups& domains,
                                                const std::vector<int>& fill = {}) {
    struct Choice {
      std::int64_t together;
      std::int64_t free;
      std::uint64_t hash;
      std::string_view name;
      Nodes nodes;
    };
    std::vector<Choice> choices;
    const Scorer::View view = scorer_.For(groups_.front().shape, base_);
    for (const auto& [name, nodes] : domains) {
      if (!EachFits(nodes)) continue;
      choices.push_back({.together = fill.empty() ? 0 : PairsTogether(nodes, fill.back()),
                         .free = FreeDevices(nodes, view),
                         .hash = cluster::NodeHash(name),
                         .name = name,
                         .nodes = nodes});
    }
    constexpr std::size_t kMaxTries = 64;
    const auto tries = static_cast<std::ptrdiff_t>(std::min(choices.size(), kMaxTries));
    std::ranges::partial_sort(choices, choices.begin() + tries,
                              [](const Choice& a, const Choice& b) {
                                return std::tie(b.together, a.free, a.hash, a.name) <
                                       std::tie(a.together, b.free, b.hash, b.name);
                              });
    choices.resize(static_cast<std::size_t>(tries));
    for (const Choice& choice : choices) {
      if (auto placed = TryNodes(choice.nodes, fill)) return placed;
    }
    return std::nullopt;
  }

  /// Members of several shapes: the order in which shapes are placed can matter, so it tries a few.
  /// Shapes without devices come last: they are released when the others have come. If that fails,
  /// they come first, unless members depend on others: they may match few nodes only.
  std::optional<std::vector<Placed>> TryNodes(Nodes nodes, const std::vector<int>& fill) {
    std::vector<std::size_t> order(groups_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto launchers = std::ranges::stable_partition(
        order, [this](std::size_t i) { return groups_[i].shape->asks_device; });
    const bool devices = launchers.begin() != order.begin();
    const std::span<std::size_t> first(order.begin(), devices ? launchers.begin() : order.end());
    constexpr int kMaxOrders = 6;
    for (int attempt = 0; attempt < kMaxOrders; ++attempt) {
      if (auto placed = Fill(order, nodes, fill)) return placed;
      if (!std::ranges::next_permutation(first).found) break;
    }
    const bool depends = std::ranges::any_of(
        groups_, [](const ShapeGroup& group) { return group.shape->has_pod_constraints; });
    if (!devices || launchers.empty() || depends) return std::nullopt;
    std::ranges::sort(first);
    std::ranges::rotate(order, launchers.begin());
    return Fill(order, nodes, fill);
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
    AlignRanks(request_.pods, groups_, base_, scorer_.neighbours(),
               request_.asking_allowed ? request_.asking : nullptr, placed);
    return placed;
  }

  /// `nodes` divided by the levels of `fill`: wide parts with more room first, and inside them
  /// narrow ones.
  std::vector<std::vector<NodeIndex>> Parts(const ShapeGroup& group, Nodes nodes,
                                            const std::vector<int>& fill,
                                            const Overlay& overlay) const {
    // Affinity and spread themselves decide how members relate.
    if (fill.empty() || group.pods.size() == 1 || MayAllowLater(*group.shape)) {
      return {{nodes.begin(), nodes.end()}};
    }
    // A tree of domains, level by level: each node of `nodes` belongs to one path.
    struct Part {
      std::size_t parent;
      cluster::DomainId domain;
      std::int64_t room = 0;
      std::vector<NodeIndex> nodes{};  // of the narrowest only
      std::vector<std::size_t> parts{};
    };
    std::vector<Part> tree{{.parent = 0, .domain = cluster::kNoDomain}};
    std::map<std::pair<std::size_t, cluster::DomainId>, std::size_t> at;
    std::vector<std::size_t> last(fill.size(), 0);  // the path of the previous node
    const Scorer::View view = scorer_.For(group.shape, overlay);
    for (const NodeIndex index : nodes) {
      const cluster::NodeInfo& node = base_.store().node(index);
      const int room = view.Room(index);
      std::size_t part = 0;
      for (std::size_t i = 0; i < fill.size(); ++i) {
        const cluster::DomainId domain = node.domains[static_cast<std::size_t>(fill[i])];
        if (last[i] == 0 || tree[last[i]].parent != part || tree[last[i]].domain != domain) {
          const auto [it, fresh] = at.try_emplace({part, domain}, tree.size());
          if (fresh) {
            tree[part].parts.push_back(it->second);
            tree.push_back({.parent = part, .domain = domain});
          }
          last[i] = it->second;
        }
        part = last[i];
        tree[part].room += room;
      }
      tree[part].nodes.push_back(index);
    }
    std::vector<std::vector<NodeIndex>> parts;
    const auto walk = [&](const auto& self, std::size_t part) -> void {
      std::ranges::sort(tree[part].parts, [&](std::size_t a, std::size_t b) {
        // Nodes without the label share no known domain: they come last.
        const auto order = [&](std::size_t i) {
          const bool nowhere = tree[i].domain == cluster::kNoDomain;
          return std::tuple(nowhere, -tree[i].room, tree[i].domain);
        };
        return order(a) < order(b);
      });
      if (!tree[part].nodes.empty()) parts.push_back(std::move(tree[part].nodes));
      for (const std::size_t inner : tree[part].parts) self(self, inner);
    };
    walk(walk, 0);
    return parts;
  }

  /// Places members of the group from `next` on, while there is room.
  void PlaceGroup(const ShapeGroup& group, std::size_t& next, const std::vector<NodeIndex>& nodes,
                  Overlay& overlay, std::vector<Placed>& placed) {
    const Scorer::View view = scorer_.For(group.shape, overlay);
    std::vector<Candidate> heap;
    for (const NodeIndex node : nodes) {
      const Score score = view.Of(node);
      if (score != ShapeScores::kNoRoom && Allowed(*group.pods.front(), node)) {
        heap.push_back({score, Tie(node), node});
      }
    }
    std::make_heap(heap.begin(), heap.end());
    std::vector<Candidate> refused;  // by neighbours, for the member at hand
    const bool constrained = Constrained(group, overlay);
    std::optional<Neighbours> neighbours;  // of the member at hand, and of members like it
    while (next < group.pods.size() && !heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate best = heap.back();
      heap.pop_back();
      const PodInfo& pod = *group.pods[next];
      if (constrained) {
        if (!neighbours || !neighbours->SameFor(pod)) {
          neighbours.emplace(pod, overlay, scorer_.neighbours());
        }
        if (!neighbours->Allow(best.node) || !HostPortsFree(pod, overlay, best.node)) {
          refused.push_back(best);
          continue;
        }
      }
      const topology::DeviceMask devices = OneOf(view.Devices(best.node));
      overlay.Place(pod, best.node, devices);
      if (neighbours) neighbours->Add(pod, best.node);
      placed.push_back({&pod, best.node, devices});
      ++next;
      if (const Score again = view.Of(best.node); again != ShapeScores::kNoRoom) {
        heap.push_back({again, best.tie, best.node});
        std::push_heap(heap.begin(), heap.end());
      }
      if (!MayAllowLater(*group.shape)) refused.clear();
      for (const Candidate& candidate : std::exchange(refused, {})) {
        heap.push_back(candidate);
        std::push_heap(heap.begin(), heap.end());
      }
    }
  }

  const PlacementRequest& request_;
  const Overlay& base_;
  Scorer& scorer_;
  std::vector<ShapeGroup> groups_;
  std::vector<std::vector<int>> rooms_;  ///< By group, then node: what it takes, up to the need.
  std::vector<int> most_on_one_;         ///< By group.
};

}  // namespace

Placement Place(const PlacementRequest& request, const Overlay& base, Scorer& scorer) {
  scorer.Refresh();
  return Placer(request, base, scorer).Run();
}

}  // namespace berth::policy
