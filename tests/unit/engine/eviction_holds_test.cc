// When nobody is evicted for work although that would help it: a claim that its pods name does not
// exist, or pods have just ended.
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/engine/evictions_world.h"

namespace berth::engine {
namespace {

using testing::MakePod;

const std::string kData = "persistentvolumeclaims/data";

/// The members of g (m0, m1) have a volume of the claim `data`.
void GatherWithVolumes(EvictionsWorld& w) {
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 2, 2).Gated().Priority(10).Volume("data"));
  w.Tick();
}

TEST_CASE("no pod is evicted for pods whose volume claim does not exist", "[unit][engine]") {
  EvictionsWorld w;
  w.SetMissing(kData, true);
  GatherWithVolumes(w);
  CHECK(w.LogOf("find ") == Lines{"find " + kData + " for default/gang/g"});  // once for both
  CHECK(w.LogOf("evict ").empty());
  CHECK(w.Planned("m0").empty());
  CHECK(w.Why("m0") == "InsufficientDevices");
  SECTION("it is looked for once a minute") {
    w.Advance(59'000);
    CHECK(w.LogOf("find ").size() == 1);
    w.Advance(1'000);
    CHECK(w.LogOf("find ").size() == 2);
    w.Advance(60'000);
    CHECK(w.LogOf("find ").size() == 3);
    CHECK(w.LogOf("evict ").empty());
  }
  SECTION("once it exists, others are evicted") {
    w.SetMissing(kData, false);
    w.Advance(60'000);
    CHECK(w.LogOf("evict ").size() == 2);
    CHECK(w.Why("m0") == "WaitingForVictims");
  }
  SECTION("it starts where there is room") {
    for (const char* pod : {"l0", "l1"}) w.Delete(pod);
    w.Tick();
    CHECK(w.Why("m0") == "Starting");
  }
}

TEST_CASE("others are evicted for pods whose claims exist", "[unit][engine]") {
  EvictionsWorld w;
  w.HoldEvictions();
  GatherWithVolumes(w);
  CHECK(w.LogOf("evict ").empty());
  w.CarryOutEvictions();  // and it is answered that the claim exists
  CHECK(w.Orders() == kBoth);
  CHECK(w.Why("m0") == "WaitingForVictims");
}

TEST_CASE("what pods need is not looked for where no pod is evicted", "[unit][engine]") {
  EvictionsWorld w(4);
  w.SetMissing(kData, true);
  GatherWithVolumes(w);
  CHECK(w.LogOf("find ").empty());
  CHECK(w.Why("m0") == "Starting");
}

TEST_CASE("victims that end by themselves end the question, too", "[unit][engine]") {
  EvictionsWorld w;
  w.HoldEvictions();
  w.SetMissing(kData, true);
  GatherWithVolumes(w);
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Tick();
  CHECK(w.Why("m0") == "Starting");
  w.CarryOutEvictions();
  CHECK(w.Why("m0") == "Starting");
}

const Lines kTried{"try l0 for default/gang/g", "try l1 for default/gang/g"};

/// n2 and n3 are full of x and y, which are of higher priority than all others. x ends, and the
/// gang g, which needs two nodes, comes at the same time.
struct OneEnds : EvictionsWorld {
  OneEnds() : EvictionsWorld(4) {
    Add(MakePod("x").Gpu(8).Priority(20).On("n2"));
    Add(MakePod("y").Gpu(8).Priority(20).On("n3"));
    Tick();
    Delete("x");
    GatherHigh();
  }
};

TEST_CASE("no pod is evicted while pods end by themselves", "[unit][engine][bug]") {
  OneEnds w;
  CHECK(w.Orders() == kTried);
  CHECK(w.Planned("m0") == "n2");  // its room is held meanwhile
  CHECK(w.Why("m0") == "WaitingForVictims");
  SECTION("they leave enough room") {
    w.Advance(900);
    w.Delete("y");
    w.Tick();
    CHECK(w.Why("m0") == "Starting");
    w.Advance(10'000);
    CHECK(w.LogOf("evict ").empty());
  }
  SECTION("a second after the last one others are evicted") {
    w.Advance(999);
    CHECK(w.LogOf("evict ").empty());
    w.Advance(1);
    CHECK(w.LogOf("evict ").size() == 2);
  }
  SECTION("they go on ending: others are evicted after three seconds") {
    const auto end_one = [&] {
      w.Add(MakePod("late").Gpu(1).Priority(20).On("n2"));
      w.Delete("late");
      w.Tick();
    };
    for (int i = 0; i < 5; ++i) {
      w.Advance(500);
      end_one();
    }
    w.Advance(499);
    CHECK(w.LogOf("evict ").empty());
    w.Advance(1);
    CHECK(w.LogOf("evict ").size() == 2);
  }
}

TEST_CASE("pods whose end is known, or that ask for no devices, put no eviction off",
          "[unit][engine]") {
  EvictionsWorld w(4);
  w.Add(MakePod("x").Gpu(8).Priority(20).On("n2"));
  w.Add(MakePod("y").Gpu(8).Priority(20).On("n3"));
  SECTION("it was deleted before") {
    w.Terminate("x");
    w.Advance(1'000);
    w.Delete("x");
  }
  SECTION("it has no devices") {
    w.Add(MakePod("web").On("n2"));
    w.Delete("web");
  }
  w.GatherHigh();
  CHECK(w.Orders() == kBoth);
}

TEST_CASE("evictions that are not sent yet are put off, too", "[unit][engine][bug]") {
  EvictionsWorld w(4);
  w.Add(MakePod("x").Gpu(8).Priority(20).On("n2"));
  w.Add(MakePod("y").Gpu(8).Priority(20).On("n3"));
  w.Tick();
  w.HoldEvictions();
  w.GatherHigh();
  REQUIRE(w.LogOf("try ").size() == 2);
  w.Delete("x");
  w.CarryOutEvictions();  // the dry runs
  CHECK(w.LogOf("evict ").empty());
  w.Delete("y");
  w.Tick();
  CHECK(w.Why("m0") == "Starting");
  w.Advance(10'000);
  CHECK(w.LogOf("evict ").empty());
}

}  // namespace
}  // namespace berth::engine
