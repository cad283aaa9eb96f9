// The share error of trees that are given, worked by hand.
#include "sim/trace/observer.h"

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

/// A queue of GPUs in whole devices, with `jobs` of one GPU each.
policy::FairQueue Queue(const std::string& name, std::int64_t quota, std::int64_t used,
                        std::int64_t jobs, int parent = -1) {
  policy::FairQueue queue{.name = name,
                          .parent = parent,
                          .quota = {quota},
                          .limit = {policy::kNoLimit},
                          .kept = {0},
                          .used = {used}};
  if (jobs > 0) queue.jobs = {{.devices = {1}, .count = jobs}};
  return queue;
}

policy::FairTree Tree(std::vector<policy::FairQueue> queues) {
  return {.total = {16}, .pool = {16}, .queues = std::move(queues)};
}

TEST_CASE("the share error is what entitled queues lack, of all devices", "[unit][sim][trace]") {
  struct Case {
    const char* name;
    std::int64_t a_used;
    std::int64_t b_used;
    std::int64_t b_jobs;
    double error;
  };
  // Queue a is promised 8 of 16 GPUs and has 16 jobs, queue b is promised 8.
  for (const Case& c :
       {Case{"each has its own", 8, 8, 8, 0}, Case{"b lacks 4 of its 8: 4/16", 12, 4, 8, 0.25},
        Case{"b asks for no more than it has", 12, 4, 4, 0},
        Case{"b asks for nothing: a's share is all, and it lacks 4", 12, 0, 0, 0.25},
        Case{"free devices that both are entitled to: 4 + 4", 4, 4, 8, 0.5}}) {
    CAPTURE(c.name);
    CHECK(ShareError(Tree({Queue("a", 8, c.a_used, 16), Queue("b", 8, c.b_used, c.b_jobs)})) ==
          c.error);
  }
}

TEST_CASE("the work of a queue that has queues below it counts without theirs",
          "[unit][sim][trace]") {
  // The department's own jobs hold all 16; half of them are the team's: 8 of 16.
  CHECK(ShareError(Tree({Queue("department", 0, 16, 16), Queue("team", 0, 0, 16, 0)})) == 0.5);
  // The other way round: of the department's 16 the team holds all.
  CHECK(ShareError(Tree({Queue("department", 0, 16, 16), Queue("team", 0, 16, 16, 0)})) == 0.5);
  CHECK(ShareError(Tree({Queue("department", 0, 16, 16), Queue("team", 0, 8, 16, 0)})) == 0);
}

TEST_CASE("without devices or queues there is no share error", "[unit][sim][trace]") {
  CHECK(ShareError({.total = {}, .pool = {}}) == 0);
  CHECK(ShareError({.total = {0}, .pool = {0}, .queues = {Queue("a", 0, 0, 1)}}) == 0);
  CHECK(ShareError(Tree({})) == 0);
}

}  // namespace
}  // namespace berth::sim
