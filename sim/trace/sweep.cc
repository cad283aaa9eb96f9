#include "sim/trace/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/terminal.h"
#include "server/cli/exit_codes.h"
#include "sim/experiments/parallel.h"
#include "sim/trace/trace_report.h"
#include "sim/world/fidelity.h"

namespace berth::sim {

namespace {

/// The runs of one load at one level.
std::size_t RunsOfLoad(const Sweep& sweep) { return sweep.policies.size() * sweep.seeds.size(); }

std::vector<TraceResult> OfLoad(const Sweep& sweep, const std::vector<TraceResult>& results,
                                std::size_t level, std::size_t load) {
  const auto per_load = static_cast<std::ptrdiff_t>(RunsOfLoad(sweep));
  const auto from =
      results.begin() + static_cast<std::ptrdiff_t>(level * sweep.loads.size() + load) * per_load;
  return {from, from + per_load};
}

}  // namespace

std::vector<TraceResult> OfFirstLevel(const Sweep& sweep, const std::vector<TraceResult>& results) {
  const auto count = static_cast<std::ptrdiff_t>(sweep.loads.size() * RunsOfLoad(sweep));
  return {results.begin(), results.begin() + count};
}

std::vector<TraceResult> RunSweep(const Sweep& sweep) {
  const std::size_t per_load = RunsOfLoad(sweep);
  const std::size_t per_level = sweep.loads.size() * per_load;
  std::vector<TraceResult> results(sweep.levels.size() * per_level);
  const ProgressBar progress(sweep.experiment, results.size());
  ParallelFor(
      results.size(), sweep.threads,
      [&](std::size_t i) {
        const double load = sweep.loads[i % per_level / per_load];
        const std::uint64_t seed = sweep.seeds[i % sweep.seeds.size()];
        const TraceWorkload workload = sweep.make(load, seed);
        const std::string& name = sweep.policies[i % per_load / sweep.seeds.size()];
        const auto contender = workload.contenders.find(name);
        const bool own = contender != workload.contenders.end();
        TraceResult& result = results[i];
        result =
            RunTrace(workload.nodes, workload.jobs,
                     {.policy = own ? contender->second.policy : name,
                      .seed = seed,
                      .configuration = own ? contender->second.configuration : sweep.configuration,
                      .shares = workload.shares ? workload.shares : sweep.shares,
                      .fidelity = sweep.levels[i / per_level]});
        result.policy = name;
        result.experiment = sweep.experiment;
        result.load = load;
        result.speed_up = workload.speed_up;
        result.never_fit = workload.never_fit.size();
      },
      &progress);
  return results;
}

void NameSome(const std::string& what, const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t kNamed = 10;
  if (names.empty()) return;
  const auto shown = std::min(kNamed, std::ssize(names));
  kube::Write(stderr, fmt::format("{} {}: {}{}\n", names.size(), what,
                                  fmt::join(names.begin(), names.begin() + shown, "; "),
                                  std::ssize(names) > kNamed ? "; ..." : ""));
}

int PrintSweep(const Sweep& sweep, const std::vector<TraceResult>& results, Format format,
               const std::string& against) {
  int code = kFine;
  for (const TraceResult& result : results) {
    NameSome(fmt::format("jobs never ended under {} (seed {})", result.policy, result.seed),
             result.unfinished);
    if (result.violation.empty()) continue;
    kube::Write(stderr, fmt::format("an invariant is broken under {} (seed {}): {}\n",
                                    result.policy, result.seed, result.violation));
    code = kBadInput;
  }
  if (PrintRows(format, TraceRows(results))) return code;
  for (std::size_t level = 0; level < sweep.levels.size(); ++level) {
    kube::Write(stdout, fmt::format("experiment {}, level {}\n", sweep.experiment,
                                    Name(sweep.levels[level])));
    for (std::size_t load = 0; load < sweep.loads.size(); ++load) {
      kube::Write(stdout, TraceTables(OfLoad(sweep, results, level, load), against));
    }
  }
  for (std::size_t load = 0; sweep.levels.size() == 2 && load < sweep.loads.size(); ++load) {
    kube::Write(stdout,
                LevelTables(OfLoad(sweep, results, 1, load), OfLoad(sweep, results, 0, load)));
  }
  return code;
}

}  // namespace berth::sim
