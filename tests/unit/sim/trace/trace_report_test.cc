// Reports of runs that are given, figure by figure.
#include "sim/trace/trace_report.h"

#include <sstream>

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

/// Jobs that waited a tenth of what they took; `lost` more never ended.
Times Took(const std::vector<double>& jcts, std::size_t lost = 0) {
  Times times{.wait = {}, .jct = jcts, .slowdown = {}, .arrived = jcts.size() + lost};
  for (const double jct : jcts) {
    times.wait.push_back(jct / 10);
    times.slowdown.push_back(1);
  }
  return times;
}

TraceResult Run(const std::string& policy, std::uint64_t seed, const Times& small,
                const Times& large) {
  TraceResult run;
  run.policy = policy;
  run.seed = seed;
  for (const Times* times : {&small, &large}) {
    for (const auto member : {&Times::wait, &Times::jct, &Times::slowdown}) {
      auto& all = run.all.*member;
      all.insert(all.end(), (times->*member).begin(), (times->*member).end());
    }
    run.all.arrived += times->arrived;
    run.unfinished.resize(run.all.arrived - run.all.jct.size(), "a job");
  }
  run.jobs = run.all.arrived;
  run.makespan = 1'000;
  if (small.arrived > 0) run.by_gpus[1] = small;
  if (large.arrived > 0) run.by_gpus[8] = large;
  run.by_queue["default"] = run.all;
  return run;
}

/// The words of the line that begins with `name`.
std::vector<std::string> Line(const std::string& table, const std::string& name) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

/// The words behind `measure` in the line of `policy` that has it.
std::vector<std::string> Difference(const std::string& table, const std::string& policy,
                                    const std::string& measure) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(measure);
    if (!line.starts_with(policy) || at == std::string::npos) continue;
    std::istringstream words(line.substr(at + measure.size()));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

using Words = std::vector<std::string>;

TEST_CASE("a seed without jobs of a size is no part of their mean", "[unit][sim][trace]") {
  const std::vector<TraceResult> results{Run("native", 1, Took({100}), Took({})),
                                         Run("native", 2, Took({300}), Took({500, 700}))};
  const std::string table = BreakdownTable(results);
  CHECK(Line(table, "1 GPUs") == Words{"2", "200", "20"});
  CHECK(Line(table, "8 GPUs") == Words{"2", "600", "60"});
  const auto rows = TraceRows(results);
  CHECK(rows[0]["mean_jct_seconds_8_gpus"].is_null());
  CHECK(rows[0]["mean_wait_seconds_8_gpus"].is_null());
  CHECK(rows[1]["mean_jct_seconds_8_gpus"] == 600.0);
}

