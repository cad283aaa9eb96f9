// How many pods that hold room each required term of affinity, anti-affinity and spread counts, by
// domain. Counted once for all pods that are alike and then kept: a change of the cluster costs the
// pods of the nodes that changed. Pure but for the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/store.h"

namespace berth::policy {

/// A number for each domain, by the value of the topology label.
using DomainCounts = std::unordered_map<std::string, int>;

inline int CountOf(const DomainCounts& counts, const std::string& value) {
  const auto it = counts.find(value);
  return it == counts.end() ? 0 : it->second;
}

/// What other pods mean to one pod. Its own terms are in the order of its spec. In a row no count
/// is 0; what changes a row may also have counts below.
struct NeighbourTally {
  inline static const std::string kAnywhere;

  std::vector<DomainCounts> anti_affinity;  ///< By term: the pods that it selects.
  std::vector<DomainCounts> affinity;       ///< By term: the pods that satisfy all of the terms.
  DomainCounts attracting;                  ///< Under kAnywhere: the same pods, wherever they are.
  std::vector<DomainCounts> spread;         ///< By constraint: pods on nodes that count.
  std::vector<DomainCounts> spread_nodes;   ///< By constraint: nodes that count.
  /// By topology key: pods with anti-affinity that selects the pod.
  std::map<std::string, DomainCounts> repelled;
};

/// What a term looks at of a pod.
struct Selectable {
  const std::string& ns;
  const kube::StringMap& labels;
};
inline Selectable AsSelectable(const cluster::PodInfo& pod) {
  return {.ns = pod.object.meta.ns, .labels = pod.object.meta.labels};
}

/// Everything about a pod that its own terms and the terms of others look at.
struct NeighbourKind {
  std::shared_ptr<const cluster::PodShape> shape;
  std::string ns;
  kube::StringMap labels;
};

/// Whether the term of `owner` selects `other`. matchLabelKeys add the owner's own values.
bool Selects(const kube::PodAffinityTerm& term, Selectable owner, Selectable other,
             const cluster::Store& store);

/// The spread constraint's selector as a term of affinity.
kube::PodAffinityTerm AsTerm(const kube::TopologySpreadConstraint& constraint);

/// Counts for pods of one kind.
class NeighbourCounter {
 public:
  NeighbourCounter(NeighbourKind kind, const cluster::Store& store);

  const NeighbourKind& kind() const { return kind_; }
  NeighbourTally Empty() const;

  /// Calls hit(DomainCounts&, value) for each count of `tally` for which `other` on `node` counts.
  template <typename Hit>
  void ForPod(const cluster::PodInfo& other, cluster::NodeIndex node, NeighbourTally& tally,
              const Hit& hit) const;
  /// The same for what the node itself counts.
  template <typename Hit>
  void ForNode(cluster::NodeIndex node, NeighbourTally& tally, const Hit& hit) const;

  /// Whether `other` satisfies every affinity term.
  bool Attracts(const cluster::PodInfo& other) const;
  /// Adds the label keys by which the terms of the pods of the kind, or of `other` as far as they
  /// can concern the kind's namespace, distinguish pods.
  void AddOwnKeys(std::set<std::string>& keys) const;
  void AddKeysOf(const cluster::PodInfo& other, std::set<std::string>& keys) const;

 private:
  const std::string* Label(cluster::NodeIndex node, const std::string& key) const {
    const auto& labels = store_->node(node).object.meta.labels;
    const auto it = labels.find(key);
    return it == labels.end() ? nullptr : &it->second;
  }
  Selectable self() const { return {.ns = kind_.ns, .labels = kind_.labels}; }
  /// A term of the kind's own.
  bool SelectsOwn(const kube::PodAffinityTerm& term, const cluster::PodInfo& other) const {
    return Selects(term, self(), AsSelectable(other), *store_);
  }
  /// Whether the node has the label of every spread constraint: as in kube-scheduler, another one
  /// counts for none of them.
  bool HasSpreadLabels(cluster::NodeIndex node) const;
  /// Whether the node, which has these labels, counts for the spread constraint.
  bool Counts(std::size_t constraint, cluster::NodeIndex node) const;

  NeighbourKind kind_;
  const cluster::Store* store_;
  std::vector<kube::PodAffinityTerm> spread_terms_;
};

/// The counts over all pods that hold room, for one kind.
class NeighbourRow {
 public:
  NeighbourRow(NeighbourKind kind, const cluster::Store& store);

