// Required pod affinity, anti-affinity and DoNotSchedule spread, over charged pods and over the
// members that the overlay has placed. Semantics of kube-scheduler's InterPodAffinity and
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

/// Where one pod may go as far as other pods are concerned, both ways: its own terms, and the
/// anti-affinity of those that are there. As kube-scheduler does in PreFilter, the cluster is
/// counted once, here; a node then costs a few look-ups, however many pods and nodes there are.
class Neighbours {
 public:
  /// `pod` and the store must outlive it and stay as they are.
  Neighbours(const cluster::PodInfo& pod, const Overlay& overlay);

  bool Allow(cluster::NodeIndex node) const;

  /// Counts `other` in, which has been placed on `node` since. REQUIRES: it is another pod.
  void Add(const cluster::PodInfo& other, cluster::NodeIndex node);

  /// Whether all of this is true of `other` as well, which holds no room: it is alike in all that
  /// anybody's terms look at.
  bool SameFor(const cluster::PodInfo& other) const;

 private:
  using Values = std::unordered_set<std::string_view>;  ///< Of the label that is a term's topology.

  /// One of the pod's own terms of affinity or anti-affinity.
  struct Term {
    const kube::PodAffinityTerm* said;
    Values values;  ///< Domains with a pod that it selects.
  };
  struct Spread {
    const kube::TopologySpreadConstraint* said;
    kube::PodAffinityTerm selects;
    std::unordered_map<std::string_view, int> counts;  ///< By domain.
    int least = 0;
    bool self = false;  ///< The pod itself counts.
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
  std::vector<Term> anti_affinity_;  ///< But for those of one host.
  std::vector<const kube::PodAffinityTerm*> host_anti_affinity_;
  std::vector<Term> affinity_;
  bool attracted_ = false;  ///< Somewhere is a pod that satisfies every term of affinity.
  std::vector<Spread> spread_;
  std::map<std::string, Values> repelled_;  ///< By topology key: domains that keep it away.
  std::vector<std::pair<const cluster::PodInfo*, cluster::NodeIndex>> added_;
  std::set<std::string> labels_;  ///< Keys of its labels that anybody's terms look at.
};

/// Neighbours(pod, overlay).Allow(node).
bool NeighboursAllow(const cluster::PodInfo& pod, const Overlay& overlay, cluster::NodeIndex node);

/// Whether NeighboursAllow can be false at all for this pod: it has terms of its own, or a pod that
/// is there has one that selects it.
bool NeighboursMatter(const cluster::PodInfo& pod, const Overlay& overlay);

/// Whether `other`, which came to its node or is about to leave it, may open a node to `pod`:
/// affinity selects it, or spread counts it. (What else may open one gives back room.)
bool MayOpenNode(const cluster::PodInfo& pod, const cluster::PodInfo& other,
                 const cluster::Store& store);

/// Whether a member placed later may open a node to pods of this shape: affinity and spread do, and
/// so the order in which members come matters.
bool MayAllowLater(const cluster::PodShape& shape);

/// Whether a pod that has a place in a plan with its mates may be refused it until some of them are
/// there: spread counts them, or its affinity selects them and not itself.
bool MustComeAfter(const cluster::PodInfo& pod, const cluster::Store& store);

}  // namespace berth::policy
