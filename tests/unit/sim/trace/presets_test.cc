// The workloads of `philly`, `philly-queues` and `openb-arrivals`.
#include "sim/trace/presets.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

constexpr std::int64_t kFirstDay = 110 * 86'400;

std::vector<OpenbNode> OneNode() {
  return {{.name = "n", .cpu_milli = 64'000, .memory_mib = 262'144, .gpus = 8, .model = "T4"}};
}

/// A pod of one GPU that came `after` seconds after day 110 and ran for 50 s.
OpenbPod RanFor50(const std::string& name, std::int64_t after) {
  return {.name = name,
          .cpu_milli = 1000,
          .memory_mib = 1,
          .gpus = 1,
          .gpu_milli = 1000,
          .creation_s = kFirstDay + after,
          .scheduled_s = kFirstDay + after,
          .deletion_s = kFirstDay + after + 50};
}

std::vector<OpenbPod> TenPods() {
  std::vector<OpenbPod> pods;
  for (int i = 0; i < 10; ++i) pods.push_back(RanFor50("p" + std::to_string(i), i * 100));
  return pods;
}

std::vector<std::string> Names(const TraceWorkload& workload) {
  std::vector<std::string> names;
  for (const RecordedJob& job : workload.jobs) names.push_back(job.name);
  return names;
}

