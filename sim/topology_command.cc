#include "sim/topology_command.h"

#include <fmt/format.h>

#include <memory>

#include "kube/terminal.h"
#include "sim/experiments/parallel.h"
#include "sim/experiments/topology_experiment.h"
#include "sim/options.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

struct CommandOptions {
  std::vector<double> loads{0.7, 0.9};
  std::vector<std::string> policies{"BestFit", "RackAffinity", "TightestRack", "Berth",
                                    "BerthPreferred"};
  std::vector<std::uint64_t> seeds{42, 43, 44, 45, 46, 47, 48, 49, 50, 51};
  std::size_t jobs = TopologyOptions().jobs;
  std::string policy_file;
  Format format = Format::kTable;
  unsigned threads = 0;
};

int RunCommand(const CommandOptions& options) {
  const auto policy = ReadPolicy(options.policy_file);
  if (!policy) return policy.error();
  const std::size_t per_load = options.policies.size() * options.seeds.size();
  std::vector<TopologyResult> results(options.loads.size() * per_load);
  const ProgressBar progress("topology", results.size());
  ParallelFor(
      results.size(), options.threads,
      [&](std::size_t i) {
        results[i] = RunTopology({.policy = options.policies[i % per_load / options.seeds.size()],
                                  .load = options.loads[i / per_load],
                                  .seed = options.seeds[i % options.seeds.size()],
                                  .jobs = options.jobs,
                                  .weights = policy->placement.score});
      },
      &progress);
  if (!PrintRows(options.format, TopologyRows(results))) {
    kube::Write(stdout, fmt::format("experiment topology, level {}; means per gang\n\n{}",
                                    Name(Fidelity::kEngine), TopologyTable(results)));
  }
  return kFine;
}

}  // namespace

void AddTopologyCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<CommandOptions>();
  CLI::App* command = simulate.add_subcommand("topology",
                                              "measure how far apart the members of a gang, and "
                                              "the GPUs of a pod, are placed on a loaded cluster");
  command->add_option("--load", options->loads, "shares of all GPUs that jobs ask for: L,L")
      ->delimiter(',')
      ->check(NumberFrom(0.1, 0.99))
      ->capture_default_str();
  AddNamesOption(*command, "--policy", options->policies, TopologyPolicies(),
                 "policies (default: BestFit,RackAffinity,TightestRack,Berth,BerthPreferred)");
  command->add_option("--jobs", options->jobs, "jobs per run")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  AddSeedsOption(*command, options->seeds,
                 "A-B or A,B,C: each seed draws its own jobs (default: 42-51)");
  command->add_option("--policy-file", options->policy_file,
                      "policy file whose placement.score the policy `Berth` uses");
  AddOutputOption(*command, options->format);
  AddThreadsOption(*command, options->threads);
  command->callback([options, &run] { run = [options] { return RunCommand(*options); }; });
}

}  // namespace berth::sim
