// `berth simulate replay`: a recorded decision log, decided again.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Adds the command. When it was given, `run` is set; its result is the exit code.
void AddReplayCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
