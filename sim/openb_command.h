// `berth simulate openb`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace berth::sim {

void AddOpenbCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
