#include "sim/options.h"

#include "sim/experiments/parallel.h"
#include "sim/experiments/svg_plot.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using Seeds = std::vector<std::uint64_t>;

TEST_CASE("seeds are ranges and lists", "[options]") {
  CHECK(ParseSeeds("42-44") == Seeds{42, 43, 44});
  CHECK(ParseSeeds("7") == Seeds{7});
  CHECK(ParseSeeds("5,1-2,5") == Seeds{5, 1, 2});
  for (const char* bad : {"", "-", "1-", "-1", "3-1", "1-2-3", "a", "1,,2", "1 2", "0-10000",
                          "0-18446744073709551615", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseSeeds(bad));
  }
}

TEST_CASE("names must be known", "[options]") {
  const std::vector<std::string_view> allowed{"a", "b", "c"};
  CHECK(ParseNames("all", allowed) == std::vector<std::string>{"a", "b", "c"});
  CHECK(ParseNames("c,a,c", allowed) == std::vector<std::string>{"c", "a"});
  const auto bad = ParseNames("a,x", allowed);
  REQUIRE_FALSE(bad);
  CHECK(bad.error() == "x");
}

TEST_CASE("rows as JSON and CSV", "[options]") {
  const std::vector<nlohmann::ordered_json> rows{{{"list", "default"}, {"x", 4.5}, {"n", nullptr}},
                                                 {{"list", "cpu050"}, {"x", 5}, {"n", 1}}};
  CHECK(RenderJson(rows) ==
        "[\n  {\"list\":\"default\",\"x\":4.5,\"n\":null},\n"
        "  {\"list\":\"cpu050\",\"x\":5,\"n\":1}\n]\n");
  CHECK(RenderCsv(rows) == "list,x,n\ndefault,4.5,\ncpu050,5,1\n");
  CHECK(RenderJson({}) == "[\n]\n");
  CHECK(RenderCsv({}).empty());
}

TEST_CASE("every run happens once, on any number of threads", "[options]") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    std::vector<int> ran(100, 0);
    ParallelFor(ran.size(), threads, [&ran](std::size_t i) { ++ran[i]; });
    CHECK(ran == std::vector<int>(100, 1));
  }
  ParallelFor(0, 4, [](std::size_t) { FAIL("nothing to run"); });
}

TEST_CASE("a plot places its points on round axes", "[options]") {
  const std::string svg = RenderSvg({.title = "a < b",
                                     .x_label = "x",
                                     .y_label = "y",
                                     .series = {{.name = "one", .points = {{0, 0}, {10, 5}}}}});
  CHECK(svg.find("a &lt; b") != std::string::npos);
  CHECK(svg.find("points=\"70.0,420.0 640.0,50.0 \"") != std::string::npos);  // corner to corner
  CHECK(RenderSvg({}).ends_with("</svg>\n"));
}

}  // namespace
}  // namespace berth::sim
