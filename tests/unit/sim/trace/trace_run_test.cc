// Small replays, worked by hand. Delays of the model are milliseconds; times are whole seconds.
#include "sim/trace/trace_run.h"

#include <algorithm>
#include <cmath>

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakeNode;
using testing::MakePod;

RecordedJob Single(const std::string& name, int gpus, int at, int lasts) {
  return {.name = name,
          .arrival = at * 1'000,
          .service = lasts * 1'000,
          .pods = {MakePod(name).Gpu(gpus).Uid("").Build()}};
}

RecordedJob Gang(const std::string& name, int size, int gpus, int at, int lasts) {
  RecordedJob job{.name = name, .arrival = at * 1'000, .service = lasts * 1'000, .pods = {}};
  for (int i = 0; i < size; ++i) {
    job.pods.push_back(
        MakePod(name + "-" + std::to_string(i)).Gpu(gpus).Gang(name, size).Uid("").Build());
  }
  return job;
}

std::vector<kube::Node> Nodes(int count) {
  std::vector<kube::Node> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(MakeNode("n" + std::to_string(i)).Gpu(8).Build());
  return nodes;
}

TraceResult Run(int nodes, const std::vector<RecordedJob>& jobs, const std::string& policy,
                Fidelity fidelity = Fidelity::kScheduler) {
  return RunTrace(Nodes(nodes), jobs,
                  {.policy = policy, .seed = 1, .configuration = {}, .fidelity = fidelity});
}

/// Waits of the jobs that ended, in the order of the input, to the second.
std::vector<int> Waits(const TraceResult& result) {
  std::vector<int> waits;
  for (const double wait : result.all.wait) waits.push_back(static_cast<int>(std::floor(wait)));
  return waits;
}

TEST_CASE("one after the other on one node", "[unit][sim][trace]") {
  const std::vector<RecordedJob> jobs{Single("a", 8, 0, 100), Single("b", 8, 10, 50)};
  for (const std::string_view policy : TracePolicies()) {
    CAPTURE(policy);
    const TraceResult result = Run(1, jobs, std::string(policy));
    CHECK(result.violation == "");
    CHECK(result.unfinished.empty());
    const auto waits = Waits(result);
    REQUIRE(waits.size() == 2);
    CHECK(waits[0] == 0);
    CHECK((waits[1] >= 90 && waits[1] <= 102));  // a ends at 100; b may be backing off
    CHECK((result.makespan >= 150 && result.makespan <= 163));
    // 8 GPUs x 150 s of 8 GPUs x makespan
    CHECK(std::abs(result.utilisation - 150 / result.makespan) < 0.001);
  }
}