TEST_CASE("where jobs never ended there is no figure to compare", "[unit][sim][trace]") {
  const std::vector<TraceResult> results{Run("native", 1, Took({100}), Took({50}, /*lost=*/1)),
                                         Run("Berth", 1, Took({100}), Took({200, 400}))};
  const std::string table = BreakdownTable(results);
  CHECK(Line(table, "1 GPUs") == Words{"1", "100", "100", "10", "10"});
  CHECK(Line(table, "8 GPUs") == Words{"2", "-", "300", "-", "30"});
  CHECK(Line(table, "queue default") == Words{"3", "-", "233", "-", "23"});
  const auto native = Line(TraceTable(results), "native");
  REQUIRE(native.size() == 26);
  CHECK(Words(native.begin() + 2, native.begin() + 13) ==
        Words{"1.0", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"});
  CHECK(Line(TraceTable(results), "Berth")[3] == "233");
  const auto rows = TraceRows(results);
  for (const char* key : {"mean_jct_seconds", "p99_wait_seconds", "max_wait_seconds",
                          "mean_bounded_slowdown", "makespan_seconds", "mean_jct_seconds_8_gpus"}) {
    CAPTURE(key);
    CHECK(rows[0][key].is_null());
    CHECK(rows[1][key].is_number());
  }
  CHECK(rows[0]["mean_jct_seconds_1_gpus"] == 100.0);
}

TEST_CASE("what queues lack of their shares, how long claims wait, and what evictions cost",
          "[unit][sim][trace]") {
  std::vector<TraceResult> results{Run("native", 1, Took({100}), Took({})),
                                   Run("native", 2, Took({100}), Took({})),
                                   Run("Berth", 1, Took({100}), Took({}))};
  for (const double error : {0.5, 0.25, 0.0}) {
    Sample sample;
    sample.share_error = error;
    results[0].samples.push_back(sample);
    sample.share_error = 0;
    results[1].samples.push_back(sample);
    results[2].samples.push_back(sample);
  }
  results[0].claims.seconds = {10, 30};
  results[2].claims = {.seconds = {7}, .never = 1};
  results[2].evictions = 6;
  results[2].evictions_in_vain = 3;
  results[2].gpu_days = 30;
  results[2].lost_gpu_hours = 80;  // of 800
  const std::string table = TraceTable(results);
  const Words native = Line(table, "native");  // (25 % + 0 %) / 2; of seed 1 alone, 20 s
  REQUIRE(native.size() == 26);
  CHECK(Words(native.begin() + 17, native.end()) ==
        Words{"12.5", "20.0", "30.0", "30.0", "0.0", "0.0", "0.000", "0.0", "0.0"});
  const Words berth = Line(table, "Berth");
  REQUIRE(berth.size() == 26);
  CHECK(Words(berth.begin() + 17, berth.end()) ==
        Words{"0.0", "-", "-", "-", "6.0", "3.0", "0.200", "80.0", "10.0"});
  const auto rows = TraceRows(results);
  CHECK(rows[0]["mean_share_error"] == 0.25);
  CHECK(rows[0]["claims"] == 2);
  CHECK(rows[0]["mean_claim_seconds"] == 20.0);
  CHECK(rows[0]["max_claim_seconds"] == 30.0);
  CHECK(rows[1]["mean_claim_seconds"].is_null());
  CHECK(rows[2]["claims"] == 2);
  CHECK(rows[2]["claims_never_met"] == 1);
  CHECK(rows[2]["mean_claim_seconds"].is_null());
  CHECK(rows[2]["evictions_in_vain"] == 3);
  CHECK(rows[2]["evictions_per_gpu_day"] == 0.2);
  CHECK(rows[2]["lost_share"] == 0.1);
  CHECK(SampleRows(results)[0]["share_error"] == 0.5);
  const auto plots = TracePlots(results);
  CHECK(plots.back().first == "share-error");
  CHECK(plots.back().second.series[0].points.front().second == 50.0);
}

TEST_CASE("share errors over time are of the time in which jobs arrive", "[unit][sim][trace]") {
  std::vector<TraceResult> results{Run("native", 1, Took({100}), Took({})),
                                   Run("Berth", 1, Took({100}), Took({}))};
  for (TraceResult& result : results) result.arrival_hours = 10;
  CHECK(ShareErrorTable(results).empty());  // there are no queues
  for (int hour = 0; hour <= 20; ++hour) {
    Sample sample;
    sample.hours = hour;
    sample.share_error = hour <= 10 ? 0.01 * hour : 1;
    results[0].samples.push_back(sample);
  }
  // 0 and 1 %; 2, 3; 4, 5; 6, 7; 8, 9, 10
  CHECK(Line(ShareErrorTable(results), "native") == Words{"0.5", "2.5", "4.5", "6.5", "9.0"});
  CHECK(Line(ShareErrorTable(results), "Berth") == Words{"0.0", "0.0", "0.0", "0.0", "0.0"});
  CHECK(TraceRows(results)[0]["mean_share_error"] == 0.05);
  CHECK_THAT(TraceTables(results, "native"), Catch::Contains("FIFTH 5"));
}

TEST_CASE("differences are paired by seed, with their interval", "[unit][sim][trace]") {
  std::vector<TraceResult> results{
      Run("native", 1, Took({100}), Took({})), Run("native", 2, Took({400}), Took({})),
      Run("Berth", 1, Took({50}), Took({})), Run("Berth", 2, Took({240}), Took({}))};
  results[0].claims.seconds = {8};
  results[1].claims.seconds = {6};
  results[2].claims.seconds = {1, 2};  // 1.5
  results[2].arrival_utilisation = 0.5;
  results[3].arrival_utilisation = 0.5;
  const std::string table = TraceDifferences(results, "native");
  // Student's t of one degree of freedom is 12.706, the standard error half the distance.
  const auto line = [&](const std::string& measure) { return Difference(table, "Berth", measure); };
  CHECK(line("mean JCT, %") == Words{"-45.0", "-108.5", "..", "+18.5"});  // -50, -40
  CHECK(line("mean wait, s") == Words{"-10", "-80", "..", "+59"});        // -5, -16: 5.5
  CHECK(line("mean claim, s") == Words{"-6.2", "-9.4", "..", "-3.1"});    // -6.5, -6
  CHECK(line("use while jobs come, points") == Words{"+50.00", "+50.00", "..", "+50.00"});
  CHECK_THAT(table, !Catch::Contains("evict"));  // there are none
}

TEST_CASE("two levels are compared policy by policy", "[unit][sim][trace]") {
  std::vector<TraceResult> instant{Run("native", 1, Took({90}), Took({})),
                                   Run("Berth", 1, Took({60}), Took({}))};
  const std::vector<TraceResult> scheduler{Run("native", 1, Took({100}), Took({})),
                                           Run("Berth", 1, Took({50}), Took({}))};
  for (TraceResult& result : instant) result.fidelity = Fidelity::kInstant;
  const std::string table = LevelTables(instant, scheduler);
  CHECK_THAT(table, Catch::Contains("level instant against scheduler, paired by seed"));
  CHECK(Difference(table, "native", "mean JCT, %") == Words{"-10.0", "-"});  // one seed
  CHECK(Difference(table, "Berth", "mean JCT, %") == Words{"+20.0", "-"});
}

TEST_CASE("completion times by load, where all jobs ended", "[unit][sim][trace]") {
  std::vector<TraceResult> results{
      Run("native", 1, Took({100}), Took({})), Run("native", 2, Took({300}), Took({})),
      Run("native", 1, Took({50}, /*lost=*/1), Took({})), Run("Berth", 1, Took({80}), Took({}))};
  for (const std::size_t i : {0U, 1U, 3U}) results[i].load = 0.5;
  results[2].load = 1;
  const Plot plot = LoadPlot(results);
  REQUIRE(plot.series.size() == 2);
  CHECK(plot.series[0].name == "native");
  CHECK(plot.series[0].points == std::vector<std::pair<double, double>>{{0.5, 200}});
  CHECK(plot.series[1].points == std::vector<std::pair<double, double>>{{0.5, 80}});
}

TEST_CASE("the tables name the load, and compare where there is something to compare with",
          "[unit][sim][trace]") {
  std::vector<TraceResult> results{Run("native", 1, Took({100}), Took({})),
                                   Run("Berth", 1, Took({50}), Took({}))};
  CHECK_THAT(TraceTables(results, "native"), !Catch::Contains("load"));
  for (TraceResult& result : results) result.load = 0.85;
  CHECK_THAT(TraceTables(results, "native"), Catch::StartsWith("\nload 0.85\n") &&
                                                 Catch::Contains("paired by seed") &&
                                                 Catch::Contains("-50.0"));
  CHECK_THAT(TraceTables(results, "FIFO"), !Catch::Contains("paired by seed"));
}

}  // namespace
}  // namespace berth::sim
