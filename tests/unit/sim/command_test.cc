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
  CHECK_NOTHROW(Parse("run --variants all a.yaml b.yaml"));
  CHECK_NOTHROW(Parse("run --variants scaled --expand a.yaml"));
  CHECK_NOTHROW(Parse("faults -j 2 --seeds 1,2"));
  CHECK_NOTHROW(Parse("faults --fidelity wire"));
  CHECK_NOTHROW(Parse(trace + "--fidelity instant"));
  CHECK_NOTHROW(Parse("philly --traces t --fidelity instant"));
  CHECK_NOTHROW(Parse("philly-queues --traces t --fidelity both --policy caps,reclaims"));
  CHECK_NOTHROW(Parse("openb-arrivals --traces t --fidelity scheduler"));
  for (const std::string& line :
       {trace + "--compare Berth,FIFO --against native", trace + "--against no-such",
        std::string("openb --traces t --policy Berth,BestFit --against FGD"),
        std::string("philly --traces t --policy Berth,FIFO --against native"),
        std::string("run --expand a.yaml b.yaml"), std::string("run --judge 3 a.yaml b.yaml"),
        std::string("run --variants scale a.yaml"),
        std::string("run --variants scaled,renamed --expand a.yaml"), std::string("faults -j -5"),
        std::string("faults --lines -1"), trace + "--jobs -1", std::string("run --judge -1 a.yaml"),
        trace + "--fidelity wire", std::string("philly-queues --traces t --policy Berth"),
        std::string("faults --fidelity instant"), std::string("run --fidelity instant a.yaml")}) {
    CAPTURE(line);
    CHECK_THROWS_AS(Parse(line), CLI::ValidationError);
  }
}

TEST_CASE("scenario files are needed, but not for their schema", "[unit][sim]") {
  CHECK_NOTHROW(Parse("run --schema"));
  CHECK_THROWS_AS(Parse("run --schema a.yaml"), CLI::ExcludesError);
  CHECK_THROWS_AS(Parse("run --schema --variants all"), CLI::ExcludesError);
  CHECK_THROWS_AS(Parse("run"), CLI::RequiredError);
}

TEST_CASE("openb takes any list of its format, by name or by file", "[unit][sim]") {
  for (const char* list : {"default", "default,my-list_2", "all", "all,mine", "/data/mine.csv",
                           "./a.b.csv", "cpu050,cpu050"}) {
    CAPTURE(list);
    CHECK_NOTHROW(Parse("openb --traces t --list " + std::string(list)));
  }
  for (const char* list : {"../x", "a/b", "\x1b[2J", "/data/.csv", "a,/b/c"}) {
    CAPTURE(list);
    CHECK_THROWS_AS(Parse("openb --traces t --list " + std::string(list)), CLI::ValidationError);
  }
  CHECK(FindPodList("t", "mine")->path == "t/openb_pod_list_mine.csv");
  CHECK(FindPodList("t", "/data/mine.csv")->path == "/data/mine.csv");
  CHECK(FindPodList("t", "/data/mine.csv")->name == "mine");
  CHECK_FALSE(FindPodList("t", "a/b"));
}

}  // namespace
}  // namespace berth::sim
