// However many ask, a page is made once in its life.
#include "server/ops/page_cache.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace berth::server {
namespace {

using std::chrono::milliseconds;

struct Fixture {
  explicit Fixture(milliseconds life = milliseconds(1000)) : cache(life, [this] { return now; }) {}
  std::string Get(const std::string& key) {
    return *cache.Get(key, [this] { return std::to_string(++made); });
  }
  std::chrono::steady_clock::time_point now{};
  std::atomic<int> made = 0;
  PageCache cache;
};

TEST_CASE("a page is given again until its life is over", "[unit][server]") {
  Fixture f;
  CHECK(f.Get("a") == "1");
  f.now += milliseconds(999);
  CHECK(f.Get("a") == "1");
  CHECK(f.Get("b") == "2");
  f.now += milliseconds(1);
  CHECK(f.Get("a") == "3");
  CHECK(f.Get("b") == "2");
}

TEST_CASE("a life of nothing keeps nothing", "[unit][server]") {
  Fixture f(milliseconds(0));
  CHECK(f.Get("a") == "1");
  CHECK(f.Get("a") == "2");
}

TEST_CASE("who asks while a page is made gets that one", "[unit][server]") {
  Fixture f;
  std::vector<std::jthread> threads;
  std::atomic<int> ones = 0;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] { ones += f.Get("a") == "1" ? 1 : 0; });
  }
  threads.clear();
  CHECK(ones == 16);
  CHECK(f.made == 1);
}

TEST_CASE("a page that cannot be made is tried again", "[unit][server]") {
  Fixture f;
  CHECK_THROWS(f.cache.Get("a", []() -> std::string { throw std::runtime_error("no"); }));
  CHECK(f.Get("a") == "1");
}

TEST_CASE("an empty page is not given again", "[unit][server][bug]") {
  Fixture f;
  CHECK(f.cache.Get("why default/p", [] { return std::string(); })->empty());
  CHECK(f.Get("why default/p") == "1");  // the pod has come meanwhile
  CHECK(f.Get("why default/p") == "1");
}

}  // namespace
}  // namespace berth::server
