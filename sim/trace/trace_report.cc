#include "sim/trace/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "server/cli/table.h"
#include "sim/experiments/statistics.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

using Runs = std::vector<const TraceResult*>;

std::vector<std::string> PoliciesOf(const std::vector<TraceResult>& results) {
  std::vector<std::string> names;
  for (const TraceResult& result : results) {
    if (std::ranges::find(names, result.policy) == names.end()) names.push_back(result.policy);
  }
  return names;
}

Runs Select(const std::vector<TraceResult>& results, const std::string& policy) {
  Runs runs;
  for (const TraceResult& result : results) {
    if (result.policy == policy) runs.push_back(&result);
  }
  return runs;
}

/// Mean of `value` over the runs.
template <typename Value>
double Over(const Runs& runs, Value value) {
  std::vector<double> values;
  for (const TraceResult* run : runs) values.push_back(value(*run));
  return Mean(values);
}

double Rounded(double value) { return std::round(value * 1000) / 1000; }
std::string Whole(double value) { return fmt::format("{:.0f}", value); }

// No figure is printed if some of the jobs never ended: it would be about other jobs than the
// figure beside it.
constexpr const char* kNoFigure = "-";

bool AllEnded(const Runs& runs) {
  return std::ranges::all_of(runs, [](const TraceResult* run) { return run->unfinished.empty(); });
}

/// The value of `times`, which may be absent.
template <typename Value>
nlohmann::ordered_json Figure(const Times& times, Value value) {
  if (times.arrived == 0 || !times.complete()) return nullptr;
  return Rounded(value(times));
}

nlohmann::ordered_json MeanFigure(const Times& times, std::vector<double> Times::*member) {
  return Figure(times, [member](const Times& of) { return Mean(of.*member); });
}

nlohmann::ordered_json QuantileFigure(const Times& times, std::vector<double> Times::*member,
                                      double share) {
  return Figure(times, [=](const Times& of) { return Quantile(of.*member, share); });
}
std::string Percent(double share) { return fmt::format("{:.1f}", 100 * share); }

double MeanSample(const TraceResult& run, double Sample::*member) {
  std::vector<double> values;
  for (const Sample& sample : run.samples) values.push_back(sample.*member);
  return Mean(values);
}

/// Mean share error of the samples between two parts (0..1) of the time in which jobs arrive. Later
/// samples are left out: without new jobs, all soon have what they ask for.
double MeanShareError(const TraceResult& run, double from = 0, double to = 1) {
  std::vector<double> values;
  for (const Sample& sample : run.samples) {
    const bool last = to >= 1 && sample.hours <= run.arrival_hours;
    if (sample.hours >= from * run.arrival_hours &&
        (last || sample.hours < to * run.arrival_hours)) {
      values.push_back(sample.share_error);
    }
  }
  return Mean(values);
}

/// Over the runs that have claims; `-`: none has, or some claims were never met.
template <typename Value>
std::string ClaimFigure(const Runs& runs, Value value) {
  std::vector<double> figures;
  for (const TraceResult* run : runs) {
    if (run->claims.never > 0) return kNoFigure;
    if (!run->claims.seconds.empty()) figures.push_back(value(run->claims.seconds));
  }
  return figures.empty() ? kNoFigure : fmt::format("{:.1f}", Mean(figures));
}

template <typename Value>
nlohmann::ordered_json ClaimRow(const ClaimTimes& claims, Value value) {
  if (claims.never > 0 || claims.seconds.empty()) return nullptr;
  return Rounded(value(claims.seconds));
}

double MeanClaim(const std::vector<double>& seconds) { return Mean(seconds); }
double P99Claim(const std::vector<double>& seconds) { return Quantile(seconds, 0.99); }
double MaxClaim(const std::vector<double>& seconds) { return Quantile(seconds, 1); }

/// All sizes and queues of all runs, so that every row has the same keys.
struct Keys {
  std::set<std::int64_t> gpus;
  std::set<std::string> queues;
};

Keys KeysOf(const std::vector<TraceResult>& results) {
  Keys keys;
  for (const TraceResult& result : results) {
    for (const auto& [gpus, times] : result.by_gpus) keys.gpus.insert(gpus);
    for (const auto& [queue, times] : result.by_queue) keys.queues.insert(queue);
  }
  return keys;
}

