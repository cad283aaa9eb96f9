#include "kube/backoff.h"

#include "tests/support/catch.h"
#include "tests/support/fake_timing.h"

namespace berth::kube {
namespace {

using testing::FakeTiming;

TEST_CASE("a backoff doubles up to its cap", "[kube][backoff]") {
  FakeTiming timing;
  Backoff backoff({}, timing.Get());
  std::vector<long> waits;
  for (int i = 0; i < 8; ++i) waits.push_back(static_cast<long>(backoff.Next().count()));
  CHECK(waits == std::vector<long>{800, 1600, 3200, 6400, 12800, 25600, 30000, 30000});
}

TEST_CASE("jitter adds up to as much again", "[kube][backoff]") {
  FakeTiming timing;
  timing.SetRandom(0.5);
  Backoff backoff({}, timing.Get());
  CHECK(backoff.Next() == Duration(1200));
  timing.SetRandom(0.999);
  CHECK(backoff.Next() == Duration(3198));
}

TEST_CASE("two healthy minutes start a backoff over, less do not", "[kube][backoff]") {
  FakeTiming timing;
  Backoff backoff({}, timing.Get());
  backoff.Next();
  backoff.Next();
  timing.Advance(Duration(120'000));
  CHECK(backoff.Next() == Duration(3200));
  timing.Advance(Duration(120'001));
  CHECK(backoff.Next() == Duration(800));
}

TEST_CASE("a real wait ends at once when stopped", "[kube][backoff]") {
  std::stop_source source;
  source.request_stop();
  CHECK_FALSE(Timing::Real().wait(std::chrono::hours(1), source.get_token()));
  CHECK(Timing::Real().wait(Duration(1), {}));
}

}  // namespace
}  // namespace berth::kube
