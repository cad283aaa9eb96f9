#include "sim/trace_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "kube/terminal.h"
#include "sim/options.h"
#include "sim/trace/offer.h"
#include "sim/trace/sweep.h"
#include "sim/trace/trace_report.h"
#include "sim/world/fidelity_option.h"

namespace berth::sim {
namespace {

struct TraceCommandOptions {
  std::string cluster;
  std::string workload;
  std::string policy_file;
  std::string shares_file;  ///< Empty: `policy_file`.
  std::vector<std::string> policies{"native", "Berth"};
  std::string against = "native";
  std::vector<std::uint64_t> seeds{1, 2, 3};
  double load = 0;       ///< 0: as recorded.
  std::size_t jobs = 0;  ///< 0: all of them.
  std::vector<Fidelity> levels{Fidelity::kScheduler};
  Format format = Format::kTable;
  std::string plot;
  std::string series;
  unsigned threads = 0;
};

int WritePlots(const TraceCommandOptions& options, const Sweep& sweep,
               const std::vector<TraceResult>& results) {
  int code = kFine;
  if (!options.series.empty()) code = WriteFile(options.series, RenderCsv(SampleRows(results)));
  if (options.plot.empty()) return code;
  for (const auto& [name, plot] : TracePlots(OfFirstLevel(sweep, results))) {
    code = std::max(code, WriteFile(fmt::format("{}-{}.svg", options.plot, name), RenderSvg(plot)));
  }
  return code;
}

int RunAll(const TraceCommandOptions& options) {
  const auto nodes = ReadCluster(options.cluster);
  if (!nodes) return Fail(nodes.error());
  const ClusterGpus gpus = CountGpus(*nodes);
  auto recording = ReadRecording(options.workload, gpus);
  if (!recording) return Fail(recording.error());
  // Before anything is counted: the load is computed from the jobs that can run.
  const auto never_fit = TakeNeverFitting(recording->jobs, *nodes);
  NameSome("left out", recording->left_out);
  NameSome("jobs would not fit the empty cluster and are left out", never_fit);
  if (recording->jobs.empty()) {
    kube::Write(stderr, fmt::format("{}: no job is left\n", options.workload));
    return kBadInput;
  }
  const auto policy = ReadPolicy(options.policy_file);
  if (!policy) return policy.error();
  std::optional<config::PolicyConfiguration> shares;
  if (!options.shares_file.empty()) {
    auto read = ReadPolicy(options.shares_file);
    if (!read) return read.error();
    shares = *std::move(read);
  }
  if (!recording->has_arrivals && options.load <= 0) {
    kube::Write(stderr, fmt::format("{}: it has no arrivals: give --load\n", options.workload));
    return kUsage;
  }
  const Sweep sweep{.loads = {options.load},
                    .policies = options.policies,
                    .seeds = options.seeds,
                    .configuration = *policy,
                    .shares = shares,
                    .levels = options.levels,
                    .threads = options.threads,
                    .make = [&](double load, std::uint64_t seed) {
                      Recording offered = *recording;
                      Limit(offered, options.jobs, seed);
                      const double speed_up = load > 0 ? Offer(offered, load, gpus.all, seed) : 1;
                      return TraceWorkload{.nodes = *nodes,
                                           .jobs = std::move(offered.jobs),
                                           .speed_up = speed_up,
                                           .never_fit = never_fit};
                    }};
  const auto results = RunSweep(sweep);
  const int code = PrintSweep(sweep, results, options.format, options.against);
  return std::max(code, WritePlots(options, sweep, results));
}

}  // namespace

void AddTraceCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<TraceCommandOptions>();
  CLI::App* command = simulate.add_subcommand(
      "trace",
      "replay a recorded cluster and its workload under several policies (docs/simulator.md)");
  command
      ->add_option("--cluster", options->cluster,
                   "Kubernetes objects, a node CSV, or NxG: N nodes of G GPUs")
      ->required();
  command->add_option("--workload", options->workload, "Kubernetes pods, or a pod or job CSV")
      ->required();
  command->add_option("--policy-file", options->policy_file,
                      "policy file that Berth serves (default: the built-in policy)");
  command->add_option("--shares-file", options->shares_file,
                      "policy file by whose quotas and fair shares all policies are judged "
                      "(default: that of --policy-file)");
  AddNamesOption(*command, "--compare", options->policies, TracePolicies(),
                 "policies (default: native,Berth)");
  AddSeedsOption(*command, options->seeds,
                 "A-B or A,B,C: one run per seed and policy (default: 1-3)");
  AddInstantOption(*command, options->levels);
  AddOutputOption(*command, options->format);
  AddAgainstOption(*command, options->against);
  command
      ->add_option("--load", options->load,
                   "stretch or draw the arrivals so that they offer this load; 1 = all GPUs busy")
      ->check(NumberFrom(0.01, 10.0));
  command
      ->add_option(
          "--jobs", options->jobs,
          "only the first jobs, this many; 0: all. Without arrivals: this many jobs at random")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  command
      ->add_option(
          "--plot", options->plot,
          "write PREFIX-allocated.svg, -fragmented, -largest-gang, -waiting and -share-error")
      ->type_name("PREFIX");
  command->add_option("--series", options->series, "write the samples over time as CSV")
      ->type_name("FILE");
  AddThreadsOption(*command, options->threads);
  command->callback([options, command, &run] {
    CheckAgainst(*command, options->against, options->policies);
    run = [options] { return RunAll(*options); };
  });
}

}  // namespace berth::sim
