// Jobs that come, start, are evicted and end, worked by hand: how long claims within quota wait.
#include "sim/trace/claims.h"

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using enum JobEvent::Kind;
using testing::MakePolicy;
using testing::MakeQueue;
using Claims = std::vector<Claim>;

config::Queue Promised(const std::string& name, int gpus, const std::string& parent = {}) {
  config::Queue queue = MakeQueue(name, {"*"}, /*limit_gpus=*/-1, gpus);
  queue.parent = parent;
  return queue;
}

TEST_CASE("a claim lasts from when its queue's quota has room until the job runs",
          "[unit][sim][trace]") {
  const std::vector<ClaimingJob> jobs{
      {.queue = "a", .gpus = 8}, {.queue = "a", .gpus = 4}, {.queue = "b", .gpus = 4}};
  const std::vector<JobEvent> events{
      {0, 0, kArrived},  {3, 0, kStarted},    // within quota at once: waited 3
      {10, 1, kArrived},                      // 12 of 8: no claim yet
      {20, 2, kArrived}, {95, 2, kStarted},   // another queue's quota: waited 75
      {100, 0, kEnded},  {170, 1, kStarted},  // 4 of 8 from 100 on: waited 70
      {200, 1, kEnded},  {201, 2, kEnded}};
  CHECK(ClaimsWithinQuota(jobs, events, MakePolicy({Promised("a", 8), Promised("b", 4)})) ==
        Claims{{0, 3, true}, {2, 75, true}, {1, 70, true}});
}

TEST_CASE("what starts before it has a claim has none", "[unit][sim][trace]") {
  const std::vector<ClaimingJob> jobs{{.queue = "a", .gpus = 8}, {.queue = "a", .gpus = 4}};
  const std::vector<JobEvent> events{{0, 0, kArrived},
                                     {0, 0, kStarted},
                                     {10, 1, kArrived},
                                     {60, 1, kStarted},  // borrows
                                     {100, 0, kEnded}};
  CHECK(ClaimsWithinQuota(jobs, events, MakePolicy({Promised("a", 8)})) == Claims{{0, 0, true}});
}

TEST_CASE("claims of one queue share its quota: by priority, then by age", "[unit][sim][trace]") {
  const std::vector<ClaimingJob> jobs{{.queue = "a", .gpus = 4},
                                      {.queue = "a", .gpus = 8},
                                      {.queue = "a", .gpus = 4},
                                      {.queue = "a", .gpus = 4, .priority = 10}};
  const std::vector<JobEvent> events{
      {0, 0, kArrived},  {0, 1, kArrived},  {0, 2, kArrived},  // 4, 12: too many, 8
      {50, 3, kArrived},                                       // 4 first, then 4 of job 0
      {60, 3, kStarted}, {90, 0, kStarted}, {100, 3, kEnded},  // 4 of job 2 again
      {130, 2, kStarted}};
  // Job 1 never has one, job 2 from 0 to 50 and from 100 to 130.
  CHECK(ClaimsWithinQuota(jobs, events, MakePolicy({Promised("a", 8)})) ==
        Claims{{3, 10, true}, {0, 90, true}, {2, 80, true}});
}

TEST_CASE("a claim lapses while younger work uses its quota, and one may be left",
          "[unit][sim][trace]") {
  const std::vector<ClaimingJob> jobs{{.queue = "a", .gpus = 8}, {.queue = "a", .gpus = 1}};
  const std::vector<JobEvent> events{
      {0, 0, kArrived}, {30, 1, kArrived}, {40, 1, kStarted}, {500, 1, kEnded}, {700, 1, kArrived}};
  CHECK(ClaimsWithinQuota(jobs, events, MakePolicy({Promised("a", 8)})) ==
        Claims{{0, 40 + 200, false}});
}

TEST_CASE("what is evicted may have a second claim", "[unit][sim][trace]") {
  const std::vector<ClaimingJob> jobs{{.queue = "a", .gpus = 8}};
  const std::vector<JobEvent> events{
      {0, 0, kArrived}, {5, 0, kStarted}, {50, 0, kStopped}, {57, 0, kStarted}, {90, 0, kEnded}};
  CHECK(ClaimsWithinQuota(jobs, events, MakePolicy({Promised("a", 8)})) ==
        Claims{{0, 5, true}, {0, 7, true}});
}

TEST_CASE("every quota on the path counts, and one must be there", "[unit][sim][trace]") {
  const config::PolicyConfiguration policy =
      MakePolicy({Promised("department", 8), Promised("a", 8, "department"),
                  Promised("b", -1, "department"), Promised("free", -1), Promised("none", 0)});
  const std::vector<ClaimingJob> jobs{{.queue = "b", .gpus = 4},
                                      {.queue = "a", .gpus = 8},
                                      {.queue = "free", .gpus = 1},
                                      {.queue = "none", .gpus = 1},
                                      {.queue = "unknown", .gpus = 1}};
  std::vector<JobEvent> events;
  for (std::size_t i = 0; i < jobs.size(); ++i) events.push_back({0, i, kArrived});
  events.push_back({10, 0, kStarted});  // the department's: 4 of 8, so a's job has no claim
  events.push_back({60, 0, kEnded});
  events.push_back({100, 1, kStarted});
  CHECK(ClaimsWithinQuota(jobs, events, policy) == Claims{{0, 10, true}, {1, 40, true}});
}

}  // namespace
}  // namespace berth::sim
