#include "sim/experiments/queue_model.h"

#include <algorithm>

#include "sim/experiments/jct_experiment.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

constexpr std::int64_t kSecond = 1000;

std::vector<OpenbNode> OneNode() {
  return {{.name = "n", .cpu_milli = 64'000, .memory_mib = 262'144, .gpus = 8, .model = "T4"}};
}

QueuedJob MakeJob(std::string name, std::int64_t arrival_s, std::int64_t service_s,
                  std::int64_t gpus) {
  return {
      .name = name,
      .arrival = arrival_s * kSecond,
      .service = service_s * kSecond,
      .pod = {.name = name, .cpu_milli = 1000, .memory_mib = 1, .gpus = gpus, .gpu_milli = 1000}};
}

std::vector<std::int64_t> Waits(const std::vector<QueuedJob>& jobs, bool strict_fifo = false) {
  std::vector<std::int64_t> waits;
  const auto result = RunQueue(
      OneNode(), jobs, {.packing = {.policy = "LeastAllocated"}, .strict_fifo = strict_fifo});
  for (const auto& outcome : result.jobs) waits.push_back(outcome.wait);
  return waits;
}

using Millis = std::vector<std::int64_t>;

TEST_CASE("a small job overtakes a blocked one, unless the queue is strict", "[queue]") {
  const std::vector<QueuedJob> jobs{MakeJob("a", 0, 100, 6), MakeJob("b", 1, 100, 4),
                                    MakeJob("c", 2, 10, 2)};
  // b waits for the end of a (its backoff is long over), c runs at once beside a.
  CHECK(Waits(jobs) == Millis{0, 99 * kSecond, 0});
  // Strictly, c waits behind b, and starts with it.
  CHECK(Waits(jobs, true) == Millis{0, 99 * kSecond, 98 * kSecond});
}

TEST_CASE("who backs off is tried all the same when nobody else is to be tried", "[queue]") {
  // b fails at 99.5 s and would back off for 1 s; a ends at 100 s.
  std::vector<QueuedJob> jobs{MakeJob("a", 0, 100, 8), MakeJob("b", 99, 10, 8)};
  jobs[1].arrival += 500;
  CHECK(Waits(jobs) == Millis{0, 500});
}

TEST_CASE("who backs off comes after those who do not", "[queue]") {
  // Five short jobs end and wake b, which fails for the sixth time at 95 s: 10 s of backoff. c
  // fails for the first time at 97 s. When the node is free at 100 s, c is first.
  std::vector<QueuedJob> jobs{MakeJob("hold", 0, 100, 1), MakeJob("b", 89, 10, 8)};
  for (int i = 90; i < 95; ++i) jobs.push_back(MakeJob("s" + std::to_string(i), i, 1, 1));
  jobs.push_back(MakeJob("c", 97, 20, 8));
  const Millis waits = Waits(jobs);
  CHECK(waits.back() == 3 * kSecond);
  CHECK(waits[1] == 31 * kSecond);
}

TEST_CASE("a failed pod falls behind those that failed before it last", "[queue]") {
  // b and c both fail at 10 and 11 s; when a ends, b, whose stamp is older, goes first.
  const std::vector<QueuedJob> jobs{MakeJob("a", 0, 100, 8), MakeJob("b", 10, 10, 8),
                                    MakeJob("c", 11, 10, 8)};
  CHECK(Waits(jobs) == Millis{0, 90 * kSecond, 99 * kSecond});
}

TEST_CASE("a job that fits nowhere is named and left out", "[queue]") {
  const auto result = RunQueue(OneNode(), {MakeJob("a", 0, 10, 1), MakeJob("huge", 1, 10, 9)},
                               {.packing = {.policy = "Berth"}});
  CHECK(result.never == std::vector<std::size_t>{1});
  CHECK(result.ran == std::vector<std::size_t>{0});
  CHECK(result.makespan == 10 * kSecond);
  CHECK(result.busy == 1000 * 10 * kSecond);
}

TEST_CASE("the philly workload offers the load that was asked for", "[queue]") {
  const std::vector<TraceJob> mix{{.duration_s = 100, .gpus = 1}, {.duration_s = 300, .gpus = 8}};
  const Workload workload = PhillyWorkload(mix, 0.5, 20'000, 42);
  REQUIRE(workload.jobs.size() == 20'000);
  CHECK(workload.nodes.size() == 32);
  CHECK(std::ranges::is_sorted(workload.jobs, {}, &QueuedJob::arrival));
  double gpu_seconds = 0;
  for (const QueuedJob& job : workload.jobs) {
    gpu_seconds += static_cast<double>(job.pod.gpus * job.service) / 1000;
  }
  const double span = static_cast<double>(workload.jobs.back().arrival) / 1000;
  CHECK(gpu_seconds / (256 * span) == testing::Approx(0.5).epsilon(0.03));
}

TEST_CASE("openb arrivals: since day 110, the last 40 %, those that ran", "[queue]") {
  std::vector<OpenbPod> pods;
  for (int i = 0; i < 10; ++i) {
    pods.push_back({.name = "p" + std::to_string(i),
                    .cpu_milli = 1000,
                    .memory_mib = 1,
                    .gpus = 1,
                    .gpu_milli = 1000,
                    .creation_s = 110 * 86'400 + i * 100,
                    .scheduled_s = 110 * 86'400 + i * 100,
                    .deletion_s = 110 * 86'400 + i * 100 + 50});
  }
  pods.push_back({.name = "early", .creation_s = 5, .scheduled_s = 5, .deletion_s = 6});
  pods.push_back({.name = "never", .creation_s = 200 * 86'400});
  const Workload workload = OpenbWorkload(OneNode(), pods, 0.25, 5, 42);
  REQUIRE(workload.jobs.size() == 4);
  CHECK(workload.jobs.front().name == "p6");
  CHECK(workload.jobs.front().arrival == 0);
  // 4 x 50 GPU seconds offered over 300 s to 8 GPUs: 1/12 of them; a quarter needs 3 x the speed.
  CHECK(workload.speed_up == testing::Approx(3));
  CHECK(workload.jobs.back().arrival == 100 * kSecond);
  CHECK(workload.jobs.back().service == 50 * kSecond);
}

}  // namespace
}  // namespace berth::sim
