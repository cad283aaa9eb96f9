// `berth simulate trace`: a recorded cluster and its workloads under several policies.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Adds `trace` below `simulate`. Parsing sets `run` to the chosen command, which returns the exit
/// code.
void AddTraceCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
