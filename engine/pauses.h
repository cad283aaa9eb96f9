// How long until a node that refused a pod is tried again.
#pragma once

#include <span>
#include <vector>

#include "cluster/model.h"

namespace berth::engine {

/// Rounded up; 0: it is time.
cluster::TimePoint SecondsUntil(cluster::TimePoint then, cluster::TimePoint now);

/// Those of `avoid` whose pause is not over.
std::vector<policy::Avoid> NotYet(std::vector<policy::Avoid> avoid, cluster::TimePoint now);

/// Until the first of these pauses is over; 0: there is none.
cluster::TimePoint SecondsLeft(std::span<const policy::Avoid> avoid, cluster::TimePoint now);

}  // namespace berth::engine
