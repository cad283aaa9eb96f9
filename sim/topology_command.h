// `berth simulate topology`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Adds the command. If it was given, `run` is set; it returns the exit code.
void AddTopologyCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
