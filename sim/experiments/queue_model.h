// kube-scheduler's queue in virtual time around the engine's decisions (fidelity `scheduler`): jobs
// of one pod arrive, wait, run and end. It models kube-scheduler v1.36 as
// sim/scheduler/scheduler_queue.h does, which is checked against the real one:
//   - PrioritySort: one pod at a time, the smallest queue timestamp first; every failed attempt
//     renews the timestamp, so a pod that failed falls behind those that arrived meanwhile;
//   - a pod that fits nowhere waits for an event; when a pod ends, all waiting pods are tried
//     again; those in backoff (1 s, doubling, at most 10 s) come after the others, by the end of
//     backoff;
//   - a pod that has waited for 5 minutes without an event is tried again (checked every 30 s).
// A scheduling cycle and a Binding take no time, so no pod waits for the end of its backoff: the
// scheduler is idle at once, and then it tries those in backoff as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/experiments/packing.h"

namespace berth::sim {

/// A job of one pod. Times are milliseconds.
struct QueuedJob {
  std::string name;
  std::int64_t arrival = 0;
  std::int64_t service = 0;  ///< How long it runs, on any node.
  OpenbPod pod{};
};

struct QueueModelOptions {
  PackingOptions packing;
  /// Strict FIFO instead: no pod is tried before all earlier ones run. Kubernetes does not do this;
  /// it is here to warn about a common baseline.
  bool strict_fifo = false;
};

/// Results of the jobs, in their order.
struct QueueResult {
  struct Outcome {
    std::int64_t wait = 0;  ///< From arrival to start, milliseconds.
    std::int64_t jct = 0;   ///< From arrival to end.
  };
  std::vector<Outcome> jobs;       ///< For the jobs in `ran`, in the same order.
  std::vector<std::size_t> ran;    ///< Indices into the input.
  std::vector<std::size_t> never;  ///< Jobs that fit on no node of the empty cluster; they are left
                                   ///< out.
  std::int64_t makespan = 0;       ///< From the first arrival to the last end, milliseconds.
  std::int64_t busy = 0;           ///< Used GPU thousandths x milliseconds.
  std::int64_t attempts = 0;
};

/// Runs until every job that can fit has ended. REQUIRES: `jobs` by rising arrival.
QueueResult RunQueue(const std::vector<OpenbNode>& nodes, const std::vector<QueuedJob>& jobs,
                     const QueueModelOptions& options);

}  // namespace berth::sim