template <typename Map, typename Key>
const Times& At(const Map& map, const Key& key) {
  static const Times kNone;
  const auto it = map.find(key);
  return it == map.end() ? kNone : it->second;
}

}  // namespace

std::vector<nlohmann::ordered_json> TraceRows(const std::vector<TraceResult>& results) {
  const Keys keys = KeysOf(results);
  std::vector<nlohmann::ordered_json> rows;
  for (const TraceResult& r : results) {
    nlohmann::ordered_json row{
        {"experiment", r.experiment},
        {"level", Name(r.fidelity)},
        {"load", r.load > 0 ? nlohmann::ordered_json(r.load) : nullptr},
        {"policy", r.policy},
        {"seed", r.seed},
        {"jobs", r.jobs},
        {"never_fit", r.never_fit},
        {"speed_up", Rounded(r.speed_up)},
        {"unfinished", r.unfinished.size()},
        {"mean_jct_seconds", MeanFigure(r.all, &Times::jct)},
        {"p50_jct_seconds", QuantileFigure(r.all, &Times::jct, 0.50)},
        {"p95_jct_seconds", QuantileFigure(r.all, &Times::jct, 0.95)},
        {"p99_jct_seconds", QuantileFigure(r.all, &Times::jct, 0.99)},
        {"mean_wait_seconds", MeanFigure(r.all, &Times::wait)},
        {"p50_wait_seconds", QuantileFigure(r.all, &Times::wait, 0.50)},
        {"p95_wait_seconds", QuantileFigure(r.all, &Times::wait, 0.95)},
        {"p99_wait_seconds", QuantileFigure(r.all, &Times::wait, 0.99)},
        {"max_wait_seconds", QuantileFigure(r.all, &Times::wait, 1)},
        {"mean_service_seconds",
         Figure(r.all, [](const Times& of) { return Mean(of.jct) - Mean(of.wait); })},
        {"mean_bounded_slowdown", MeanFigure(r.all, &Times::slowdown)},
        {"makespan_seconds", Figure(r.all, [&r](const Times&) { return r.makespan; })},
        {"utilisation", Rounded(r.utilisation)},
        {"arrival_utilisation", Rounded(r.arrival_utilisation)},
        {"mean_fragmented", Rounded(MeanSample(r, &Sample::fragmented))},
        {"mean_largest_gang", Rounded(MeanSample(r, &Sample::largest_gang))},
        {"mean_share_error", Rounded(MeanShareError(r))},
        {"claims", r.claims.seconds.size() + r.claims.never},
        {"claims_never_met", r.claims.never},
        {"mean_claim_seconds", ClaimRow(r.claims, MeanClaim)},
        {"p99_claim_seconds", ClaimRow(r.claims, P99Claim)},
        {"max_claim_seconds", ClaimRow(r.claims, MaxClaim)},
        {"evictions", r.evictions},
        {"evictions_in_vain", r.evictions_in_vain},
        {"evictions_per_gpu_day", Rounded(r.evictions_per_gpu_day())},
        {"lost_share", Rounded(r.lost_share())},
        {"lost_gpu_hours", Rounded(r.lost_gpu_hours)}};
    for (const std::int64_t gpus : keys.gpus) {
      const Times& times = At(r.by_gpus, gpus);
      row[fmt::format("mean_jct_seconds_{}_gpus", gpus)] = MeanFigure(times, &Times::jct);
      row[fmt::format("mean_wait_seconds_{}_gpus", gpus)] = MeanFigure(times, &Times::wait);
    }
    for (const std::string& queue : keys.queues) {
      const Times& times = At(r.by_queue, queue);
      row[fmt::format("mean_jct_seconds_queue_{}", queue)] = MeanFigure(times, &Times::jct);
      row[fmt::format("mean_wait_seconds_queue_{}", queue)] = MeanFigure(times, &Times::wait);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<nlohmann::ordered_json> SampleRows(const std::vector<TraceResult>& results) {
  std::vector<nlohmann::ordered_json> rows;
  for (const TraceResult& r : results) {
    for (const Sample& sample : r.samples) {
      rows.push_back({{"level", Name(r.fidelity)},
                      {"policy", r.policy},
                      {"seed", r.seed},
                      {"hours", Rounded(sample.hours)},
                      {"allocated", Rounded(sample.allocated)},
                      {"fragmented", Rounded(sample.fragmented)},
                      {"largest_gang_pods", sample.largest_gang},
                      {"waiting_jobs", sample.waiting},
                      {"share_error", Rounded(sample.share_error)}});
    }
  }
  return rows;
}

std::string TraceTables(const std::vector<TraceResult>& results, const std::string& against) {
  std::string text;
  if (results.front().load > 0) text += fmt::format("\nload {:.2f}\n", results.front().load);
  text += fmt::format("\n{}\n{}{}", TraceTable(results), BreakdownTable(results),
                      ShareErrorTable(results));
  const auto policies = PoliciesOf(results);
  if (policies.size() > 1 && std::ranges::find(policies, against) != policies.end()) {
    text += fmt::format("\npaired by seed\n\n{}", TraceDifferences(results, against));
  }
  return text;
}

std::string TraceTable(const std::vector<TraceResult>& results) {
  server::Table table({"POLICY",        "SEEDS",        "JOBS",          "UNFINISHED",
                       "MEAN JCT s",    "P50 JCT",      "P99 JCT",       "MEAN WAIT s",
                       "P50 WAIT",      "P95 WAIT",     "P99 WAIT",      "MAX WAIT",
                       "SLOWDOWN",      "MAKESPAN s",   "GPU USE %",     "WHILE JOBS COME %",
                       "BROKEN FREE %", "LARGEST GANG", "SHARE ERROR %", "MEAN CLAIM s",
                       "P99 CLAIM",     "MAX CLAIM",    "EVICTIONS",     "IN VAIN",
                       "PER GPU DAY",   "LOST GPU h",   "LOST %"});
  for (const std::string& policy : PoliciesOf(results)) {
    const Runs runs = Select(results, policy);
    const auto over = [&runs](auto value) { return Over(runs, value); };
    const auto whole = [&, ended = AllEnded(runs)](auto value) {
      return ended ? Whole(over(value)) : kNoFigure;
    };
    const auto jct = [&](double share) {
      return whole([share](const TraceResult& r) { return Quantile(r.all.jct, share); });
    };
    const auto wait = [&](double share) {
      return whole([share](const TraceResult& r) { return Quantile(r.all.wait, share); });
    };
    table.Add(
        {policy,
         std::to_string(runs.size()),
         std::to_string(runs.front()->jobs),
         fmt::format("{:.1f}", over([](const TraceResult& r) {
                       return static_cast<double>(r.unfinished.size());
                     })),
         whole([](const TraceResult& r) { return Mean(r.all.jct); }),
         jct(0.50),
         jct(0.99),
         whole([](const TraceResult& r) { return Mean(r.all.wait); }),
         wait(0.50),
         wait(0.95),
         wait(0.99),
         wait(1),
         AllEnded(runs) ? fmt::format("{:.1f}", over([](const TraceResult& r) {
                                        return Mean(r.all.slowdown);
                                      }))
                        : kNoFigure,
         whole([](const TraceResult& r) { return r.makespan; }),
         Percent(over([](const TraceResult& r) { return r.utilisation; })),
         Percent(over([](const TraceResult& r) { return r.arrival_utilisation; })),
         Percent(over([](const TraceResult& r) { return MeanSample(r, &Sample::fragmented); })),
         fmt::format("{:.1f}", over([](const TraceResult& r) {
                       return MeanSample(r, &Sample::largest_gang);
                     })),
         Percent(over([](const TraceResult& r) { return MeanShareError(r); })),
         ClaimFigure(runs, MeanClaim),
         ClaimFigure(runs, P99Claim),
         ClaimFigure(runs, MaxClaim),
         fmt::format("{:.1f}",
                     over([](const TraceResult& r) { return static_cast<double>(r.evictions); })),
         fmt::format("{:.1f}", over([](const TraceResult& r) {
                       return static_cast<double>(r.evictions_in_vain);
                     })),
         fmt::format("{:.3f}",
                     over([](const TraceResult& r) { return r.evictions_per_gpu_day(); })),
         fmt::format("{:.1f}", over([](const TraceResult& r) { return r.lost_gpu_hours; })),
         Percent(over([](const TraceResult& r) { return r.lost_share(); }))});
  }
  return table.Render();
}

std::string BreakdownTable(const std::vector<TraceResult>& results) {
  const Keys keys = KeysOf(results);
  const auto policies = PoliciesOf(results);
  std::vector<std::string> header{"JOBS OF"};
  header.emplace_back("COUNT");
  for (const std::string& policy : policies) header.push_back("JCT s " + policy);
  for (const std::string& policy : policies) header.push_back("WAIT s " + policy);
  server::Table table(header);
  const auto add = [&](const std::string& name, auto times_of) {
    // All policies have the same jobs.
    std::size_t count = 0;
    for (const TraceResult* run : Select(results, policies.front())) {
      count += times_of(*run).arrived;
    }
    std::vector<std::string> row{name, std::to_string(count)};
    for (const auto member : {&Times::jct, &Times::wait}) {
      for (const std::string& policy : policies) {
        std::vector<double> means;
        bool complete = true;
        for (const TraceResult* run : Select(results, policy)) {
          const Times& times = times_of(*run);
          complete &= times.complete();
          if (times.arrived > 0) means.push_back(Mean(times.*member));
        }
        row.push_back(complete && !means.empty() ? Whole(Mean(means)) : kNoFigure);
      }
    }
    table.Add(std::move(row));
  };
  for (const std::int64_t gpus : keys.gpus) {
    add(fmt::format("{} GPUs", gpus),
        [gpus](const TraceResult& r) -> const Times& { return At(r.by_gpus, gpus); });
  }
  for (const std::string& queue : keys.queues) {
    add("queue " + queue,
        [&queue](const TraceResult& r) -> const Times& { return At(r.by_queue, queue); });
  }
  return table.Render();
}

std::string ShareErrorTable(const std::vector<TraceResult>& results) {
  constexpr int kParts = 5;
  const auto none = [](const Sample& sample) { return sample.share_error == 0; };
  if (std::ranges::all_of(results, [&](const TraceResult& run) {
        return std::ranges::all_of(run.samples, none);
      })) {
    return {};
  }
  std::vector<std::string> header{"SHARE ERROR %"};
  for (int i = 0; i < kParts; ++i) header.push_back(fmt::format("FIFTH {}", i + 1));
  server::Table table(header);
  for (const std::string& policy : PoliciesOf(results)) {
    std::vector<std::string> row{policy};
    for (int i = 0; i < kParts; ++i) {
      row.push_back(Percent(Over(Select(results, policy), [i](const TraceResult& run) {
        return MeanShareError(run, static_cast<double>(i) / kParts,
                              static_cast<double>(i + 1) / kParts);
      })));
    }
    table.Add(std::move(row));
  }
  return "\n" + table.Render();
}

namespace {

/// A figure of which policies are compared.
struct Measure {
  const char* name;
  int decimals;
  double (*value)(const TraceResult& run);
  bool in_percent = false;  ///< The difference, of the other's figure.
};

constexpr Measure kMeasures[] = {
    {"mean JCT, %", 1, [](const TraceResult& r) { return Mean(r.all.jct); }, true},
    {"mean wait, s", 0, [](const TraceResult& r) { return Mean(r.all.wait); }},
    {"mean claim, s", 1, [](const TraceResult& r) { return Mean(r.claims.seconds); }},
    {"P99 claim, s", 1, [](const TraceResult& r) { return Quantile(r.claims.seconds, 0.99); }},
    {"share error, points", 2, [](const TraceResult& r) { return 100 * MeanShareError(r); }},
    {"use while jobs come, points", 2,
     [](const TraceResult& r) { return 100 * r.arrival_utilisation; }},
    {"evictions per GPU day", 4, [](const TraceResult& r) { return r.evictions_per_gpu_day(); }},
    {"lost to evictions, points", 2, [](const TraceResult& r) { return 100 * r.lost_share(); }}};

/// nullopt: both are 0 in all runs.
std::optional<Interval> Compare(const Measure& measure, const Runs& runs, const Runs& others) {
  std::vector<double> a;
  std::vector<double> b;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    a.push_back(measure.value(*runs[i]));
    b.push_back(measure.value(*others[i]));
    if (!measure.in_percent) continue;
    a.back() = 100 * (a.back() / b.back() - 1);
    b.back() = 0;
  }
  const auto none = [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double value) { return value == 0; });
  };
  if (!measure.in_percent && none(a) && none(b)) return std::nullopt;
  return PairedDifference(a, b);
}

/// REQUIRES: as many `runs` as `others`, of the same seeds.
void AddDifferences(server::Table& table, const std::string& policy, const Runs& runs,
                    std::string_view base, const Runs& others) {
  // Means over different jobs cannot be compared.
  if (!AllEnded(runs) || !AllEnded(others)) {
    table.Add({policy, std::string(base), "jobs never ended"});
    return;
  }
  for (const Measure& measure : kMeasures) {
    const auto difference = Compare(measure, runs, others);
    if (!difference) continue;
    table.Add({policy, std::string(base), measure.name,
               fmt::format("{:+.{}f}", difference->mean, measure.decimals),
               RangeText(*difference, measure.decimals)});
  }
}

server::Table DifferenceTable() {
  return server::Table({"POLICY", "AGAINST", "DIFFERENCE OF", "MEAN", "95 % INTERVAL"});
}

}  // namespace

