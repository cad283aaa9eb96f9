// Required pod affinity, anti-affinity and DoNotSchedule spread, counted over charged pods and over
// the members that the overlay has placed. Same semantics as kube-scheduler's InterPodAffinity and
// PodTopologySpread plugins. Pure.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/neighbour_counts.h"
#include "policy/overlay.h"

namespace berth::policy {

/// Where one pod may go as far as other pods are concerned, in both directions: its own terms, and
/// the anti-affinity of the pods that are there. The counts over the pods that hold room are the
/// cache's; here is how the overlay differs. A node costs a few look-ups, however many pods and
/// nodes there are.
class Neighbours {
 public:
  /// `pod`, the store and `cache` must outlive this object, and the store must stay unchanged.
  Neighbours(const cluster::PodInfo& pod, const Overlay& overlay, NeighbourCache& cache);

  bool Allow(cluster::NodeIndex node) const;

  /// Also counts `other`, which has been placed on `node` since. REQUIRES: it is another pod.
  void Add(const cluster::PodInfo& other, cluster::NodeIndex node);

  /// Whether all of this also holds for `other`, which holds no room: the two pods are equal in
  /// everything that the terms of any pod look at.
  bool SameFor(const cluster::PodInfo& other) const;

 private:
  void Count(const cluster::PodInfo& other, cluster::NodeIndex node, int change);
  bool WithCompany(cluster::NodeIndex node) const;
  bool KeepsSkew(cluster::NodeIndex node) const;
  int Least(std::size_t constraint) const;

  const cluster::PodInfo* pod_;
  const cluster::Store* store_;
  std::shared_ptr<const NeighbourRow> row_;
  NeighbourTally change_;             ///< What the overlay adds to the row's counts.
  std::vector<int> least_;            ///< By spread constraint: the count of the domain with least.
  std::vector<bool> spreads_itself_;  ///< By spread constraint: it selects the pod itself.
  std::set<std::string> keys_;        ///< Of labels that the terms of placed pods look at.
};

/// Neighbours(pod, overlay, cache).Allow(node).
bool NeighboursAllow(const cluster::PodInfo& pod, const Overlay& overlay, NeighbourCache& cache,
                     cluster::NodeIndex node);

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
