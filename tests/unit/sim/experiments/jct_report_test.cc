#include "sim/experiments/jct_experiment.h"
#include "sim/options.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

TEST_CASE("rows of runs with other sizes of jobs have the same columns", "[unit][sim]") {
  JctResult small;
  small.mean_jct_by_gpus = {{1, 100}, {4, 50}};
  JctResult large;
  large.mean_jct_by_gpus = {{2, 200}, {4, 60}};
  const auto rows = JctRows({small, large});
  const std::string csv = RenderCsv(rows);
  CHECK(csv.find("mean_jct_seconds_1_gpus,mean_jct_seconds_2_gpus,mean_jct_seconds_4_gpus\n") !=
        std::string::npos);
  CHECK(csv.find(",100.0,,50.0\n") != std::string::npos);
  CHECK(csv.ends_with(",,200.0,60.0\n"));
}

}  // namespace
}  // namespace berth::sim
