#include "sim/replay_command.h"

#include <memory>
#include <sstream>

#include "engine/replay/replay.h"
#include "kube/terminal.h"

namespace berth::sim {

void AddReplayCommand(CLI::App& simulate, std::function<int()>& run) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = simulate.add_subcommand(
      "replay", "repeat the decisions of a recorded service, and compare them (docs/simulator.md)");
  command
      ->add_option("LOG", *path,
                   "decision log of `berth serve --decision-log LOG --decision-log-inputs`")
      ->required();
  command->callback([path, &run] {
    run = [path] {
      std::ostringstream out;
      std::ostringstream err;
      const int code = replay::ReplayFile(*path, out, err);
      kube::Write(stdout, out.view());
      kube::Write(stderr, err.view());
      return code;
    };
  });
}

}  // namespace berth::sim