  /// Applies the changes since the last call.
  void CatchUp();
  /// As of the last CatchUp.
  const NeighbourTally& tally() const { return tally_; }
  const NeighbourCounter& counter() const { return counter_; }
  /// Whether a pod of this shape, namespace and labels is of the kind.
  bool Serves(const cluster::PodInfo& pod) const;
  /// Label keys by which terms distinguish pods.
  const std::set<std::string>& keys() const { return keys_; }
  /// The number of counts that nodes contribute: its memory.
  std::size_t parts() const { return parts_count_; }

 private:
  void CountAll();
  void Recount(cluster::NodeIndex node);

  const cluster::Store* store_;
  NeighbourCounter counter_;
  NeighbourTally tally_;
  /// One that a node has added to a count, so that it can be taken back.
  struct Part {
    DomainCounts* counts;
    const std::string* value;  ///< The key in `counts`, which keeps its address.
  };
  std::unordered_map<cluster::NodeIndex, std::vector<Part>> parts_;
  std::size_t parts_count_ = 0;
  std::set<std::string> keys_;
  bool counted_ = false;
  cluster::ChangeLog::Position seen_ = 0;
  std::uint64_t namespaces_ = 0;
};

/// Rows of the kinds that were asked for.
class NeighbourCache {
 public:
  static constexpr std::size_t kMaxRows = 512;                    ///< As Scorer::kMaxShapes.
  static constexpr std::size_t kMaxParts = std::size_t{4} << 20;  ///< 16 bytes each.
  /// Of one shape and namespace, which differ in labels only.
  static constexpr std::size_t kMaxAlike = 16;

  explicit NeighbourCache(const cluster::Store& store) : store_(&store) {}

  /// The row of the pod, caught up. It must not be used after the store's next change.
  std::shared_ptr<const NeighbourRow> Row(const cluster::PodInfo& pod);
  /// Forgets everything when there are too many rows, or they take too much memory.
  void Trim();
  /// The number of rows.
  std::size_t size() const { return count_; }

 private:
  using Rows = std::vector<std::shared_ptr<NeighbourRow>>;

  void CatchUp(NeighbourRow& row);

  const cluster::Store* store_;
  std::map<std::pair<const cluster::PodShape*, std::string>, Rows> rows_;  ///< By shape, namespace.
  std::size_t count_ = 0;                                                  ///< Of rows.
  std::size_t parts_ = 0;                                                  ///< Of all rows.
};

// --- Implementation.

template <typename Hit>
void NeighbourCounter::ForPod(const cluster::PodInfo& other, cluster::NodeIndex node,
                              NeighbourTally& tally, const Hit& hit) const {
  const kube::PodSpec& spec = *kind_.shape->spec;
  const auto raise = [&](DomainCounts& counts, const std::string& key) {
    if (const std::string* value = Label(node, key)) hit(counts, *value);
  };
  for (std::size_t i = 0; i < tally.anti_affinity.size(); ++i) {
    const kube::PodAffinityTerm& term = spec.required_pod_anti_affinity[i];
    if (SelectsOwn(term, other)) raise(tally.anti_affinity[i], term.topology_key);
  }
  if (!tally.affinity.empty() && Attracts(other)) {
    hit(tally.attracting, NeighbourTally::kAnywhere);
    for (std::size_t i = 0; i < tally.affinity.size(); ++i) {
      raise(tally.affinity[i], spec.required_pod_affinity[i].topology_key);
    }
  }
  if (!tally.spread.empty() && !other.terminating() && HasSpreadLabels(node)) {
    for (std::size_t i = 0; i < tally.spread.size(); ++i) {
      if (SelectsOwn(spread_terms_[i], other) && Counts(i, node)) {
        raise(tally.spread[i], spec.topology_spread[i].topology_key);
      }
    }
  }
  for (const auto& term : other.object.spec->required_pod_anti_affinity) {
    if (Selects(term, AsSelectable(other), self(), *store_)) {
      raise(tally.repelled[term.topology_key], term.topology_key);
    }
  }
}

template <typename Hit>
void NeighbourCounter::ForNode(cluster::NodeIndex node, NeighbourTally& tally,
                               const Hit& hit) const {
  if (tally.spread.empty() || !store_->node(node).present || !HasSpreadLabels(node)) return;
  for (std::size_t i = 0; i < tally.spread.size(); ++i) {
    if (Counts(i, node)) hit(tally.spread_nodes[i], *Label(node, spread_terms_[i].topology_key));
  }
}

}  // namespace berth::policy
