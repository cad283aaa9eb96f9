#include "engine/active_queue.h"

#include <catch2/catch.hpp>
#include <deque>
#include <string>
#include <vector>

namespace berth::engine {
namespace {

class ActiveQueueTest {
 public:
  const cluster::Workload& Make(const std::string& key) {
    cluster::Workload& workload = workloads_.emplace_back();
    workload.key = key;
    return workload;
  }
  const cluster::Workload& Put(const std::string& key, const Turn& turn) {
    const cluster::Workload& workload = Make(key);
    queue.Put(workload, turn);
    return workload;
  }
  std::vector<std::string> PopAll() {
    std::vector<std::string> keys;
    while (const cluster::Workload* workload = queue.Pop()) keys.push_back(workload->key);
    return keys;
  }
  std::vector<std::string> Awake(const std::string& after = "", std::size_t most = 10) {
    std::vector<std::string> keys;
    for (const auto* workload : queue.Awake(after, most)) keys.push_back(workload->key);
    return keys;
  }

  ActiveQueue queue;

 private:
  std::deque<cluster::Workload> workloads_;  // addresses stay
};

using Keys = std::vector<std::string>;

TEST_CASE("priority, age and key decide inside a queue", "[unit][engine]") {
  ActiveQueueTest t;
  t.Put("d", {.queue = 1, .priority = 5, .since = 30});
  t.Put("c", {.queue = 1, .priority = 9, .since = 40});
  t.Put("b", {.queue = 1, .priority = 5, .since = 20});
  t.Put("a", {.queue = 1, .priority = 5, .since = 30});
  CHECK(t.PopAll() == Keys{"c", "b", "a", "d"});
}

TEST_CASE("among queues the one whose first workload is oldest comes next", "[unit][engine]") {
  ActiveQueueTest t;
  t.Put("young", {.queue = 1, .priority = 100, .since = 50});  // first in its queue
  t.Put("old", {.queue = 1, .priority = 0, .since = 10});
  t.Put("other", {.queue = 2, .priority = 0, .since = 40});
  CHECK(t.PopAll() == Keys{"other", "young", "old"});
}

TEST_CASE("a gang that runs below its minimum comes before all queues", "[unit][engine]") {
  ActiveQueueTest t;
  t.Put("old", {.queue = 1, .priority = 100, .since = 1});
  t.Put("broken", {.broken = true, .queue = 2, .priority = 0, .since = 99});
  t.Put("broken too", {.broken = true, .queue = 1, .priority = 1, .since = 99});
  CHECK(t.PopAll() == Keys{"broken too", "broken", "old"});
}

TEST_CASE("who is put in line again stands where its turn is now", "[unit][engine]") {
  ActiveQueueTest t;
  const auto& moved = t.Put("moved", {.queue = 1, .since = 10});
  t.Put("other", {.queue = 2, .since = 20});
  t.queue.Put(moved, {.queue = 2, .since = 30});
  CHECK(t.PopAll() == Keys{"other", "moved"});
}

TEST_CASE("who was judged is awake until it rests", "[unit][engine]") {
  ActiveQueueTest t;
  const auto& a = t.Put("a", {.since = 1});
  CHECK(t.queue.InLine(a));
  CHECK_FALSE(t.queue.Rests(a));
  REQUIRE(t.PopAll() == Keys{"a"});
  CHECK_FALSE(t.queue.InLine(a));
  CHECK_FALSE(t.queue.Rests(a));
  t.queue.Rest(a);
  CHECK(t.queue.Rests(a));
  CHECK(t.queue.empty());
}

TEST_CASE("who rests is in line no more", "[unit][engine]") {
  ActiveQueueTest t;
  const auto& a = t.Put("a", {.queue = 1, .since = 1});
  t.Put("b", {.queue = 1, .since = 2});
  t.queue.Rest(a);
  CHECK(t.PopAll() == Keys{"b"});
}

TEST_CASE("those who are awake are told in parts", "[unit][engine]") {
  ActiveQueueTest t;
  cluster::PodInfo waits;
  for (const char* key : {"b", "a", "c"}) {
    const cluster::Workload& workload = t.Make(key);
    const_cast<cluster::Workload&>(workload).members = {&waits};
    t.queue.KeepAwake(workload);
  }
  CHECK(t.Awake("", 2) == Keys{"a", "b"});
  CHECK(t.Awake("b", 2) == Keys{"c"});

  waits.object.node_name.assign(1, 'n');  // then nobody has anything left to be placed
  CHECK(t.Awake() == Keys{});
}

}  // namespace
}  // namespace berth::engine
