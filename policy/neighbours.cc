#include "policy/neighbours.h"

#include <algorithm>
#include <limits>
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

/// Whether the term of `owner` selects `other`. matchLabelKeys add the owner's own values.
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

kube::PodAffinityTerm AsTerm(const kube::TopologySpreadConstraint& constraint) {
  return {.label_selector = constraint.label_selector,
          .namespaces = {},
          .namespace_selector = std::nullopt,
          .topology_key = constraint.topology_key,
          .match_label_keys = constraint.match_label_keys,
          .mismatch_label_keys = {}};
}

/// As kube-scheduler counts: only a pod that satisfies every affinity term counts for any of them.
bool SatisfiesAll(const PodInfo& pod, const PodInfo& other, const cluster::Store& store) {
  return std::ranges::all_of(pod.object.spec->required_pod_affinity,
                             [&](const auto& term) { return Selects(term, pod, other, store); });
}

/// Whether `repeller` has an anti-affinity term that selects `pod`.
bool Repels(const PodInfo& repeller, const PodInfo& pod, const cluster::Store& store) {
  return std::ranges::any_of(
      repeller.object.spec->required_pod_anti_affinity,
      [&](const kube::PodAffinityTerm& term) { return Selects(term, repeller, pod, store); });
}

/// Whether the pods that its terms select depend on its own labels.
bool DifferByLabels(const PodInfo& repeller) {
  return std::ranges::any_of(
      repeller.object.spec->required_pod_anti_affinity, [](const kube::PodAffinityTerm& term) {
        return !term.match_label_keys.empty() || !term.mismatch_label_keys.empty();
      });
}

}  // namespace

Neighbours::Neighbours(const PodInfo& pod, const Overlay& overlay)
    : pod_(&pod), overlay_(&overlay) {
  const kube::PodSpec& spec = *pod.object.spec;
  for (const auto& term : spec.required_pod_anti_affinity) {
    if (term.topology_key == kHostname) {
      host_anti_affinity_.push_back(&term);
    } else {
      anti_affinity_.push_back({.said = &term, .values = {}});
    }
    LookAt(term);
  }
  for (const auto& term : spec.required_pod_affinity) {
    affinity_.push_back({.said = &term, .values = {}});
    LookAt(term);
  }
  for (const auto& constraint : spec.topology_spread) {
    spread_.push_back({.said = &constraint, .selects = AsTerm(constraint), .counts = {}});
    spread_.back().self = Selects(spread_.back().selects, pod, pod, overlay.store());
    LookAt(spread_.back().selects);
  }
  CountDomains();
  CountPods();
  CountRepellers();
  for (Spread& spread : spread_) FindLeast(spread);
}

/// Records the label keys by which this term, the pod's own or one that selects it, distinguishes
/// pods.
void Neighbours::LookAt(const kube::PodAffinityTerm& term) {
  labels_.insert(term.match_label_keys.begin(), term.match_label_keys.end());
  labels_.insert(term.mismatch_label_keys.begin(), term.mismatch_label_keys.end());
  if (!term.label_selector) return;
  for (const auto& requirement : term.label_selector->requirements) labels_.insert(requirement.key);
}

/// Finds the domains over which the pod is spread: those of the nodes that it may use.
void Neighbours::CountDomains() {
  if (spread_.empty()) return;
  for (const auto& node : overlay_->store().nodes()) {
    if (!node->present || !Eligible(node->index)) continue;
    for (Spread& spread : spread_) {
      const std::string* value = Label(*overlay_, node->index, spread.said->topology_key);
      if (value != nullptr) spread.counts.try_emplace(*value, 0);
    }
  }
}

void Neighbours::CountPods() {
  for (const auto& [other, node] : overlay_->placed()) {
    if (other != pod_) added_.emplace_back(other, node);
  }
  if (!anti_affinity_.empty() || !affinity_.empty() || !spread_.empty()) {
    for (const auto& node : overlay_->store().nodes()) {
      for (const PodInfo* other : node->pods) {
        if (other != pod_ && !overlay_->Removed(*other)) Count(*other, node->index);
      }
    }
  }
  for (const auto& [other, node] : added_) Count(*other, node);
}

