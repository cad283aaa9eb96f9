// Keeps the job's own order of a gang's members: members with neighbouring ranks, which communicate
// most, become neighbours in the topology tree. Pure.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "policy/placement.h"
#include "policy/shortage.h"

namespace berth::policy {

/// Members without devices come first, because a launcher is part of the minimum however few
/// workers there are. Then by the replica of the job that a member belongs to (JobSet's job index,
/// LeaderWorkerSet's group index), then by the index in it (cluster::PodClaims::rank). Members
/// without a valid index come after the others, in the order given.
std::vector<const cluster::PodInfo*> RankOrder(const std::vector<const cluster::PodInfo*>& members);

/// Whether the workload has more members than its size says.
bool HasMoreThanAnnounced(const cluster::Workload& workload);

/// How many of `pods` pods of the shape empty nodes could take; asked once for each shape.
using EmptyPlaces = std::function<std::ptrdiff_t(const std::shared_ptr<const cluster::PodShape>&,
                                                 std::ptrdiff_t pods)>;

/// Moves the pods for which empty nodes have no place behind the others: of each shape the first
/// ones stay.
void PutImpossibleLast(const EmptyPlaces& places, std::vector<const cluster::PodInfo*>& pods);

/// For a gang with more members than it announced: a member for which empty nodes have no place, or
/// the only one of its shape, must not be what the gang waits for, nor take a place of the minimum.
void PutUnlikelyLast(const EmptyPlaces& places, std::vector<const cluster::PodInfo*>& pods);

/// Reassigns the nodes of `placed`, in the order of the tree, among members of one shape, which are
/// interchangeable: in any domain of any level, the ranks of one shape are then consecutive.
/// Members that share devices, or whose affinity or spread makes their order of arrival matter,
/// keep their nodes; and all members do if one of them would then not be allowed on its node.
/// `members` is the order of ranks, in which `placed` is left; `groups` are these members by shape;
/// `base` is the cluster without them. `fixed` keeps its node; null: no member has to.
void AlignRanks(std::span<const cluster::PodInfo* const> members,
                std::span<const ShapeGroup> groups, const Overlay& base, NeighbourCache& cache,
                const cluster::PodInfo* fixed, std::vector<Placed>& placed);

}  // namespace berth::policy
