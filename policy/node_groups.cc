#include "policy/node_groups.h"

namespace berth::policy {

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
    if (node->present && label != node->object.meta.labels.end() && !label->second.empty()) {
      result.owned[label->second].push_back(node->index);
    }
  }
  result.Index();
  return result;
}

std::optional<std::string_view> GroupOf(const cluster::Store& store,
                                        const std::string& level_or_label,
                                        const cluster::NodeInfo& node) {
  if (!node.present) return std::nullopt;
  if (const int level = LevelIndex(store, level_or_label); level >= 0) {
    const auto index = static_cast<std::size_t>(level);
    // A node that came since the last Refresh() is in no domain yet.
    const auto domain = index < node.domains.size() ? node.domains[index] : cluster::kNoDomain;
    if (domain == cluster::kNoDomain) return std::nullopt;
    return store.domains()[static_cast<std::size_t>(domain)].name;
  }
  const auto label = node.object.meta.labels.find(level_or_label);
  if (label == node.object.meta.labels.end() || label->second.empty()) return std::nullopt;
  return label->second;
}

}  // namespace berth::policy
