// `berth simulate replay`: makes the decisions of a recorded decision log again.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Adds the command. If it was given, `run` is set; it returns the exit code.
void AddReplayCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
