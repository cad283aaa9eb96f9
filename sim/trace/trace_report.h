// What `berth simulate trace` prints and draws.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/experiments/svg_plot.h"
#include "sim/trace/trace_run.h"

namespace berth::sim {

/// A row per run, all with the same keys. Waits and completion times are null if some jobs of the
/// group never ended, or it has none.
std::vector<nlohmann::ordered_json> TraceRows(const std::vector<TraceResult>& results);
/// A row per run and sample.
std::vector<nlohmann::ordered_json> SampleRows(const std::vector<TraceResult>& results);

// --- Tables, of runs under one load.
/// All tables below; the differences if there are several policies and `against` is one of them.
std::string TraceTables(const std::vector<TraceResult>& results, const std::string& against);
/// Means over the seeds, by policy; `-` for waits and completion times if some jobs never ended.
std::string TraceTable(const std::vector<TraceResult>& results);
/// Mean wait and completion time by policy, for each size of job and for each queue: over the seeds
/// that have such jobs; `-` if some of them never ended. The count is over all seeds.
std::string BreakdownTable(const std::vector<TraceResult>& results);
/// Mean share error by policy in each fifth of the time in which jobs arrive; empty: there is none.
std::string ShareErrorTable(const std::vector<TraceResult>& results);
/// Figures against those of `base`, paired by seed, with 95 % intervals; those that are 0 under
/// both are left out.
std::string TraceDifferences(const std::vector<TraceResult>& results, const std::string& base);

/// The same of runs at one level against those of the same policies and seeds at another.
std::string LevelTables(const std::vector<TraceResult>& results,
                        const std::vector<TraceResult>& others);

/// Mean completion time against the load, a line per policy; no point where jobs never ended.
Plot LoadPlot(const std::vector<TraceResult>& results);

/// Plots over time with one line per policy (its first seed), by file name: `allocated`,
/// `fragmented`, `largest-gang`, `waiting`, `share-error`.
std::vector<std::pair<std::string, Plot>> TracePlots(const std::vector<TraceResult>& results);

}  // namespace berth::sim
