// What `berth simulate trace` prints and draws.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/svg_plot.h"
#include "sim/trace/trace_run.h"

namespace berth::sim {

/// A row per run, all with the same keys.
std::vector<nlohmann::ordered_json> TraceRows(const std::vector<TraceResult>& results);
/// A row per run and sample.
std::vector<nlohmann::ordered_json> SampleRows(const std::vector<TraceResult>& results);

/// Means over the seeds, by policy.
std::string TraceTable(const std::vector<TraceResult>& results);
/// Mean wait and completion time by policy, for each size of job and for each queue.
std::string BreakdownTable(const std::vector<TraceResult>& results);
/// Mean completion time and wait against `base`, in percent, paired by seed.
std::string TraceDifferences(const std::vector<TraceResult>& results, const std::string& base);

/// Over time, one line per policy (its first seed), by file name: `allocated`, `fragmented`,
/// `largest-gang`, `waiting`.
std::vector<std::pair<std::string, Plot>> TracePlots(const std::vector<TraceResult>& results);

}  // namespace berth::sim
