// Runs a scenario file in the simulated world, at the level `scheduler`: the real engine, models of
// kube-scheduler and the API server, virtual time. Every invariant of the design is checked on the
// way, beside what the file expects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace berth::scenario {

struct RunOptions {
  std::uint64_t seed = 1;  ///< Of delays, and of kube-scheduler's choice among equals.
  /// An expectation must hold after this much virtual time, milliseconds: longer than any backoff.
  std::int64_t settle = 60'000;
  /// After the last step: so many rounds of `settle` in which nothing may change.
  int quiet_rounds = 3;
};

struct RunReport {
  std::vector<std::string> faults;       ///< `line 12: g: 2 bound, expected 3`; empty: it passed.
  std::vector<std::string> last_events;  ///< Of the world, where it did not pass.
  std::uint64_t hash = 0;                ///< Of everything that happened: same seed, same hash.
};

RunReport Run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace berth::scenario
