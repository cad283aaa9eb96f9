// The draws of the profile `mixed`: memory, node selectors and taints, affinity and spread, several
// namespaces, pods of another scheduler, queues that do not exist, clocks that drift.
#pragma once

#include "sim/faults/day.h"

namespace berth::sim {

/// Changes a day that was drawn, with a stream of random numbers of its own.
void DrawMixed(Day& day);

}  // namespace berth::sim
