// How much may end where jobs end whole, worked out by hand. Numbers are devices.
#include "policy/job_losses.h"

#include <vector>

#include "tests/support/catch.h"

namespace berth::policy {
namespace {

JobSize Jobs(std::int64_t gpus, std::int64_t count, std::int64_t nics = 0) {
  return {.devices = {gpus * 1000, nics * 1000}, .count = count};
}

std::int64_t Taken(const std::vector<JobSize>& jobs, std::int64_t gpus, std::int64_t nics = 0) {
  return MostTaken(jobs, {gpus * 1000, nics * 1000}) / 1000;
}

std::int64_t TakenFor(const std::vector<JobSize>& jobs, std::int64_t claimed) {
  return MostTakenFor(jobs, claimed * 1000) / 1000;
}

TEST_CASE("jobs are taken whole until the queue has no more than it may keep", "[unit][policy]") {
  CHECK(Taken({Jobs(1, 80)}, 30) == 30);
  CHECK(Taken({Jobs(80, 1)}, 1) == 80);
  CHECK(Taken({Jobs(80, 1)}, 0) == 0);
  CHECK(Taken({Jobs(8, 10)}, 8) == 8);
  CHECK(Taken({Jobs(8, 10)}, 9) == 16);
  CHECK(Taken({Jobs(8, 10)}, 100) == 80);
  CHECK(Taken({}, 5) == 0);
  // Two pods of one device, and then the gang for the last device.
  CHECK(Taken({Jobs(1, 9), Jobs(8, 1)}, 3) == 10);
}

TEST_CASE("jobs end with all of their kinds of devices", "[unit][policy]") {
  CHECK(Taken({Jobs(1, 4, 8)}, 2) == 18);
  CHECK(Taken({Jobs(1, 4, 8), Jobs(8, 1)}, 0, 8) == 9);
  CHECK(Taken({Jobs(0, 4, 1)}, 2) == 0);
}

TEST_CASE("no more jobs are taken than devices are asked for", "[unit][policy]") {
  CHECK(TakenFor({Jobs(1, 80)}, 30) == 30);
  CHECK(TakenFor({Jobs(80, 1)}, 1) == 80);
  CHECK(TakenFor({Jobs(1, 9), Jobs(8, 2)}, 3) == 17);
  CHECK(TakenFor({Jobs(80, 1)}, 0) == 0);
}

}  // namespace
}  // namespace berth::policy
