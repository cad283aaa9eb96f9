// The named experiment `openb`: lists x policies x seeds under the packing protocol (openb.h).
#pragma once

#include <nlohmann/json.hpp>
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

/// What one run of the protocol gave.
struct PackingResult {
  std::string variant = "protocol";
  std::string list;
  std::string policy;
  std::uint64_t seed = 0;
  LoadCurve curve;
  std::optional<double> published{};  ///< Unallocated percent at 100 % in the paper, mean of seeds.
  std::int64_t placed = 0;
  std::int64_t refused = 0;
  std::int64_t refused_cpu_only = 0;         ///< Of `refused`: pods without GPUs, whole run.
  std::int64_t refused_cpu_only_at_100 = 0;  ///< The same, until 100 % have arrived.
  std::optional<double> fragment_percent{};  ///< Of all GPUs, when 100 % had arrived.
  double seconds = 0;                        ///< Of the placing alone.
};

/// Runs the protocol once.
PackingResult RunPacking(const std::vector<OpenbNode>& nodes, const OpenbList& list,
                         const PackingOptions& options);

struct OpenbGrid {
  std::vector<OpenbNode> nodes;
  std::vector<OpenbList> lists;
  std::vector<std::string> policies;
  std::vector<std::uint64_t> seeds;
  PackingOptions options;  ///< Policy and seed are filled in per run.
  unsigned threads = 0;
};

/// One result per (list, policy, seed), in that order, whatever the number of threads.
std::vector<PackingResult> RunGrid(const OpenbGrid& grid);

// --- What is printed.
/// One row per run.
std::vector<nlohmann::ordered_json> OpenbRows(const std::vector<PackingResult>& results);
/// A row per list and policy over the seeds, beside the published figure, then the mean over lists.
std::string OpenbTable(const std::vector<PackingResult>& results);
/// Every policy against `base`, paired by seed, per list and over all lists.
std::string DifferenceTable(const std::vector<PackingResult>& results, const std::string& base);
/// Placements per second and policy, each run on one core.
std::string SpeedTable(const std::vector<PackingResult>& results);
/// Unallocated percent against arrived load, one line per policy, the mean over lists and seeds.
std::string OpenbPlot(const std::vector<PackingResult>& results);

}  // namespace berth::sim
