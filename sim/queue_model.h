// kube-scheduler's queue in virtual time around the engine's decisions (fidelity `scheduler`): jobs
// of one pod arrive, wait, run and end. Modelled after kube-scheduler v1.36, as world/
// scheduler_queue.h is, which is checked against it:
//   - PrioritySort: one pod at a time, the smallest queue timestamp first; the timestamp is renewed
//     by every failed attempt, so a pod that failed falls behind those that came meanwhile;
//   - a pod that fits nowhere waits for an event; when a pod ends, all that wait are tried again;
//     those in backoff (1 s, doubling, at most 10 s) come after the others, whose ends first;
//   - what has waited for 5 minutes without an event is tried again (looked for every 30 s).
// A scheduling cycle and a Binding take no time, so that nobody waits for the end of a backoff: the
// scheduler is idle at once, and then it tries those too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/packing.h"

namespace berth::sim {

/// A job of one pod. Times are milliseconds.
struct QueuedJob {
  std::string name;
  std::int64_t arrival = 0;
  std::int64_t service = 0;  ///< How long it runs, wherever it runs.
  OpenbPod pod{};
};

struct QueueModelOptions {
  PackingOptions packing;
  /// Strict FIFO instead: nobody is tried before all who came earlier run. What Kubernetes does not
  /// do; a warning about a common baseline.
  bool strict_fifo = false;
};

/// What became of the jobs, in their order.
struct QueueResult {
  struct Outcome {
    std::int64_t wait = 0;  ///< From arrival to start, milliseconds.
    std::int64_t jct = 0;   ///< From arrival to end.
  };
  std::vector<Outcome> jobs;       ///< Of those in `ran`, in the same order.
  std::vector<std::size_t> ran;    ///< Indices into the input.
  std::vector<std::size_t> never;  ///< Jobs that fit on no node of the empty cluster: left out.
  std::int64_t makespan = 0;       ///< From the first arrival to the last end, milliseconds.
  std::int64_t busy = 0;           ///< GPU thousandths x milliseconds used.
  std::int64_t attempts = 0;
};

/// Runs until every job that can fit has ended. `jobs` by rising arrival.
QueueResult RunQueue(const std::vector<OpenbNode>& nodes, const std::vector<QueuedJob>& jobs,
                     const QueueModelOptions& options);

}  // namespace berth::sim
