// The named experiment `openb`: lists x policies x seeds of one variant (openb_variants.h).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/experiments/openb.h"
#include "sim/experiments/packing.h"
#include "sim/experiments/parallel.h"

namespace berth::sim {

/// A pod list with its name.
struct OpenbList {
  std::string name;
  std::vector<OpenbPod> pods;
};

/// Result of one run.
struct PackingResult {
  std::string variant = "protocol";
  std::string list{};
  std::string policy{};  ///< `+NAME` is appended if the policy NAME placed the pods without GPUs.
  std::uint64_t seed = 0;
  LoadCurve curve;
  /// Percentage of GPUs that stay unallocated when 100 % have arrived; with departures, the mean
  /// over the second half of the arrivals. nullopt: not enough arrived.
  std::optional<double> unallocated{};
  std::optional<double> published{};         ///< The same in the paper, mean of seeds 42-51.
  std::optional<double> fragment_percent{};  ///< Of all GPUs, when 100 % had arrived.
  std::int64_t placed = 0;                   ///< Arrivals that were placed: a gang counts as one.
  std::int64_t refused = 0;
  std::int64_t refused_cpu_only = 0;         ///< How many of `refused` are pods without GPUs, in
                                             ///< the whole run.
  std::int64_t refused_cpu_only_at_100 = 0;  ///< The same, until 100 % have arrived.
  std::int64_t refused_gangs = 0;
  double refused_gpu_percent = 0;  ///< Percentage of the GPU thousandths that arrived in the whole
                                   ///< run.
  double seconds = 0;              ///< Processor time of one core, for the arrivals alone.
};

/// The runs of one variant: every list under every policy with every seed.
struct OpenbGrid {
  std::string variant = "protocol";
  std::vector<OpenbNode> nodes;
  std::vector<OpenbList> lists;  ///< REQUIRES: Arrivals() accepts them.
  std::vector<std::string> policies;
  std::vector<std::uint64_t> seeds;
  PackingOptions options;  ///< Policy and seed are filled in per run.
  unsigned threads = 0;
};

/// Runs one variant once.
PackingResult RunPacking(const std::string& variant, const std::vector<OpenbNode>& nodes,
                         const OpenbList& list, const PackingOptions& options);

/// One result per (list, policy, seed), in that order, for any number of threads.
std::vector<PackingResult> RunGrid(const OpenbGrid& grid);

// --- Output.
/// One row per run.
std::vector<nlohmann::ordered_json> OpenbRows(const std::vector<PackingResult>& results);
/// A row per list and policy over the seeds, with the published figure, then the mean over lists.
std::string OpenbTable(const std::vector<PackingResult>& results);
/// Every policy against `base`, paired by seed, per list and over all lists. REQUIRES: `base` is
/// one of the policies, and all have the same lists and seeds.
std::string DifferenceTable(const std::vector<PackingResult>& results, const std::string& base);
/// Placements per second, by policy; each run uses one core.
std::string SpeedTable(const std::vector<PackingResult>& results);
/// Unallocated percent against arrived load, one line per policy, the mean over lists and seeds.
std::string OpenbPlot(const std::vector<PackingResult>& results);

}  // namespace berth::sim
