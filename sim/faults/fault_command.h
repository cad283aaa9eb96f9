// The subcommand `faults` of `berth simulate`.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>

#include "sim/faults/fault_search.h"
#include "sim/world/fidelity_option.h"

namespace berth::sim {

/// Adds `faults` below `simulate`; its values are stored in `options`, which must outlive the
/// parsing. If `app.got_subcommand("faults")`, call RunFaults(options, std::cout).
inline CLI::App* AddFaultsCommand(CLI::App& simulate, FaultOptions& options) {
  CLI::App* faults = simulate.add_subcommand(
      "faults",
      "run small clusters with injected faults in virtual time, and report violated invariants");
  faults->add_option("--seeds", options.seeds, "A-B or A,B,C: one simulated day per seed")
      ->capture_default_str();
  std::string names;
  for (const Profile& profile : Profiles()) names += ' ' + std::string(profile.name);
  faults->add_option("--profile", options.profile, "which faults are injected:" + names)
      ->capture_default_str();
  AddWireOption(*faults, options.fidelity);
  auto* nodes =
      faults
          ->add_option("--nodes", options.nodes,
                       "simulate 24 hours on this many nodes, instead of a short day on a few")
          ->check(CLI::Range(1, 100'000));
  faults
      ->add_option("--pods", options.pods,
                   "pods that are created in those 24 hours (default: 20 per node)")
      ->check(CLI::Range(1, 10'000'000))
      ->needs(nodes);
  faults->add_option("-j,--jobs", options.jobs, "number of threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  faults->add_option("--lines", options.lines, "number of events to print before a violation")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  faults->add_flag("!--once", options.repeat,
                   "run every seed only once, without comparing the hashes of two runs");
  faults->add_flag("!--no-story", options.story,
                   "do not reduce the first failure to a smaller case and print its events");
  faults->add_flag("--until-broken", options.until_broken, "stop at the first failing seed");
  faults->add_flag("--tell", options.tell,
                   "print the last events of one seed, whether or not it violates an invariant");
  faults->add_flag("-v", options.verbose, "print one line per seed");
  return faults;
}

}  // namespace berth::sim