std::string TraceDifferences(const std::vector<TraceResult>& results, const std::string& base) {
  server::Table table = DifferenceTable();
  const Runs others = Select(results, base);
  for (const std::string& policy : PoliciesOf(results)) {
    const Runs runs = Select(results, policy);
    if (policy == base || others.size() != runs.size()) continue;
    AddDifferences(table, policy, runs, base, others);
  }
  return table.Render();
}

std::string LevelTables(const std::vector<TraceResult>& results,
                        const std::vector<TraceResult>& others) {
  std::string text = "\n";
  if (results.front().load > 0) text += fmt::format("load {:.2f}, ", results.front().load);
  text += fmt::format("level {} against {}, paired by seed\n\n", Name(results.front().fidelity),
                      Name(others.front().fidelity));
  server::Table table = DifferenceTable();
  for (const std::string& policy : PoliciesOf(results)) {
    AddDifferences(table, policy, Select(results, policy), Name(others.front().fidelity),
                   Select(others, policy));
  }
  return text + table.Render();
}

Plot LoadPlot(const std::vector<TraceResult>& results) {
  Plot plot{.title = results.empty() ? "" : results.front().experiment + ": job completion times",
            .x_label = "offered GPU load",
            .y_label = "mean JCT, s",
            .series = {}};
  for (const std::string& policy : PoliciesOf(results)) {
    std::map<double, Runs> by_load;
    for (const TraceResult* run : Select(results, policy)) by_load[run->load].push_back(run);
    Series line{.name = policy, .points = {}};
    for (const auto& [load, runs] : by_load) {
      if (!AllEnded(runs)) continue;
      line.points.emplace_back(load,
                               Over(runs, [](const TraceResult& r) { return Mean(r.all.jct); }));
    }
    plot.series.push_back(std::move(line));
  }
  return plot;
}

