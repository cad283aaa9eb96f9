// What the experiment `openb` prints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "server/cli/table.h"
#include "sim/experiments/openb_experiment.h"
#include "sim/experiments/statistics.h"
#include "sim/experiments/svg_plot.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

/// Values in order of first appearance.
template <typename Member>
std::vector<std::string> Names(const std::vector<PackingResult>& results, Member member) {
  std::vector<std::string> names;
  for (const PackingResult& result : results) {
    if (std::ranges::find(names, result.*member) == names.end()) names.push_back(result.*member);
  }
  return names;
}

std::vector<const PackingResult*> Select(const std::vector<PackingResult>& results,
                                         const std::string& list, const std::string& policy) {
  std::vector<const PackingResult*> selected;
  for (const PackingResult& result : results) {
    if (result.list == list && result.policy == policy) selected.push_back(&result);
  }
  return selected;
}

std::vector<double> At100(const std::vector<const PackingResult*>& runs) {
  std::vector<double> values;
  for (const PackingResult* run : runs) values.push_back(run->unallocated.value_or(0));
  return values;
}

std::string Two(double value) { return fmt::format("{:.2f}", value); }
std::string Two(std::optional<double> value) { return value ? Two(*value) : ""; }
std::string Signed(double value) { return fmt::format("{:+.2f}", value); }

template <typename Member>
double MeanOf(const std::vector<const PackingResult*>& runs, Member member) {
  std::vector<double> values;
  for (const PackingResult* run : runs) values.push_back(static_cast<double>(run->*member));
  return Mean(values);
}

std::optional<double> MeanFragment(const std::vector<const PackingResult*>& runs) {
  std::vector<double> values;
  for (const PackingResult* run : runs) {
    if (run->fragment_percent) values.push_back(*run->fragment_percent);
  }
  return values.empty() ? std::nullopt : std::optional(Mean(values));
}

nlohmann::ordered_json Number(std::optional<double> value) {
  if (!value) return nullptr;
  return std::round(*value * 1e6) / 1e6;  // shorter to read, and more digits than are significant
}

}  // namespace

std::vector<nlohmann::ordered_json> OpenbRows(const std::vector<PackingResult>& results) {
  std::vector<nlohmann::ordered_json> rows;
  for (const PackingResult& r : results) {
    rows.push_back({{"experiment", "openb"},
                    {"level", Name(Fidelity::kEngine)},
                    {"variant", r.variant},
                    {"list", r.list},
                    {"policy", r.policy},
                    {"seed", r.seed},
                    {"unallocated_percent", Number(r.unallocated)},
                    {"published_percent", Number(r.published)},
                    {"fragment_percent", Number(r.fragment_percent)},
                    {"placed", r.placed},
                    {"refused", r.refused},
                    {"refused_gpu_percent", Number(r.refused_gpu_percent)},
                    {"refused_gangs", r.refused_gangs},
                    {"refused_cpu_only", r.refused_cpu_only},
                    {"refused_cpu_only_at_100", r.refused_cpu_only_at_100}});
  }
  return rows;
}

std::string OpenbTable(const std::vector<PackingResult>& results) {
  server::Table table({"LIST", "POLICY", "SEEDS", "UNALLOCATED %", "SD", "PUBLISHED", "DIFFERENCE",
                       "FRAGMENT %", "REFUSED", "REFUSED GPU %", "REFUSED GANGS",
                       "REFUSED CPU-ONLY"});
  const auto lists = Names(results, &PackingResult::list);
  for (const std::string& policy : Names(results, &PackingResult::policy)) {
    std::vector<double> means;
    std::vector<double> published;
    for (const std::string& list : lists) {
      const auto runs = Select(results, list, policy);
      const auto values = At100(runs);
      const auto paper = runs.front()->published;
      means.push_back(Mean(values));
      if (paper) published.push_back(*paper);
      table.Add({list, policy, std::to_string(runs.size()), Two(means.back()),
                 Two(StandardDeviation(values)), Two(paper),
                 paper ? Signed(means.back() - *paper) : "", Two(MeanFragment(runs)),
                 fmt::format("{:.1f}", MeanOf(runs, &PackingResult::refused)),
                 Two(MeanOf(runs, &PackingResult::refused_gpu_percent)),
                 fmt::format("{:.1f}", MeanOf(runs, &PackingResult::refused_gangs)),
                 fmt::format("{:.1f}", MeanOf(runs, &PackingResult::refused_cpu_only))});
    }
    if (lists.size() < 2) continue;
    const bool all = published.size() == lists.size();
    table.Add({"(mean)", policy, "", Two(Mean(means)), "", all ? Two(Mean(published)) : "",
               all ? Signed(Mean(means) - Mean(published)) : ""});
  }
  return table.Render();
}

std::string DifferenceTable(const std::vector<PackingResult>& results, const std::string& base) {
  server::Table table({"LIST", "POLICY", "AGAINST", "DIFFERENCE", "95 % INTERVAL"});
  const auto add = [&](const std::string& list, const std::string& policy,
                       const std::vector<double>& ours, const std::vector<double>& theirs) {
    const Interval d = PairedDifference(ours, theirs);
    table.Add({list, policy, base, Signed(d.mean), RangeText(d, 2)});
  };
  const auto lists = Names(results, &PackingResult::list);
  for (const std::string& policy : Names(results, &PackingResult::policy)) {
    if (policy == base) continue;
    // Over all lists: the mean of a seed over the lists is one value, because lists are not
    // independent.
    std::vector<double> ours;
    std::vector<double> theirs;
    for (const std::string& list : lists) {
      const auto a = At100(Select(results, list, policy));
      const auto b = At100(Select(results, list, base));
      add(list, policy, a, b);
      ours.resize(a.size());
      theirs.resize(b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        ours[i] += a[i] / static_cast<double>(lists.size());
        theirs[i] += b[i] / static_cast<double>(lists.size());
      }
    }
    if (lists.size() > 1) add("(mean)", policy, ours, theirs);
  }
  return table.Render();
}

std::string SpeedTable(const std::vector<PackingResult>& results) {
  server::Table table({"POLICY", "RUNS", "ARRIVALS", "SECONDS", "PLACEMENTS PER SECOND"});
  for (const std::string& policy : Names(results, &PackingResult::policy)) {
    std::int64_t arrivals = 0;
    int runs = 0;
    double seconds = 0;
    for (const PackingResult& r : results) {
      if (r.policy != policy) continue;
      ++runs;
      arrivals += r.placed + r.refused;
      seconds += r.seconds;
    }
    table.Add({policy, std::to_string(runs), std::to_string(arrivals), Two(seconds),
               fmt::format("{:.0f}", seconds > 0 ? static_cast<double>(arrivals) / seconds : 0)});
  }
  return table.Render();
}

std::string OpenbPlot(const std::vector<PackingResult>& results) {
  Plot plot{.title = "openb: GPUs that stay unallocated",
            .x_label = "arrived GPU load, % of capacity",
            .y_label = "unallocated GPU, %",
            .series = {}};
  for (const std::string& policy : Names(results, &PackingResult::policy)) {
    Series series{.name = policy, .points = {}};
    for (int percent = 80; percent <= kInflationPercent; ++percent) {
      std::vector<double> values;
      for (const PackingResult& r : results) {
        if (r.policy != policy) continue;
        if (const auto value = r.curve.UnallocatedAt(percent)) values.push_back(*value);
      }
      if (!values.empty()) series.points.emplace_back(percent, Mean(values));
    }
    plot.series.push_back(std::move(series));
  }
  return RenderSvg(plot);
}

}  // namespace berth::sim
