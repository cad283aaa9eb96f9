// `berth simulate trace`: a recorded cluster and its work under several policies.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Adds `trace` below `simulate`; `run` is what the chosen command does, and gives the exit code.
void AddTraceCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
