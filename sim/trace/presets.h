// The workloads of the named experiments `philly` and `openb-arrivals`: clusters and jobs made of
// published traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/experiments/traces.h"
#include "sim/trace/sweep.h"

namespace berth::sim {

/// `count` jobs drawn with replacement from `trace` (duration, GPUs), arriving as a Poisson process
/// that offers `load` (1.0 = all GPUs busy) to 32 nodes of 8 GPUs. A job is one pod; CPU and memory
/// are proportional to its GPUs, a whole node's worth for 8.
TraceWorkload PhillyWorkload(const std::vector<TraceJob>& trace, double load, std::size_t count,
                             std::uint64_t seed);

/// Pods of the default openb list that ran: of those since day 110 the last 40 %, with their own
/// durations, on `node_count` random nodes. Shares of a GPU are left out, because kube-scheduler
/// does not know them. Arrivals are compressed so that the pods that fit somewhere offer `load`.
TraceWorkload OpenbWorkload(const std::vector<OpenbNode>& nodes, const std::vector<OpenbPod>& pods,
                            double load, std::size_t node_count, std::uint64_t seed);

}  // namespace berth::sim
