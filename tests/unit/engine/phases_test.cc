#include "engine/phases.h"

#include <fmt/format.h>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;

std::string Row(const PhaseRow& row) {
  return fmt::format("| {} | {} | {} | {} |", row.name, row.means, row.leaves_to, row.rebuilt_from);
}

TEST_CASE("docs/architecture.md shows the phases as the engine has them", "[unit][engine]") {
  const std::string docs = testing::ReadSource("docs/architecture.md");
  for (const auto table : {PhaseTable(), MemberPhaseTable()}) {
    std::string rows;
    for (const PhaseRow& row : table) rows += Row(row) + "\n";
    INFO(rows);
    CHECK(docs.find(rows) != std::string::npos);
  }
}

class Watched : public GangWorld {
 public:
  using GangWorld::GangWorld;
  Phase phase() {
    const cluster::Workload& gang = *store().FindWorkload("default/gang/g");
    return PhaseOf(gang, engine().StateOf(gang));
  }
  MemberPhase member(int i) {
    return engine().PhaseOfMember(*store().FindPod("default", "m" + std::to_string(i)));
  }
};

TEST_CASE("a gang goes through its phases", "[unit][engine]") {
  Watched w(3);
  w.Gather(1, 2);
  CHECK(w.phase() == Phase::kGathering);
  CHECK(w.member(0) == MemberPhase::kWaiting);
  w.Delete("m0");

  w.SetPosting(testing::Posting::kHangs);
  w.Gather(3, 2);
  CHECK(w.phase() == Phase::kReserved);
  CHECK(w.member(0) == MemberPhase::kReleased);
  REQUIRE(w.Arrive(0).parked);
  CHECK(w.phase() == Phase::kReserved);
  CHECK(w.member(0) == MemberPhase::kArrived);
  w.Arrive(1);
  CHECK(w.phase() == Phase::kStarting);
  CHECK(w.member(1) == MemberPhase::kBinding);
  CHECK(w.member(2) == MemberPhase::kReleased);
}

TEST_CASE("a gang without room is pending, and below its minimum it is starting again",
          "[unit][engine]") {
  Watched w(1);
  w.Gather(2, 2);
  CHECK(w.phase() == Phase::kPending);
  w.Add(testing::MakeNode("n1").Gpu(8));
  w.Tick();
  w.Schedule();
  REQUIRE(w.phase() == Phase::kRunning);
  CHECK(w.member(0) == MemberPhase::kBound);
  w.Delete("m0");
  CHECK(w.phase() == Phase::kStarting);
  w.Delete("m1");
  CHECK(w.store().FindWorkload("default/gang/g") == nullptr);
}

TEST_CASE("members that come in turns are reserved until theirs", "[unit][engine]") {
  Watched w(2);
  w.Add(w.Member(0, 2, 2).Gated().Label("app", "g").Spread("app", "g", "kubernetes.io/hostname"));
  w.Add(w.Member(1, 2, 2).Gated().Label("app", "g").Spread("app", "g", "kubernetes.io/hostname"));
  w.Tick();
  REQUIRE(w.phase() == Phase::kReserved);
  const bool first = w.member(0) == MemberPhase::kReleased;
  CHECK(w.member(first ? 1 : 0) == MemberPhase::kReserved);
  CHECK(w.member(first ? 0 : 1) == MemberPhase::kReleased);
}

TEST_CASE("a member is reserved while its node is not to be tried", "[unit][engine]") {
  Watched w(2);
  w.Gather(2, 2);
  w.Schedule();
  w.Delete("m1");
  w.Add(w.Member(1, 2, 2).Gated());
  w.Tick();
  REQUIRE(w.member(1) == MemberPhase::kReleased);
  w.Refuse("m1");  // there is no other node
  w.Tick();
  CHECK(w.member(1) == MemberPhase::kReserved);
  w.Advance(11'000);
  CHECK(w.member(1) == MemberPhase::kReleased);
}

// It had come to bind before its gang started; what it did for the first node does not count for
// the second, where kube-scheduler may refuse it as well.
TEST_CASE("a member that came to bind and is refused there begins again on the next node",
          "[unit][engine][bug]") {
  Watched w(2);
  w.Gather(2, 2);
  const std::string first = w.Planned("m0");
  const auto bind = w.Arrive(0);
  REQUIRE(bind.parked);
  w.engine().BindAbandoned(bind.ticket);
  w.Arrive(1);  // the minimum has come
  REQUIRE(w.member(0) == MemberPhase::kArrived);
  CHECK(w.Filter("m0", {w.Planned("m1")}).kept.empty());
  REQUIRE(w.member(0) == MemberPhase::kReserved);
  w.Add(testing::MakeNode("n2").Gpu(8));
  w.Tick();
  CHECK(w.member(0) == MemberPhase::kReleased);
  REQUIRE(w.Planned("m0") == "n2");
  w.Refuse("m0");
  w.Tick();
  const bool noticed = w.Planned("m0") == first || w.member(0) == MemberPhase::kReserved;
  CHECK(noticed);
}

TEST_CASE("a plan that is dropped leaves the room of a Binding under way", "[unit][engine]") {
  testing::World w;
  w.Add(testing::MakeNode("n").Gpu(8));
  w.Start();
  w.Add(testing::MakePod("p").Gpu(8).Gated());
  w.Tick();
  w.SetPosting(testing::Posting::kHangs);
  w.Bind("p", "n");
  REQUIRE(w.engine().PhaseOfMember(*w.store().FindPod("default", "p")) == MemberPhase::kBinding);
  w.Reload({});  // plans that bound nobody yet are made again
  CHECK(w.store().FindPod("default", "p")->workload->plan.empty());
  CHECK(w.UsedGpus() == 8);
}

}  // namespace
}  // namespace berth::engine
