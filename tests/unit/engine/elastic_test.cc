// Elastic gangs: more members than the minimum, which come late or find no room.
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeNode;
using testing::MakePod;
using testing::World;
using Resolution = ResolveBind::Resolution;

TEST_CASE("elastic: a member that falls out of the plan is parked no more", "[unit][engine][bug]") {
  GangWorld w(3);
  w.Gather(3, 2);
  const auto bind = w.Arrive(0);
  REQUIRE(bind.parked);
  REQUIRE(w.Filter("m0", {"n9"}).kept.empty());
  REQUIRE(w.Planned("m0").empty());
  w.Tick();
  REQUIRE(w.resolved().contains(bind.ticket));
  CHECK(w.resolved().at(bind.ticket).resolution == Resolution::kError);
}

TEST_CASE("elastic: starts with the minimum, the rest keep their room for a while",
          "[unit][engine]") {
  GangWorld w(4);
  w.Gather(4, 2);
  CHECK(w.UsedGpus() == 32);
  w.Arrive(0);
  CHECK(w.Arrive(1).posted);
  CHECK(w.BoundPods() == 2);
  w.Advance(119'999);  // two planTimeouts, see contained_test.cc
  CHECK(w.UsedGpus() == 32);
  CHECK(w.Arrive(3).posted);
  CHECK(w.Arrive(2).posted);
  CHECK(w.engine().PlanCounts() == std::pair(0, 0));
}

// The first two were planned at once, wherever they fitted best, and the others one by one.
TEST_CASE("elastic: laid out as far as it exists, when no more members come",
          "[unit][engine][bug]") {
  World w;
  for (const char* name : {"a1", "a2", "b1", "b2", "b3", "b4"}) {
    w.Add(MakeNode(name).Gpu(8).Rack(std::string(1, name[0])));
  }
  w.Start();
  const auto member = [](int i) {
    return MakePod("m" + std::to_string(i)).Gpu(8).Gang("g", 5).Min(2).Preferred("rack").Gated();
  };
  for (int i = 0; i < 4; ++i) {
    w.Add(member(i));
    w.Tick();
    w.Advance(500);
  }
  CHECK(w.UsedGpus() == 0);
  CHECK(w.Why("m0") == "WaitingForMembers");
  CHECK(cluster::Sentence(w.VerdictOf("m0")) ==
        "The gang has its minimum of 2; 4 of 5 members exist, and it waits a moment for more.");
  w.Advance(499);
  CHECK(w.UsedGpus() == 0);
  w.Advance(1);
  CHECK(w.UsedGpus() == 32);
  for (int i = 0; i < 4; ++i) CHECK(w.Planned("m" + std::to_string(i)).starts_with('b'));
}

TEST_CASE("elastic: a whole gang does not wait, nor one that grows for ever", "[unit][engine]") {
  GangWorld w(4);
  SECTION("it is as large as it will be") {
    w.Gather(4, 2);
    CHECK(w.UsedGpus() == 32);
  }
  SECTION("it has waited for ten seconds") {
    int i = 0;
    for (; i < 30 && w.UsedGpus() == 0; ++i) {
      w.Add(w.Member(i, 100, 1).Gated());
      w.Tick();
      w.Advance(900);
    }
    CHECK(i == 12);
  }
  SECTION("it only waits for room") {
    w.Add(MakePod("block").Gpu(8).On("n0"));
    for (int n = 1; n < 4; ++n) w.Add(MakeNode("n" + std::to_string(n)).Gpu(8).Cordoned());
    for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 4, 1).Gated());
    w.Advance(60'000);
    w.Delete("block");
    w.Tick();
    CHECK(w.UsedGpus() == 8);
  }
}

TEST_CASE("elastic: members that found no room join later", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(4, 2);
  CHECK(w.UsedGpus() == 16);
  w.Schedule();
  CHECK(w.BoundPods() == 2);
  CHECK(w.Why("m2") == "InsufficientDevices");
  w.Add(MakeNode("n2").Gpu(8));
  w.Tick();
  w.Schedule();
  CHECK(w.BoundPods() == 3);
}

}  // namespace
}  // namespace berth::engine
