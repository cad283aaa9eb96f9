// Quantities: what Kubernetes writes, as amounts. Every row is worked out by hand.
#include "kube/quantity.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

struct Row {
  std::string text;
  std::int64_t milli;
  std::int64_t whole;
};

void Check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO("quantity " << row.text);
    REQUIRE(ParseMilli(row.text).has_value());
    CHECK(*ParseMilli(row.text) == row.milli);
    REQUIRE(ParseWhole(row.text).has_value());
    CHECK(*ParseWhole(row.text) == row.whole);
  }
}

TEST_CASE("a quantity is a number with a suffix", "[unit][kube]") {
  Check({
      {"0", 0, 0},
      {"1", 1000, 1},
      {"110", 110'000, 110},
      {"100m", 100, 1},                          // 0.1, rounded up to 1 whole
      {"1.5", 1500, 2},                          // 1.5 -> 2
      {"1k", 1'000'000, 1000},                   // 10^3
      {"3M", 3'000'000'000, 3'000'000},          // 3 * 10^6
      {"2G", 2'000'000'000'000, 2'000'000'000},  // 2 * 10^9
      {"1T", 1'000'000'000'000'000, 1'000'000'000'000},
      {"1Ki", 1'024'000, 1024},
      {"2Gi", 2'147'483'648'000, 2'147'483'648},    // 2 * 2^30
      {"1.5Gi", 1'610'612'736'000, 1'610'612'736},  // 1536 * 2^20
      {"0.5Ki", 512'000, 512},
      {"1Ti", 1'099'511'627'776'000, 1'099'511'627'776},
      {"1Pi", 1'125'899'906'842'624'000, 1'125'899'906'842'624},
  });
}

TEST_CASE("an exponent is a suffix too, and E alone is exa", "[unit][kube]") {
  Check({
      {"1e3", 1'000'000, 1000},
      {"1E3", 1'000'000, 1000},
      {"1e+3", 1'000'000, 1000},
      {"12e-1", 1200, 2},                       // 1.2 -> 2
      {"1500e-3", 1500, 2},                     // 1.5 -> 2
      {"2E", kMax, 2'000'000'000'000'000'000},  // 2 * 10^21 thousandths do not fit
      {"1e0", 1000, 1},
  });
}

TEST_CASE("signs, bare points and leading zeros are allowed", "[unit][kube]") {
  Check({
      {"+1", 1000, 1},
      {"-1", -1000, -1},
      {"-1500m", -1500, -2},  // Away from zero.
      {"1.", 1000, 1},
      {".5", 500, 1},
      {"007", 7000, 7},
      {"-0", 0, 0},
      {"1.G", 1'000'000'000'000, 1'000'000'000},
  });
}

TEST_CASE("a fraction of the smallest unit is rounded up", "[unit][kube]") {
  Check({
      {"1n", 1, 1},     // 10^-9
      {"1u", 1, 1},     // 10^-6
      {"0.1m", 1, 1},   // 0.0001
      {"1000u", 1, 1},  // exactly one thousandth
      {"1001u", 2, 1},  // 1.001 thousandths -> 2
      {"1.0000001", 1001, 2},
      {"0.0001Ki", 103, 1},        // 0.1024 = 102.4 thousandths -> 103
      {"1.1Ki", 1'126'400, 1127},  // 1126.4 -> 1127
      {"1e-1000000000", 1, 1},
      {"0e-5", 0, 0},
      {"0.000", 0, 0},
  });
}

TEST_CASE("what does not fit saturates", "[unit][kube]") {
  Check({
      {"9223372036854775807", kMax, kMax},  // 2^63 - 1
      {"9223372036854775808", kMax, kMax},
      {"7Ei", kMax, 8'070'450'532'247'928'832},  // 7 * 2^60
      {"8Ei", kMax, kMax},                       // 2^63
      {"9223372036854775.807", kMax, 9'223'372'036'854'776},
      {"9223372036854775.808", kMax, 9'223'372'036'854'776},
      {"1e18", kMax, 1'000'000'000'000'000'000},
      {"1e19", kMax, kMax},
      {"1e999999999", kMax, kMax},
      {"1e9223372036854775807", kMax, kMax},
      {"99999999999999999999999999999999999999999999999999", kMax, kMax},
      {"-9Ei", -kMax, -kMax},
      {std::string(60, '9') + "Ei", kMax, kMax},
  });
}

TEST_CASE("what is not a quantity is refused", "[unit][kube]") {
  const std::vector<std::pair<std::string, QuantityError>> rows = {
      {"", QuantityError::kEmpty},
      {std::string(65, '1'), QuantityError::kTooLong},
      {"+", QuantityError::kNotANumber},
      {".", QuantityError::kNotANumber},
      {"Gi", QuantityError::kNotANumber},
      {"-m", QuantityError::kNotANumber},
      {" 1", QuantityError::kNotANumber},
      {"1 ", QuantityError::kUnknownSuffix},
      {"1 Gi", QuantityError::kUnknownSuffix},
      {"1K", QuantityError::kUnknownSuffix},  // 1k or 1Ki
      {"1ki", QuantityError::kUnknownSuffix},
      {"1GB", QuantityError::kUnknownSuffix},
      {"1e", QuantityError::kUnknownSuffix},
      {"1e+", QuantityError::kUnknownSuffix},
      {"1e+-1", QuantityError::kUnknownSuffix},
      {"1e1.5", QuantityError::kUnknownSuffix},
      {"1e9223372036854775808", QuantityError::kUnknownSuffix},  // Not an int64.
      {"1.2.3", QuantityError::kUnknownSuffix},
      {"--1", QuantityError::kNotANumber},
      {"0x10", QuantityError::kUnknownSuffix},
      {"1\xC2\xB5", QuantityError::kUnknownSuffix},
      {std::string("1\0", 2), QuantityError::kUnknownSuffix},
  };
  for (const auto& [text, error] : rows) {
    INFO("quantity '" << text << "'");
    REQUIRE_FALSE(ParseMilli(text).has_value());
    CHECK(ParseMilli(text).error() == error);
    CHECK(ParseWhole(text).error() == error);
    CHECK_FALSE(Message(error).empty());
  }
}

TEST_CASE("cpu and extended resources count in thousandths, the rest in wholes", "[unit][kube]") {
  CHECK(*ParseFor("cpu", "1500m") == 1500);
  CHECK(*ParseFor("nvidia.com/gpu", "8") == 8000);
  CHECK(*ParseFor("rdma/hca", "1") == 1000);
  CHECK(*ParseFor("memory", "2Gi") == 2'147'483'648);
  CHECK(*ParseFor("hugepages-2Mi", "4Mi") == 4'194'304);
  CHECK(*ParseFor("pods", "110") == 110);
  CHECK(*ParseFor("memory", "1500m") == 2);  // 1.5 bytes
  CHECK(ParseFor("cpu", "-1").error() == QuantityError::kNegative);
  CHECK(ParseFor("memory", "x").error() == QuantityError::kNotANumber);
}

TEST_CASE("amounts are printed as people write them", "[unit][kube]") {
  CHECK(Format("cpu", 0) == "0");
  CHECK(Format("cpu", 2000) == "2");
  CHECK(Format("cpu", 1500) == "1500m");
  CHECK(Format("nvidia.com/gpu", 8000) == "8");
  CHECK(Format("nvidia.com/gpu", 500) == "500m");
  CHECK(Format("memory", 0) == "0");
  CHECK(Format("memory", 2'147'483'648) == "2Gi");
  CHECK(Format("memory", 1'610'612'736) == "1536Mi");      // 1.5Gi without a fraction
  CHECK(Format("memory", 1'000'000'000) == "1000000000");  // 2^9 * 1953125: not divisible by 2^10
  CHECK(Format("hugepages-1Gi", 1'073'741'824) == "1Gi");
  CHECK(Format("pods", 1024) == "1024");  // Pieces are not binary.
  CHECK(Format("memory", kMax) == "9223372036854775807");
  CHECK(Format("cpu", kMax) == "9223372036854775807m");
}

}  // namespace
}  // namespace berth::kube
