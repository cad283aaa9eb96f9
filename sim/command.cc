#include "sim/command.h"

#include "sim/env_command.h"
#include "sim/openb_command.h"
#include "sim/preset_command.h"
#include "sim/replay_command.h"
#include "sim/scenario_command.h"
#include "sim/topology_command.h"
#include "sim/trace_command.h"

namespace berth::sim {

void AddSimulateCommand(CLI::App& app, std::function<int()>& run) {
  CLI::App* simulate = app.add_subcommand(
      "simulate", "run experiments in virtual time with the service's own engine");
  simulate->require_subcommand(1);
  AddRunCommand(*simulate, run);
  AddFaultsCommand(*simulate, run);
  AddOpenbCommand(*simulate, run);
  AddPresetCommands(*simulate, run);
  AddTraceCommand(*simulate, run);
  AddTopologyCommand(*simulate, run);
  AddReplayCommand(*simulate, run);
  AddEnvCommand(*simulate, run);
}

}  // namespace berth::sim
