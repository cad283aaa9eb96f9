// The workloads of the named experiments `philly`, `philly-queues` and `openb-arrivals`: clusters
// and jobs made of published traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/experiments/traces.h"
#include "sim/trace/sweep.h"

namespace berth::sim {

/// `count` jobs drawn with replacement from `trace` (duration, GPUs), arriving as a Poisson process
/// that offers `load` (1.0 = all GPUs busy) to 32 nodes of 8 GPUs. A job is one pod; CPU and memory
/// are proportional to its GPUs, a whole node's worth for 8.
TraceWorkload PhillyWorkload(const std::vector<TraceJob>& trace, double load, std::size_t count,
                             std::uint64_t seed);

/// What `philly-queues` compares: `native` (kube-scheduler alone); Berth without quotas (`none`),
/// with quotas that are caps (`caps`), with the same ones lent and not taken back (`lends`), and
/// lent and taken back (`reclaims`).
const std::vector<std::string_view>& QueuePolicies();

/// `count` jobs drawn with replacement from `arrivals` (virtual cluster, GPUs), each with the
/// duration of a random one of `durations` with as many GPUs, or where there is none with 8;
/// Poisson arrivals that offer `load` to 32 nodes of 8 GPUs. A job of more than 8 GPUs is a gang of
/// pods of 8. Each virtual cluster that has 1 % of the arrivals is a queue, the others are left
/// out. A queue's quota is its part of the GPU time of the drawn jobs, in whole GPUs of the
/// cluster; as a cap it is at least the queue's largest job. `base` is the policy to which the
/// queues are added.
TraceWorkload PhillyQueuesWorkload(const std::vector<TraceJob>& arrivals,
                                   const std::vector<TraceJob>& durations, double load,
                                   std::size_t count, std::uint64_t seed,
                                   const config::PolicyConfiguration& base);

/// Pods of the default openb list that ran: of those since day 110 the last 40 %, with their own
/// durations, on `node_count` random nodes. Shares of a GPU are left out, because kube-scheduler
/// does not know them. Arrivals are compressed so that the pods that fit somewhere offer `load`.
TraceWorkload OpenbWorkload(const std::vector<OpenbNode>& nodes, const std::vector<OpenbPod>& pods,
                            double load, std::size_t node_count, std::uint64_t seed);

}  // namespace berth::sim
