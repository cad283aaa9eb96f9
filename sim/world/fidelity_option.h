// The option --fidelity of the commands that run the simulated world.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/world/fidelity.h"

namespace berth::sim {

/// Takes `scheduler` and one `other` level. `fidelity` must outlive the parsing.
inline void AddFidelityOption(CLI::App& command, Fidelity& fidelity, Fidelity other,
                              const std::string& help) {
  const std::string name(Name(other));
  command
      .add_option_function<std::string>(
          "--fidelity",
          [&fidelity, other, name](const std::string& given) {
            fidelity = given == name ? other : Fidelity::kScheduler;
          },
          help)
      ->check(CLI::IsMember({std::string(Name(Fidelity::kScheduler)), name}))
      ->default_str(std::string(Name(fidelity)));
}

/// For the commands that check what passes between processes.
inline void AddWireOption(CLI::App& command, Fidelity& fidelity) {
  AddFidelityOption(command, fidelity, Fidelity::kWire,
                    "how objects are passed: as values, or as bytes through the real codecs");
}

/// For the commands that measure how long jobs wait: `scheduler`, `instant`, or both in that order.
/// `levels` must outlive the parsing.
inline void AddInstantOption(CLI::App& command, std::vector<Fidelity>& levels) {
  const std::string scheduler(Name(Fidelity::kScheduler));
  const std::string instant(Name(Fidelity::kInstant));
  command
      .add_option_function<std::string>(
          "--fidelity",
          [&levels, scheduler, instant](const std::string& given) {
            levels.clear();
            if (given != instant) levels.push_back(Fidelity::kScheduler);
            if (given != scheduler) levels.push_back(Fidelity::kInstant);
          },
          "scheduler: calls, watches and binds take time; instant: jobs wait for room alone; both: "
          "compare the two")
      ->check(CLI::IsMember({scheduler, instant, std::string("both")}))
      ->default_str(scheduler);
}

}  // namespace berth::sim
