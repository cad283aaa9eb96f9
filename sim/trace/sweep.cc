#include "sim/trace/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/terminal.h"
#include "sim/experiments/parallel.h"
#include "sim/trace/trace_report.h"
#include "sim/world/fidelity.h"

namespace berth::sim {

std::vector<TraceResult> RunSweep(const Sweep& sweep) {
  const std::size_t per_load = sweep.policies.size() * sweep.seeds.size();
  std::vector<TraceResult> results(sweep.loads.size() * per_load);
  const ProgressBar progress(sweep.experiment, results.size());
  ParallelFor(
      results.size(), sweep.threads,
      [&](std::size_t i) {
        const double load = sweep.loads[i / per_load];
        const std::uint64_t seed = sweep.seeds[i % sweep.seeds.size()];
        const TraceWorkload workload = sweep.make(load, seed);
        TraceResult& result = results[i];
        result = RunTrace(workload.nodes, workload.jobs,
                          {.policy = sweep.policies[i % per_load / sweep.seeds.size()],
                           .seed = seed,
                           .configuration = sweep.configuration,
                           .shares = sweep.shares,
                           .fidelity = sweep.fidelity});
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
  if (!PrintRows(format, TraceRows(results))) {
    kube::Write(stdout,
                fmt::format("experiment {}, level {}\n", sweep.experiment, Name(sweep.fidelity)));
    const std::size_t per_load = sweep.policies.size() * sweep.seeds.size();
    for (std::size_t i = 0; i < results.size(); i += per_load) {
      const auto from = results.begin() + static_cast<std::ptrdiff_t>(i);
      kube::Write(stdout,
                  TraceTables({from, from + static_cast<std::ptrdiff_t>(per_load)}, against));
    }
  }
  return code;
}

}  // namespace berth::sim
