// Runs a scenario file in the simulated world: the real engine, models of kube-scheduler and the
// API server, virtual time. Every invariant of the design is checked on the way, in addition to
// what the file expects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/scheduler/scheduler.h"

namespace berth::scenario {

/// How a scenario is run.
struct RunOptions {
  sim::Fidelity fidelity = sim::Fidelity::kScheduler;
  std::uint64_t seed = 1;  ///< For delays, and for kube-scheduler's choice among equals.
  /// An expectation must hold after this much virtual time, in milliseconds: longer than any
  /// backoff.
  std::int64_t settle = 60'000;
  /// After the last step: this many rounds of `settle` in which nothing may change.
  int quiet_rounds = 5;
  sim::SchedulerOptions scheduler{};
  /// False: kube-scheduler alone, without an extender. The values that only Berth provides are then
  /// unknown.
  bool with_berth = true;
  /// How long a node that is added has the taint that the API server gives every new node.
  std::int64_t join = 0;
};

/// One scheduling cycle of kube-scheduler.
struct Attempt {
  std::string pod;
  std::string node;         ///< Empty: the pod fits nowhere.
  std::int64_t equals = 1;  ///< Nodes with the best score, of which one was drawn.
};

/// What a run found.
struct RunReport {
  std::vector<std::string> faults;       ///< `line 12: g: 2 bound, expected 3`; empty: it passed.
  std::vector<std::string> last_events;  ///< The last events of the world, if it did not pass.
  std::vector<Attempt> attempts;         ///< In order.
  std::uint64_t hash = 0;                ///< Hash of everything that happened: the same for the
                                         ///< same seed.
};

/// Runs the steps in order, and ends early at the first that fails.
RunReport Run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace berth::scenario
