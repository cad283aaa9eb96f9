// `berth simulate philly`, `philly-queues` and `openb-arrivals`: presets of `berth simulate trace`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

void AddPresetCommands(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
