// The order of a gang's members is the job's own, and neighbours in rank, who talk to each other
// most, become neighbours in the tree. Pure.
#pragma once

#include <span>
#include <vector>

#include "policy/placement.h"
#include "policy/shortage.h"

namespace berth::policy {

/// Members without devices first: a launcher is part of the minimum, however few workers are. Then
/// by the replica of the job that a member belongs to (JobSet's job index, LeaderWorkerSet's group
/// index), then by its index in there (cluster::PodClaims::rank). What has no index, or nonsense,
/// comes after what has one, in the order given.
std::vector<const cluster::PodInfo*> RankOrder(const std::vector<const cluster::PodInfo*>& members);

/// Deals the nodes of `placed` out anew, in the order of the tree, among members of one shape,
/// which can stand for each other: in any domain, of any level, the ranks of one shape are then a
/// row without a gap. Members that share devices, or whose affinity or spread makes the order in
/// which they come matter, keep their nodes; and all do if one would not be let in any more.
/// `members` is the order of ranks, in which `placed` is left; `groups` are those members by shape;
/// `base` is the cluster without them. `fixed` keeps its node; null: nobody has to.
void AlignRanks(std::span<const cluster::PodInfo* const> members,
                std::span<const ShapeGroup> groups, const Overlay& base,
                const cluster::PodInfo* fixed, std::vector<Placed>& placed);

}  // namespace berth::policy
