// Jobs that come and go, worked by hand: who is within quota when it arrives.
#include "sim/trace/within_quota.h"

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakePolicy;
using testing::MakeQueue;
using Within = std::vector<bool>;

config::Queue Promised(const std::string& name, int gpus, const std::string& parent = {}) {
  config::Queue queue = MakeQueue(name, {"*"}, /*limit_gpus=*/-1, gpus);
  queue.parent = parent;
  return queue;
}

TEST_CASE("who arrives counts with all that its queue still has", "[unit][sim][trace]") {
  const std::vector<JobStay> jobs{
      {.queue = "a", .gpus = 8, .arrival = 0, .end = 100},    // 8 of 8
      {.queue = "a", .gpus = 1, .arrival = 50, .end = 200},   // 9
      {.queue = "b", .gpus = 4, .arrival = 60, .end = 300},   // another queue: 4 of 4
      {.queue = "a", .gpus = 7, .arrival = 100, .end = 400},  // the first has ended: 8
      {.queue = "a", .gpus = 1, .arrival = 200, .end = 250},  // the second has ended: 8
      {.queue = "a", .gpus = 1, .arrival = 300, .end = -1},   // and so has the last one: 8
      {.queue = "a", .gpus = 8, .arrival = 900, .end = 950},  // 9: that one never ends
  };
  CHECK(WithinQuota(jobs, MakePolicy({Promised("a", 8), Promised("b", 4)})) ==
        Within{true, false, true, true, true, true, false});
}

TEST_CASE("every quota on the path counts, and one must be there", "[unit][sim][trace]") {
  const config::PolicyConfiguration policy =
      MakePolicy({Promised("department", 8), Promised("a", 8, "department"),
                  Promised("b", -1, "department"), Promised("free", -1), Promised("none", 0)});
  const std::vector<JobStay> jobs{
      {.queue = "b", .gpus = 4, .arrival = 0, .end = 100},     // the department's: 4 of 8
      {.queue = "a", .gpus = 8, .arrival = 1, .end = 100},     // its own holds, the other does not
      {.queue = "a", .gpus = 8, .arrival = 100, .end = 200},   // both have ended
      {.queue = "free", .gpus = 1, .arrival = 100, .end = 1},  // nothing is promised
      {.queue = "none", .gpus = 1, .arrival = 100, .end = 1},  // nothing, in so many words
      {.queue = "unknown", .gpus = 1, .arrival = 100, .end = 1},
  };
  CHECK(WithinQuota(jobs, policy) == Within{true, false, true, false, false, false});
}

}  // namespace
}  // namespace berth::sim
