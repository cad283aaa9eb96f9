// Timestamps and durations, as Kubernetes writes them.
#include "kube/time.h"

#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

using std::chrono::nanoseconds;

TEST_CASE("RFC 3339 timestamps become milliseconds since the epoch", "[unit][kube]") {
  const std::vector<std::pair<std::string, Millis>> rows = {
      {"1970-01-01T00:00:00Z", 0},
      {"1970-01-01T00:00:01Z", 1000},
      {"1969-12-31T23:59:59Z", -1000},
      {"2000-03-01T00:00:00Z", 951'868'800'000},         // 11,017 days * 86,400 s
      {"2000-02-29T00:00:00Z", 951'782'400'000},         // A leap year: one day less.
      {"2026-05-01T12:00:00Z", 1'777'636'800'000},       // 20,574 days * 86,400 s + 12 h
      {"2026-05-01T14:00:00+02:00", 1'777'636'800'000},  // The same moment, further east.
      {"2026-05-01T06:30:00-05:30", 1'777'636'800'000},
      {"2026-05-01T12:00:00.5Z", 1'777'636'800'500},
      {"2026-05-01T12:00:00.123456Z", 1'777'636'800'123},     // MicroTime, cut off.
      {"2026-05-01T12:00:00.000999999Z", 1'777'636'800'000},  // Nanoseconds, cut off.
      {"0000-01-01T00:00:00Z", -62'167'219'200'000},
      {"9999-12-31T23:59:59.999Z", 253'402'300'799'999},
  };
  for (const auto& [text, millis] : rows) {
    INFO(text);
    REQUIRE(ParseTime(text).has_value());
    CHECK(*ParseTime(text) == millis);
  }
}

TEST_CASE("what is not a timestamp is refused", "[unit][kube]") {
  for (const std::string text : {
           "",
           "Z",
           "2026-05-01",
           "2026-05-01T12:00:00",
           "2026-05-01 12:00:00Z",
           "2026-05-01t12:00:00z",
           "2026-13-01T12:00:00Z",
           "2026-00-01T12:00:00Z",
           "2026-02-29T12:00:00Z",
           "2026-04-31T12:00:00Z",
           "2026-05-01T24:00:00Z",
           "2026-05-01T12:60:00Z",
           "2026-05-01T12:00:60Z",
           "2026-05-01T12:00:00.Z",
           "2026-05-01T12:00:00,5Z",
           "2026-05-01T12:00:00+2:00",
           "2026-05-01T12:00:00+24:00",
           "2026-05-01T12:00:00Zx",
           "26-05-01T12:00:00Z",
           "-026-05-01T12:00:00Z",
           "2026-05-01T12:00:00.00000000000000000000000000000000000000000000000000000000001Z",
       }) {
    INFO(text);
    CHECK_FALSE(ParseTime(text).has_value());
  }
}

TEST_CASE("timestamps are written in UTC", "[unit][kube]") {
  CHECK(FormatTime(1'777'636'800'123) == "2026-05-01T12:00:00Z");
  CHECK(FormatMicroTime(1'777'636'800'123) == "2026-05-01T12:00:00.123000Z");
  CHECK(FormatMicroTime(1'777'636'800'007) == "2026-05-01T12:00:00.007000Z");
  CHECK(FormatMicroTime(0) == "1970-01-01T00:00:00.000000Z");
  CHECK(FormatMicroTime(-1) == "1969-12-31T23:59:59.999000Z");
  // There are no five-digit years.
  CHECK(FormatTime(std::numeric_limits<Millis>::max()) == "9999-12-31T23:59:59Z");
  CHECK(FormatTime(std::numeric_limits<Millis>::min()) == "0000-01-01T00:00:00Z");
}

TEST_CASE("Go durations are terms added up", "[unit][kube]") {
  using namespace std::chrono_literals;
  const std::vector<std::pair<std::string, nanoseconds>> rows = {
      {"0", 0s},
      {"-0", 0s},
      {"2h30m", 150min},
      {"1.5h", 90min},
      {"300ms", 300ms},
      {"1h2m3s4ms5us6ns", 1h + 2min + 3s + 4ms + 5us + 6ns},
      {"5\xC2\xB5s", 5us},
      {"5\xCE\xBCs", 5us},
      {"-1m30s", -90s},
      {"+5s", 5s},
      {".5s", 500ms},
      {"5.s", 5s},
      {"30s1h", 1h + 30s},  // In any order.
      {"0.1ns", 0ns},       // Cut off.
      {"1.00000000000000000001h", 1h},
      {"2562047h47m16.854775807s", nanoseconds::max()},  // 2^63 - 1 ns
  };
  for (const auto& [text, duration] : rows) {
    INFO(text);
    REQUIRE(ParseDuration(text).has_value());
    CHECK(ParseDuration(text)->count() == duration.count());
  }
}

TEST_CASE("what is not a duration is refused", "[unit][kube]") {
  for (const std::string text :
       {"", "-", "+", "5", "1.5", ".s", "s", "1 s", "1s ", "1d", "1S", "1..5s", "1s-1s", "--1s",
        "2562047h47m16.854775808s", "9223372036854775808ns", "3000000h", "99999999999999999999s",
        "1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h"}) {
    INFO(text);
    CHECK_FALSE(ParseDuration(text).has_value());
  }
}

}  // namespace
}  // namespace berth::kube
