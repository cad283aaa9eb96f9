// Required pod affinity, anti-affinity and DoNotSchedule spread, counted over charged pods and over
// the members that the overlay has placed. Same semantics as kube-scheduler's InterPodAffinity and
// PodTopologySpread plugins. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "policy/overlay.h"

namespace berth::policy {

/// Where one pod may go as far as other pods are concerned, in both directions: its own terms, and
/// the anti-affinity of the pods that are there. Like kube-scheduler's PreFilter, the constructor
/// counts the cluster once; after that a node costs a few look-ups, however many pods and nodes
/// there are.
class Neighbours {
 public:
  /// `pod` and the store must outlive this object and stay unchanged.
  Neighbours(const cluster::PodInfo& pod, const Overlay& overlay);

  bool Allow(cluster::NodeIndex node) const;

  /// Also counts `other`, which has been placed on `node` since. REQUIRES: it is another pod.
  void Add(const cluster::PodInfo& other, cluster::NodeIndex node);

  /// Whether all of this also holds for `other`, which holds no room: the two pods are equal in
  /// everything that the terms of any pod look at.
  bool SameFor(const cluster::PodInfo& other) const;

 private:
  using Values = std::unordered_set<std::string_view>;  ///< Of the term's topology label.

  /// One of the pod's own terms of affinity or anti-affinity.
  struct Term {
    const kube::PodAffinityTerm* said;
    Values values;  ///< Domains with a pod that the term selects.
  };
  struct Spread {
    const kube::TopologySpreadConstraint* said;
    kube::PodAffinityTerm selects;
    std::unordered_map<std::string_view, int> counts;  ///< By domain.
    int least = 0;
    bool self = false;  ///< The pod itself is selected.
  };

  void CountDomains();
  void CountPods();
  void CountRepellers();
  void Count(const cluster::PodInfo& other, cluster::NodeIndex node);
  void Repel(const cluster::PodInfo& repeller, cluster::NodeIndex node);
  void LookAt(const kube::PodAffinityTerm& term);
  bool Attracts(const cluster::PodInfo& other) const;
  bool AloneOnHost(cluster::NodeIndex node) const;
  bool Eligible(cluster::NodeIndex node) const;
  void FindLeast(Spread& spread) const;

  const cluster::PodInfo* pod_;
  const Overlay* overlay_;
  std::vector<Term> anti_affinity_;  ///< Except those with the host as topology.
  std::vector<const kube::PodAffinityTerm*> host_anti_affinity_;
  std::vector<Term> affinity_;
  bool attracted_ = false;  ///< Some pod satisfies every affinity term.
  std::vector<Spread> spread_;
  std::map<std::string, Values> repelled_;  ///< By topology key: domains whose pods repel it.
  std::vector<std::pair<const cluster::PodInfo*, cluster::NodeIndex>> added_;
  std::set<std::string> labels_;  ///< Keys of its labels that the terms of any pod look at.
};

/// Neighbours(pod, overlay).Allow(node).
bool NeighboursAllow(const cluster::PodInfo& pod, const Overlay& overlay, cluster::NodeIndex node);

/// Whether NeighboursAllow can be false at all for this pod: it has terms of its own, or a pod that
/// is there has a term that selects it.
bool NeighboursMatter(const cluster::PodInfo& pod, const Overlay& overlay);

/// Whether `other`, which came to its node or is about to leave it, may open a node to `pod`:
/// affinity selects it, or spread counts it. (Everything else that may open a node frees room.)
bool MayOpenNode(const cluster::PodInfo& pod, const cluster::PodInfo& other,
                 const cluster::Store& store);

/// Whether a member placed later may open a node to pods of this shape. Affinity and spread can do
/// that, and then the order in which members come matters.
bool MayAllowLater(const cluster::PodShape& shape);

/// Whether a pod with a place in a plan may be refused that place until other members of the plan
/// are there: spread counts them, or its affinity selects them and not the pod itself.
bool MustComeAfter(const cluster::PodInfo& pod, const cluster::Store& store);

}  // namespace berth::policy
