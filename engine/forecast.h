// When work that waits is expected to start, by what jobs say of their duration
// (berth.dev/expected-duration) and by what is being deleted. For people: no decision reads it.
#pragma once

#include <span>
#include <vector>

#include "engine/decide.h"

namespace berth::engine {

/// When pods that hold room on the node are expected to have ended, if that is after view.now; in
/// no order. A pod that terminates ends with its grace period. The pods of a job end when it has
/// run (min_run_time.h) for as long as its first member said; of a job that says nothing, or takes
/// longer than that, no end is known.
std::vector<TimePoint> ExpectedEnds(const View& view, const cluster::NodeInfo& node);

/// Whether the last workload of `line` has room and quota at `at`, if by then all pods have ended
/// that are expected to, and pods that are evicted for other work in any case. The others of
/// `line`, which must not be empty, come first, and take their room if they have it then. That it
/// could start by evicting others is not considered, nor that work of other queues may come first.
bool HasRoomAt(const View& view, std::span<const cluster::Workload* const> line, TimePoint at);

}  // namespace berth::engine
