// Two ways to place a gang that take racks into account, without Berth's planner: the least that a
// baseline of the topology experiment must do. Both see free GPUs by node, and the rack of each.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/random.h"

namespace berth::sim {

/// A node, as far as these policies see it.
struct RackNode {
  int rack = 0;
  std::int64_t free = 0;  ///< Free GPUs, out of `all`.
  std::int64_t all = 0;
};

// Each returns the indices of the nodes for `members` pods of `gpus` each, in their order; empty:
// not all of them have room.

/// kube-scheduler's default score with a preferred pod affinity of the gang to itself by rack. Pods
/// are placed one after the other, each on the node with the best sum of NodeResourcesFit's
/// LeastAllocated (weight 1, here by GPUs) and InterPodAffinity (weight 2: the members in the
/// node's rack relative to the rack with most members). Ties are drawn.
std::vector<std::size_t> PlaceByRackAffinity(std::vector<RackNode> nodes, int members,
                                             std::int64_t gpus, Random& ties);

/// Greedy by rack: all members into the rack with the least room that holds all of them, as Kueue's
/// topology-aware scheduling packs (BestFit); otherwise into the racks with the most room first. In
/// a rack, the fullest node that fits.
std::vector<std::size_t> PlaceByTightestRack(std::vector<RackNode> nodes, int members,
                                             std::int64_t gpus);

}  // namespace berth::sim
