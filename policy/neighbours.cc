#include "policy/neighbours.h"

#include <algorithm>
#include <map>
#include <string>

#include "kube/selector.h"

namespace berth::policy {
namespace {

using cluster::NodeIndex;
using cluster::PodInfo;

const std::string* Label(const Overlay& overlay, NodeIndex node, const std::string& key) {
  const auto& labels = overlay.store().node(node).object.meta.labels;
  const auto it = labels.find(key);
  return it == labels.end() ? nullptr : &it->second;
}

/// `owner` has the term, `other` is the pod it may select. matchLabelKeys tie the owner's own
/// values in.
bool Selects(const kube::PodAffinityTerm& term, const PodInfo& owner, const PodInfo& other,
             const cluster::Store& store) {
  const std::string& ns = other.object.meta.ns;
  const bool own_namespace =
      term.namespaces.empty() && !term.namespace_selector && ns == owner.object.meta.ns;
  bool in_namespace =
      own_namespace || std::ranges::find(term.namespaces, ns) != term.namespaces.end();
  if (!in_namespace && term.namespace_selector) {
    const kube::StringMap* labels = store.NamespaceLabels(ns);
    in_namespace = labels != nullptr && kube::Matches(term.namespace_selector, *labels);
  }
  if (!in_namespace || !kube::Matches(term.label_selector, other.object.meta.labels)) return false;
  const auto same_value = [&](const std::string& key) {
    const auto a = owner.object.meta.labels.find(key);
    const auto b = other.object.meta.labels.find(key);
    return a == owner.object.meta.labels.end() ||
           (b != other.object.meta.labels.end() && a->second == b->second);
  };
  if (!std::ranges::all_of(term.match_label_keys, same_value)) return false;
  return std::ranges::none_of(term.mismatch_label_keys, [&](const std::string& key) {
    const auto a = owner.object.meta.labels.find(key);
    const auto b = other.object.meta.labels.find(key);
    return a != owner.object.meta.labels.end() && b != other.object.meta.labels.end() &&
           a->second == b->second;
  });
}

constexpr std::string_view kHostname = "kubernetes.io/hostname";

/// Calls `visit(pod, node)` for every pod that holds room, until it returns false; `only` limits it
/// to one node's pods.
template <typename Visit>
void ForEachNeighbour(const Overlay& overlay, const PodInfo& self, Visit visit,
                      NodeIndex only = cluster::kNoNode) {
  const auto on_node = [&](const cluster::NodeInfo& node) {
    return std::ranges::all_of(node.pods, [&](const PodInfo* other) {
      return other == &self || overlay.Removed(*other) || visit(*other, node.index);
    });
  };
  if (only != cluster::kNoNode) {
    if (!on_node(overlay.store().node(only))) return;
  } else {
    for (const auto& node : overlay.store().nodes()) {
      if (!on_node(*node)) return;
    }
  }
  for (const auto& [other, node] : overlay.placed()) {
    if (other == &self || (only != cluster::kNoNode && node != only)) continue;
    if (!visit(*other, node)) return;
  }
}

bool SameDomain(const Overlay& overlay, const std::string& key, NodeIndex a, NodeIndex b) {
  const std::string* left = Label(overlay, a, key);
  const std::string* right = Label(overlay, b, key);
  return left != nullptr && right != nullptr && *left == *right;
}

bool AntiAffinityAllows(const PodInfo& pod, const Overlay& overlay, NodeIndex node) {
  bool allowed = true;
  for (const auto& term : pod.object.spec->required_pod_anti_affinity) {
    if (Label(overlay, node, term.topology_key) == nullptr) continue;
    ForEachNeighbour(
        overlay, pod,
        [&](const PodInfo& other, NodeIndex at) {
          allowed = !(SameDomain(overlay, term.topology_key, node, at) &&
                      Selects(term, pod, other, overlay.store()));
          return allowed;
        },
        term.topology_key == kHostname ? node : cluster::kNoNode);
    if (!allowed) return false;
  }
  const auto repelled_by = [&](const PodInfo& other, NodeIndex at) {
    return std::ranges::any_of(other.object.spec->required_pod_anti_affinity,
                               [&](const kube::PodAffinityTerm& term) {
                                 return SameDomain(overlay, term.topology_key, node, at) &&
                                        Selects(term, other, pod, overlay.store());
                               });
  };
  for (const PodInfo* other : overlay.store().pods_with_anti_affinity()) {
    if (other == &pod || overlay.Removed(*other)) continue;
    if (repelled_by(*other, other->node)) return false;
  }
  return std::ranges::none_of(overlay.placed(), [&](const auto& placed) {
    return placed.first != &pod && repelled_by(*placed.first, placed.second);
  });
}

/// As kube-scheduler counts: only a pod that satisfies every term counts, for each term's domain.
bool AffinityAllows(const PodInfo& pod, const Overlay& overlay, NodeIndex node) {
  const auto& terms = pod.object.spec->required_pod_affinity;
  if (terms.empty()) return true;
  const auto satisfies = [&](const PodInfo& other) {
    return std::ranges::all_of(terms, [&](const kube::PodAffinityTerm& term) {
      return Selects(term, pod, other, overlay.store());
    });
  };
  bool anywhere = false;
  std::vector<bool> here(terms.size(), false);
  for (const auto& term : terms) {
    if (Label(overlay, node, term.topology_key) == nullptr) return false;
  }
  ForEachNeighbour(overlay, pod, [&](const PodInfo& other, NodeIndex at) {
    if (!satisfies(other)) return true;
    anywhere = true;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      here[i] = here[i] || SameDomain(overlay, terms[i].topology_key, node, at);
    }
    return std::ranges::find(here, false) != here.end();
  });
  if (std::ranges::find(here, false) == here.end()) return true;
  // The first pod of a group that attracts itself may start anywhere.
  return !anywhere && satisfies(pod);
}

bool SpreadAllows(const PodInfo& pod, const Overlay& overlay, NodeIndex node) {
  for (const auto& constraint : pod.object.spec->topology_spread) {
    const std::string* here = Label(overlay, node, constraint.topology_key);
    if (here == nullptr) return false;
    std::map<std::string, int> counts;
    for (const auto& candidate : overlay.store().nodes()) {
      const std::string* value = Label(overlay, candidate->index, constraint.topology_key);
      if (candidate->present && value != nullptr &&
          kube::MatchesNode(*pod.object.spec, candidate->object)) {
        counts.try_emplace(*value, 0);
      }
    }
    const kube::PodAffinityTerm as_term{.label_selector = constraint.label_selector,
                                        .namespaces = {},
                                        .namespace_selector = std::nullopt,
                                        .topology_key = constraint.topology_key,
                                        .match_label_keys = constraint.match_label_keys,
                                        .mismatch_label_keys = {}};
    ForEachNeighbour(overlay, pod, [&](const PodInfo& other, NodeIndex at) {
      const std::string* value = Label(overlay, at, constraint.topology_key);
      // Nodes that the pod may not use do not count (nodeAffinityPolicy: Honor, the default).
      if (value != nullptr && !other.terminating() &&
          kube::MatchesNode(*pod.object.spec, overlay.store().node(at).object) &&
          Selects(as_term, pod, other, overlay.store())) {
        if (const auto it = counts.find(*value); it != counts.end()) ++it->second;
      }
      return true;
    });
    int least = std::numeric_limits<int>::max();
    for (const auto& [value, count] : counts) least = std::min(least, count);
    if (static_cast<std::int32_t>(counts.size()) < constraint.min_domains) least = 0;
    const int self = Selects(as_term, pod, pod, overlay.store()) ? 1 : 0;
    const auto it = counts.find(*here);
    if (it == counts.end() || it->second + self - least > constraint.max_skew) return false;
  }
  return true;
}

}  // namespace

bool NeighboursMatter(const PodInfo& pod, const Overlay& overlay) {
  return pod.shape->has_pod_constraints || overlay.Repels() ||
         !overlay.store().pods_with_anti_affinity().empty();
}

bool NeighboursAllow(const PodInfo& pod, const Overlay& overlay, NodeIndex node) {
  return AntiAffinityAllows(pod, overlay, node) && AffinityAllows(pod, overlay, node) &&
         SpreadAllows(pod, overlay, node);
}

bool MayAllowLater(const cluster::PodShape& shape) {
  return !shape.spec->required_pod_affinity.empty() || !shape.spec->topology_spread.empty();
}

}  // namespace berth::policy
