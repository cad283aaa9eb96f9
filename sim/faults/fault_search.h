// `berth simulate faults`: many small days with faults, each from its own seed, until an invariant
// is violated.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "sim/faults/day.h"
#include "sim/faults/day_run.h"

namespace berth::sim {

/// What the command line of `berth simulate faults` says.
struct FaultOptions {
  std::string seeds = "1-200";  ///< As ParseSeeds reads them.
  std::string profile = "all";
  Fidelity fidelity = Fidelity::kScheduler;
  int nodes = 0;  ///< 0: a small day; otherwise DrawLargeDay with this many nodes and pods.
  int pods = 0;
  int jobs = 0;               ///< Threads; 0: one per core.
  bool repeat = true;         ///< Run every seed twice and compare the hashes (I8).
  bool story = true;          ///< Shrink the first failure and print what happened.
  std::size_t lines = 60;     ///< How many of the last events are printed.
  bool until_broken = false;  ///< Start no further seed after one has failed.
  bool tell = false;          ///< Print the last events of the single seed, whether it failed or
                              ///< not.
  bool verbose = false;       ///< A line per seed.
};

/// Prints the last line `N seeds, 0 violations` for those that ran, and returns 0; or the first
/// failing seed with its events, and returns 1. Also 1 if, in a hundred seeds or more, something
/// that the profile is about never happened; 2 for options that make no sense.
int RunFaults(const FaultOptions& options, std::ostream& out);
/// The same over the caller's days: `draw` makes one from a seed. Threads call it concurrently.
int RunFaults(const FaultOptions& options, const std::function<Day(std::uint64_t seed)>& draw,
              std::ostream& out);

/// Runs one day, twice if `repeat`: a difference is a violation of I8. The second run is at
/// fidelity `scheduler`, so that a day at fidelity `wire` is compared with the same day when
/// objects are passed as values.
RunResult RunDay(const Day& day, bool repeat);

/// Drops faults, then jobs, as long as the run still breaks an invariant.
Day Shrink(Day day);

}  // namespace berth::sim
