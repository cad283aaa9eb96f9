#include "sim/gym/packing_env.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/env_command.h"
#include "sim/experiments/openb_variants.h"
#include "tests/support/catch.h"
#include "tests/unit/sim/experiments/openb_lists.h"

namespace berth::sim {
namespace {

PackingEnv TestEnv() { return {TestNodes(), TestList(), {}}; }

/// One episode, `choose` giving the actions; the rewards.
template <typename Choose>
std::vector<double> Play(PackingEnv& env, std::uint64_t seed, Choose choose) {
  std::vector<double> rewards;
  env.Reset(seed);
  while (!env.done()) rewards.push_back(env.Step(choose()).reward);
  return rewards;
}

std::int64_t LastFeasible(const PackingEnv& env) {
  for (auto i = static_cast<std::int64_t>(env.mask().size()) - 1;; --i) {
    if (env.mask()[static_cast<std::size_t>(i)]) return i;
  }
}

TEST_CASE("Berth's own choices give the figure of the experiment", "[environment]") {
  PackingEnv env = TestEnv();
  for (const std::uint64_t seed : {42U, 43U, 45U}) {
    Play(env, seed, [&] { return env.BerthChoice(); });
    const auto run = RunPacking("protocol", TestNodes(), TestList(), {.seed = seed});
    REQUIRE(run.unallocated);
    CHECK(env.UnallocatedPercent() == run.unallocated);
    CHECK(env.dropped_percent() ==
          testing::Approx(run.refused_gpu_percent * env.arrived_percent() / 100));
  }
}

TEST_CASE("the same seed and actions, the same episode", "[environment]") {
  PackingEnv env = TestEnv();
  const auto last = [&] { return LastFeasible(env); };
  const auto first = Play(env, 5, last);
  const auto figure = env.UnallocatedPercent();
  Play(env, 6, last);
  CHECK(env.UnallocatedPercent() != figure);
  CHECK(Play(env, 5, last) == first);
  CHECK(env.UnallocatedPercent() == figure);
  CHECK(TestEnv().done());  // before the first reset
}

TEST_CASE("the rewards add up to what was lost since reset", "[environment]") {
  PackingEnv env = TestEnv();
  env.Reset(3);
  const double at_first = env.lost_percent();
  CHECK(at_first > 0);  // pods without GPUs are typical too: they can use none that is free
  double sum = 0;
  for (const double reward : Play(env, 3, [&] { return LastFeasible(env); })) sum += reward;
  CHECK(sum == testing::Approx(at_first - env.lost_percent()));
  CHECK(env.arrived_percent() > 100);
  CHECK(env.allocated_percent() + env.dropped_percent() == testing::Approx(env.arrived_percent()));
}

OpenbNode Node(std::string name, std::int64_t gpus, std::string model) {
  return {.name = std::move(name),
          .cpu_milli = 8000,
          .memory_mib = 16 * 1024,
          .gpus = gpus,
          .model = std::move(model)};
}

OpenbPod Pod(std::int64_t gpus, std::int64_t milli) {
  return {.name = "p", .cpu_milli = 2000, .memory_mib = 1024, .gpus = gpus, .gpu_milli = milli};
}

TEST_CASE("features, mask and what a step changes", "[environment]") {
  PackingEnv env({Node("a", 2, "T4"), Node("b", 1, "A10"), Node("c", 0, "")},
                 {.name = "l", .pods = {Pod(1, 400)}}, {});
  env.Reset(1);
  CHECK(env.models() == std::vector<std::string>{"A10", "T4"});
  CHECK(env.mask() == std::vector<bool>{true, true, false});
  CHECK(env.PodFeatures() == PackingEnv::PodRow{2, 1, 1, 0.4, 0});
  CHECK(env.NodeFeatures(0) == PackingEnv::NodeRow{8, 16, 2, 2, 1, 2, 2});
  CHECK(env.NodeFeatures(1) == PackingEnv::NodeRow{8, 16, 1, 1, 1, 1, 1});
  CHECK(env.NodeFeatures(2) == PackingEnv::NodeRow{8, 16, 0, 0, 0, 0, 0});
  CHECK(env.NodeMost() == PackingEnv::NodeRow{8, 16, 2, 2, 1, 2, 2});
  CHECK(env.PodMost() == PackingEnv::PodRow{2, 1, 1, 0.4, 0});
  env.Step(1);
  CHECK(env.changed() == std::vector<std::size_t>{1});
  CHECK(env.NodeFeatures(1) == PackingEnv::NodeRow{6, 15, 0.6, 0, 0.6, 1, 1});
  const double dropped = env.dropped_percent();
  for (const std::int64_t nowhere : {std::int64_t{2}, std::int64_t{-1}, std::int64_t{99}}) {
    const auto result = env.Step(nowhere);
    CHECK(env.changed().empty());
    CHECK(result.reward == testing::Approx(-100 * 0.4 / 3));
  }
  CHECK(env.dropped_percent() - dropped == testing::Approx(100 * 1.2 / 3));
}

TEST_CASE("what cannot be an environment", "[environment]") {
  const OpenbList list{.name = "l", .pods = {Pod(1, 1000)}};
  CHECK(PackingEnv::Problem({Node("a", 1, "T4")}, list).empty());
  CHECK(PackingEnv::Problem({Node("a", 1, "T4"), Node("a", 1, "T4")}, list) ==
        "node a is there twice");
  CHECK(PackingEnv::Problem({Node("a", 0, "")}, list) == "no node has a GPU");
  CHECK(PackingEnv::Problem({Node("a", 1, "T4")}, {.name = "l", .pods = {Pod(2, 1000)}}) ==
        "no pod of the list fits on any node");
}

/// What the command answers, line by line.
std::vector<nlohmann::json> Ask(const std::string& lines, int code = 0) {
  PackingEnv env = TestEnv();
  std::istringstream in(lines);
  std::ostringstream out;
  CHECK(ServeEnv(env, in, out) == code);
  std::vector<nlohmann::json> answers;
  std::istringstream text(out.str());
  for (std::string line; std::getline(text, line);) answers.push_back(nlohmann::json::parse(line));
  return answers;
}

TEST_CASE("the environment over JSON lines", "[environment]") {
  const auto answers = Ask("{\"reset\":42}\n{\"step\":0}\n{\"step\":1}");
  REQUIRE(answers.size() == 4);
  const std::size_t nodes = TestNodes().size();
  CHECK(answers[0]["nodes"] == nodes);
  CHECK(answers[1]["nodes"].size() == nodes);
  CHECK(answers[1]["nodes"][0].size() == answers[0]["node_features"].size());
  CHECK(answers[1]["pod"].size() == answers[0]["pod_features"].size());
  for (const std::size_t i : {1U, 2U, 3U}) {
    const std::string mask = answers[i]["mask"];
    CHECK(mask.size() == nodes);
    CHECK(mask[answers[i]["info"]["berth_action"].get<std::size_t>()] == '1');
  }
  CHECK(answers[2].contains("reward"));
  CHECK(answers[2]["terminated"] == false);
  CHECK(answers[2]["changed"].size() <= 1);
}

TEST_CASE("commands that cannot be are answered, and change nothing", "[environment]") {
  const char* bad[] = {"",
                       "{",
                       "[]",
                       "{}",
                       "3",
                       "{\"reset\":-1}",
                       "{\"reset\":\"x\"}",
                       "{\"reset\":1,\"step\":2}",
                       "{\"step\":1.5}",
                       "{\"step\":null}",
                       "{\"walk\":1}",
                       "\xff"};
  for (const char* line : bad) {
    CAPTURE(line);
    const auto answers = Ask("{\"reset\":42}\n" + std::string(line) + "\n{\"step\":0}\n");
    REQUIRE(answers.size() == 4);
    CHECK(answers[2].contains("error"));
    CHECK(answers[3] == Ask("{\"reset\":42}\n{\"step\":0}\n")[2]);
  }
  CHECK(Ask("{\"step\":0}\n")[1]["error"] == "step: no episode is under way; reset first");
  CHECK(Ask(std::string(5000, ' '), 1)[1]["error"] == "the line is too long");
}

}  // namespace
}  // namespace berth::sim
