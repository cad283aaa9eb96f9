// The workloads of `philly` and `openb-arrivals`.
#include "sim/trace/presets.h"

#include <algorithm>

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

}  // namespace
}  // namespace berth::sim
