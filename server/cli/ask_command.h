// The command line of `berth why|queues|gangs|pods|nodes`.
#pragma once

#include <CLI/CLI.hpp>

#include "server/cli/cli_client.h"

namespace berth::server {

/// Adds the commands; parsing one fills `options`.
void AddQuestions(CLI::App& app, AskOptions& options);

}  // namespace berth::server
