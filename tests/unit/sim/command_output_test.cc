// What `berth simulate` prints and writes, as a script reads it.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/command.h"
#include "sim/options.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::sim {
namespace {

/// Runs `simulate line`, which must succeed: its stdout.
std::string Simulate(const std::string& line) {
  CLI::App app;
  std::function<int()> run;
  AddSimulateCommand(app, run);
  app.parse("simulate " + line);
  const testing::TempFile file("stdout", "");
  std::fflush(stdout);
  const int screen = dup(STDOUT_FILENO);
  REQUIRE(std::freopen(file.path().c_str(), "w", stdout) != nullptr);
  const int code = run();
  std::fflush(stdout);
  dup2(screen, STDOUT_FILENO);
  close(screen);
  CAPTURE(line);
  REQUIRE(code == 0);
  std::ostringstream text;
  text << std::ifstream(file.path()).rdbuf();
  return text.str();
}

/// The fields of every line.
std::vector<std::vector<std::string>> Cells(const std::string& text, char separator) {
  std::vector<std::vector<std::string>> cells;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    cells.emplace_back();
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, separator);) {
      if (!field.empty() || separator == ',') cells.back().push_back(field);
    }
  }
  return cells;
}

const std::string kOpenb = std::string("openb --traces ") + BERTH_SOURCE_DIR +
                           "/tests/unit/sim/testdata --policy Berth,BestFit --seeds 1 ";

TEST_CASE("a speed report names the level, and placements per second of every policy",
          "[unit][sim]") {
  const std::string text = Simulate(kOpenb + "--speed-report");
  CHECK_THAT(text, Catch::StartsWith("experiment openb, variant protocol, level engine\n"));
  const std::size_t at = text.find("PLACEMENTS PER SECOND");
  REQUIRE(at != std::string::npos);
  const auto rows = Cells(text.substr(text.find('\n', at) + 1), ' ');
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].front() == "Berth");
  CHECK(rows[1].front() == "BestFit");
  for (const auto& row : rows) {
    REQUIRE(row.size() == 5);
    CHECK(std::stod(row[2]) > 0);
    CHECK(std::stod(row[4]) > 0);
  }
  CHECK_THAT(Simulate(kOpenb), !Catch::Contains("PER SECOND"));
}

