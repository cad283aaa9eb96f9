#include "policy/neighbours.h"

#include <algorithm>
#include <limits>

#include "policy/same_labels.h"

namespace berth::policy {
namespace {

using cluster::NodeIndex;
using cluster::PodInfo;

bool SatisfiesAll(const PodInfo& pod, const PodInfo& other, const cluster::Store& store) {
  return std::ranges::all_of(pod.object.spec->required_pod_affinity, [&](const auto& term) {
    return Selects(term, AsSelectable(pod), AsSelectable(other), store);
  });
}

/// Whether `repeller` has an anti-affinity term that selects `pod`.
bool Repels(const PodInfo& repeller, const PodInfo& pod, const cluster::Store& store) {
  return std::ranges::any_of(
      repeller.object.spec->required_pod_anti_affinity, [&](const kube::PodAffinityTerm& term) {
        return Selects(term, AsSelectable(repeller), AsSelectable(pod), store);
      });
}

/// Whether the pods that its terms select depend on its own labels.
bool DifferByLabels(const PodInfo& repeller) {
  return std::ranges::any_of(
      repeller.object.spec->required_pod_anti_affinity, [](const kube::PodAffinityTerm& term) {
        return !term.match_label_keys.empty() || !term.mismatch_label_keys.empty();
      });
}

}  // namespace

Neighbours::Neighbours(const PodInfo& pod, const Overlay& overlay, NeighbourCache& cache)
    : pod_(&pod), store_(&overlay.store()), row_(cache.Row(pod)), change_(row_->counter().Empty()) {
  if (pod.charge != cluster::Charge::kNone) Count(pod, pod.node, -1);
  for (const PodInfo* other : overlay.removed()) {
    if (other != pod_) Count(*other, other->node, -1);
  }
  for (const auto& [other, node] : overlay.placed()) {
    if (other == pod_) continue;
    Count(*other, node, 1);
    row_->counter().AddKeysOf(*other, keys_);
  }
  const auto& spread = pod.object.spec->topology_spread;
  for (std::size_t i = 0; i < spread.size(); ++i) {
    spreads_itself_.push_back(
        Selects(AsTerm(spread[i]), AsSelectable(pod), AsSelectable(pod), *store_));
    least_.push_back(Least(i));
  }
}

void Neighbours::Count(const PodInfo& other, NodeIndex node, int change) {
  row_->counter().ForPod(
      other, node, change_,
      [change](DomainCounts& counts, const std::string& value) { counts[value] += change; });
}

void Neighbours::Add(const PodInfo& other, NodeIndex node) {
  Count(other, node, 1);
  row_->counter().AddKeysOf(other, keys_);
  for (std::size_t i = 0; i < least_.size(); ++i) least_[i] = Least(i);
}

/// The number of pods in the domain with the fewest of them.
int Neighbours::Least(std::size_t constraint) const {
  const NeighbourTally& tally = row_->tally();
  const DomainCounts& domains = tally.spread_nodes[constraint];
  const auto min_domains = pod_->object.spec->topology_spread[constraint].min_domains;
  if (static_cast<std::int32_t>(domains.size()) < min_domains) return 0;
  int least = std::numeric_limits<int>::max();
  for (const auto& [value, nodes] : domains) {
    least = std::min(least, CountOf(tally.spread[constraint], value) +
                                CountOf(change_.spread[constraint], value));
  }
  return least;
}

bool Neighbours::SameFor(const PodInfo& other) const {
  return row_->Serves(other) &&
         SameLabels(keys_, pod_->object.meta.labels, other.object.meta.labels);
}

bool Neighbours::Allow(NodeIndex node) const {
  const kube::StringMap& labels = store_->node(node).object.meta.labels;
  const auto any_in_domain = [&](const std::string& key, const DomainCounts& here,
                                 const DomainCounts& change) {
    const auto label = labels.find(key);
    return label != labels.end() &&
           CountOf(here, label->second) + CountOf(change, label->second) > 0;
  };
  const NeighbourTally& tally = row_->tally();
  const auto& anti_affinity = pod_->object.spec->required_pod_anti_affinity;
  for (std::size_t i = 0; i < anti_affinity.size(); ++i) {
    if (any_in_domain(anti_affinity[i].topology_key, tally.anti_affinity[i],
                      change_.anti_affinity[i])) {
      return false;
    }
  }
  static const DomainCounts kNone;
  for (const auto& [key, counts] : tally.repelled) {
    const auto change = change_.repelled.find(key);
    if (any_in_domain(key, counts, change == change_.repelled.end() ? kNone : change->second)) {
      return false;
    }
  }
  for (const auto& [key, change] : change_.repelled) {
    if (!tally.repelled.contains(key) && any_in_domain(key, kNone, change)) return false;
  }
  return WithCompany(node) && KeepsSkew(node);
}

/// Whether the affinity terms hold.
bool Neighbours::WithCompany(NodeIndex node) const {
  const auto& terms = pod_->object.spec->required_pod_affinity;
  const kube::StringMap& labels = store_->node(node).object.meta.labels;
  const NeighbourTally& tally = row_->tally();
  bool with_company = true;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto label = labels.find(terms[i].topology_key);
    if (label == labels.end()) return false;
    with_company =
        with_company &&
        CountOf(tally.affinity[i], label->second) + CountOf(change_.affinity[i], label->second) > 0;
  }
  if (with_company) return true;
  // The first pod of a group that attracts itself may start anywhere.
  const int attracting = CountOf(tally.attracting, NeighbourTally::kAnywhere) +
                         CountOf(change_.attracting, NeighbourTally::kAnywhere);
  return attracting == 0 && row_->counter().Attracts(*pod_);
}

/// Whether the spread constraints hold with the pod on this node.
bool Neighbours::KeepsSkew(NodeIndex node) const {
  const auto& constraints = pod_->object.spec->topology_spread;
  const kube::StringMap& labels = store_->node(node).object.meta.labels;
  const NeighbourTally& tally = row_->tally();
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const auto label = labels.find(constraints[i].topology_key);
    if (label == labels.end() || !tally.spread_nodes[i].contains(label->second)) return false;
    const int here =
        CountOf(tally.spread[i], label->second) + CountOf(change_.spread[i], label->second);
    if (here + (spreads_itself_[i] ? 1 : 0) - least_[i] > constraints[i].max_skew) return false;
  }
  return true;
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

bool NeighboursAllow(const PodInfo& pod, const Overlay& overlay, NeighbourCache& cache,
                     NodeIndex node) {
  return Neighbours(pod, overlay, cache).Allow(node);
}

bool MayOpenNode(const PodInfo& pod, const PodInfo& other, const cluster::Store& store) {
  const kube::PodSpec& spec = *pod.object.spec;
  if (!spec.required_pod_affinity.empty() && SatisfiesAll(pod, other, store)) return true;
  return std::ranges::any_of(spec.topology_spread, [&](const auto& constraint) {
    return Selects(AsTerm(constraint), AsSelectable(pod), AsSelectable(other), store);
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
