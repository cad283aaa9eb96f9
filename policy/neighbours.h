// Required pod affinity, anti-affinity and DoNotSchedule spread, over charged pods and over the
// members that the overlay has placed. Semantics of kube-scheduler's InterPodAffinity and
// PodTopologySpread plugins. Pure.
#pragma once

#include "policy/overlay.h"

namespace berth::policy {

/// Whether `pod` may join `node` as far as other pods are concerned, both ways: its own terms, and
/// the anti-affinity of those that are there.
bool NeighboursAllow(const cluster::PodInfo& pod, const Overlay& overlay, cluster::NodeIndex node);

/// Whether NeighboursAllow can be false at all for this pod in this cluster.
bool NeighboursMatter(const cluster::PodInfo& pod, const Overlay& overlay);

/// Whether a member placed later may open a node to pods of this shape: affinity and spread do, and
/// so the order in which members come matters.
bool MayAllowLater(const cluster::PodShape& shape);

}  // namespace berth::policy
