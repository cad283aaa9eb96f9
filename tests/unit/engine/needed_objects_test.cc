// Before others are evicted for work, the volume and resource claims that its pods name are looked
// for: kube-scheduler places no pod whose claim does not exist.
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

TEST_CASE("nobody is evicted for pods whose volume claim does not exist", "[unit][engine]") {
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

TEST_CASE("what pods need is not looked for where nobody is evicted", "[unit][engine]") {
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

}  // namespace
}  // namespace berth::engine
