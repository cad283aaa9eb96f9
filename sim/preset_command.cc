#include "sim/preset_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "sim/options.h"
#include "sim/trace/presets.h"
#include "sim/trace/trace_report.h"
#include "sim/world/fidelity_option.h"

namespace berth::sim {
namespace {

constexpr std::string_view kPhillyFolder = "philly-gavel";

struct PresetOptions {
  CommonOptions common;
  std::string experiment;
  std::vector<double> loads;
  std::vector<std::string> policies;
  std::string against = "native";
  std::vector<Fidelity> levels{Fidelity::kScheduler};
  std::string plot;
  std::string series;
  std::size_t jobs = 4000;
  std::size_t nodes = 29;
};

using MakeWorkload = std::function<TraceWorkload(double load, std::uint64_t seed,
                                                 const config::PolicyConfiguration& policy)>;

int RunPreset(const PresetOptions& options, const MakeWorkload& make) {
  const auto policy = ReadPolicy(options.common.policy_file);
  if (!policy) return policy.error();
  const Sweep sweep{
      .experiment = options.experiment,
      .loads = options.loads,
      .policies = options.policies,
      .seeds = options.common.seeds,
      .configuration = *policy,
      .levels = options.levels,
      .threads = options.common.threads,
      .make = [&](double load, std::uint64_t seed) { return make(load, seed, *policy); }};
  for (const std::uint64_t seed : sweep.seeds) {
    const TraceWorkload workload = sweep.make(sweep.loads.front(), seed);
    // It is the same for all seeds.
    if (seed == sweep.seeds.front()) NameSome("left out", workload.left_out);
    NameSome(fmt::format("jobs would not fit the empty cluster of seed {} and are left out", seed),
             workload.never_fit);
  }
  const auto results = RunSweep(sweep);
  int code = PrintSweep(sweep, results, options.common.format, options.against);
  if (!options.series.empty()) {
    code = std::max(code, WriteFile(options.series, RenderCsv(SampleRows(results))));
  }
  if (options.plot.empty()) return code;
  return std::max(code, WriteFile(options.plot, RenderSvg(LoadPlot(OfFirstLevel(sweep, results)))));
}

int RunPhilly(const PresetOptions& options) {
  const std::string folder = TraceFolder(options.common.traces, std::string(kPhillyFolder));
  const auto trace = ReadTrace(folder + "/philly_duration_gpus.csv", &ReadPhillyDurations);
  if (!trace) return Fail(trace.error());
  return RunPreset(options, [&](double load, std::uint64_t seed, const auto&) {
    return PhillyWorkload(*trace, load, options.jobs, seed);
  });
}

int RunPhillyQueues(const PresetOptions& options) {
  const std::string folder = TraceFolder(options.common.traces, std::string(kPhillyFolder));
  const auto arrivals = ReadTrace(folder + "/philly_vc_arrivals.csv", &ReadPhillyArrivals);
  if (!arrivals) return Fail(arrivals.error());
  const auto durations = ReadTrace(folder + "/philly_duration_gpus.csv", &ReadPhillyDurations);
  if (!durations) return Fail(durations.error());
  return RunPreset(options, [&](double load, std::uint64_t seed, const auto& policy) {
    return PhillyQueuesWorkload(*arrivals, *durations, load, options.jobs, seed, policy);
  });
}

int RunOpenbArrivals(const PresetOptions& options) {
  const std::string folder = TraceFolder(options.common.traces, "openb");
  const auto nodes = ReadTrace(folder + "/openb_node_list_all_node.csv", &ReadOpenbNodes);
  if (!nodes) return Fail(nodes.error());
  const auto pods = ReadTrace(folder + "/openb_pod_list_default.csv", &ReadOpenbPods);
  if (!pods) return Fail(pods.error());
  return RunPreset(options, [&](double load, std::uint64_t seed, const auto&) {
    return OpenbWorkload(*nodes, *pods, load, options.nodes, seed);
  });
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

std::shared_ptr<PresetOptions> Add(CLI::App& simulate, const char* name, const char* help,
                                   std::vector<double> loads,
                                   const std::vector<std::string_view>& allowed,
                                   const std::vector<std::string>& policies,
                                   std::function<int()>& run,
                                   int (*experiment)(const PresetOptions&)) {
  auto options = std::make_shared<PresetOptions>();
  options->experiment = name;
  options->policies = policies;
  options->loads = std::move(loads);
  CLI::App* command = simulate.add_subcommand(name, help);
  AddCommonOptions(*command, options->common);
  command->get_option("--policy-file")
      ->description("policy file that Berth serves (default: the built-in policy)");
  command
      ->add_option_function<std::string>(
          "--load",
          [options](const std::string& text) {
            const auto parsed = ParseLoads(text);
            if (!parsed) {
              throw CLI::ValidationError("--load",
                                         "`" + text + "` is not a list of numbers from 0.01 to 10");
            }
            options->loads = *parsed;
          },
          "offered GPU load, 1.0 = all GPUs busy; several: L,L")
      ->type_name("LOAD");
  AddNamesOption(*command, "--policy", options->policies, allowed,
                 fmt::format("policies (default: {})", fmt::join(policies, ",")));
  AddAgainstOption(*command, options->against);
  AddInstantOption(*command, options->levels);
  command
      ->add_option("--plot", options->plot,
                   "write the mean job completion time against the load as SVG")
      ->type_name("FILE");
  command->callback([options, command, &run, experiment] {
    CheckAgainst(*command, options->against, options->policies);
    run = [options, experiment] { return experiment(*options); };
  });
  return options;
}

void AddJobsOption(CLI::App& command, std::size_t& jobs) {
  command.add_option("--jobs", jobs, "jobs per run")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
}

}  // namespace

void AddPresetCommands(CLI::App& simulate, std::function<int()>& run) {
  const std::vector<std::string> policies{"native", "MostAllocated", "Berth", "FIFO"};
  const auto philly =
      Add(simulate, "philly",
          "measure the completion times of Philly's jobs on 32 nodes of 8 GPUs, by load",
          {0.70, 0.85, 1.00}, TracePolicies(), policies, run, &RunPhilly);
  AddJobsOption(*simulate.get_subcommand("philly"), philly->jobs);
  const auto& contenders = QueuePolicies();
  const auto queues =
      Add(simulate, "philly-queues",
          "the same as philly, with gangs of up to 64 GPUs and a queue for each virtual cluster: "
          "with quotas as caps, with borrowing, and with reclaim",
          {0.85}, contenders, {contenders.begin(), contenders.end()}, run, &RunPhillyQueues);
  CLI::App* command = simulate.get_subcommand("philly-queues");
  AddJobsOption(*command, queues->jobs);
  command->add_option("--series", queues->series, "write the samples over time as CSV")
      ->type_name("FILE");
  const auto openb = Add(
      simulate, "openb-arrivals",
      "measure the completion times of openb's pods, compressed in time, on a part of its nodes",
      {3.5}, TracePolicies(), policies, run, &RunOpenbArrivals);
  simulate.get_subcommand("openb-arrivals")
      ->add_option("--nodes", openb->nodes, "number of nodes, chosen at random from the cluster")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100'000}))
      ->capture_default_str();
}

}  // namespace berth::sim
