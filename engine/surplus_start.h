// How many members of an elastic gang get room at once: those beyond its minimum are the first that
// others may take back, and none starts only to be evicted a moment later. And whether others are
// entitled to room.
#pragma once

#include <vector>

#include "engine/decide.h"

namespace berth::engine {

/// Of `pods`, which are in rank order, the first `min`, and those after them that the quotas of
/// their queue cover, on top of what is in use without View::ended.
std::vector<const cluster::PodInfo*> MembersWithinQuota(const View& view,
                                                        const cluster::Workload& workload,
                                                        std::vector<const cluster::PodInfo*> pods,
                                                        int min);

/// Whether another queue, with work that waits, has less than its fair share of devices of which
/// the pods take some. `within_quota`: less than what is within its quota, too.
bool OthersLack(const View& view, const cluster::Workload& workload,
                const std::vector<const cluster::PodInfo*>& pods, bool within_quota);

/// `start`: how at least `min` of `pods` start, evicting nobody of another queue. Where another
/// queue has less in use than its fair share, only those within quota do, at the same places: its
/// work comes first, and the other members join in the room that is left. Where affinity or spread
/// matters, all start, as some of the places may hold only beside the others.
Reservation LeaveRoomToOthers(const View& view, const cluster::Workload& workload,
                              std::vector<const cluster::PodInfo*> pods, int min,
                              Reservation start);

}  // namespace berth::engine
