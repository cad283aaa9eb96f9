// `berth simulate faults`: many small bad days, each from its own seed, until an invariant breaks.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "sim/world/scenario.h"
#include "sim/world/world.h"

namespace berth::sim {

struct FaultOptions {
  std::string seeds = "1-200";  ///< As ParseSeeds reads them.
  std::string profile = "all";
  Fidelity fidelity = Fidelity::kScheduler;
  int nodes = 0;  ///< 0: a small bad day; else DrawDay of so many nodes and pods.
  int pods = 0;
  int jobs = 0;               ///< Threads; 0: one per core.
  bool repeat = true;         ///< Run every seed twice and compare the hashes (I8).
  bool story = true;          ///< Shrink the first failure and tell it.
  std::size_t lines = 60;     ///< Last events that are told.
  bool until_broken = false;  ///< No further seed once one has failed.
  bool tell = false;          ///< Print the last events of the one seed, broken or not.
  bool verbose = false;       ///< A line per seed.
};

/// Last line `N seeds, 0 violations`, of those that ran, and 0; or the first failing seed with its
/// story and 1; also 1 where, in a hundred seeds or more, something that the profile is about never
/// happened; 2 for options that make no sense.
int RunFaults(const FaultOptions& options, std::ostream& out);
/// The same over days of the caller's: `draw` makes one of a seed. Threads call it at once.
int RunFaults(const FaultOptions& options, const std::function<Scenario(std::uint64_t seed)>& draw,
              std::ostream& out);

/// One day, twice where `repeat`: a difference is a violation of I8. The second time is at level
/// `scheduler`, so that a day at level `wire` is compared with what passing values makes of it.
RunResult RunDay(const Scenario& scenario, bool repeat);

/// Drops faults, then jobs, as long as the run still breaks an invariant.
Scenario Shrink(Scenario scenario);

}  // namespace berth::sim
