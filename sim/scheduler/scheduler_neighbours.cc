// Scheduler, part: InterPodAffinity and PodTopologySpread, counted afresh for every node, because
// simulated clusters are small. Only required terms and DoNotSchedule constraints, without
// matchLabelKeys and namespace selectors.
#include <algorithm>
#include <map>

#include "kube/selector.h"
#include "sim/scheduler/scheduler.h"

namespace berth::sim {
namespace {

/// A pod that occupies room, and its node.
using Neighbour = std::pair<const kube::Pod*, const kube::Node*>;
using Neighbours = std::vector<Neighbour>;

/// Null: the node is in no domain of this key.
const std::string* DomainOf(const kube::Node& node, const std::string& key) {
  const auto it = node.meta.labels.find(key);
  return it == node.meta.labels.end() ? nullptr : &it->second;
}

bool SameDomain(const kube::Node& a, const kube::Node& b, const std::string& key) {
  const std::string* const of_a = DomainOf(a, key);
  const std::string* const of_b = DomainOf(b, key);
  return of_a != nullptr && of_b != nullptr && *of_a == *of_b;
}

bool Selects(const kube::PodAffinityTerm& term, const kube::Pod& owner, const kube::Pod& other) {
  const bool in_namespace =
      term.namespaces.empty()
          ? other.meta.ns == owner.meta.ns
          : std::ranges::find(term.namespaces, other.meta.ns) != term.namespaces.end();
  return in_namespace && kube::Matches(term.label_selector, other.meta.labels);
}

/// A pod there has anti-affinity to this pod, or this pod to one there.
bool Repelled(const kube::Pod& pod, const kube::Node& node, const Neighbours& neighbours) {
  const auto repels = [](const kube::Pod& owner, const kube::Pod& other, const kube::Node& a,
                         const kube::Node& b) {
    return std::ranges::any_of(owner.spec->required_pod_anti_affinity, [&](const auto& term) {
      return Selects(term, owner, other) && SameDomain(a, b, term.topology_key);
    });
  };
  return std::ranges::any_of(neighbours, [&](const Neighbour& other) {
    return repels(pod, *other.first, node, *other.second) ||
           repels(*other.first, pod, node, *other.second);
  });
}

/// Every term has a pod in the node's domain that matches all terms. If there is none anywhere, a
/// pod that matches its own terms may go to any node.
bool AmongFriends(const kube::Pod& pod, const kube::Node& node, const Neighbours& neighbours) {
  const auto& terms = pod.spec->required_pod_affinity;
  if (terms.empty()) return true;
  const auto selected = [&](const kube::Pod& other) {
    return std::ranges::all_of(terms, [&](const auto& term) { return Selects(term, pod, other); });
  };
  const bool labelled = std::ranges::all_of(
      terms, [&](const auto& term) { return DomainOf(node, term.topology_key) != nullptr; });
  if (!labelled) return false;
  const bool all = std::ranges::all_of(terms, [&](const auto& term) {
    return std::ranges::any_of(neighbours, [&](const Neighbour& other) {
      return selected(*other.first) && SameDomain(node, *other.second, term.topology_key);
    });
  });
  const bool none = std::ranges::none_of(neighbours, [&](const Neighbour& other) {
    return selected(*other.first) && std::ranges::any_of(terms, [&](const auto& term) {
             return DomainOf(*other.second, term.topology_key) != nullptr;
           });
  });
  return all || (none && selected(pod));
}

/// nodeAffinityPolicy and nodeTaintsPolicy.
bool Counts(const kube::PodSpec& spec, const kube::TopologySpreadConstraint& constraint,
            const kube::Node& node) {
  if (constraint.honors_affinity && !kube::MatchesNode(spec, node)) return false;
  return !constraint.honors_taints ||
         kube::FindUntoleratedTaint(spec.tolerations, node.taints) == nullptr;
}

/// With the pod added, its domain has at most `max_skew` more matching pods than the emptiest one.
bool Even(const kube::Pod& pod, const kube::Node& node,
          const kube::TopologySpreadConstraint& constraint,
          const std::vector<const kube::Node*>& eligible, const Neighbours& neighbours) {
  const std::string* const own = DomainOf(node, constraint.topology_key);
  if (own == nullptr) return false;
  std::map<std::string, int> counts;
  for (const kube::Node* other : eligible) counts[*DomainOf(*other, constraint.topology_key)] += 0;
  for (const auto& [other, where] : neighbours) {
    if (other->meta.ns != pod.meta.ns || other->meta.deletion) continue;
    if (std::ranges::find(eligible, where) == eligible.end()) continue;
    if (!kube::Matches(constraint.label_selector, other->meta.labels)) continue;
    ++counts[*DomainOf(*where, constraint.topology_key)];
  }
  int least = std::numeric_limits<int>::max();
  for (const auto& [domain, count] : counts) least = std::min(least, count);
  if (std::ssize(counts) < constraint.min_domains) least = 0;
  const int self = kube::Matches(constraint.label_selector, pod.meta.labels) ? 1 : 0;
  const auto there = counts.find(*own);
  const int count = there == counts.end() ? 0 : there->second;
  return count + self - least <= constraint.max_skew;
}

}  // namespace

std::optional<Scheduler::Refusal> Scheduler::RefuseByNeighbours(const Asked& asked,
                                                                const NodeState& state,
                                                                const Victims& without) const {
  const kube::PodSpec& spec = *asked.pod.spec;
  const bool plain = spec.required_pod_affinity.empty() &&
                     spec.required_pod_anti_affinity.empty() && spec.topology_spread.empty();
  if (plain && repellers_ == 0) return std::nullopt;
  Neighbours neighbours;
  for (const auto& [name, other] : nodes_) {
    if (other.node == nullptr) continue;
    for (const auto& [uid, pod] : other.held) {
      if (uid == asked.pod.meta.uid || std::ranges::find(without, pod) != without.end()) continue;
      neighbours.emplace_back(pod, other.node.get());
    }
  }
  if (auto refusal = RefuseAmong(asked, *state.node, neighbours)) return refusal;
  // Pods that are nominated to the node may never arrive: the pod must fit with and without them.
  const std::size_t bound = neighbours.size();
  queue_.ForEachNominated(state.node->meta.name, [&](const kube::Pod& other) {
    if (other.meta.uid == asked.pod.meta.uid || other.priority < asked.pod.priority ||
        held_.contains(other.meta.uid)) {
      return;
    }
    neighbours.emplace_back(&other, state.node.get());
  });
  return neighbours.size() == bound ? std::nullopt : RefuseAmong(asked, *state.node, neighbours);
}

std::optional<Scheduler::Refusal> Scheduler::RefuseAmong(
    const Asked& asked, const kube::Node& node,
    const std::vector<std::pair<const kube::Pod*, const kube::Node*>>& neighbours) const {
  const kube::PodSpec& spec = *asked.pod.spec;
  std::vector<const kube::Node*> labelled_nodes;
  for (const auto& [name, state] : nodes_) {
    if (spec.topology_spread.empty()) break;
    if (state.node == nullptr) continue;
    const bool labelled = std::ranges::all_of(spec.topology_spread, [&](const auto& constraint) {
      return DomainOf(*state.node, constraint.topology_key) != nullptr;
    });
    if (labelled) labelled_nodes.push_back(state.node.get());
  }
  for (const kube::TopologySpreadConstraint& constraint : spec.topology_spread) {
    if (DomainOf(node, constraint.topology_key) == nullptr) {
      return Refusal{kNeighbours,
                     "node(s) didn't match pod topology spread constraints (missing "
                     "required label)"};
    }
    std::vector<const kube::Node*> eligible;
    std::ranges::copy_if(labelled_nodes, std::back_inserter(eligible),
                         [&](const kube::Node* other) { return Counts(spec, constraint, *other); });
    if (!Even(asked.pod, node, constraint, eligible, neighbours)) {
      return Refusal{kNeighbours, "node(s) didn't match pod topology spread constraints", true};
    }
  }
  if (!AmongFriends(asked.pod, node, neighbours)) {
    return Refusal{kNeighbours, "node(s) didn't match pod affinity rules"};
  }
  if (Repelled(asked.pod, node, neighbours)) {
    return Refusal{kNeighbours, "node(s) didn't match pod anti-affinity rules", true};
  }
  return std::nullopt;
}

}  // namespace berth::sim
