// Replays under every combination of load, policy and seed: `berth simulate trace` and the named
// experiments that are presets of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/rows.h"
#include "sim/trace/trace_run.h"

namespace berth::sim {

/// What runs under a name.
struct Contender {
  std::string policy = "Berth";  ///< One of TracePolicies().
  config::PolicyConfiguration configuration{};
};

/// What one run replays.
struct TraceWorkload {
  std::vector<kube::Node> nodes;
  std::vector<RecordedJob> jobs;        ///< By rising arrival; all of them fit the empty cluster.
  double speed_up = 1;                  ///< Factor by which recorded arrivals were compressed.
  std::vector<std::string> left_out{};  ///< What cannot be replayed: `NAME: why`.
  std::vector<std::string>
      never_fit{};  ///< Names of the jobs that would not fit the empty cluster.
  /// What policies of the sweep are, by name, that depend on the workload. The others are
  /// TracePolicies(), under the sweep's configuration.
  std::map<std::string, Contender> contenders{};
  std::optional<config::PolicyConfiguration> shares{};  ///< In place of those of the sweep.
};

/// What is run, and under what.
struct Sweep {
  std::string experiment = "trace";
  std::vector<double> loads{0};  ///< 0: as recorded.
  std::vector<std::string> policies;
  std::vector<std::uint64_t> seeds;
  config::PolicyConfiguration configuration{};
  std::optional<config::PolicyConfiguration> shares{};  ///< See TraceOptions.
  std::vector<Fidelity> levels{Fidelity::kScheduler};
  unsigned threads = 0;  ///< 0: one per core.
  /// Makes the workload for a load and a seed; called by several threads at once.
  std::function<TraceWorkload(double load, std::uint64_t seed)> make;
};

/// All runs, ordered by level, then load, then policy, then seed.
std::vector<TraceResult> RunSweep(const Sweep& sweep);

/// Those of the first level.
std::vector<TraceResult> OfFirstLevel(const Sweep& sweep, const std::vector<TraceResult>& results);

/// Prints on stderr how many names there are, what they are, and the first of them; nothing for
/// none.
void NameSome(const std::string& what, const std::vector<std::string>& names);

/// Prints the results, and on stderr what went wrong. Returns the exit code.
int PrintSweep(const Sweep& sweep, const std::vector<TraceResult>& results, Format format,
               const std::string& against);

}  // namespace berth::sim
