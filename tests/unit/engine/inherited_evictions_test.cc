// Room for which pods were evicted goes to other work, or to nobody.
#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/engine/evictions_world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

/// Two more pods of 8 GPUs, t0 and t1, that belong together.
void GatherTop(EvictionsWorld& w, int priority) {
  for (int i = 0; i < 2; ++i) {
    const std::string name = "t" + std::to_string(i);
    w.Add(MakePod(name).Gpu(8).Gang("top", 2).Priority(priority).Created(20).Gated());
  }
  w.Tick();
}

TEST_CASE("work of higher priority inherits the room that others were evicted for",
          "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  REQUIRE(w.Orders() == kBoth);
  SECTION("while they end") {}
  SECTION("when some have ended") {
    w.Delete("l0");
    w.Tick();
  }
  SECTION("when all have ended, and nobody is bound yet") {
    for (const char* pod : {"l0", "l1"}) w.Delete(pod);
    w.Tick();
    REQUIRE(w.Why("m0") == "Starting");
  }
  GatherTop(w, 20);
  CHECK(w.Planned("t0") == "n0");
  CHECK(w.Planned("t1") == "n1");
  CHECK(w.Planned("m0").empty());
  CHECK(w.Why("m0") == "InsufficientDevices");
  for (const char* pod : {"l0", "l1"}) {
    if (w.Exists(pod)) w.Delete(pod);
  }
  w.Tick();
  w.Schedule();
  CHECK(w.BoundPods() == 2);
  CHECK(w.NodeOf("t0") == "n0");
  CHECK(w.Orders() == kBoth);  // nobody else is evicted for it
  CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  for (const char* pod : {"t0", "t1"}) w.Delete(pod);
  w.Tick();
  w.Schedule();
  CHECK((w.Bound(0) && w.Bound(1)));
  CHECK(w.Orders() == kBoth);
}

TEST_CASE("the room that others are evicted for is not inherited", "[unit][engine]") {
  EvictionsWorld w;
  SECTION("by work of equal priority") {
    w.GatherHigh();
    GatherTop(w, 10);
  }
  SECTION("by another queue") {
    EvictionsWorld other(2, MakePolicy({MakeQueue("default", {"*"}), MakeQueue("else", {"else"})}));
    other.GatherHigh();
    for (int i = 0; i < 2; ++i) {
      other.Add(MakePod("t" + std::to_string(i)).Gpu(8).Gang("top", 2).Queue("else").Priority(20));
    }
    other.Tick();
    CHECK(other.Why("m0") == "WaitingForVictims");
    return;
  }
  SECTION("before each eviction is answered") {
    w.HoldEvictions();
    w.GatherHigh();
    w.CarryOutEvictions();  // the dry runs
    w.Tick();
    REQUIRE(w.Orders() == kBoth);
    GatherTop(w, 20);
    CHECK(w.Planned("m0") == "n0");
    CHECK(w.Planned("t0").empty());
    w.CarryOutEvictions();
    w.Tick();
    CHECK(w.Planned("m0").empty());
    CHECK(w.Planned("t0") == "n0");
    CHECK(w.Orders() == kBoth);
    return;
  }
  CHECK(w.Planned("m0") == "n0");
  CHECK(w.Why("m0") == "WaitingForVictims");
  CHECK(w.Planned("t0").empty());
}

TEST_CASE("an heir evicts no other pod", "[unit][engine][bug]") {
  // `low` is evicted for g; x, of a priority between those of g and of `top`, stays.
  EvictionsWorld w(3);
  w.Add(MakePod("x").Gpu(8).Priority(15).On("n2"));
  w.GatherHigh();
  REQUIRE(w.Orders() == kBoth);
  for (int i = 0; i < 3; ++i) {
    w.Add(MakePod("t" + std::to_string(i)).Gpu(8).Gang("top", 3).Priority(20).Gated());
  }
  w.Tick();
  CHECK(w.Planned("m0") == "n0");  // x would have to go, too: g goes on
  CHECK(w.Planned("t0").empty());
  CHECK(w.Orders() == kBoth);
}