TEST_CASE("FIFO blocks at its head, Berth passes it", "[unit][sim][trace]") {
  // Two nodes; the gang of 16 GPUs waits for a's node, and c of one GPU comes after it.
  const std::vector<RecordedJob> jobs{Single("a", 8, 0, 1'000), Gang("b", 2, 8, 10, 100),
                                      Single("c", 1, 20, 10)};
  const auto berth = Waits(Run(2, jobs, "Berth"));
  REQUIRE(berth.size() == 3);
  CHECK((berth[1] >= 990 && berth[1] <= 1'002));
  CHECK(berth[2] == 0);
  const auto fifo = Waits(Run(2, jobs, "FIFO"));
  REQUIRE(fifo.size() == 3);
  CHECK(fifo[2] >= 980);
}

TEST_CASE("without gangs, a part of a gang holds room while it waits", "[unit][sim][trace]") {
  // Three nodes, and s has one until 1000. Two pods of a take the others, where they do nothing
  // until the third can run; Berth binds none of a, and starts c there at once.
  const std::vector<RecordedJob> jobs{Single("s", 8, 0, 1'000), Gang("a", 3, 8, 10, 100),
                                      Single("c", 8, 20, 10)};
  const TraceResult berth = Run(3, jobs, "Berth");
  CHECK(berth.unfinished.empty());
  CHECK(Waits(berth)[2] == 0);
  const TraceResult native = Run(3, jobs, "native");
  REQUIRE(native.unfinished.empty());
  CHECK(Waits(native)[2] >= 900);
}

TEST_CASE("a queue's limit holds, and is not passed by waiting", "[unit][sim][trace]") {
  std::vector<RecordedJob> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Single("j" + std::to_string(i), 8, i, 100));
  config::PolicyConfiguration policy =
      testing::MakePolicy({testing::MakeQueue("default", {"*"}, /*limit_gpus=*/16)});
  const TraceResult result =
      RunTrace(Nodes(4), jobs, {.policy = "Berth", .seed = 1, .configuration = policy});
  CHECK(result.violation == "");
  const auto waits = Waits(result);
  REQUIRE(waits.size() == 4);
  CHECK((waits[0] == 0 && waits[1] == 0));
  CHECK((waits[2] >= 98 && waits[3] >= 98));
}

TEST_CASE("a job's queue is the one that Berth charges", "[unit][sim][trace]") {
  std::vector<RecordedJob> jobs{Single("a", 1, 0, 10), Single("b", 1, 0, 10),
                                Single("c", 1, 0, 10)};
  jobs[1].pods[0].meta.labels["berth.dev/queue"] = "night";
  jobs[2].pods[0].meta.ns = "elsewhere";
  for (RecordedJob& job : jobs) job.pods[0].scheduler_name = "another";  // not in the replay
  const config::PolicyConfiguration policy = testing::MakePolicy(
      {testing::MakeQueue("team", {"default"}, 8), testing::MakeQueue("night", {"nights"}, 8),
       testing::MakeQueue("default", {"*"}, 8)});
  for (const std::string name : {"Berth", "native"}) {
    CAPTURE(name);
    const TraceResult result =
        RunTrace(Nodes(1), jobs, {.policy = name, .seed = 1, .configuration = policy});
    std::vector<std::string> queues;
    for (const auto& [queue, times] : result.by_queue) queues.push_back(queue);
    CHECK(queues == std::vector<std::string>{"default", "night", "team"});
  }
}

TEST_CASE("what a queue is promised, and lacks while others have it", "[unit][sim][trace]") {
  // Each queue is promised 8 of 16 GPUs. Queue a takes all; b's job comes at 1000 s, when a's have
  // run for a tenth of their time.
  std::vector<RecordedJob> jobs{Single("a0", 8, 0, 10'000), Single("a1", 8, 1, 10'000),
                                Single("b", 8, 1'000, 1'000)};
  for (RecordedJob& job : jobs) job.pods[0].meta.labels["berth.dev/queue"] = job.name.substr(0, 1);
  config::PolicyConfiguration reclaims = testing::MakePolicy(
      {testing::MakeQueue("a", {"*"}, -1, 8), testing::MakeQueue("b", {"*"}, -1, 8)});
  reclaims.borrowing = true;
  config::PolicyConfiguration lends = reclaims;
  for (config::Queue& queue : lends.queues) queue.preemption.reclaim = config::Reclaim::kNever;
  const auto run = [&](const std::string& name, const config::PolicyConfiguration& policy,
                       const config::PolicyConfiguration& shares) {
    TraceResult result = RunTrace(
        Nodes(2), jobs, {.policy = name, .seed = 1, .configuration = policy, .shares = shares});
    CHECK(result.violation == "");
    CHECK(result.unfinished.empty());
    CHECK(result.evictions_in_vain == 0);
    REQUIRE(result.claims.seconds.size() == 2);  // a1 is beyond what a is promised
    CHECK(result.claims.never == 0);
    CHECK(result.claims.seconds[0] < 1);
    return result;
  };
  const auto lacks = [](const TraceResult& result) {  // b: 8 of 16
    return std::ranges::count(result.samples, 0.5, &Sample::share_error);
  };
  const TraceResult back = run("Berth", reclaims, reclaims);
  CHECK(back.evictions == 1);
  // 8 GPUs for 10,000, 10,000 and 1,000 s; of a1, 999 s were lost.
  CHECK(back.gpu_days == testing::Approx(8 * 21'000 / 86'400.0));
  CHECK(back.evictions_per_gpu_day() == testing::Approx(1 / back.gpu_days));
  CHECK(back.lost_gpu_hours == testing::Approx(8 * 999 / 3'600.0).epsilon(0.01));
  CHECK(back.lost_share() == testing::Approx(999 / 21'999.0).epsilon(0.01));
  CHECK(back.claims.seconds[1] < 60);
  CHECK(lacks(back) <= 4);  // one each 18 s
  const TraceResult lent = run("Berth", lends, lends);
  CHECK(lent.evictions == 0);
  CHECK(lent.claims.seconds[1] >= 8'990);
  CHECK(lacks(lent) >= 100);
  SECTION("all policies are judged by the same shares, whatever they know") {
    config::PolicyConfiguration none =
        testing::MakePolicy({testing::MakeQueue("a", {"*"}), testing::MakeQueue("b", {"*"})});
    for (const std::string name : {"Berth", "native"}) {
      CAPTURE(name);
      const TraceResult result = run(name, none, reclaims);
      CHECK(result.claims.seconds[1] >= 8'990);
      CHECK(lacks(result) >= 100);
    }
  }
}

TEST_CASE("use while jobs come is of completed runs, until the last arrival",
          "[unit][sim][trace]") {
  // One node: 8 GPUs for 100 s, nothing for 100, then 4 GPUs, of whose 600 s 200 are before the
  // last arrival.
  const TraceResult result =
      Run(1, {Single("a", 8, 0, 100), Single("b", 4, 200, 600), Single("c", 1, 400, 10)}, "native");
  CHECK(result.arrival_hours == testing::Approx(400 / 3'600.0));
  CHECK(result.arrival_utilisation ==
        testing::Approx((8 * 100 + 4 * 200) / (8 * 400.0)).epsilon(0.01));
  CHECK(result.utilisation ==
        testing::Approx((8 * 100 + 4 * 600 + 10) / (8 * 800.0)).epsilon(0.01));
}

TEST_CASE("pods of one job end one after the other", "[unit][sim][trace]") {
  // A gang's two nodes become free a moment apart, also without delays: the job of one node that is
  // older takes the first. Together they would have been just what the other gang, which is older
  // still, needs.
  const std::vector<RecordedJob> jobs{Gang("a", 2, 8, 0, 100), Gang("b", 2, 8, 10, 100),
                                      Single("c", 8, 20, 1'000)};
  for (const Fidelity fidelity : {Fidelity::kScheduler, Fidelity::kInstant}) {
    CAPTURE(Name(fidelity));
    const auto waits = Waits(Run(2, jobs, "Berth", fidelity));
    REQUIRE(waits.size() == 3);
    CHECK(waits[1] >= 1'080);
    CHECK(waits[2] <= 82);
  }
}

TEST_CASE("a long run has no more samples than a short one", "[unit][sim][trace]") {
  const TraceResult result = Run(1, {Single("a", 8, 0, 500 * 3'600)}, "native");
  CHECK((result.samples.size() >= 200 && result.samples.size() < 400));
  CHECK(result.samples.front().hours == 0);
  CHECK(result.samples.back().hours > 495);
  const double gap = result.samples[1].hours;
  for (std::size_t i = 1; i < result.samples.size(); ++i) {
    CHECK(std::abs(result.samples[i].hours - result.samples[i - 1].hours - gap) < 0.001);
  }
}

TEST_CASE("a published policy has the engine's gangs, and a score of its own",
          "[unit][sim][trace]") {
  // b joins a on its node by best fit, so that the gang finds two whole nodes.
  const std::vector<RecordedJob> jobs{Single("a", 4, 0, 1'000), Single("b", 4, 10, 1'000),
                                      Gang("c", 2, 8, 20, 100)};
  const TraceResult best_fit = Run(3, jobs, "BestFit");
  CHECK(best_fit.violation == "");
  CHECK(Waits(best_fit) == std::vector<int>{0, 0, 0});
  CHECK(Waits(Run(3, jobs, "native"))[2] >= 900);
}

TEST_CASE("same seed, same replay", "[unit][sim][trace]") {
  std::vector<RecordedJob> jobs;
  for (int i = 0; i < 40; ++i) {
    jobs.push_back(Single("j" + std::to_string(i), 1 + i % 8, i * 3, 60 + i % 7));
  }
  for (const Fidelity fidelity : {Fidelity::kScheduler, Fidelity::kInstant}) {
    for (const std::string policy : {"Berth", "native"}) {
      CHECK(Run(3, jobs, policy, fidelity).all.jct == Run(3, jobs, policy, fidelity).all.jct);
    }
  }
}

TEST_CASE("without delays, gangs of several queues start at the same times", "[unit][sim][trace]") {
  std::vector<RecordedJob> jobs;
  for (int i = 0; i < 60; ++i) {
    const std::string name = "j" + std::to_string(i);
    jobs.push_back(i % 3 == 0 ? Gang(name, 2, 8, i * 30, 60 + i)
                              : Single(name, 1 << (i % 4), i * 30, 100 + i));
    // No job comes within milliseconds of another's end, which would make the order a matter of
    // delays.
    jobs.back().arrival += i * 7'919 % 10'000;
    jobs.back().service += i * 6'131 % 10'000;
    for (kube::Pod& pod : jobs.back().pods) {
      pod.meta.labels["berth.dev/queue"] = i % 5 < 2 ? "night" : "day";
    }
  }
  const config::PolicyConfiguration policy =
      testing::MakePolicy({testing::MakeQueue("night", {"*"}, /*limit_gpus=*/24),
                           testing::MakeQueue("day", {"*"}, /*limit_gpus=*/32)});
  TraceOptions options{.policy = "Berth", .seed = 1, .configuration = policy};
  const TraceResult slow = RunTrace(Nodes(5), jobs, options);
  options.fidelity = Fidelity::kInstant;
  const TraceResult instant = RunTrace(Nodes(5), jobs, options);
  CHECK((slow.violation == "" && instant.violation == ""));
  REQUIRE((slow.unfinished.empty() && instant.unfinished.empty()));
  REQUIRE(slow.all.wait.size() == instant.all.wait.size());
  CHECK(*std::ranges::max_element(instant.all.wait) > 60);  // they do wait
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(jobs[i].name);
    CHECK(std::abs(slow.all.wait[i] - instant.all.wait[i]) < 5);
  }
}

TEST_CASE("without delays, a job that fits an empty node starts in the moment that it arrives",
          "[unit][sim][trace]") {
  for (const std::string_view policy : TracePolicies()) {
    CAPTURE(policy);
    const TraceResult result = Run(2, {Single("a", 8, 5, 60), Single("b", 8, 5, 60)},
                                   std::string(policy), Fidelity::kInstant);
    CHECK(result.all.wait.size() == 2);
    for (const double wait : result.all.wait) CHECK(wait <= 0.05);
  }
}

TEST_CASE("without delays, what cannot run is not tried again and again", "[unit][sim][trace]") {
  // A job above its queue's limit, and a gang that needs a node more than there are.
  const config::PolicyConfiguration policy =
      testing::MakePolicy({testing::MakeQueue("default", {"*"}, /*limit_gpus=*/4)});
  const TraceResult limited = RunTrace(
      Nodes(1), {Single("a", 8, 0, 10), Single("b", 4, 1, 10)},
      {.policy = "Berth", .seed = 1, .configuration = policy, .fidelity = Fidelity::kInstant});
  CHECK(limited.violation == "");
  REQUIRE(limited.unfinished.size() == 1);
  CHECK(limited.unfinished.front().starts_with("a"));
  const TraceResult stuck =
      Run(2, {Single("s", 8, 0, 5), Gang("a", 3, 8, 10, 100)}, "native", Fidelity::kInstant);
  CHECK(stuck.unfinished == std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace berth::sim
