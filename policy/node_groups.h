// Nodes that are near each other: in one domain of a topology level of the policy, or with one
// value of a node label.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/store.h"

namespace berth::policy {

/// Nodes that share a domain or a label value.
struct NodeGroup {
  std::string_view name;
  std::span<const cluster::NodeIndex> nodes;
};

/// Node groups, and the storage for groups that the store does not hold itself.
struct NodeGroups {
  std::vector<NodeGroup> groups;
  std::map<std::string, std::vector<cluster::NodeIndex>> owned;

  auto begin() const { return groups.begin(); }
  auto end() const { return groups.end(); }
  bool empty() const { return groups.empty(); }
  /// Fills `groups` from `owned`.
  void Index();
};

/// Groups the present nodes by a level name of the policy or by a node label key; nodes without
/// the label are left out. Valid until the store's next Refresh().
NodeGroups GroupBy(const cluster::Store& store, const std::string& level_or_label);

/// The group of the node among the groups that GroupBy would make; nullopt: none. Valid as they
/// are.
std::optional<std::string_view> GroupOf(const cluster::Store& store,
                                        const std::string& level_or_label,
                                        const cluster::NodeInfo& node);

/// Index of a level by its name; -1: the policy has no such level.
int LevelIndex(const cluster::Store& store, const std::string& level_or_label);

}  // namespace berth::policy
