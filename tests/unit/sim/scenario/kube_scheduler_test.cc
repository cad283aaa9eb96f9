// The model of kube-scheduler against the real one: what v1.36.3 did with the scenarios under
// tests/golden/kube-scheduler is recorded beside them (docs/simulator.md says how), attempt by
// attempt. The end-to-end test TestKubeSchedulerModel checks the records on a control plane.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/random.h"
#include "sim/scenario/run.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace berth::scenario {
namespace {

constexpr std::uint64_t kSeeds = 3;

const std::filesystem::path kRecords = "tests/golden/kube-scheduler";

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// kube-scheduler alone, configured as TestKubeSchedulerModel configures the real one.
RunOptions OptionsOf(const std::string& name) {
  RunOptions options{.with_berth = false};
  if (name == "most-allocated") options.scheduler.strategy = sim::StockStrategy::kMostAllocated;
  if (name == "requeue") {
    options.scheduler.queue.max_backoff = 1'000;
    options.join = 2'500;
    options.settle = 3'000;  // no pod waits for the five minutes of the leftover flush
  }
  return options;
}

RunReport RunText(const std::string& text, const RunOptions& options) {
  const auto scenario = Decode(text, "generated");
  INFO((scenario ? "" : scenario.error().front().ToString()));
  REQUIRE(scenario.has_value());
  return Run(*scenario, options);
}

/// `POD NODE`, or `POD -` where it fits nowhere.
std::vector<std::string> Spelled(const std::vector<Attempt>& attempts) {
  std::vector<std::string> lines;
  for (const Attempt& attempt : attempts) {
    lines.push_back(attempt.pod + " " + (attempt.node.empty() ? "-" : attempt.node));
  }
  return lines;
}

void AgreesWithRecord(const std::string& name, std::size_t at_least) {
  const std::vector<std::string> recorded =
      Lines(testing::ReadSource(kRecords / (name + ".attempts")));
  REQUIRE(recorded.size() >= at_least);
  const std::string scenario = testing::ReadSource(kRecords / (name + ".yaml"));
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RunOptions options = OptionsOf(name);
    options.seed = seed;
    const RunReport report = RunText(scenario, options);
    CHECK(report.faults == std::vector<std::string>{});
    CHECK(std::ranges::none_of(report.attempts, [](const Attempt& a) { return a.equals > 1; }));
    const std::vector<std::string> ours = Spelled(report.attempts);
    const auto [real, model] = std::ranges::mismatch(recorded, ours);
    INFO(fmt::format("{}: the first {} of {} attempts agree; then kube-scheduler '{}', model '{}'",
                     name, real - recorded.begin(), recorded.size(),
                     real == recorded.end() ? "" : *real, model == ours.end() ? "" : *model));
    CHECK((real == recorded.end() && model == ours.end()));
  }
}

TEST_CASE("placements are kube-scheduler's: LeastAllocated and BalancedAllocation") {
  AgreesWithRecord("least-allocated", 300);
}

TEST_CASE("placements are kube-scheduler's: MostAllocated with GPUs") {
  AgreesWithRecord("most-allocated", 300);
}

TEST_CASE("pods are tried again when kube-scheduler tries them, in its order") {
  AgreesWithRecord("requeue", 80);
}

// --- How the placements were drawn.

constexpr const char* kHead =
    R"(# Drawn by: build/tests/scenario "draw placements". Beside it what kube-scheduler did.
apiVersion: berth.dev/v1alpha1
kind: Scenario
proves: The model places pods where kube-scheduler places them.
area: fragmentation
)";

std::string DrawNodes(sim::Random& random) {
  static constexpr std::array<int, 4> kGpus{0, 0, 4, 8};
  std::string text = "nodes:\n";
  for (int i = 0; i < 16; ++i) {
    std::string taint;
    if (i % 5 == 3) taint = ", taints: [{key: slow, effect: PreferNoSchedule}]";
    if (i % 5 == 4) taint = ", taints: [{key: reserved, effect: NoSchedule}]";
    text += fmt::format(
        "- {{name: n-{}, cpu: {}m, memory: {}Mi, gpus: {}, labels: {{zone: {}}}{}}}\n", i,
        random.Between(23'000, 97'000), random.Between(60'000, 390'000),
        kGpus[static_cast<std::size_t>(i) % kGpus.size()], i % 3 == 0 ? "a" : "b", taint);
  }
  return text;
}

std::string DrawPod(int index, sim::Random& random) {
  static constexpr std::array<int, 6> kGpus{0, 0, 0, 1, 1, 2};
  static constexpr std::array<const char*, 10> kMore{"",
                                                     "",
                                                     "",
                                                     "",
                                                     "",
                                                     ", nodeSelector: {zone: a}",
                                                     ", nodeSelector: {zone: b}",
                                                     ", tolerations: [reserved]",
                                                     ", tolerations: [slow]",
                                                     ", tolerations: [reserved, slow]"};
  // Some do without a request: NodeResourcesFit has defaults for those.
  const auto amount = [&random](std::int64_t most, const char* unit) {
    return random.Percent(15) ? "\"\""
                              : fmt::format("{}{}", random.Between(most / 100, most), unit);
  };
  const std::string cpu = amount(4'000, "m");
  const std::string memory = amount(16'000, "Mi");
  return fmt::format("- create: {{name: p-{}, cpu: {}, memory: {}, gpus: {}{}}}\n", index, cpu,
                     memory, kGpus[random.Below(kGpus.size())], kMore[random.Below(kMore.size())]);
}

/// The first of `there`, which are running, end; the next pod comes when they are gone.
std::string DrawDeparture(std::vector<int>& there) {
  constexpr int kLeave = 12;
  std::string names;
  for (int i = 0; i < kLeave; ++i) names += fmt::format("{}p-{}", i > 0 ? ", " : "", there[i]);
  const int last = there[kLeave - 1];
  there.erase(there.begin(), there.begin() + kLeave);
  return fmt::format("- delete: [{}]\n- expect: {{p-{}: {{bound: 0}}}}\n", names, last);
}

/// Keeps a pod only if it fits and no two nodes have its best score: kube-scheduler's choice among
/// equals is random, and what it leaves behind decides all that follows.
void DrawPlacements(const std::string& name, std::uint64_t seed) {
  sim::Random random(seed);
  std::string text = kHead + DrawNodes(random) + "steps:\n";
  RunOptions options = OptionsOf(name);
  options.quiet_rounds = 0;
  std::vector<int> there;
  for (int index = 0, placed = 0; placed < 320; ++index) {
    const std::string pod = DrawPod(index, random);
    const std::string end = fmt::format("- expect: {{p-{}: {{bound: 1}}}}\n", index);
    if (RunText(text + pod + end, options).attempts.back().equals != 1) continue;
    text += pod;
    there.push_back(index);
    if (++placed % 40 != 0) continue;
    text += end;  // kube-scheduler tries a pod some time after its creation: before any departure
    if (placed < 320) text += DrawDeparture(there);
  }
  std::ofstream(BERTH_SOURCE_DIR / kRecords / (name + ".yaml")) << text;
}

TEST_CASE("draw placements", "[.]") {
  DrawPlacements("least-allocated", 1);
  DrawPlacements("most-allocated", 2);
}

}  // namespace
}  // namespace berth::scenario
