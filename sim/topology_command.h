// `berth simulate topology`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

void AddTopologyCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
