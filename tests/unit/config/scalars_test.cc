// Texts to values and back.
#include "config/scalars.h"

#include <array>
#include <chrono>

#include "tests/support/catch.h"

namespace berth::config {
namespace {

using std::chrono::milliseconds;

TEST_CASE("durations are read as Go reads them") {
  const std::pair<std::string_view, std::int64_t> rows[] = {
      {"0", 0},       {"1s", 1000},        {"1m30s", 90'000}, {"1h0m0.5s", 3'600'500},
      {"250ms", 250}, {"1.5h", 5'400'000}, {".5s", 500},      {"2.s", 2000},
      {"1000us", 1},  {"1000\u00b5s", 1},  {"1000000ns", 1},  {"1s1s", 2000},
      {"0.001s", 1},  {"0.0010s", 1},
  };
  for (const auto& [text, ms] : rows) {
    INFO(text);
    REQUIRE(ParseDuration(text).has_value());
    CHECK(ParseDuration(text)->count() == ms);
  }
  for (const std::string_view bad :
       {"", "s", ".s", "1", "1x", "1 s", "-1s", "+1s", "1s ", "1d", "1m30", "1S", "0.0001s",
        "99999999999999999999s", "9223372037s", "9e3s"}) {
    INFO(bad);
    CHECK_FALSE(ParseDuration(bad).has_value());
  }
}

TEST_CASE("durations are written as Go writes them") {
  const std::pair<std::int64_t, std::string_view> rows[] = {
      {0, "0s"},        {1, "1ms"},          {1000, "1s"},          {1500, "1.5s"},
      {60'000, "1m0s"}, {60'050, "1m0.05s"}, {3'600'000, "1h0m0s"}, {86'399'999, "23h59m59.999s"}};
  for (const auto& [ms, text] : rows) {
    CHECK(FormatDuration(milliseconds{ms}) == text);
    CHECK(ParseDuration(text).value().count() == ms);
  }
}

TEST_CASE("decimals are exact thousandths") {
  const std::pair<std::string_view, std::int64_t> rows[] = {
      {"0", 0},
      {"1", 1000},
      {"3.7", 3700},
      {"0.001", 1},
      {"0.1230", 123},
      {"-2.5", -2500},
      {"1.0000000", 1000},
      {"1000", 1'000'000},
      {"1000000000000", 1'000'000'000'000'000}};
  for (const auto& [text, value] : rows) {
    INFO(text);
    REQUIRE(ParseThousandths(text).has_value());
    CHECK(*ParseThousandths(text) == value);
    CHECK(ParseThousandths(FormatThousandths(value)) == value);
  }
  for (const std::string_view bad :
       {"", ".", ".5", "1.", "1e3", "+1", "01", "0x1", "1,5", "nan", "1 ", "--1", "0.0001",
        "10000000000000", "99999999999999999999999"}) {
    INFO(bad);
    CHECK_FALSE(ParseThousandths(bad).has_value());
  }
}

TEST_CASE("names") {
  CHECK(IsDnsLabel("a-1"));
  CHECK_FALSE(IsDnsLabel(std::string(64, 'a')));
  CHECK(IsDnsSubdomain("a.b-c.d"));
  CHECK_FALSE(IsDnsSubdomain("a..b"));
  CHECK_FALSE(IsDnsSubdomain("a.b."));
  CHECK_FALSE(IsDnsSubdomain(std::string(254, 'a')));
  CHECK(IsQualifiedName("nvidia.com/gpu.clique"));
  CHECK(IsQualifiedName("Rack_1"));
  CHECK_FALSE(IsQualifiedName("a/b/c"));
  CHECK_FALSE(IsQualifiedName("nvidia.com/" + std::string(64, 'a')));
}

TEST_CASE("a value in a message is one short line of whole characters") {
  CHECK(Quote("a\nb") == "\"a b\"");
  const std::string shown = Quote(std::string(59, 'a') + "\u00e9\u00e9");
  CHECK(shown == "\"" + std::string(59, 'a') + "...\"");
}

TEST_CASE("did you mean") {
  constexpr std::array<std::string_view, 3> kWords{"planTimeout", "bindTimeout", "mode"};
  CHECK(Closest("plantimeout", kWords) == "planTimeout");
  CHECK(Closest("binTimeout", kWords) == "bindTimeout");
  CHECK(Closest("modes", kWords) == "mode");
  CHECK(Closest("colour", kWords) == "");
  CHECK(Closest(std::string(100'000, 'm'), kWords) == "");
}

}  // namespace
}  // namespace berth::config
