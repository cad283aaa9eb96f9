#include "server/drivers/tenure.h"

#include <thread>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using kube::Duration;
using kube::TimePoint;
using std::chrono::seconds;

/// A tenure by a clock that tests set.
struct Fixture {
  std::atomic<TimePoint> now = TimePoint(seconds(1000));
  Tenure tenure{[this] { return now.load(); }};
  void Pass(Duration time) { now = now.load() + time; }
};

TEST_CASE("where nobody is elected, a tenure holds for ever", "[tenure]") {
  Fixture f;
  f.Pass(std::chrono::hours(100'000));
  CHECK(f.tenure.Holds());
  CHECK(f.tenure.Enter(seconds(8))->timeout == seconds(8));
}

TEST_CASE("a tenure lapses by the clock, with nobody's doing", "[tenure]") {
  Fixture f;
  f.tenure.Close();
  CHECK_FALSE(f.tenure.Holds());
  CHECK_FALSE(f.tenure.Enter(seconds(8)));
  f.tenure.Begin(f.now.load() + seconds(10));
  CHECK(f.tenure.Left() == seconds(10));
  f.Pass(seconds(7));
  CHECK(f.tenure.Enter(seconds(8))->timeout == seconds(3));  // never beyond the term
  CHECK(f.tenure.Extend(f.now.load() + seconds(10)));
  f.Pass(seconds(10));
  CHECK_FALSE(f.tenure.Holds());
  CHECK(f.tenure.Left() == seconds(0));
  CHECK_FALSE(f.tenure.Enter(seconds(8)));
  // A renewal that was answered too late does not bring it back: a gap is a gap.
  CHECK_FALSE(f.tenure.Extend(f.now.load() + seconds(5)));
  CHECK_FALSE(f.tenure.Holds());
}

TEST_CASE("the end of a tenure cuts off what is under way, closing it does not", "[tenure]") {
  Fixture f;
  f.tenure.Begin(f.now.load() + seconds(10));
  auto first = f.tenure.Enter(seconds(8));
  f.tenure.Close();
  CHECK_FALSE(f.tenure.Holds());
  CHECK_FALSE(first->stop.stop_requested());
  f.tenure.End();
  CHECK(first->stop.stop_requested());
  f.tenure.Begin(f.now.load() + seconds(10));
  CHECK_FALSE(f.tenure.Enter(seconds(8))->stop.stop_requested());
}

TEST_CASE("who takes over waits for the writes of the term before", "[tenure]") {
  Fixture f;
  CHECK(f.tenure.Idle(Duration(0)));
  auto write = std::make_unique<Tenure::Permit>(*f.tenure.Enter(seconds(8)));
  f.tenure.End();
  CHECK_FALSE(f.tenure.Idle(Duration(1)));
  std::jthread writer([&] { write.reset(); });
  CHECK(f.tenure.Idle(seconds(20)));
}

TEST_CASE("a write that ended without an answer may take effect for a while", "[tenure]") {
  Fixture f;
  CHECK_FALSE(f.tenure.UnknownSince(seconds(5)));
  f.tenure.NoteUnknown();
  f.Pass(Duration(4'999));
  CHECK(f.tenure.UnknownSince(seconds(5)));
  f.Pass(Duration(1));
  CHECK_FALSE(f.tenure.UnknownSince(seconds(5)));
}

}  // namespace
}  // namespace berth::server
