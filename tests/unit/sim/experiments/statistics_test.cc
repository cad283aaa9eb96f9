#include "sim/experiments/statistics.h"

#include <array>

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::Approx;

TEST_CASE("mean, deviation and quantiles of a few values", "[statistics]") {
  const std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  CHECK(Mean(values) == 5);
  CHECK(StandardDeviation(values) == Approx(2.13809));  // sqrt(32 / 7)
  CHECK(Quantile(values, 0.5) == 4);
  CHECK(Quantile(values, 0.99) == 9);
  CHECK(Quantile(values, 0) == 2);
  CHECK(Mean({}) == 0);
  CHECK(Quantile({}, 0.5) == 0);
  CHECK(StandardDeviation(std::array{3.0}) == 0);
}

TEST_CASE("the 95 % interval of paired differences", "[statistics]") {
  // Differences 1, 2, 3: mean 2, sd 1, t(2) = 4.303, half width 4.303 / sqrt(3).
  const Interval d = PairedDifference(std::array{2.0, 4.0, 6.0}, std::array{1.0, 2.0, 3.0});
  CHECK(d.mean == 2);
  CHECK(d.half_width == Approx(2.4843).epsilon(0.001));
  CHECK(d.count == 3);
  CHECK(PairedDifference(std::array{2.0}, std::array{1.0}).half_width == 0);
  // One pair tells nothing about how far others may be from it.
  CHECK(RangeText(PairedDifference(std::array{2.0}, std::array{1.0}), 1) == "-");
  CHECK(RangeText({.mean = 1, .half_width = 2.5, .count = 2}, 1) == "-1.5 .. +3.5");
}

TEST_CASE("Student's t beyond the table joins on to it", "[statistics]") {
  CHECK(StudentT975(1) == Approx(12.706));
  CHECK(StudentT975(30) == Approx(2.042));
  CHECK(StudentT975(31) == Approx(2.040).epsilon(0.0005));
  CHECK(StudentT975(60) == Approx(2.000).epsilon(0.0005));
  CHECK(StudentT975(1000000) == Approx(1.960).epsilon(0.0005));
}

}  // namespace
}  // namespace berth::sim