std::vector<std::pair<std::string, Plot>> TracePlots(const std::vector<TraceResult>& results) {
  struct PlotKind {
    const char* name;
    const char* label;
    double Sample::*member;
    double scale;
  };
  static constexpr PlotKind kPlotKinds[] = {
      {"allocated", "GPUs allocated, %", &Sample::allocated, 100},
      {"fragmented", "free GPUs on broken nodes, %", &Sample::fragmented, 100},
      {"largest-gang", "pods of 8 GPUs that could start", &Sample::largest_gang, 1},
      {"waiting", "jobs waiting", &Sample::waiting, 1},
      {"share-error", "fair shares not met, % of all GPUs", &Sample::share_error, 100}};
  std::vector<std::pair<std::string, Plot>> plots;
  for (const PlotKind& kind : kPlotKinds) {
    Plot plot{.title = kind.label, .x_label = "hours", .y_label = kind.label, .series = {}};
    for (const std::string& policy : PoliciesOf(results)) {
      Series series{.name = policy, .points = {}};
      for (const Sample& sample : Select(results, policy).front()->samples) {
        series.points.emplace_back(sample.hours, kind.scale * sample.*kind.member);
      }
      plot.series.push_back(std::move(series));
    }
    plots.emplace_back(kind.name, std::move(plot));
  }
  return plots;
}

}  // namespace berth::sim
