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
      "faults", "small bad days in virtual time, until an invariant of the design breaks");
  faults->add_option("--seeds", options.seeds, "A-B or A,B,C: one day each")->capture_default_str();
  std::string names;
  for (const Profile& profile : Profiles()) names += ' ' + std::string(profile.name);
  faults->add_option("--profile", options.profile, "what goes wrong:" + names)
      ->capture_default_str();
  AddWireOption(*faults, options.fidelity);
  auto* nodes = faults
                    ->add_option("--nodes", options.nodes,
                                 "a day of 24 hours on so many nodes instead of a small one")
                    ->check(CLI::Range(1, 100'000));
  faults->add_option("--pods", options.pods, "pods of that day; default: 20 a node")
      ->check(CLI::Range(1, 10'000'000))
      ->needs(nodes);
  faults->add_option("-j,--jobs", options.jobs, "threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  faults->add_option("--lines", options.lines, "last events of a failure that are told")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  faults->add_flag("!--once", options.repeat, "do not run every seed twice to compare the hashes");
  faults->add_flag("!--no-story", options.story, "do not shrink and tell the first failure");
  faults->add_flag("--until-broken", options.until_broken, "stop at the first failing seed");
  faults->add_flag("--tell", options.tell, "print the last events of one seed, broken or not");
  faults->add_flag("-v", options.verbose, "a line per seed");
  return faults;
}

}  // namespace berth::sim
