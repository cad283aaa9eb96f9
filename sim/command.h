// `berth simulate`: named experiments and replays in virtual time, on the engine that production
// runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

/// Adds the command with its experiments. Parsing sets `run` to the chosen command, which returns
/// the program's exit code; `run` must outlive the parsing.
void AddSimulateCommand(CLI::App& app, std::function<int()>& run);

}  // namespace berth::sim