void Neighbours::CountRepellers() {
  const cluster::Store& store = overlay_->store();
  store.repellers().AnyOf(pod_->object.meta.ns, [&](const cluster::Repellers::Alike& alike) {
    const PodInfo& like = **alike.begin();
    for (const auto& term : like.object.spec->required_pod_anti_affinity) LookAt(term);
    if (!DifferByLabels(like) && !Repels(like, *pod_, store)) return false;
    for (const PodInfo* repeller : alike) {
      if (repeller != pod_ && !overlay_->Removed(*repeller)) Repel(*repeller, repeller->node);
    }
    return false;
  });
  for (const auto& [other, node] : added_) Repel(*other, node);
}

bool Neighbours::Eligible(NodeIndex node) const {
  return kube::MatchesNode(*pod_->object.spec, overlay_->store().node(node).object);
}

bool Neighbours::Attracts(const PodInfo& other) const {
  return SatisfiesAll(*pod_, other, overlay_->store());
}

/// Counts `other` for the pod's own terms.
void Neighbours::Count(const PodInfo& other, NodeIndex node) {
  const cluster::Store& store = overlay_->store();
  for (Term& term : anti_affinity_) {
    const std::string* value = Label(*overlay_, node, term.said->topology_key);
    if (value != nullptr && Selects(*term.said, *pod_, other, store)) term.values.insert(*value);
  }
  if (!affinity_.empty() && Attracts(other)) {
    attracted_ = true;
    for (Term& term : affinity_) {
      const std::string* value = Label(*overlay_, node, term.said->topology_key);
      if (value != nullptr) term.values.insert(*value);
    }
  }
  if (spread_.empty() || other.terminating()) return;
  for (Spread& spread : spread_) {
    // Nodes that the pod may not use do not count (nodeAffinityPolicy: Honor, the default).
    if (!Selects(spread.selects, *pod_, other, store) || !Eligible(node)) continue;
    const std::string* value = Label(*overlay_, node, spread.said->topology_key);
    const auto count = value == nullptr ? spread.counts.end() : spread.counts.find(*value);
    if (count != spread.counts.end()) ++count->second;
  }
}

void Neighbours::Repel(const PodInfo& repeller, NodeIndex node) {
  for (const auto& term : repeller.object.spec->required_pod_anti_affinity) {
    const std::string* value = Label(*overlay_, node, term.topology_key);
    if (value != nullptr && Selects(term, repeller, *pod_, overlay_->store())) {
      repelled_[term.topology_key].insert(*value);
    }
  }
}

void Neighbours::FindLeast(Spread& spread) const {
  if (static_cast<std::int32_t>(spread.counts.size()) < spread.said->min_domains) {
    spread.least = 0;
    return;
  }
  spread.least = std::numeric_limits<int>::max();
  for (const auto& [value, count] : spread.counts) spread.least = std::min(spread.least, count);
}

void Neighbours::Add(const PodInfo& other, NodeIndex node) {
  added_.emplace_back(&other, node);
  for (const auto& term : other.object.spec->required_pod_anti_affinity) LookAt(term);
  Count(other, node);
  Repel(other, node);
  for (Spread& spread : spread_) FindLeast(spread);
}

bool Neighbours::SameFor(const PodInfo& other) const {
  if (other.shape != pod_->shape || other.object.meta.ns != pod_->object.meta.ns) return false;
  const kube::StringMap& a = pod_->object.meta.labels;
  const kube::StringMap& b = other.object.meta.labels;
  return std::ranges::all_of(labels_, [&](const std::string& key) {
    const auto in_a = a.find(key);
    const auto in_b = b.find(key);
    if (in_a == a.end() || in_b == b.end()) return (in_a == a.end()) == (in_b == b.end());
    return in_a->second == in_b->second;
  });
}

