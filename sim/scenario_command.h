// `berth simulate run` and `berth simulate faults`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Add the commands `run` and `faults`. If one was given, `run` is set; it returns the exit code.
void AddRunCommand(CLI::App& simulate, std::function<int()>& run);
void AddFaultsCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
