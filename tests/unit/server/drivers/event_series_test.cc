// Events: repeats count up in one object, and no namespace drowns the others.
#include "server/drivers/event_series.h"

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr kube::MicroTime kStart{std::chrono::hours(1)};

engine::EmitEvent Refused(const std::string& ns, int pod, const std::string& reason = "NeverFits") {
  const std::string name = "p" + std::to_string(pod);
  return {.pod = {ns, name, ns + "-" + name}, .warning = true, .reason = reason, .note = "why"};
}

/// The count that was written; 0: nothing was.
int Written(EventSeries& series, const engine::EmitEvent& event, kube::MicroTime now) {
  const auto taken = series.Take(event, now);
  const auto* write = std::get_if<EventWrite>(&taken);
  return write == nullptr ? 0 : write->count;
}

TEST_CASE("repeats are one object, written at most once a minute, and none is lost", "[host]") {
  EventSeries series;
  const auto event = Refused("a", 1);
  CHECK(Written(series, event, kStart) == 1);
  CHECK(Written(series, event, kStart + seconds(1)) == 0);
  CHECK(Written(series, event, kStart + seconds(59)) == 0);
  CHECK(Written(series, event, kStart + seconds(60)) == 4);
  CHECK(Written(series, event, kStart + seconds(119)) == 0);
  const auto first = std::get<EventWrite>(series.Take(Refused("a", 2), kStart)).record;
  CHECK(first.regarding.name == "p2");
  CHECK(first.reason == "NeverFits");
  // Another reason of the same pod is another object.
  CHECK(Written(series, Refused("a", 1, "Fragmented"), kStart + seconds(61)) == 1);
}

TEST_CASE("a namespace with thousands of refused pods keeps no other waiting", "[host]") {
  EventSeries series;
  int written = 0;
  for (int i = 0; i < 5'000; ++i) written += Written(series, Refused("noisy", i), kStart);
  CHECK(written == static_cast<int>(EventSeries::kBurst));
  CHECK(std::get<EventHeld>(series.Take(Refused("noisy", 9'999), kStart)) == EventHeld::kLimited);
  CHECK(Written(series, Refused("quiet", 1), kStart) == 1);
  // What was held is said when there is room again, should it happen again.
  CHECK(Written(series, Refused("noisy", 4'000), kStart + milliseconds(199)) == 0);
  CHECK(Written(series, Refused("noisy", 4'000), kStart + milliseconds(401)) == 1);
  // The bucket never holds more than a burst.
  written = 0;
  for (int i = 10'000; i < 15'000; ++i) {
    written += Written(series, Refused("noisy", i), kStart + std::chrono::hours(5));
  }
  CHECK(written == static_cast<int>(EventSeries::kBurst));
}

TEST_CASE("a clock that is set back lends nothing", "[host]") {
  EventSeries series;
  for (int i = 0; i < 300; ++i) (void)series.Take(Refused("a", i), kStart);
  CHECK(Written(series, Refused("a", 301), kStart - seconds(60)) == 0);
  CHECK(Written(series, Refused("a", 302), kStart) == 0);
}

}  // namespace
}  // namespace berth::server
