#include "sim/experiments/openb.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

OpenbPod Pod(std::string name, std::int64_t gpus, std::int64_t milli = 1000) {
  return {.name = std::move(name),
          .cpu_milli = 1000,
          .memory_mib = 1,
          .gpus = gpus,
          .gpu_milli = gpus == 0 ? 0 : milli};
}

std::int64_t Total(const std::vector<OpenbPod>& pods, const std::vector<std::size_t>& order) {
  return std::accumulate(
      order.begin(), order.end(), std::int64_t{0},
      [&](std::int64_t sum, std::size_t i) { return sum + pods[i].total_gpu_milli(); });
}

TEST_CASE("the generator is xoshiro256** seeded by SplitMix64", "[openb]") {
  // SplitMix64 from 0 gives e220a8397b1dcdaf 6e789e6aa1b965f4 06c45d188009454f f88bb8a8724c81ec;
  // the first output is rotl(s1 * 5, 7) * 9.
  Random random(0);
  const std::uint64_t s1 = 0x6e789e6aa1b965f4U;
  const std::uint64_t x = s1 * 5;
  CHECK(random.Next() == ((x << 7U) | (x >> 57U)) * 9);
}

TEST_CASE("Below stays below and reaches every value", "[openb]") {
  Random random(7);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(random.Below(5));
  CHECK(seen == std::set<std::uint64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("too little demand is filled up to 130 % from the original list", "[openb]") {
  // 4 of 10 GPUs asked: pods of one GPU are added while the sum stays within 13.
  const std::vector<OpenbPod> pods{Pod("d", 1), Pod("b", 1), Pod("a", 1), Pod("c", 1)};
  const auto order = ArrivalOrder(pods, 10'000, 42);
  CHECK(Total(pods, order) == 13'000);
  // Every pod of the list comes once before the drawn ones.
  CHECK(std::set<std::size_t>(order.begin(), order.begin() + 4) ==
        std::set<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("the pod that would pass 130 % ends the filling", "[openb]") {
  // The published simulator looks at the request on one GPU: 11 + 1 <= 13 lets two GPUs in.
  const std::vector<OpenbPod> pods{Pod("a", 2)};
  CHECK(Total(pods, ArrivalOrder(pods, 10'000, 1)) == 14'000);
}

TEST_CASE("too much demand is thinned to 130 %", "[openb]") {
  std::vector<OpenbPod> pods;
  for (int i = 0; i < 30; ++i) pods.push_back(Pod("p" + std::to_string(i), 1));
  const auto order = ArrivalOrder(pods, 10'000, 42);
  CHECK(order.size() == 13);
  CHECK(std::set<std::size_t>(order.begin(), order.end()).size() == 13);
}

TEST_CASE("the order follows names and seed, not the file", "[openb]") {
  std::vector<OpenbPod> pods;
  for (int i = 0; i < 50; ++i) pods.push_back(Pod("p" + std::to_string(i), i % 3));
  auto reversed = pods;
  std::ranges::reverse(reversed);
  const auto names = [](const std::vector<OpenbPod>& list, std::uint64_t seed) {
    std::vector<std::string> result;
    for (const std::size_t i : ArrivalOrder(list, 60'000, seed)) result.push_back(list[i].name);
    return result;
  };
  CHECK(names(pods, 42) == names(reversed, 42));
  CHECK(names(pods, 42) != names(pods, 43));
}

TEST_CASE("a list without GPUs arrives once", "[openb]") {
  const std::vector<OpenbPod> pods{Pod("a", 0), Pod("b", 0)};
  CHECK(ArrivalOrder(pods, 10'000, 42).size() == 2);
}

TEST_CASE("the curve averages the arrivals that round to one percent", "[openb]") {
  LoadCurve curve(1000);   // one percent is 10
  curve.Record(994, 900);  // 99.4 -> 99
  curve.Record(995, 800);  // 99.5 -> 100
  curve.Record(1004, 900);
  curve.Record(1005, 100);  // 100.5 -> 101
  CHECK(curve.UnallocatedAt(99) == 10.0);
  CHECK(curve.UnallocatedAt(100) == testing::Approx(15.0));
  CHECK(curve.UnallocatedAt(101) == 90.0);
  CHECK_FALSE(curve.UnallocatedAt(98));
  CHECK_FALSE(curve.UnallocatedAt(-1));
  CHECK_FALSE(curve.UnallocatedAt(500));
}

TEST_CASE("the published table: 17 lists, 6 policies", "[openb]") {
  CHECK(PublishedLists().size() == 17);
  double sum = 0;
  for (const auto list : PublishedLists()) {
    for (const auto policy : PublishedPolicies()) {
      const auto figure = PublishedUnallocated(list, policy);
      REQUIRE(figure);
      if (policy == "FGD") sum += *figure;
    }
  }
  CHECK(sum / 17 == testing::Approx(6.39).margin(0.01));  // the mean that the reference states
  CHECK(PublishedUnallocated("default", "BestFit") == 7.14);
  CHECK_FALSE(PublishedUnallocated("default", "Berth"));
  CHECK_FALSE(PublishedUnallocated("other", "FGD"));
}

}  // namespace
}  // namespace berth::sim
