// Two ways to place a gang that know racks, without Berth's planner: what a baseline for the
// topology experiment must at least do. Both see free GPUs by node, and the rack of each.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/random.h"

namespace berth::sim {

struct RackNode {
  int rack = 0;
  std::int64_t free = 0;  ///< GPUs, of `all`.
  std::int64_t all = 0;
};

// Each returns the indices of the nodes of `members` pods of `gpus` each, in their order; empty:
// not all of them have room.

/// kube-scheduler's default score with a preferred pod affinity of the gang for itself by rack: one
/// pod after the other, each to the node with the best sum of NodeResourcesFit's LeastAllocated
/// (weight 1, here by GPUs) and InterPodAffinity (weight 2: the share of the fullest rack's mates).
/// Ties are drawn.
std::vector<std::size_t> PlaceByRackAffinity(std::vector<RackNode> nodes, int members,
                                             std::int64_t gpus, Random& ties);

/// Greedy by rack, whole: into the rack with the least room that holds all of them, as Kueue's
/// topology-aware scheduling packs (BestFit); else into the racks with the most room first. In a
/// rack the fullest node that fits.
std::vector<std::size_t> PlaceByTightestRack(std::vector<RackNode> nodes, int members,
                                             std::int64_t gpus);

}  // namespace berth::sim
