// Exponential decay in integers.
#include "cluster/decay.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace berth::cluster {
namespace {

TEST_CASE("half is left after each half-life", "[unit][cluster]") {
  struct Row {
    std::int64_t value, elapsed, half_life, left;
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const Row& row : {
           Row{1'000, 0, 60, 1'000},
           Row{1'000, 60, 60, 500},
           Row{1'000, 120, 60, 250},
           Row{1'000, 600, 60, 0},         // 1000 / 1024
           Row{1'000'000, 1, 2, 707'106},  // 2^(-1/2) = 0.7071067...
           Row{1'000'000, 1, 4, 840'896},  // 2^(-1/4) = 0.8408964...
           Row{1'000'000, 3, 2, 353'553},  // 2^(-3/2)
           Row{-1'000, 60, 60, -500},      // what is less than held now comes up to it
           Row{1'000, 1, 0, 0},            // no half-life: no past
           Row{kMost, 0, 1, kMost},        //
           Row{kMost, kMost, 1, 0},        //
           Row{kMost, kMost, kMost, kMost / 2},
       }) {
    CAPTURE(row.value, row.elapsed, row.half_life);
    CHECK(Decayed(row.value, row.elapsed, row.half_life) == row.left);
  }
}

TEST_CASE("a part of a half-life leaves what floating point says", "[unit][cluster]") {
  constexpr std::int64_t kValue = 1'000'000'000'000;
  for (std::int64_t elapsed = 1; elapsed < 3'600'000; elapsed = elapsed * 5 / 4 + 1) {
    const double exact =
        static_cast<double>(kValue) * std::exp2(-static_cast<double>(elapsed) / 900'000);
    CAPTURE(elapsed);
    CHECK(static_cast<double>(Decayed(kValue, elapsed, 900'000)) ==
          Approx(exact).epsilon(1.0 / (1 << 25)));
  }
}

}  // namespace
}  // namespace berth::cluster