TEST_CASE("a speed report leaves rows for machines alone", "[unit][sim]") {
  const auto rows = nlohmann::json::parse(Simulate(kOpenb + "-o json --speed-report"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["policy"] == "Berth");
}

TEST_CASE("trace: rows as JSON and CSV, and the cluster over time", "[unit][sim][trace]") {
  const testing::TempFile jobs("jobs",
                               "job_id,model,gpus,mode,total_steps,duration_s,arrival_s\n"
                               "0,resnet,8,static,1,7200,0\n"
                               "1,resnet,8,static,1,3600,60\n");
  const testing::TempFile series("series", "");
  const std::string line = "trace --cluster 1x8 --workload " + jobs.path() +
                           " --compare native,Berth --seeds 1 --series " + series.path();
  const auto rows = nlohmann::json::parse(Simulate(line + " -o json"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["policy"] == "native");
  CHECK(rows[1]["policy"] == "Berth");
  CHECK(rows[1]["mean_jct_seconds"] > 7200);

  std::ostringstream text;
  text << std::ifstream(series.path()).rdbuf();
  const auto samples = Cells(text.str(), ',');
  REQUIRE(samples.size() > 4);
  CHECK(samples[0] == std::vector<std::string>{"level", "policy", "seed", "hours", "allocated",
                                               "fragmented", "largest_gang_pods", "waiting_jobs",
                                               "share_error"});
  std::map<std::string, double> hours;
  bool full_with_one_waiting = false;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const auto& sample = samples[i];
    REQUIRE(sample.size() == 9);
    CHECK(sample[2] == "1");
    if (hours.contains(sample[1])) CHECK(std::stod(sample[3]) > hours[sample[1]]);
    hours[sample[1]] = std::stod(sample[3]);
    if (std::stod(sample[4]) == 1 && std::stod(sample[7]) == 1) full_with_one_waiting = true;
  }
  CHECK(hours.size() == 2);  // both policies
  CHECK(full_with_one_waiting);

  const auto csv = Cells(Simulate(line + " -o csv"), ',');
  REQUIRE(csv.size() == 3);
  CHECK(csv[0].size() == rows[0].size());
  CHECK(csv[0].size() == csv[1].size());
}

TEST_CASE("trace: policies are judged by the quotas of a file of their own", "[unit][sim][trace]") {
  const testing::TempFile jobs("jobs",
                               "job_id,model,gpus,mode,total_steps,duration_s,arrival_s\n"
                               "0,resnet,8,static,1,3600,0\n");
  const testing::TempFile shares("shares",
                                 "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\n"
                                 "queues:\n- {name: default, namespaces: ['*'], "
                                 "quota: {nvidia.com/gpu: 8}}\n");
  const std::string line =
      "trace --cluster 1x8 --workload " + jobs.path() + " --compare native,Berth --seeds 1 -o json";
  for (const auto& row : nlohmann::json::parse(Simulate(line))) {
    CHECK(row["claims"] == 0);  // the built-in policy promises nothing
    CHECK(row["mean_claim_seconds"].is_null());
  }
  const auto judged = nlohmann::json::parse(Simulate(line + " --shares-file " + shares.path()));
  REQUIRE(judged.size() == 2);
  for (const auto& row : judged) {
    CHECK(row["claims"] == 1);
    CHECK(row["mean_claim_seconds"] < 1);
  }
}

TEST_CASE("philly is a preset of trace: a row for each load, policy and seed",
          "[unit][sim][trace]") {
  const testing::TempDir folder;
  folder.Write("philly_duration_gpus.csv", "duration_s,gpus\n600,8\n60,1\n");
  const std::string line = "philly --traces " + folder.path() +
                           " --jobs 40 --load 0.5,0.9 --policy native,Berth --seeds 1-2 -o json";
  const auto rows = nlohmann::json::parse(Simulate(line));
  REQUIRE(rows.size() == 8);
  for (const auto& row : rows) {
    CHECK(row["experiment"] == "philly");
    CHECK(row["level"] == "scheduler");
    CHECK(row["jobs"] == 40);
    CHECK(row["never_fit"] == 0);
    CHECK(row["speed_up"] == 1);
    const double wait = row["mean_wait_seconds"];
    const double service = row["mean_service_seconds"];
    CHECK(row["mean_jct_seconds"] == testing::Approx(wait + service).epsilon(0.001));
    CHECK(row["p99_wait_seconds"] >= row["p50_wait_seconds"]);
  }
  for (const auto& row : nlohmann::json::parse(Simulate(line + " --fidelity instant"))) {
    CHECK(row["level"] == "instant");
  }
  CHECK((rows[0]["load"] == 0.5 && rows[4]["load"] == 0.9));
  CHECK((rows[1]["policy"] == "native" && rows[1]["seed"] == 2 && rows[2]["policy"] == "Berth"));
}

TEST_CASE("philly-queues: the same jobs under each kind of quotas", "[unit][sim][trace]") {
  const testing::TempDir folder;
  folder.Write("philly_duration_gpus.csv", "duration_s,gpus\n60000,8\n6000,1\n");
  folder.Write("philly_vc_arrivals.csv", "vc,arrival_s,gpus\nx,0,16\nx,0,1\ny,0,8\ny,0,1\n");
  const testing::TempFile series("series", "");
  const std::string line = "philly-queues --traces " + folder.path() +
                           " --jobs 200 --load 0.9 --seeds 1-2 --series " + series.path();
  const auto rows = nlohmann::json::parse(Simulate(line + " -o json --fidelity both"));
  REQUIRE(rows.size() == 20);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    CAPTURE(row["policy"], row["level"]);
    CHECK(row["level"] == (i < 10 ? "scheduler" : "instant"));
    CHECK(row["policy"] == std::vector{"native", "none", "caps", "lends", "reclaims"}[i % 10 / 2]);
    CHECK(row["experiment"] == "philly-queues");
    CHECK(row["jobs"] == 200);
    CHECK(row["unfinished"] == 0);
    CHECK(row["evictions_in_vain"] == 0);
    CHECK(row["claims"] > 0);  // all are judged by the same quotas
    CHECK(row["mean_wait_seconds_queue_vc-x"].is_number());
    if (row["policy"] != "reclaims") CHECK(row["evictions"] == 0);
  }
  CHECK(rows[4]["mean_wait_seconds"] > rows[8]["mean_wait_seconds"]);  // caps cost waits
  CHECK_THAT(Simulate(line + " --fidelity both"),
             Catch::Contains("level instant against scheduler, paired by seed"));
  std::ostringstream text;
  text << std::ifstream(series.path()).rdbuf();
  CHECK(Cells(text.str(), ',').size() > 4'000);  // of twenty runs
}

}  // namespace
}  // namespace berth::sim
