// The option --fidelity of the commands that run the simulated world.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sim/world/fidelity.h"

namespace berth::sim {

/// `fidelity` must outlive the parsing.
inline void AddFidelityOption(CLI::App& command, Fidelity& fidelity) {
  const std::string scheduler(Name(Fidelity::kScheduler));
  const std::string wire(Name(Fidelity::kWire));
  command
      .add_option_function<std::string>(
          "--fidelity",
          [&fidelity, wire](const std::string& name) {
            fidelity = name == wire ? Fidelity::kWire : Fidelity::kScheduler;
          },
          "how objects pass: as values, or as bytes through the real codecs")
      ->check(CLI::IsMember({scheduler, wire}))
      ->default_str(std::string(Name(fidelity)));
}

}  // namespace berth::sim
