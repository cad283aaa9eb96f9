// `berth simulate philly`, `philly-queues` and `openb-arrivals`: presets of `berth simulate trace`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Adds the commands. If one was given, `run` is set; it returns the exit code.
void AddPresetCommands(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
