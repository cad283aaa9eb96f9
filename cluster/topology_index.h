// The domains of each level and the one order of the nodes. What a node's labels say is read once,
// when the node changes; the ids and ranks that follow are integers, assigned in a few passes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/model.h"

namespace berth::cluster {

/// Which nodes share a domain of each level, and the order of all nodes. Follows changes of nodes
/// at the next Refresh.
class TopologyIndex {
 public:
  /// Forgets all domains; the next Refresh reads each node with these levels. Until then
  /// NodeInfo::domains must not be read.
  void Reset(std::vector<config::TopologyLevel> levels);
  /// Reads some nodes ahead of that Refresh, at most `most`, and takes them off `most`.
  void ReadSome(std::span<const std::unique_ptr<NodeInfo>> nodes, std::size_t& most);
  /// False: not refreshed since Reset.
  bool complete() const { return !all_; }
  /// In place of a Refresh that is put off: a node that is new has a rank, the first.
  void MakeRoom(std::size_t nodes);
  /// The node has come, or is gone, or its labels may have changed.
  void Touch(NodeIndex node) { touched_.insert(node); }
  /// Applies what was touched; writes NodeInfo::domains.
  void Refresh(std::span<const std::unique_ptr<NodeInfo>> nodes);

  // As of the last Refresh.
  const std::vector<Domain>& domains() const { return domains_; }
  /// The place of a node in the order, 0..present_nodes-1.
  int rank(NodeIndex node) const { return ranks_[static_cast<std::size_t>(node)]; }
  int present_nodes() const { return static_cast<int>(order_.size()); }
  /// Counts changes of the above.
  std::uint64_t generation() const { return generation_; }

 private:
  using PlaceId = std::size_t;
  /// The label values of the wider levels that lead somewhere. A missing label leads to a place of
  /// its own, which is no domain.
  struct Place {
    std::string path{};
    bool is_domain = false;
  };
  /// What the name and the labels of a node say.
  struct Position {
    bool present = false;
    std::string name;
    std::uint64_t hash = 0;
    std::vector<PlaceId> wide;  ///< By level, the narrowest excepted.
    std::string narrowest;      ///< The path of the node's own domain; empty: it has none.
    bool operator==(const Position&) const = default;
  };

  void ReadAgain(NodeInfo& node);
  Position Read(const NodeInfo& node);
  PlaceId Child(PlaceId from, std::string_view value);
  void Reorder(const std::vector<NodeIndex>& moved);
  void AssignDomains(std::span<const std::unique_ptr<NodeInfo>> nodes);
  DomainId MakeDomain(std::size_t level, std::string_view name);
  void AssignRanks(std::span<const std::unique_ptr<NodeInfo>> nodes);

  std::vector<config::TopologyLevel> levels_;
  bool all_ = true;       ///< All nodes are touched.
  std::size_t read_ = 0;  ///< Nodes with an index below it have been read.
  std::set<NodeIndex> touched_;

  std::vector<Place> places_{Place{}};  ///< The first is the whole cluster.
  std::map<std::pair<PlaceId, std::string>, PlaceId> steps_;
  std::vector<Position> positions_;                           ///< By node.
  std::vector<std::pair<std::uint64_t, NodeIndex>> order_{};  ///< Present nodes by hash, then name.

  std::vector<Domain> domains_;
  std::size_t domain_count_ = 0;  ///< While they are assigned.
  std::vector<int> ranks_;
  std::uint64_t generation_ = 0;
};

}  // namespace berth::cluster