TEST_CASE("what was evicted is told and counted before its room is inherited",
          "[unit][engine][bug]") {
  EvictionsWorld w;
  w.HoldEvictions();
  w.GatherHigh();
  w.CarryOutEvictions();  // the dry runs
  w.Tick();
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);  // no answer has come
  w.Tick();
  GatherTop(w, 20);
  CHECK(w.Planned("t0").empty());
  w.CarryOutEvictions();
  w.Tick();
  CHECK(w.LogOf("event l0 Preempted").size() == 1);
  CHECK(w.LogOf("event l1 Preempted").size() == 1);
  CHECK(w.engine().TakeCounters().evictions == Counts{{"preemption", 2}});
  CHECK(w.Planned("t0") == "n0");
}

TEST_CASE("an heir keeps its room over an edit of the policy, also once all victims have ended",
          "[unit][engine][bug]") {
  EvictionsWorld w;
  w.GatherHigh();
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Tick();
  GatherTop(w, 20);
  REQUIRE(w.Planned("t0") == "n0");
  w.Reload({});
  CHECK(w.Planned("t0") == "n0");
  CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
}

TEST_CASE("a launcher that runs ahead goes on when the room of its gang is inherited",
          "[unit][engine][bug]") {
  EvictionsWorld w;
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 3).Priority(10).On("n0"));
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 3, 3).Gated().Priority(10));
  w.Tick();
  REQUIRE(w.LogOf("evict l").size() == 2);
  GatherTop(w, 20);
  CHECK(w.LogOf("evict launcher").empty());
  CHECK(w.Planned("m0").empty());
  CHECK(w.Planned("t0") == "n0");
  CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
}

TEST_CASE("evictions whose room was inherited are in vain if the heir does not start",
          "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  GatherTop(w, 20);
  REQUIRE(w.Planned("t0") == "n0");
  CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  SECTION("it is deleted") {
    for (const char* pod : {"t0", "t1"}) w.Delete(pod);
    CHECK(w.engine().TakeCounters().evictions_in_vain == Counts{{"gone", 2}});
    for (const char* pod : {"l0", "l1"}) w.Delete(pod);
    w.Tick();
    w.Schedule();
    CHECK((w.Bound(0) && w.Bound(1)));  // who they were evicted for gets the room after all
    CHECK(w.Orders() == kBoth);
  }
  SECTION("neither an edit of the policy nor time takes the room from it") {
    w.Reload({});
    w.Tick();
    CHECK(w.Planned("t0") == "n0");
    w.Advance(400'000);
    CHECK(w.Planned("t0") == "n0");
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  }
  SECTION("it gives the room to one of higher priority still") {
    for (int i = 0; i < 2; ++i) {
      w.Add(MakePod("u" + std::to_string(i)).Gpu(8).Gang("up", 2).Priority(30).Gated());
    }
    w.Tick();
    CHECK(w.Planned("u0") == "n0");
    CHECK(w.Planned("t0").empty());
    for (const char* pod : {"l0", "l1"}) w.Delete(pod);
    w.Tick();
    w.Schedule();
    CHECK(w.NodeOf("u0") == "n0");
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
    CHECK(w.Orders() == kBoth);
  }
  SECTION("the next process comes to the same") {
    w.Restart();
    w.Tick();
    CHECK(w.Planned("t0") == "n0");
    CHECK(w.Planned("m0").empty());
    CHECK(w.Orders() == kBoth);
  }
}

TEST_CASE("evictions are in vain if the plan ends before a member is bound", "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  REQUIRE(w.Orders() == kBoth);
  CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  SECTION("its work is deleted while victims end") {
    w.Delete("m0");
    w.Delete("m1");
    CHECK(w.engine().TakeCounters().evictions_in_vain == Counts{{"gone", 2}});
  }
  SECTION("a planned node goes") {
    w.Add(MakeNode("n0").Gpu(8).Cordoned());
    CHECK(w.engine().TakeCounters().evictions_in_vain == Counts{{"node", 2}});
  }
  SECTION("its work starts, whatever happens to it then") {
    for (const char* pod : {"l0", "l1"}) w.Delete(pod);
    w.Tick();
    w.Schedule();
    REQUIRE(w.Bound(0));
    w.Delete("m0");
    w.Delete("m1");
    w.Tick();
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  }
  w.Tick();
}

TEST_CASE("what was only tried dry is not evicted in vain", "[unit][engine]") {
  EvictionsWorld w;
  w.HoldEvictions();
  w.GatherHigh();
  w.CarryOutEvictions();  // the dry runs
  w.Delete("m0");
  w.Delete("m1");
  CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
}

}  // namespace
}  // namespace berth::engine
