#include "server/ops/expiring_cache.h"

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using std::chrono::milliseconds;
using Cache = ExpiringCache<int>;

const Cache::TimePoint kStart{std::chrono::hours(1)};
Cache::TimePoint At(int ms) { return kStart + milliseconds(ms); }

TEST_CASE("a value is there for its life, and not a moment longer", "[cache]") {
  Cache cache(10, milliseconds(100));
  cache.Put("a", 1, At(0));
  REQUIRE(cache.Find("a", At(99)) != nullptr);
  CHECK(*cache.Find("a", At(99)) == 1);
  CHECK(cache.Find("b", At(99)) == nullptr);
  CHECK(cache.Find("a", At(100)) == nullptr);
  CHECK(cache.size() == 0);
}

TEST_CASE("where there is no room the oldest goes", "[cache]") {
  Cache cache(2, milliseconds(100));
  cache.Put("a", 1, At(0));
  cache.Put("b", 2, At(1));
  CHECK(cache.Find("a", At(2)) != nullptr);  // Being asked for makes nothing younger.
  cache.Put("c", 3, At(2));
  CHECK(cache.size() == 2);
  CHECK(cache.Find("a", At(3)) == nullptr);
  CHECK(*cache.Find("b", At(3)) == 2);
  CHECK(*cache.Find("c", At(3)) == 3);
}

TEST_CASE("a second answer to the same question does not prolong the first", "[cache]") {
  Cache cache(2, milliseconds(100));
  cache.Put("a", 1, At(0));
  cache.Put("a", 2, At(50));
  CHECK(*cache.Find("a", At(60)) == 1);
  CHECK(cache.Find("a", At(100)) == nullptr);
  cache.Put("a", 3, At(100));
  CHECK(*cache.Find("a", At(199)) == 3);
  CHECK(cache.size() == 1);
}

}  // namespace
}  // namespace berth::server
