// Store, continued: the domains of each level, and the one order of the nodes.
#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>

#include "cluster/store.h"

namespace berth::cluster {
namespace {

/// Gives the domains of a level their ids, in the order in which they are asked for.
class DomainFinder {
 public:
  DomainFinder(std::span<const config::TopologyLevel> levels, std::vector<Domain>& domains)
      : levels_(levels), domains_(&domains), places_(1) {}

  /// The domain of each level that `node` is in; `node` becomes a member of it. If a label is
  /// missing or empty, the node is in no domain of that level, and its narrower domains are
  /// separate from those of nodes that have the label. The narrowest domain is the node itself: two
  /// nodes with the same host name are two machines.
  void Assign(const NodeInfo& node, std::span<DomainId> ids) {
    std::size_t place = 0;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const auto label = node.object.meta.labels.find(levels_[level].node_label);
      const bool missing = label == node.object.meta.labels.end() || label->second.empty();
      const bool narrowest = level + 1 == levels_.size();
      if (narrowest && !missing) {
        ids[level] = Make(level, PathOf(place, level, node.name));
      } else if (!narrowest) {
        place = Child(place, level, missing ? std::string_view() : label->second);
        ids[level] = places_[place].domain;
      }
      if (!missing) (*domains_)[static_cast<std::size_t>(ids[level])].nodes.push_back(node.index);
    }
  }

 private:
  /// For the wider levels: the label values that lead there.
  struct Place {
    std::string path{};
    DomainId domain = kNoDomain;
  };
  struct Step {
    std::size_t from;
    std::string_view value;
    bool operator==(const Step&) const = default;
  };
  struct StepHash {
    std::size_t operator()(const Step& step) const {
      return std::hash<std::string_view>()(step.value) * 31 + step.from;
    }
  };

  std::string PathOf(std::size_t place, std::size_t level, std::string_view value) const {
    std::string path = places_[place].path;
    if (level > 0) path += '/';
    return path += value;
  }

  DomainId Make(std::size_t level, std::string path) {
    domains_->push_back({.name = std::move(path), .level = static_cast<int>(level), .nodes = {}});
    return static_cast<DomainId>(domains_->size() - 1);
  }

  std::size_t Child(std::size_t place, std::size_t level, std::string_view value) {
    const auto [it, fresh] = steps_.try_emplace({place, value}, places_.size());
    if (fresh) {
      Place child{.path = PathOf(place, level, value)};
      if (!value.empty()) child.domain = Make(level, child.path);
      places_.push_back(std::move(child));
    }
    return it->second;
  }

  std::span<const config::TopologyLevel> levels_;
  std::vector<Domain>* domains_;
  std::vector<Place> places_;
  std::unordered_map<Step, std::size_t, StepHash> steps_;  // values are those of node labels
};

}  // namespace

/// Domains get their ids in the order of their nodes' hashes, so that the order in which nodes
/// arrived does not matter. Nodes get their rank in the order of their domains, so that first-fit
/// fills one rack after another.
void Store::RefreshTopology() {
  topology_dirty_ = false;
  ++topology_generation_;
  const std::size_t levels = policy_.levels.size();
  std::vector<std::pair<std::uint64_t, NodeInfo*>> order;
  for (const auto& node : nodes_) {
    if (node->present) {
      order.emplace_back(node->hash, node.get());
    } else {
      node->domains.assign(levels, kNoDomain);
    }
  }
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->name < b.second->name;
  });
  present_nodes_ = static_cast<int>(order.size());

  domains_.clear();
  DomainFinder finder(policy_.levels, domains_);
  std::vector<DomainId> ids(order.size() * levels, kNoDomain);  // by place in `order`, and level
  const auto ids_of = [&](std::size_t i) { return std::span(ids).subspan(i * levels, levels); };
  for (std::size_t i = 0; i < order.size(); ++i) {
    finder.Assign(*order[i].second, ids_of(i));
    order[i].second->domains.assign(ids_of(i).begin(), ids_of(i).end());
  }

  std::vector<std::size_t> by_domain(order.size());
  std::iota(by_domain.begin(), by_domain.end(), std::size_t{0});
  std::ranges::stable_sort(by_domain, [&](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(ids_of(a), ids_of(b));
  });
  ranks_.assign(nodes_.size(), 0);
  for (std::size_t rank = 0; rank < by_domain.size(); ++rank) {
    const NodeIndex node = order[by_domain[rank]].second->index;
    ranks_[static_cast<std::size_t>(node)] = static_cast<int>(rank);
  }
}

/// Whether a label that determines the node's domains differs.
bool Store::MovesTo(const NodeInfo& node, const kube::StringMap& labels) const {
  return std::ranges::any_of(policy_.levels, [&](const config::TopologyLevel& level) {
    const auto before = node.object.meta.labels.find(level.node_label);
    const auto after = labels.find(level.node_label);
    const bool had = before != node.object.meta.labels.end();
    const bool has = after != labels.end();
    return had != has || (has && before->second != after->second);
  });
}

}  // namespace berth::cluster
