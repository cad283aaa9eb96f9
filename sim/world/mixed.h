// The draws of the profile `mixed`: memory, node selectors and taints, affinity and spread, several
// namespaces, pods of another scheduler, queues that are not there, clocks that drift.
#pragma once

#include "sim/world/scenario.h"

namespace berth::sim {

/// Changes a day that was drawn, by a stream of random numbers of its own.
void DrawMixed(Scenario& day);

}  // namespace berth::sim
