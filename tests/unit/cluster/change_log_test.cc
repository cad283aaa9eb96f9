#include "cluster/change_log.h"

#include <vector>

#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using List = std::vector<std::int32_t>;

List Since(const ChangeLog& log, ChangeLog::Position position) {
  const auto nodes = log.Since(position);
  REQUIRE(nodes);
  return {nodes->begin(), nodes->end()};
}

TEST_CASE("a reader sees what came since it was there", "[unit][cluster]") {
  ChangeLog log;
  CHECK(log.end() == 0);
  CHECK(Since(log, 0).empty());
  log.Add(3);
  log.Add(1);
  const auto middle = log.end();
  log.Add(3);
  CHECK(Since(log, 0) == List{3, 1, 3});
  CHECK(Since(log, middle) == List{3});
  CHECK(Since(log, log.end()).empty());
}

TEST_CASE("a reader that stayed away too long is told so", "[unit][cluster]") {
  ChangeLog log;
  for (std::size_t i = 0; i < ChangeLog::kMost; ++i) log.Add(7);
  CHECK(Since(log, 0).size() == ChangeLog::kMost);
  const auto late = log.end() - 2;
  log.Add(9);
  CHECK_FALSE(log.Since(0));
  CHECK(Since(log, late) == List{7, 7, 9});
  CHECK(log.end() == ChangeLog::kMost + 1);
}

}  // namespace
}  // namespace berth::cluster
