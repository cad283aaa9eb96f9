// What the experiments `philly` and `openb-arrivals` print.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "server/cli/table.h"
#include "sim/experiments/jct_experiment.h"
#include "sim/experiments/statistics.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

/// Runs by load, then policy in order of first appearance.
struct Cell {
  double load;
  std::string policy;
  std::vector<const JctResult*> runs;
};

std::vector<Cell> Cells(const std::vector<JctResult>& results) {
  std::vector<Cell> cells;
  for (const JctResult& result : results) {
    auto it = std::ranges::find_if(cells, [&result](const Cell& cell) {
      return cell.load == result.load && cell.policy == result.policy;
    });
    if (it == cells.end()) {
      it = cells.insert(cells.end(), {.load = result.load, .policy = result.policy, .runs = {}});
    }
    it->runs.push_back(&result);
  }
  return cells;
}

std::vector<double> All(const Cell& cell, double JctResult::*member) {
  std::vector<double> values;
  for (const JctResult* run : cell.runs) values.push_back(run->*member);
  return values;
}

std::string Whole(double value) { return fmt::format("{:.0f}", value); }

double Rounded(double value) { return std::round(value * 1000) / 1000; }

std::vector<double> RelativePercent(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> percent;
  for (std::size_t i = 0; i < a.size(); ++i) percent.push_back(100 * (a[i] / b[i] - 1));
  return percent;
}

}  // namespace

std::vector<nlohmann::ordered_json> JctRows(const std::vector<JctResult>& results) {
  std::set<std::int64_t> sizes;  // of all results: every row has the same keys
  for (const JctResult& r : results) {
    for (const auto& [gpus, jct] : r.mean_jct_by_gpus) sizes.insert(gpus);
  }
  std::vector<nlohmann::ordered_json> rows;
  for (const JctResult& r : results) {
    nlohmann::ordered_json row{{"experiment", r.experiment},
                               {"level", Name(Fidelity::kScheduler)},
                               {"load", r.load},
                               {"policy", r.policy},
                               {"seed", r.seed},
                               {"jobs", r.jobs},
                               {"never_fit", r.never_fit.size()},
                               {"speed_up", Rounded(r.speed_up)},
                               {"mean_jct_seconds", Rounded(r.mean_jct)},
                               {"mean_wait_seconds", Rounded(r.mean_wait)},
                               {"mean_service_seconds", Rounded(r.mean_service)},
                               {"p50_wait_seconds", Rounded(r.p50_wait)},
                               {"p95_wait_seconds", Rounded(r.p95_wait)},
                               {"p99_wait_seconds", Rounded(r.p99_wait)},
                               {"p50_jct_seconds", Rounded(r.p50_jct)},
                               {"p95_jct_seconds", Rounded(r.p95_jct)},
                               {"p99_jct_seconds", Rounded(r.p99_jct)},
                               {"mean_bounded_slowdown", Rounded(r.bounded_slowdown)},
                               {"makespan_seconds", Rounded(r.makespan)},
                               {"utilisation", Rounded(r.utilisation)}};
    for (const std::int64_t gpus : sizes) {
      row[fmt::format("mean_jct_seconds_{}_gpus", gpus)] = nullptr;
    }
    for (const auto& [gpus, jct] : r.mean_jct_by_gpus) {
      row[fmt::format("mean_jct_seconds_{}_gpus", gpus)] = Rounded(jct);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string JctTable(const std::vector<JctResult>& results) {
  server::Table table({"LOAD", "POLICY", "SEEDS", "JOBS", "NEVER FIT", "MEAN JCT s", "MEAN WAIT s",
                       "P50 WAIT", "P95 WAIT", "P99 WAIT", "SLOWDOWN", "MAKESPAN s", "GPU USE %"});
  for (const Cell& cell : Cells(results)) {
    std::size_t never = 0;
    std::size_t jobs = 0;
    for (const JctResult* run : cell.runs) {
      never += run->never_fit.size();
      jobs += run->jobs;
    }
    const auto mean = [&cell](double JctResult::*member) { return Mean(All(cell, member)); };
    table.Add({fmt::format("{:.2f}", cell.load), cell.policy, std::to_string(cell.runs.size()),
               std::to_string(jobs), std::to_string(never), Whole(mean(&JctResult::mean_jct)),
               Whole(mean(&JctResult::mean_wait)), Whole(mean(&JctResult::p50_wait)),
               Whole(mean(&JctResult::p95_wait)), Whole(mean(&JctResult::p99_wait)),
               fmt::format("{:.1f}", mean(&JctResult::bounded_slowdown)),
               Whole(mean(&JctResult::makespan)),
               fmt::format("{:.1f}", 100 * mean(&JctResult::utilisation))});
  }
  return table.Render();
}

std::string JctDifferences(const std::vector<JctResult>& results, const std::string& base) {
  server::Table table({"LOAD", "POLICY", "AGAINST", "MEAN JCT", "95 % INTERVAL", "SD"});
  const auto cells = Cells(results);
  for (const Cell& cell : cells) {
    if (cell.policy == base) continue;
    const auto other = std::ranges::find_if(cells, [&](const Cell& candidate) {
      return candidate.load == cell.load && candidate.policy == base;
    });
    if (other == cells.end()) continue;
    const auto percent =
        RelativePercent(All(cell, &JctResult::mean_jct), All(*other, &JctResult::mean_jct));
    const Interval d = PairedDifference(percent, std::vector<double>(percent.size(), 0));
    table.Add({fmt::format("{:.2f}", cell.load), cell.policy, base,
               fmt::format("{:+.1f} %", d.mean),
               fmt::format("{:+.1f} .. {:+.1f}", d.mean - d.half_width, d.mean + d.half_width),
               fmt::format("{:.1f}", StandardDeviation(percent))});
  }
  return table.Render();
}

Plot JctPlot(const std::vector<JctResult>& results) {
  Plot plot{.title = results.empty() ? "" : results.front().experiment + ": job completion times",
            .x_label = "offered GPU load",
            .y_label = "mean JCT, s",
            .series = {}};
  for (const Cell& cell : Cells(results)) {
    auto line = std::ranges::find(plot.series, cell.policy, &Series::name);
    if (line == plot.series.end()) {
      line = plot.series.insert(plot.series.end(), {.name = cell.policy, .points = {}});
    }
    line->points.emplace_back(cell.load, Mean(All(cell, &JctResult::mean_jct)));
  }
  for (Series& line : plot.series) std::ranges::sort(line.points);
  return plot;
}

}  // namespace berth::sim
