// The named experiment `openb`: lists x policies x seeds of one variant (openb_variants.h).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/openb.h"
#include "sim/packing.h"
#include "sim/parallel.h"

namespace berth::sim {

/// A pod list with its name.
struct OpenbList {
  std::string name;
  std::vector<OpenbPod> pods;
};

/// What one run gave.
struct PackingResult {
  std::string variant = "protocol";
  std::string list{};
  std::string policy{};  ///< With `+NAME` where NAME placed the pods without GPUs.
  std::uint64_t seed = 0;
  LoadCurve curve;
  /// GPU percent that stays unallocated: when 100 % have arrived; with departures, the mean over
  /// the second half of the arrivals. nullopt: so much never arrived.
  std::optional<double> unallocated{};
  std::optional<double> published{};         ///< The same in the paper, mean of seeds 42-51.
  std::optional<double> fragment_percent{};  ///< Of all GPUs, when 100 % had arrived.
  std::int64_t placed = 0;                   ///< Arrivals: a gang is one.
  std::int64_t refused = 0;
  std::int64_t refused_cpu_only = 0;         ///< Of `refused`: pods without GPUs, whole run.
  std::int64_t refused_cpu_only_at_100 = 0;  ///< The same, until 100 % have arrived.
  std::int64_t refused_gangs = 0;
  double refused_gpu_percent = 0;  ///< Of the GPU thousandths that arrived in the whole run.
  double seconds = 0;              ///< Of one core, for the arrivals alone.
};

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

/// One result per (list, policy, seed), in that order, whatever the number of threads.
std::vector<PackingResult> RunGrid(const OpenbGrid& grid);

// --- What is printed.
/// One row per run.
std::vector<nlohmann::ordered_json> OpenbRows(const std::vector<PackingResult>& results);
/// A row per list and policy over the seeds, beside the published figure, then the mean over lists.
std::string OpenbTable(const std::vector<PackingResult>& results);
/// Every policy against `base`, paired by seed, per list and over all lists. REQUIRES: `base` is
/// among them, all with the same lists and seeds.
std::string DifferenceTable(const std::vector<PackingResult>& results, const std::string& base);
/// Placements per second and policy, each run on one core.
std::string SpeedTable(const std::vector<PackingResult>& results);
/// Unallocated percent against arrived load, one line per policy, the mean over lists and seeds.
std::string OpenbPlot(const std::vector<PackingResult>& results);

}  // namespace berth::sim