TEST_CASE("philly offers the load that was asked for, on 32 nodes of 8 GPUs",
          "[unit][sim][trace]") {
  const std::vector<TraceJob> mix{{.duration_s = 100, .gpus = 1}, {.duration_s = 300, .gpus = 8}};
  const TraceWorkload workload = PhillyWorkload(mix, 0.5, 20'000, 42);
  REQUIRE(workload.jobs.size() == 20'000);
  CHECK(workload.nodes.size() == 32);
  CHECK(CountGpus(workload.nodes).all == 256);
  CHECK(workload.jobs.front().arrival == 0);
  CHECK(std::ranges::is_sorted(workload.jobs, {}, &RecordedJob::arrival));
  double gpu_seconds = 0;
  for (const RecordedJob& job : workload.jobs) {
    gpu_seconds += static_cast<double>(job.gpus() * job.service) / 1000;
  }
  const double span = static_cast<double>(workload.jobs.back().arrival) / 1000;
  CHECK(gpu_seconds / (256 * span) == testing::Approx(0.5).epsilon(0.03));
}

TEST_CASE("a job of philly is one pod, and one of 8 GPUs fills its node", "[unit][sim][trace]") {
  const TraceWorkload workload = PhillyWorkload({{.duration_s = 7, .gpus = 8}}, 1, 3, 1);
  for (const RecordedJob& job : workload.jobs) {
    REQUIRE(job.pods.size() == 1);
    CHECK(job.service == 7'000);
    for (const char* resource : {"cpu", "memory", "nvidia.com/gpu"}) {
      CAPTURE(resource);
      CHECK(job.pods.front().spec->requests.at(resource) ==
            workload.nodes.front().allocatable.at(resource));
    }
  }
}

TEST_CASE("a job of philly that no node holds is named and left out", "[unit][sim][trace]") {
  const TraceWorkload workload = PhillyWorkload({{.duration_s = 7, .gpus = 9}}, 1, 2, 1);
  CHECK(workload.jobs.empty());
  CHECK(workload.never_fit == std::vector<std::string>{"job-0", "job-1"});
}

TEST_CASE("openb arrivals: since day 110, the last 40 %, those that ran", "[unit][sim][trace]") {
  std::vector<OpenbPod> pods = TenPods();
  pods.push_back({.name = "early", .creation_s = 5, .scheduled_s = 5, .deletion_s = 6});
  pods.push_back({.name = "never", .creation_s = 200 * 86'400});
  const TraceWorkload workload = OpenbWorkload(OneNode(), pods, 0.25, 5, 42);
  CHECK(Names(workload) == std::vector<std::string>{"p6", "p7", "p8", "p9"});
  CHECK(workload.jobs.front().arrival == 0);
  // 4 x 50 GPU seconds offered over 300 s to 8 GPUs: 1/12 of them; a quarter needs 3 x the speed.
  CHECK(workload.speed_up == testing::Approx(3));
  CHECK(workload.jobs.back().arrival == 100'000);
  CHECK(workload.jobs.back().service == 50'000);
}

TEST_CASE("openb arrivals: shares of a GPU are named and left out, and offer no load",
          "[unit][sim][trace]") {
  std::vector<OpenbPod> pods = TenPods();
  pods[7].gpu_milli = 500;
  const TraceWorkload workload = OpenbWorkload(OneNode(), pods, 0.25, 5, 42);
  CHECK(Names(workload) == std::vector<std::string>{"p6", "p8", "p9"});
  REQUIRE(workload.left_out.size() == 1);
  CHECK_THAT(workload.left_out.front(), Catch::StartsWith("p7: asks for a share of a GPU"));
  CHECK(workload.speed_up == testing::Approx(4));
}

TEST_CASE("openb arrivals: what fits on none of the drawn nodes is left out, by seed",
          "[unit][sim][trace]") {
  std::vector<OpenbNode> nodes = OneNode();
  nodes.push_back({.name = "cpu", .cpu_milli = 64'000, .memory_mib = 262'144});
  bool none_fit = false;
  bool all_fit = false;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const TraceWorkload workload = OpenbWorkload(nodes, TenPods(), 0.25, 1, seed);
    REQUIRE(workload.nodes.size() == 1);
    CHECK(workload.jobs.size() + workload.never_fit.size() == 4);
    none_fit |= workload.jobs.empty();
    all_fit |= workload.never_fit.empty();
  }
  CHECK((none_fit && all_fit));
}

TraceWorkload Queues(std::size_t count) {
  std::vector<TraceJob> arrivals(150, {.gpus = 1, .group = "x"});
  arrivals.resize(250, {.gpus = 20, .group = "y"});
  arrivals.push_back({.gpus = 1, .group = "rare"});
  return PhillyQueuesWorkload(
      arrivals, {{.duration_s = 9, .gpus = 1}, {.duration_s = 70, .gpus = 8}}, 0.5, count, 7, {});
}

TEST_CASE("philly-queues: virtual clusters are queues, and large jobs are gangs",
          "[unit][sim][trace]") {
  const TraceWorkload workload = Queues(2'000);
  REQUIRE(workload.jobs.size() == 2'000);
  CHECK(workload.never_fit.empty());
  double gpu_seconds = 0;
  std::size_t gangs = 0;
  for (const RecordedJob& job : workload.jobs) {
    gpu_seconds += static_cast<double>(job.gpus() * job.service) / 1000;
    const kube::ObjectMeta& meta = job.pods.front().meta;
    const bool gang = job.gpus() == 20;
    CHECK(meta.labels.at("berth.dev/queue") == (gang ? "vc-y" : "vc-x"));
    CHECK(job.pods.size() == (gang ? 3 : 1));  // 8, 8 and 4
    CHECK(meta.labels.contains("berth.dev/gang") == gang);
    CHECK(job.service == (gang ? 70'000 : 9'000));  // as jobs of 8 GPUs
    gangs += gang ? 1 : 0;
  }
  CHECK((gangs > 700 && gangs < 900));  // 100 of 250
  const double span = static_cast<double>(workload.jobs.back().arrival) / 1000;
  CHECK(gpu_seconds / (256 * span) == testing::Approx(0.5).epsilon(0.05));
}

TEST_CASE("philly-queues: quotas are parts of the work, and caps hold the largest job",
          "[unit][sim][trace]") {
  const TraceWorkload workload = Queues(2'000);
  std::map<std::string, double> work;
  for (const RecordedJob& job : workload.jobs) {
    work[job.pods.front().meta.labels.at("berth.dev/queue")] +=
        static_cast<double>(job.gpus() * job.service);
  }
  const auto& caps = workload.contenders.at("caps").configuration;
  const auto& lends = workload.contenders.at("lends").configuration;
  const auto& reclaims = workload.contenders.at("reclaims").configuration;
  CHECK((!caps.borrowing && lends.borrowing && reclaims.borrowing));
  REQUIRE(reclaims.queues.size() == 2);  // none for `rare`
  const auto part = std::floor(256 * work["vc-x"] / (work["vc-x"] + work["vc-y"]));
  for (const auto* policy : {&caps, &lends, &reclaims}) {
    CHECK(policy->queues[0].name == "vc-x");
    CHECK(policy->queues[0].quota.at("nvidia.com/gpu") == static_cast<std::int64_t>(part) * 1000);
  }
  CHECK(caps.queues[0].limit == caps.queues[0].quota);
  CHECK(reclaims.queues[0].limit.empty());
  CHECK(lends.queues[0].preemption.reclaim == config::Reclaim::kNever);
  CHECK(reclaims.queues[0].preemption.reclaim == config::Reclaim::kAny);
  for (const char* name : {"none", "native"}) {
    CHECK(workload.contenders.at(name).configuration.queues[0].quota.empty());
  }
  CHECK(workload.contenders.at("native").policy == "native");
  CHECK(*workload.shares == reclaims);
}

TEST_CASE("philly-queues: a cap holds the queue's largest job, whatever its quota is",
          "[unit][sim][trace]") {
  std::vector<TraceJob> arrivals(50, {.gpus = 1, .group = "x"});
  arrivals.push_back({.gpus = 64, .group = "y"});
  const std::vector<TraceJob> durations{{.duration_s = 90'000, .gpus = 1},
                                        {.duration_s = 1, .gpus = 8}};
  const TraceWorkload workload = PhillyQueuesWorkload(arrivals, durations, 1, 500, 1, {});
  const auto& caps = workload.contenders.at("caps").configuration;
  REQUIRE(caps.queues.size() == 2);
  CHECK(caps.queues[1].quota.at("nvidia.com/gpu") == 0);  // 64 s of 25 hours, some ten times
  CHECK(caps.queues[1].limit.at("nvidia.com/gpu") == 64'000);
}

}  // namespace
}  // namespace berth::sim
