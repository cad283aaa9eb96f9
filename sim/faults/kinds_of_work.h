// The draws of the profile `flavors`: nodes of several flavors, queues with amounts of them, work
// that may not be evicted, classes, and what queues admit.
#pragma once

#include "sim/faults/day.h"

namespace berth::sim {

/// Changes a day that was drawn, with a stream of random numbers of its own.
void DrawFlavors(Day& day);

/// Gives some queues other amounts, or the nodes other flavors.
void EditFlavors(config::PolicyConfiguration& policy, std::uint64_t choice);

/// Gives jobs users, and lets some queues share by user or namespace, or cap the jobs of a user.
void DrawUsers(Day& day);

/// Sometimes, sets after how many evictions a job is not evicted any more, and how long before an
/// eviction pods are told of it.
void DrawEvictions(Day& day);

/// Sometimes, changes by whom a queue shares, or its cap of jobs.
void EditUsers(config::PolicyConfiguration& policy, std::uint64_t choice);

}  // namespace berth::sim
