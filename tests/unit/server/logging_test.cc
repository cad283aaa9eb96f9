#include "server/logging.h"

#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using nlohmann::json;

/// What a logger writes while `use` runs.
template <typename Use>
std::vector<std::string> Lines(LogFormat format, int verbosity, Use use) {
  std::vector<std::string> lines;
  {
    Logger logger(format, verbosity, [&](std::string_view line) { lines.emplace_back(line); });
    use(logger);
  }
  return lines;
}

TEST_CASE("a flush returns once all entries so far are written", "[logging][bug]") {
  std::vector<std::string> lines;
  Logger logger(LogFormat::kText, 0, [&](std::string_view line) { lines.emplace_back(line); });
  for (std::size_t entries = 1; entries <= 1'000; ++entries) {
    logger.Log(Severity::kInfo, "entry");
    logger.Flush();
    REQUIRE(lines.size() == entries);
  }
}

TEST_CASE("JSON lines parse, whatever is in them", "[logging]") {
  const std::string nasty = "a\"b\nc\\ %s {} \xFF";
  const auto lines = Lines(LogFormat::kJson, 0, [&](Logger& logger) {
    logger.Log(Severity::kWarning, nasty,
               {{"pod", "ns/p"},
                {"n", 7},
                {"ok", true},
                {"dur_ms", 1.5},
                {nasty, nasty},
                {"inf", std::numeric_limits<double>::infinity()}});
  });
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find('\n') == lines[0].size() - 1);
  const auto entry = json::parse(lines[0]);
  const std::string clean = "a\"b\nc\\ %s {} \xEF\xBF\xBD";
  CHECK(entry["level"] == "warning");
  CHECK(entry["msg"] == clean);
  CHECK(entry["pod"] == "ns/p");
  CHECK(entry["n"] == 7);
  CHECK(entry["ok"] == true);
  CHECK(entry["dur_ms"] == 1.5);
  CHECK(entry["inf"] == "inf");
  CHECK(entry[clean] == clean);
  const auto ts = entry["ts"].get<std::string>();
  CHECK(ts.size() == 27);
  CHECK(ts.back() == 'Z');
}

TEST_CASE("a value has a bound, and no character is cut in two", "[logging]") {
  const std::string fits(4096, 'x');
  const std::string umlauts = "x" + [] {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "\xC3\xA4";
    return text;
  }();
  for (const auto format : {LogFormat::kText, LogFormat::kJson}) {
    const auto lines = Lines(format, 0, [&](Logger& logger) {
      logger.Log(Severity::kInfo, "m", {{"a", fits}, {"b", fits + "y"}, {"c", umlauts}});
    });
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].size() < 3 * 4096 + 200);
    CHECK_THAT(lines[0], Catch::Contains("x... (4097 bytes)") && !Catch::Contains("xy") &&
                             Catch::Contains("\xC3\xA4... (6001 bytes)"));
  }
}

TEST_CASE("text lines stay on one line, with quotes where they are needed", "[logging]") {
  const auto lines = Lines(LogFormat::kText, 0, [](Logger& logger) {
    logger.Log(Severity::kError, "bind failed",
               {{"pod", "ns/p"}, {"error", "no\nway"}, {"code", 409}, {"empty", ""}});
  });
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::EndsWith("Z error \"bind failed\" pod=ns/p error=\"no\\nway\" "
                                       "code=409 empty=\"\"\n"));
}

TEST_CASE("verbosity", "[logging]") {
  const auto lines = Lines(LogFormat::kText, 2, [](Logger& logger) {
    logger.V(2, "shown");
    logger.V(3, "hidden");
    CHECK(logger.Enabled(2));
    CHECK_FALSE(logger.Enabled(3));
  });
  CHECK(lines.size() == 1);
}

}  // namespace
}  // namespace berth::server
