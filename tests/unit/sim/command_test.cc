// What the command line does not take: an option that would be ignored.
#include "sim/command.h"

#include "sim/options.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

/// Parses, and runs nothing.
void Parse(const std::string& line) {
  CLI::App app;
  std::function<int()> run;
  AddSimulateCommand(app, run);
  app.parse("simulate " + line);
}

TEST_CASE("an option that would be ignored is a usage error", "[unit][sim]") {
  const std::string trace = "trace --cluster 1x8 --workload w ";
  CHECK_NOTHROW(Parse(trace + "--compare Berth,FIFO --against FIFO"));
  CHECK_NOTHROW(Parse(trace + "--compare Berth"));  // not asked to compare
  CHECK_NOTHROW(Parse("run --expand a.yaml"));
  CHECK_NOTHROW(Parse("run a.yaml b.yaml"));
  CHECK_NOTHROW(Parse("faults -j 2 --seeds 1,2"));
  for (const std::string& line :
       {trace + "--compare Berth,FIFO --against native", trace + "--against no-such",
        std::string("openb --traces t --policy Berth,BestFit --against FGD"),
        std::string("philly --traces t --policy Berth,FIFO --against native"),
        std::string("run --expand a.yaml b.yaml"), std::string("run --judge 3 a.yaml b.yaml"),
        std::string("faults -j -5")}) {
    CAPTURE(line);
    CHECK_THROWS_AS(Parse(line), CLI::ValidationError);
  }
}

}  // namespace
}  // namespace berth::sim
