// `berth simulate philly` and `berth simulate openb-arrivals`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

void AddJctCommands(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
