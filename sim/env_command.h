// `berth simulate env`: an environment to train policies in (packing_env.h), over JSON lines.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iosfwd>

#include "sim/gym/packing_env.h"

namespace berth::sim {

/// Describes the environment, then answers each line of `in` with one line on `out`, until `in`
/// ends. Lines: {"reset":SEED}, {"step":NODE}. Any other line is answered with {"error":TEXT} and
/// changes nothing. Returns the exit code.
int ServeEnv(PackingEnv& env, std::istream& in, std::ostream& out);

/// Adds the command. If it was given, `run` is set; it returns the exit code.
void AddEnvCommand(CLI::App& simulate, std::function<int()>& run);

}  // namespace berth::sim
