#include "sim/trace_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "kube/terminal.h"
#include "sim/experiments/parallel.h"
#include "sim/options.h"
#include "sim/trace/offer.h"
#include "sim/trace/trace_report.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

struct TraceCommandOptions {
  std::string cluster;
  std::string workload;
  std::string policy_file;
  std::vector<std::string> policies{"native", "Berth"};
  std::string against = "native";
  std::vector<std::uint64_t> seeds{1, 2, 3};
  double load = 0;       ///< 0: as recorded.
  std::size_t jobs = 0;  ///< 0: all of them.
  Format format = Format::kTable;
  std::string plot;
  std::string series;
  unsigned threads = 0;
};

void Name(const char* what, const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t kNamed = 10;
  if (names.empty()) return;
  const auto shown = std::min(kNamed, std::ssize(names));
  kube::Write(stderr, fmt::format("{} {}: {}{}\n", names.size(), what,
                                  fmt::join(names.begin(), names.begin() + shown, "; "),
                                  std::ssize(names) > kNamed ? "; ..." : ""));
}

int Print(const TraceCommandOptions& options, const std::vector<TraceResult>& results) {
  if (!PrintRows(options.format, TraceRows(results))) {
    kube::Write(stdout,
                fmt::format("experiment trace, level {}\n\n{}\n{}", Name(Fidelity::kScheduler),
                            TraceTable(results), BreakdownTable(results)));
    if (options.policies.size() > 1 && Contains(options.policies, options.against)) {
      kube::Write(stdout, fmt::format("\npaired by seed\n\n{}",
                                      TraceDifferences(results, options.against)));
    }
  }
  int code = kFine;
  if (!options.series.empty()) code = WriteFile(options.series, RenderCsv(SampleRows(results)));
  if (options.plot.empty()) return code;
  for (const auto& [name, plot] : TracePlots(results)) {
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
  Name("left out", recording->left_out);
  Name("jobs would not fit the empty cluster and are left out", never_fit);
  if (recording->jobs.empty()) {
    kube::Write(stderr, fmt::format("{}: no job is left\n", options.workload));
    return kBadInput;
  }
  const auto policy = ReadPolicy(options.policy_file);
  if (!policy) return policy.error();
  if (!recording->has_arrivals && options.load <= 0) {
    kube::Write(stderr, fmt::format("{}: it has no arrivals: give --load\n", options.workload));
    return kUsage;
  }
  std::vector<TraceResult> results(options.policies.size() * options.seeds.size());
  const ProgressBar progress("trace", results.size());
  ParallelFor(
      results.size(), options.threads,
      [&](std::size_t i) {
        const std::uint64_t seed = options.seeds[i % options.seeds.size()];
        Recording offered = *recording;
        Limit(offered, options.jobs, seed);
        if (options.load > 0) Offer(offered, options.load, gpus.all, seed);
        results[i] = RunTrace(*nodes, offered.jobs,
                              {.policy = options.policies[i / options.seeds.size()],
                               .seed = seed,
                               .configuration = *policy});
        results[i].never_fit = never_fit.size();
      },
      &progress);
  int code = kFine;
  for (const TraceResult& result : results) {
    Name(fmt::format("jobs never ended under {} (seed {})", result.policy, result.seed).c_str(),
         result.unfinished);
    if (result.violation.empty()) continue;
    kube::Write(stderr, fmt::format("an invariant is broken under {} (seed {}): {}\n",
                                    result.policy, result.seed, result.violation));
    code = kBadInput;
  }
  return std::max(code, Print(options, results));
}

}  // namespace

void AddTraceCommand(CLI::App& simulate, std::function<int()>& run) {
  auto options = std::make_shared<TraceCommandOptions>();
  CLI::App* command = simulate.add_subcommand(
      "trace", "a recorded cluster and its work under several policies (docs/simulator.md)");
  command
      ->add_option("--cluster", options->cluster,
                   "Kubernetes objects, a node CSV, or NxG: N nodes of G GPUs")
      ->required();
  command->add_option("--workload", options->workload, "Kubernetes pods, or a pod or job CSV")
      ->required();
  command->add_option("--policy-file", options->policy_file,
                      "policy file that Berth serves (default: the built-in policy)");
  AddNamesOption(*command, "--compare", options->policies, TracePolicies(),
                 "policies (default: native,Berth)");
  AddSeedsOption(*command, options->seeds,
                 "A-B or A,B,C: one run per seed and policy (default: 1-3)");
  AddOutputOption(*command, options->format);
  AddAgainstOption(*command, options->against);
  command
      ->add_option("--load", options->load,
                   "stretch or draw the arrivals so that they offer this load; 1 = all GPUs busy")
      ->check(CLI::Range(0.01, 10.0));
  command
      ->add_option("--jobs", options->jobs,
                   "the first so many jobs; 0: all. Without arrivals: as many at random")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  command
      ->add_option("--plot", options->plot,
                   "writes PREFIX-allocated.svg, -fragmented, -largest-gang and -waiting")
      ->type_name("PREFIX");
  command->add_option("--series", options->series, "writes the samples over time as CSV")
      ->type_name("FILE");
  AddThreadsOption(*command, options->threads);
  command->callback([options, command, &run] {
    CheckAgainst(*command, options->against, options->policies);
    run = [options] { return RunAll(*options); };
  });
}

}  // namespace berth::sim
