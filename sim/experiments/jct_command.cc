#include "sim/experiments/jct_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "kube/terminal.h"
#include "sim/experiments/jct_experiment.h"
#include "sim/experiments/parallel.h"
#include "sim/options.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

struct JctOptions {
  CommonOptions common;
  std::string experiment;
  std::vector<double> loads;
  std::vector<std::string> policies{"native", "MostAllocated", "Berth", "FIFO"};
  std::string against = "native";
  std::string plot;
  std::size_t jobs = 4000;
  std::size_t nodes = 29;
};

/// Makes the workload for a load and a seed.
using Maker = std::function<Workload(double, std::uint64_t)>;

std::vector<JctResult> RunAll(const JctOptions& options, const config::ScoreWeights& weights,
                              const Maker& make) {
  const auto& seeds = options.common.seeds;
  const std::size_t per_load = options.policies.size() * seeds.size();
  std::vector<JctResult> results(options.loads.size() * per_load);
  const ProgressBar progress(options.experiment, results.size());
  ParallelFor(
      results.size(), options.common.threads,
      [&](std::size_t i) {
        const double load = options.loads[i / per_load];
        const std::uint64_t seed = seeds[i % seeds.size()];
        results[i] =
            RunJct(make(load, seed), options.policies[i % per_load / seeds.size()], seed, weights);
        results[i].experiment = options.experiment;
        results[i].load = load;
      },
      &progress);
  return results;
}

/// Prints the names of jobs that can never run once, on stderr.
void NameNeverFit(const std::vector<JctResult>& results, const std::string& policy) {
  for (const JctResult& r : results) {
    if (r.never_fit.empty() || r.policy != policy || r.load != results.front().load) continue;
    constexpr std::size_t kNamed = 10;
    const auto shown = static_cast<std::ptrdiff_t>(std::min(kNamed, r.never_fit.size()));
    kube::Write(stderr,
                fmt::format("seed {}: {} jobs fit on no node and are left out: {}{}\n", r.seed,
                            r.never_fit.size(),
                            fmt::join(r.never_fit.begin(), r.never_fit.begin() + shown, " "),
                            r.never_fit.size() > kNamed ? " ..." : ""));
  }
}

int Print(const JctOptions& options, const std::vector<JctResult>& results) {
  NameNeverFit(results, options.policies.front());
  if (!PrintRows(options.common.format, JctRows(results))) {
    kube::Write(stdout, fmt::format("experiment {}, level {}\n\n{}", options.experiment,
                                    Name(Fidelity::kScheduler), JctTable(results)));
    if (options.policies.size() > 1 && Contains(options.policies, options.against)) {
      kube::Write(stdout, fmt::format("\nmean JCT, paired by seed\n\n{}",
                                      JctDifferences(results, options.against)));
    }
  }
  return options.plot.empty() ? kFine : WriteFile(options.plot, RenderSvg(JctPlot(results)));
}

int RunPhilly(const JctOptions& options) {
  const std::string folder = TraceFolder(options.common.traces, "philly-gavel");
  const auto trace = ReadTrace(folder + "/philly_duration_gpus.csv", &ReadPhillyDurations);
  if (!trace) return Fail(trace.error());
  const auto policy = ReadPolicy(options.common.policy_file);
  if (!policy) return policy.error();
  return Print(options,
               RunAll(options, policy->placement.score, [&](double load, std::uint64_t seed) {
                 return PhillyWorkload(*trace, load, options.jobs, seed);
               }));
}

int RunOpenbArrivals(const JctOptions& options) {
  const std::string folder = TraceFolder(options.common.traces, "openb");
  const auto nodes = ReadPackingNodes(folder + "/openb_node_list_all_node.csv");
  if (!nodes) return Fail(nodes.error());
  const auto pods = ReadTrace(folder + "/openb_pod_list_default.csv", &ReadOpenbPods);
  if (!pods) return Fail(pods.error());
  const auto policy = ReadPolicy(options.common.policy_file);
  if (!policy) return policy.error();
  return Print(options,
               RunAll(options, policy->placement.score, [&](double load, std::uint64_t seed) {
                 return OpenbWorkload(*nodes, *pods, load, options.nodes, seed);
               }));
}

std::optional<std::vector<double>> ParseLoads(const std::string& text) {
  std::vector<double> loads;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    double load = 0;
    const auto [stop, code] = std::from_chars(at, end, load);
    if (code != std::errc() || !(load >= 0.01 && load <= 10)) return std::nullopt;
    loads.push_back(load);
    if (stop == end) return loads;
    if (*stop != ',') return std::nullopt;
    at = stop + 1;
  }
}

std::shared_ptr<JctOptions> Add(CLI::App& simulate, const char* name, const char* help,
                                std::vector<double> loads, std::function<int()>& run,
                                int (*experiment)(const JctOptions&)) {
  auto options = std::make_shared<JctOptions>();
  options->experiment = name;
  options->loads = std::move(loads);
  CLI::App* command = simulate.add_subcommand(name, help);
  AddCommonOptions(*command, options->common);
  command
      ->add_option_function<std::string>(
          "--load",
          [options](const std::string& text) {
            const auto parsed = ParseLoads(text);
            if (!parsed) {
              throw CLI::ValidationError("--load", "`" + text + "` is no list of 0.01..10");
            }
            options->loads = *parsed;
          },
          "offered GPU load, 1.0 = all GPUs busy; several: L,L")
      ->type_name("LOAD");
  AddNamesOption(*command, "--policy", options->policies, JctPolicies(),
                 "policies (default: native,MostAllocated,Berth,FIFO)");
  AddAgainstOption(*command, options->against);
  command->add_option("--plot", options->plot, "writes the mean JCT against the load as SVG")
      ->type_name("FILE");
  command->callback([options, command, &run, experiment] {
    CheckAgainst(*command, options->against, options->policies);
    run = [options, experiment] { return experiment(*options); };
  });
  return options;
}

}  // namespace

void AddJctCommands(CLI::App& simulate, std::function<int()>& run) {
  const auto philly =
      Add(simulate, "philly", "completion times of Philly's jobs on 32 nodes of 8 GPUs, by load",
          {0.70, 0.85, 1.00}, run, &RunPhilly);
  CLI::App* command = simulate.get_subcommand("philly");
  command->add_option("--jobs", philly->jobs, "jobs per run")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  const auto openb =
      Add(simulate, "openb-arrivals",
          "completion times of openb's pods, compressed in time, on a part of its nodes", {3.5},
          run, &RunOpenbArrivals);
  command = simulate.get_subcommand("openb-arrivals");
  command->add_option("--nodes", openb->nodes, "random nodes of the cluster")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100'000}))
      ->capture_default_str();
}

}  // namespace berth::sim