/// Whether no pod on the node is repelled by the pod's terms with the host as topology.
bool Neighbours::AloneOnHost(NodeIndex node) const {
  if (host_anti_affinity_.empty()) return true;
  if (Label(*overlay_, node, host_anti_affinity_.front()->topology_key) == nullptr) return true;
  const auto avoided = [this](const PodInfo& other) {
    return std::ranges::any_of(host_anti_affinity_, [&](const kube::PodAffinityTerm* term) {
      return Selects(*term, *pod_, other, overlay_->store());
    });
  };
  return std::ranges::none_of(overlay_->store().node(node).pods,
                              [&](const PodInfo* other) {
                                return other != pod_ && !overlay_->Removed(*other) &&
                                       avoided(*other);
                              }) &&
         std::ranges::none_of(added_, [&](const auto& added) {
           return added.second == node && avoided(*added.first);
         });
}

bool Neighbours::Allow(NodeIndex node) const {
  const auto value = [&](const std::string& key) { return Label(*overlay_, node, key); };
  const auto here = [](const std::string* label, const Values& values) {
    return label != nullptr && values.contains(*label);
  };
  for (const Term& term : anti_affinity_) {
    if (here(value(term.said->topology_key), term.values)) return false;
  }
  for (const auto& [key, values] : repelled_) {
    if (here(value(key), values)) return false;
  }
  bool with_company = true;
  for (const Term& term : affinity_) {
    const std::string* label = value(term.said->topology_key);
    if (label == nullptr) return false;
    with_company = with_company && here(label, term.values);
  }
  // The first pod of a group that attracts itself may start anywhere.
  if (!with_company && (attracted_ || !Attracts(*pod_))) return false;
  for (const Spread& spread : spread_) {
    const std::string* label = value(spread.said->topology_key);
    const auto count = label == nullptr ? spread.counts.end() : spread.counts.find(*label);
    if (count == spread.counts.end()) return false;
    if (count->second + (spread.self ? 1 : 0) - spread.least > spread.said->max_skew) return false;
  }
  return AloneOnHost(node);
}

bool NeighboursMatter(const PodInfo& pod, const Overlay& overlay) {
  if (pod.shape->has_pod_constraints) return true;
  const cluster::Store& store = overlay.store();
  if (overlay.Repels() && std::ranges::any_of(overlay.placed(), [&](const auto& placed) {
        return Repels(*placed.first, pod, store);
      })) {
    return true;
  }
  return store.repellers().AnyOf(pod.object.meta.ns, [&](const cluster::Repellers::Alike& alike) {
    if (!DifferByLabels(**alike.begin())) return Repels(**alike.begin(), pod, store);
    return std::ranges::any_of(
        alike, [&](const PodInfo* repeller) { return Repels(*repeller, pod, store); });
  });
}

bool NeighboursAllow(const PodInfo& pod, const Overlay& overlay, NodeIndex node) {
  return Neighbours(pod, overlay).Allow(node);
}

bool MayOpenNode(const PodInfo& pod, const PodInfo& other, const cluster::Store& store) {
  const kube::PodSpec& spec = *pod.object.spec;
  if (!spec.required_pod_affinity.empty() && SatisfiesAll(pod, other, store)) return true;
  return std::ranges::any_of(spec.topology_spread, [&](const auto& constraint) {
    return Selects(AsTerm(constraint), pod, other, store);
  });
}

bool MayAllowLater(const cluster::PodShape& shape) {
  return !shape.spec->required_pod_affinity.empty() || !shape.spec->topology_spread.empty();
}

bool MustComeAfter(const PodInfo& pod, const cluster::Store& store) {
  const kube::PodSpec& spec = *pod.object.spec;
  return !spec.topology_spread.empty() ||
         (!spec.required_pod_affinity.empty() && !SatisfiesAll(pod, pod, store));
}

}  // namespace berth::policy
