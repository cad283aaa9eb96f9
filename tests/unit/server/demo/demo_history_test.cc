#include "server/demo/demo_history.h"

#include <sstream>

#include "server/cli/table.h"
#include "tests/support/catch.h"

namespace berth::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr PictureStyle kAscii{.colour = false, .unicode = false, .width = 80};

/// The page of two queues of 8 GPUs: one with a limit above its quota, and with that fair share.
Json PageOf(int team, int other, int share = 0) {
  const auto item = [&](const char* name, int used, int quota, int limit) {
    const auto amount = [](int gpus) { return Json{{kGpu, std::to_string(gpus)}}; };
    return Json{{"name", name},
                {"quota", amount(quota)},
                {"limit", amount(limit)},
                {"used", amount(used)},
                {"fairShare", amount(quota == 2 ? share : 0)}};
  };
  Json none{{"name", "-"}, {"quota", Json::object()}, {"used", Json::object()}};
  return {{"items", {item("team", team, 2, 3), item("other", other, 1, 1), std::move(none)}}};
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("a history has one sample in each column, and repeats what it missed", "[demo]") {
  QueueHistory history(600);  // 10 ms each
  CHECK(history.Due(0));
  history.Add(0, PageOf(1, 0));
  CHECK_FALSE(history.Due(9));
  CHECK(history.Due(10));
  history.Add(35, PageOf(3, 1));
  CHECK_FALSE(history.Due(29));
  CHECK_FALSE(history.Due(600));
  REQUIRE(history.queues().size() == 2);  // not those of no queue
  CHECK(history.queues()[0].used == std::vector<int>{1, 1, 1, 3});
  CHECK(history.queues()[1].used == std::vector<int>{0, 0, 0, 1});
  CHECK(history.queues()[0].limit == 3);
  CHECK(history.queues()[0].quota == 2);
}

TEST_CASE("the chart has the quota as a line, and marks evictions", "[demo]") {
  QueueHistory history(600);
  for (int column = 0; column < 60; ++column) {
    history.Add(column * 10, column < 30 ? PageOf(4, 0) : PageOf(1, 1));  // 4: above its limit
  }
  JobEviction back{.at_ms = 300, .victim = {}, .beneficiary = {}};
  back.to_victim.reason = "Reclaimed";
  JobEviction inside{.at_ms = 595, .victim = {}, .beneficiary = {}};
  inside.to_victim.reason = "Preempted";
  const std::string half(30, '#');
  const std::string none(30, ' ');
  const std::string dots(30, '.');
  const auto lines = Lines(DrawHistory(history, {back, inside}, 8, kAscii));
  CHECK(lines == std::vector<std::string>{
                     "team         3 |" + half + none, "  quota      2 +" + std::string(60, '-'),
                     "               |" + half + dots, "               |" + half + half,
                     "other        1 |" + dots + half,
                     "               ++---------+---------+---------+---------+---------+---------",
                     "                0 s       0.1 s     0.2 s     0.3 s     0.4 s     0.5 s",
                     "taken back      " + none + "^",
                     "preempted       " + none + std::string(29, ' ') + "^"});
}

TEST_CASE("the chart marks fair shares, over what is used and above it", "[demo]") {
  QueueHistory history(600);
  for (int column = 0; column < 60; ++column) {
    history.Add(column * 10, column < 30 ? PageOf(3, 0, 1) : PageOf(1, 0, column < 45 ? 3 : 1));
  }
  const std::string half(30, '#');
  const auto lines = Lines(DrawHistory(history, {}, 8, kAscii));
  CHECK(lines[0] == "team         3 |" + half + std::string(15, 'o') + std::string(15, ' '));
  CHECK(lines[2] == "               |" + half + std::string(30, '.'));
  // At last it has what it is entitled to.
  CHECK(lines[3] == "               |" + std::string(30, 'o') + half);
}

TEST_CASE("the chart shows parts of a row, and stays inside 80 columns", "[demo]") {
  QueueHistory history(600);
  history.Add(590, PageOf(1, 0));
  // A row has 4 GPUs, so that one GPU is a quarter of it.
  const std::string drawn = DrawHistory(history, {}, 32, {.colour = false, .unicode = true});
  CHECK(drawn.find("▂") != std::string::npos);
  CHECK(drawn.find("taken back") == std::string::npos);
  for (const std::string& line : Lines(drawn)) CHECK(DisplayWidth(line) <= 80);
}

}  // namespace
}  // namespace berth::server
