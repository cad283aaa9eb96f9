#include "cluster/topology_index.h"

#include <algorithm>

namespace berth::cluster {
namespace {

/// Places of labels that no node has any more are forgotten when there are this many, and more than
/// nodes and levels explain.
constexpr std::size_t kMinPurge = 4096;

}  // namespace

void TopologyIndex::Reset(std::vector<config::TopologyLevel> levels) {
  levels_ = std::move(levels);
  all_ = true;
  read_ = 0;
  places_.resize(1);
  steps_.clear();
  domains_.clear();
  ++generation_;
}

void TopologyIndex::MakeRoom(std::size_t nodes) {
  positions_.resize(nodes);
  ranks_.resize(nodes, 0);
}

void TopologyIndex::ReadSome(std::span<const std::unique_ptr<NodeInfo>> nodes, std::size_t& most) {
  MakeRoom(nodes.size());
  for (; read_ < nodes.size() && most > 0; --most) ReadAgain(*nodes[read_++]);
}

void TopologyIndex::ReadAgain(NodeInfo& node) {
  positions_[static_cast<std::size_t>(node.index)] = Read(node);
  if (!node.present) node.domains.assign(levels_.size(), kNoDomain);
}

void TopologyIndex::Refresh(std::span<const std::unique_ptr<NodeInfo>> nodes) {
  if (!all_ && touched_.empty()) return;
  if (places_.size() > kMinPurge + 2 * nodes.size() * levels_.size()) Reset(std::move(levels_));
  MakeRoom(nodes.size());
  std::vector<NodeIndex> moved;
  const auto take = [&](NodeInfo& node) {
    Position now = Read(node);
    Position& before = positions_[static_cast<std::size_t>(node.index)];
    if (!node.present) node.domains.assign(levels_.size(), kNoDomain);
    if (now == before && node.domains.size() == levels_.size()) return;
    before = std::move(now);
    moved.push_back(node.index);
  };
  if (all_) {
    std::size_t most = nodes.size();
    ReadSome(nodes, most);
    for (const NodeIndex node : touched_) ReadAgain(*nodes[static_cast<std::size_t>(node)]);
    for (const auto& node : nodes) moved.push_back(node->index);
  } else {
    for (const NodeIndex node : touched_) take(*nodes[static_cast<std::size_t>(node)]);
  }
  touched_.clear();
  if (!std::exchange(all_, false) && moved.empty()) return;
  ++generation_;
  Reorder(moved);
  AssignDomains(nodes);
  AssignRanks(nodes);
}

/// If a label is missing or empty, the node is in no domain of that level, and its narrower domains
/// are separate from the domains of nodes that have the label. The narrowest domain is the node
/// itself: two nodes with the same host name are two machines.
TopologyIndex::Position TopologyIndex::Read(const NodeInfo& node) {
  Position position;
  if (!node.present) return position;
  position.present = true;
  position.name = node.name;
  position.hash = node.hash;
  PlaceId place = 0;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const auto label = node.object.meta.labels.find(levels_[level].node_label);
    const bool missing = label == node.object.meta.labels.end() || label->second.empty();
    if (level + 1 < levels_.size()) {
      place = Child(place, missing ? std::string_view() : std::string_view(label->second));
      position.wide.push_back(place);
    } else if (!missing) {
      position.narrowest = places_[place].path;
      if (level > 0) position.narrowest += '/';
      position.narrowest += node.name;
    }
  }
  return position;
}

TopologyIndex::PlaceId TopologyIndex::Child(PlaceId from, std::string_view value) {
  const auto [it, fresh] = steps_.try_emplace({from, std::string(value)}, places_.size());
  if (fresh) {
    Place child{.path = places_[from].path, .is_domain = !value.empty()};
    if (from != 0) child.path += '/';
    child.path += value;
    places_.push_back(std::move(child));
  }
  return it->second;
}

void TopologyIndex::Reorder(const std::vector<NodeIndex>& moved) {
  std::vector<bool> leaves(positions_.size(), false);
  for (const NodeIndex node : moved) leaves[static_cast<std::size_t>(node)] = true;
  std::erase_if(order_,
                [&](const auto& entry) { return leaves[static_cast<std::size_t>(entry.second)]; });
  const auto stay = static_cast<std::ptrdiff_t>(order_.size());
  for (const NodeIndex node : moved) {
    const Position& position = positions_[static_cast<std::size_t>(node)];
    if (position.present) order_.emplace_back(position.hash, node);
  }
  const auto before = [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return positions_[static_cast<std::size_t>(a.second)].name <
           positions_[static_cast<std::size_t>(b.second)].name;
  };
  std::sort(order_.begin() + stay, order_.end(), before);
  std::inplace_merge(order_.begin(), order_.begin() + stay, order_.end(), before);
}

/// Domains get their ids in the order of their nodes' hashes, so that the order in which nodes
/// arrived does not matter.
void TopologyIndex::AssignDomains(std::span<const std::unique_ptr<NodeInfo>> nodes) {
  domain_count_ = 0;
  std::vector<DomainId> of_place(places_.size(), kNoDomain);
  for (const auto& [hash, index] : order_) {
    const Position& position = positions_[static_cast<std::size_t>(index)];
    std::vector<DomainId>& ids = nodes[static_cast<std::size_t>(index)]->domains;
    ids.assign(levels_.size(), kNoDomain);
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      if (level < position.wide.size()) {
        const PlaceId place = position.wide[level];
        if (!places_[place].is_domain) continue;
        if (of_place[place] == kNoDomain) of_place[place] = MakeDomain(level, places_[place].path);
        ids[level] = of_place[place];
      } else {
        if (position.narrowest.empty()) continue;
        ids[level] = MakeDomain(level, position.narrowest);
      }
      domains_[static_cast<std::size_t>(ids[level])].nodes.push_back(index);
    }
  }
  domains_.resize(domain_count_);
}

/// Uses the memory of a domain that was there before.
DomainId TopologyIndex::MakeDomain(std::size_t level, std::string_view name) {
  if (domain_count_ == domains_.size()) domains_.emplace_back();
  Domain& domain = domains_[domain_count_];
  domain.name = name;
  domain.level = static_cast<int>(level);
  domain.nodes.clear();
  return static_cast<DomainId>(domain_count_++);
}

/// Nodes get their rank in the order of their domains, the widest first, so that first-fit fills
/// one rack after another; then in the order of their hashes. Sorts by counting, from the narrowest
/// level to the widest.
void TopologyIndex::AssignRanks(std::span<const std::unique_ptr<NodeInfo>> nodes) {
  std::vector<NodeIndex> sorted;
  sorted.reserve(order_.size());
  for (const auto& entry : order_) sorted.push_back(entry.second);
  std::vector<NodeIndex> next(sorted.size());
  for (std::size_t level = levels_.size(); level-- > 0;) {
    const auto id = [&](NodeIndex node) {  // 0 where there is none
      return static_cast<std::size_t>(nodes[static_cast<std::size_t>(node)]->domains[level]) + 1;
    };
    std::vector<std::size_t> start(domains_.size() + 2, 0);
    for (const NodeIndex node : sorted) ++start[id(node) + 1];
    for (std::size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
    for (const NodeIndex node : sorted) next[start[id(node)]++] = node;
    sorted.swap(next);
  }
  std::ranges::fill(ranks_, 0);
  for (std::size_t rank = 0; rank < sorted.size(); ++rank) {
    ranks_[static_cast<std::size_t>(sorted[rank])] = static_cast<int>(rank);
  }
}

}  // namespace berth::cluster
