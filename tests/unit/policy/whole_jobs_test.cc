// What whole jobs make of a rising amount of devices. Numbers are devices.
#include "policy/whole_jobs.h"

#include <catch2/catch.hpp>
#include <string>

namespace berth::policy {
namespace {

using Rising = std::vector<std::int64_t>;

WholeJobs Of(const std::vector<std::pair<int, int>>& sizes, std::int64_t quota = 0,
             std::int64_t total = 1000) {
  std::vector<JobSize> jobs;
  for (const auto& [devices, count] : sizes) jobs.push_back({{devices * 1000L}, count});
  return WholeJobs(jobs, {quota * 1000}, {total * 1000});
}

/// What is taken after each step.
Rising StepsOf(WholeJobs jobs) {
  Rising steps;
  while (jobs.more()) {
    jobs.Take();
    steps.push_back(jobs.taken()[0] / 1000);
  }
  return steps;
}

TEST_CASE("each level is filled by the largest jobs that fit it", "[unit][policy]") {
  struct Row {
    const char* what;
    std::vector<std::pair<int, int>> jobs;  ///< Size and number.
    Rising steps;
  };
  const std::vector<Row> rows{
      {"none", {}, {}},
      {"of one size", {{2, 3}}, {2, 4, 6}},
      {"1; then 4 instead of it; then both", {{4, 1}, {1, 1}}, {1, 4, 5}},
      {"three 1s, then 4, and the 1s again", {{4, 1}, {1, 3}}, {1, 2, 3, 4, 5, 6, 7}},
      {"3; 4 instead; both", {{3, 1}, {4, 1}}, {3, 4, 7}},
      // At 9 the 6 leaves room for neither 5 nor 4, at 10 for the 4.
      {"all sums that a first fit finds", {{6, 1}, {5, 1}, {4, 1}}, {4, 5, 6, 10, 11, 15}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(StepsOf(Of(row.jobs)) == row.steps);
    CHECK(StepsOf(Of(row.jobs, 5)) == row.steps);  // with one kind, the quota makes no difference
    CHECK(StepsOf(Of(row.jobs, 1'000'000'000)) == row.steps);
  }
}

TEST_CASE("a job that is passed over takes its size with it", "[unit][policy]") {
  WholeJobs jobs = Of({{4, 2}, {1, 2}});
  jobs.Take();
  jobs.Take();
  jobs.PassOver();  // 4 instead of 1 and 1
  CHECK_FALSE(jobs.more());
  CHECK(jobs.taken() == DeviceAmounts{2000});

  jobs = Of({{4, 2}, {1, 2}});
  for (int i = 0; i < 5; ++i) jobs.Take();  // 1, 2, 4, 5, 6
  CHECK(jobs.taken() == DeviceAmounts{6000});
  jobs.PassOver();  // the second 4: the first one stays
  CHECK_FALSE(jobs.more());
  CHECK(jobs.taken() == DeviceAmounts{6000});
}

TEST_CASE("very many sizes are added one by one, the smallest first", "[unit][policy]") {
  std::vector<std::pair<int, int>> sizes;
  for (int size = 1; size <= 65; ++size) sizes.emplace_back(size, 1);
  Rising expected;
  for (int size = 1; size <= 65; ++size) expected.push_back(size * (size + 1) / 2);
  CHECK(StepsOf(Of(sizes, 0, 100'000)) == expected);
}

// 8 of the one kind and 80 of the other; the quota is 4 of the one.
TEST_CASE("of two kinds, a level is as high in both", "[unit][policy]") {
  // Within quota there is nothing of the other kind. Above it, 1 of 8 and 10 of 80 are as much.
  WholeJobs jobs({{{2000, 0}, 3}, {{0, 10'000}, 3}}, {4000, 0}, {8000, 80'000});
  std::vector<DeviceAmounts> steps;
  while (jobs.more()) {
    jobs.Take();
    steps.push_back(jobs.taken());
  }
  CHECK(steps == std::vector<DeviceAmounts>{{2000, 0},
                                            {4000, 0},
                                            {4000, 10'000},  // an eighth above quota
                                            {6000, 20'000},  // two eighths
                                            {6000, 30'000}});
}

TEST_CASE("a step that loses devices of some kind is not taken", "[unit][policy]") {
  WholeJobs jobs({{{3000, 1000}, 1}, {{0, 2000}, 1}}, {0, 0}, {8000, 8000});
  CHECK(jobs.step() == DeviceAmounts{0, 2000});
  jobs.Take();
  jobs.Take();  // at three eighths both fit
  CHECK(jobs.taken() == DeviceAmounts{3000, 3000});

  // At five eighths, 5 and 3.5 would take the place of 0 and 4: it is added to them.
  jobs = WholeJobs({{{5000, 3500}, 1}, {{0, 2000}, 2}}, {0, 0}, {8000, 8000});
  jobs.Take();
  jobs.Take();
  CHECK(jobs.taken() == DeviceAmounts{0, 4000});
  jobs.Take();
  CHECK(jobs.taken() == DeviceAmounts{5000, 7500});
  CHECK_FALSE(jobs.more());
}

}  // namespace
}  // namespace berth::policy
