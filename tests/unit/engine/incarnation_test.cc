// Incarnations of a gang: when it starts again as a whole, and who still counts for its minimum.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeNode;
using testing::MakePod;
using testing::Posting;
using testing::World;

std::vector<std::string> Running(const World& w) {
  std::vector<std::string> names;
  for (const auto& [name, pod] : w.pods()) {
    if (!pod.node_name.empty()) names.push_back(name);
  }
  return names;
}

void End(World& w, const std::string& pod, kube::PodPhase phase) {
  w.Change(pod, [phase](kube::Pod& object) { object.phase = phase; });
}

void FailAndGo(World& w, const std::string& pod) {
  End(w, pod, kube::PodPhase::kFailed);
  w.Delete(pod);
}

// --- A gang that failed whole

/// Gang of 8, minimum 4, four nodes: four run, four wait; of the nodes three are cordoned then.
class FourOfEight : public GangWorld {
 public:
  FourOfEight() : GangWorld(4) {
    Gather(8, 4);
    Schedule();
    REQUIRE(BoundPods() == 4);
    ran = Running(*this);
    for (const char* name : {"n1", "n2", "n3"}) Add(MakeNode(name).Gpu(8).Cordoned());
    Tick();
  }
  std::vector<std::string> ran;
};

// One of the waiting was bound alone, and the others wherever there was room.
TEST_CASE("a gang of which no member runs any more starts again as a whole",
          "[unit][engine][bug]") {
  FourOfEight w;
  SECTION("all at once") {
    for (const std::string& name : w.ran) FailAndGo(w, name);
  }
  SECTION("one after the other: who was to join waits for the others again") {
    for (const std::string& name : w.ran) {
      FailAndGo(w, name);
      w.Tick();
    }
  }
  SECTION("by deletion, in the order of the API server") {
    for (const std::string& name : w.ran) w.Terminate(name);
    for (const std::string& name : w.ran) w.Delete(name);
  }
  w.Advance(1'000);  // no more members come
  w.Schedule();
  CHECK(w.BoundPods() == 0);
  CHECK(w.UsedGpus() == 0);
  const std::string waits = w.pods().begin()->first;
  CHECK(w.Why(waits) == "NeverFits");  // by the nodes that are not cordoned
  for (const char* name : {"n1", "n2", "n3"}) w.Add(MakeNode(name).Gpu(8));
  w.Tick();
  CHECK(w.UsedGpus() == 32);
  int came = 0;
  for (const auto& [name, pod] : w.pods()) {
    const auto bind = w.Bind(name, w.Planned(name));
    CHECK(w.BoundPods() == (++came < 4 ? 0 : 4));
  }
}

TEST_CASE("a gang that failed whole starts again in one domain", "[unit][engine][bug]") {
  World w;
  for (const char* name : {"a1", "a2", "b1", "b2"}) {
    w.Add(MakeNode(name).Gpu(8).Rack(std::string(1, name[0])));
  }
  w.Start();
  for (int i = 0; i < 4; ++i) {
    w.Add(MakePod("m" + std::to_string(i)).Gpu(8).Gang("g", 4).Min(2).Required("rack").Gated());
  }
  w.Tick();
  w.Schedule();
  REQUIRE(w.BoundPods() == 2);
  const char rack = w.NodeOf(Running(w).front())[0];
  // One node of either rack is taken; then the other one of the gang's own is free again.
  const std::string blocked = std::string(1, rack) + "1";
  for (const std::string& name : Running(w)) FailAndGo(w, name);
  w.Add(MakePod("x").Gpu(8).On(blocked));
  w.Advance(1'000);  // no more members come
  w.Schedule();
  const auto ran = Running(w);
  REQUIRE(ran.size() == 3);  // x, and two in the other rack
  for (const std::string& name : ran) {
    if (name != "x") CHECK(w.NodeOf(name)[0] != rack);
  }
}

TEST_CASE("a launcher that lives on does not keep its gang started", "[unit][engine][bug]") {
  GangWorld w(2);
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 3).Gated().Created(1));
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 3, 3).Gated());
  w.Tick();
  w.Schedule();
  REQUIRE(w.BoundPods() == 3);
  FailAndGo(w, "m0");
  FailAndGo(w, "m1");
  w.Add(w.Member(2, 3, 3).Gated());
  w.Tick();
  CHECK(w.Planned("m2").empty());
  CHECK(w.Why("m2") == "WaitingForMembers");
  w.Add(w.Member(3, 3, 3).Gated());
  w.Tick();
  CHECK(w.Arrive(2).parked);
  CHECK(w.Arrive(3).posted);
  CHECK(w.BoundPods() == 3);
}

// Found by the fault search: by age the launcher spoke for the gang.
TEST_CASE("a member that joins follows the workers, not a launcher that ran ahead",
          "[unit][engine][bug]") {
  World w;
  for (const char* name : {"a1", "b1"}) {
    w.Add(MakeNode(name).Gpu(name[0] == 'b' ? 24 : 8).Rack(std::string(1, name[0])));
  }
  w.Start();
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 3).Required("rack").Created(1).On("a1"));
  for (const char* name : {"m0", "m1"}) {
    w.Add(MakePod(name).Gpu(8).Gang("g", 3).Required("rack").Gated());
  }
  w.Tick();
  w.Schedule();
  REQUIRE(w.NodeOf("m0") == "b1");
  w.Add(MakePod("m2").Gpu(8).Gang("g", 3).Required("rack").Gated());
  w.Tick();
  CHECK(w.Planned("m2") == "b1");
}

TEST_CASE("a launcher that ran ahead and succeeded starts no gang", "[unit][engine][bug]") {
  GangWorld w(1);
  kube::Pod launcher = MakePod("launcher").Cpu("1").Gang("g", 2).Created(1).On("n0");
  kube::Pod worker = w.Member(0, 2, 2).Gated();
  launcher.controller = {.kind = "Job", .name = "j", .uid = "j", .controller = true};
  worker.controller = launcher.controller;
  w.Add(launcher);
  End(w, "launcher", kube::PodPhase::kSucceeded);
  w.Add(worker);
  w.Tick();
  CHECK(w.Planned("m0").empty());
  CHECK(w.Why("m0") == "WaitingForMembers");
}

TEST_CASE("a gang without any devices stays started while one of it lives", "[unit][engine]") {
  GangWorld w(1);
  for (const char* name : {"a", "b", "c"}) w.Add(MakePod(name).Cpu("1").Gang("g", 3).Gated());
  w.Tick();
  w.Schedule();
  REQUIRE(w.BoundPods() == 3);
  FailAndGo(w, "a");
  FailAndGo(w, "b");
  w.Add(MakePod("d").Cpu("1").Gang("g", 3).Gated());
  w.Tick();
  CHECK(w.pod("d").scheduling_gates.empty());
}

// Nobody of the gang was ever bound: to come back one by one would be no start of a gang.
TEST_CASE("a gang whose Bindings are all refused comes to the barrier again",
          "[unit][engine][bug]") {
  GangWorld w(3);
  w.Gather(3, 3);
  w.Arrive(0);
  w.Arrive(1);
  w.SetPosting(Posting::kRefuses);
  REQUIRE(w.Arrive(2).posted);
  REQUIRE(w.BoundPods() == 0);
  CHECK(w.UsedGpus() == 24);  // the room is theirs still
  w.SetPosting(Posting::kBinds);
  CHECK(w.Arrive(2).parked);
  CHECK(w.Arrive(0).parked);
  SECTION("and all are bound") {
    CHECK(w.Arrive(1).posted);
    CHECK(w.BoundPods() == 3);
  }
  SECTION("or none, and the room is free again") {
    w.Advance(60'000);
    CHECK(w.BoundPods() == 0);
    CHECK(w.UsedGpus() == 0);
  }
}

TEST_CASE("of a gang some of whose Bindings are refused the others run", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(2, 2);
  w.Arrive(0);
  w.SetPosting(Posting::kLosesAnswer);
  w.Arrive(1);
  REQUIRE(w.BoundPods() == 2);
  w.SetPosting(Posting::kBinds);
  FailAndGo(w, "m1");
  w.Add(w.Member(2, 2, 2).Gated());
  w.Tick();
  CHECK(w.Arrive(2).posted);  // m0 runs
}

// All have come; the calls of two ended when the third member went, which was the last to wait for.
TEST_CASE("a gang starts with a call that is parked", "[unit][engine][bug]") {
  GangWorld w(3);
  w.Gather(3, 2);
  const auto bind = w.Arrive(0);
  REQUIRE(bind.parked);
  w.Advance(20'000);  // that call has ended, the arrival counts on
  REQUIRE(w.resolved().contains(bind.ticket));
  w.Delete("m2");
  w.Tick();
  CHECK(w.BoundPods() == 0);
  CHECK(w.Arrive(0).parked);
  CHECK(w.Arrive(1).posted);
  CHECK(w.BoundPods() == 2);
}

// Seed 950259 of forged: the gang that had been in conflict stayed started, and its members were
// bound one by one.
TEST_CASE("a gang that was in conflict with a running one is not started by it",
          "[unit][engine][bug]") {
  GangWorld w(4);
  w.Add(MakePod("other").Cpu("1").Gang("g", 1).Created(1).On("n0"));
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 4).Created(2).On("n1"));
  for (int i = 0; i < 3; ++i)
    w.Add(MakePod("w" + std::to_string(i)).Gpu(8).Gang("g", 4).Created(3));
  w.Tick();
  REQUIRE(w.Why("w0") == "GangConflict");
  w.Delete("other");
  w.Tick();
  for (const char* name : {"w0", "w1"}) {
    REQUIRE_FALSE(w.Planned(name).empty());
    REQUIRE(w.Filter(name).kept.size() == 1);
    CHECK(w.Bind(name, w.Planned(name)).parked);
  }
  CHECK(w.Bind("w2", w.Planned("w2")).posted);
}

// --- Members that have succeeded

/// As a Job's controller makes it.
kube::Pod Worker(const std::string& name, int size, const std::string& job = "job-1") {
  kube::Pod pod = MakePod(name).Gpu(8).Gang("g", size).Gated();
  pod.controller = {.kind = "Job", .name = job, .uid = job, .controller = true};
  return pod;
}

/// Gang of 4 of one Job: three succeed, the fourth fails.
class LastRetry : public GangWorld {
 public:
  LastRetry() : GangWorld(4) {
    for (int i = 0; i < 4; ++i) Add(Worker("w" + std::to_string(i), 4));
    Tick();
    Schedule();
    REQUIRE(BoundPods() == 4);
    for (const char* name : {"w0", "w1", "w2"}) End(*this, name, kube::PodPhase::kSucceeded);
    End(*this, "w3", kube::PodPhase::kFailed);
    Tick();
    REQUIRE(UsedGpus() == 0);
  }
};

TEST_CASE("a Job's last retry starts", "[unit][engine][bug]") {
  LastRetry w;
  SECTION("gated") {
    w.Add(Worker("again", 4));
    w.Tick();
  }
  SECTION("not gated") {
    kube::Pod ungated = Worker("again", 4);
    ungated.scheduling_gates.clear();
    w.Add(ungated);
    REQUIRE(w.Filter("again").kept.size() == 1);
  }
  SECTION("after a restart") {
    w.Restart();
    w.Add(Worker("again", 4));
    w.Tick();
  }
  SECTION("to a leader that followed until now") {
    w.Add(Worker("again", 4));
    const auto rebuilt = Engine::WithClusterOf(w.engine(), {.instance = "y"}, w.now());
    rebuilt->Start(w.now());
    rebuilt->Step(w.now());
    CHECK(rebuilt->PlanCounts().first == 1);
    w.Tick();
  }
  SECTION("under a new policy") {
    w.Reload({});
    w.Add(Worker("again", 4));
    w.Tick();
  }
  CHECK(w.Attempt("again"));
  CHECK_FALSE(w.NodeOf("again").empty());
  // And the retry of that retry.
  End(w, "again", kube::PodPhase::kFailed);
  w.Delete("again");
  w.Add(Worker("once-more", 4));
  w.Tick();
  CHECK(w.Attempt("once-more"));
  CHECK_FALSE(w.NodeOf("once-more").empty());
}

TEST_CASE("what has succeeded counts in its own incarnation alone", "[unit][engine]") {
  LastRetry w;
  SECTION("not for another Job's gang of that name") {
    w.Add(Worker("other", 4, "job-2"));
    w.Tick();
    CHECK(w.Planned("other").empty());
    CHECK(w.Why("other") == "WaitingForMembers");
    for (const char* name : {"o1", "o2", "o3"}) w.Add(Worker(name, 4, "job-2"));
    w.Tick();
    w.Schedule();
    CHECK(w.BoundPods() == 8);  // of which three have succeeded and one has failed
    // It fails whole: its retries need each other, though pods of the other Job have succeeded.
    for (const char* name : {"other", "o1", "o2", "o3"}) End(w, name, kube::PodPhase::kFailed);
    w.Add(Worker("retry", 4, "job-2"));
    w.Tick();
    CHECK(w.Planned("retry").empty());
    CHECK(w.Why("retry") == "WaitingForMembers");
  }
  SECTION("not once it is deleted") {
    for (const char* name : {"w0", "w1", "w2"}) w.Delete(name);
    w.Add(Worker("again", 4));
    w.Tick();
    CHECK(w.Why("again") == "WaitingForMembers");
  }
}

TEST_CASE("a retry is not started on what is deleted meanwhile", "[unit][engine]") {
  LastRetry w;
  w.Add(Worker("again", 4));
  w.Tick();
  REQUIRE_FALSE(w.Planned("again").empty());
  w.Delete("w0");
  w.Tick();
  CHECK(w.Planned("again").empty());
  CHECK(w.Why("again") == "WaitingForMembers");
}

TEST_CASE("retries that are needed together start together", "[unit][engine]") {
  GangWorld w(4);
  for (int i = 0; i < 4; ++i) w.Add(Worker("w" + std::to_string(i), 4));
  w.Tick();
  w.Schedule();
  for (const char* name : {"w0", "w1"}) End(w, name, kube::PodPhase::kSucceeded);
  for (const char* name : {"w2", "w3"}) End(w, name, kube::PodPhase::kFailed);
  w.Add(Worker("r2", 4));
  w.Tick();
  CHECK(w.Planned("r2").empty());
  CHECK(cluster::Sentence(w.VerdictOf("r2")) ==
        "The gang goes on with 4 members; 2 have succeeded, 1 exist that can be placed.");
  w.Add(Worker("r3", 4));
  w.Tick();
  CHECK(w.Bind("r2", w.Planned("r2")).parked);
  CHECK(w.Bind("r3", w.Planned("r3")).posted);
  CHECK_FALSE(w.NodeOf("r2").empty());
}

TEST_CASE("pods without a controller are retries by their index", "[unit][engine]") {
  GangWorld w(4);
  for (int i = 0; i < 3; ++i) w.Add(w.Member(i, 3, 3).Gated().Rank(i));
  w.Tick();
  w.Schedule();
  REQUIRE(w.BoundPods() == 3);
  for (const char* name : {"m0", "m1"}) End(w, name, kube::PodPhase::kSucceeded);
  End(w, "m2", kube::PodPhase::kFailed);
  SECTION("of one that has not succeeded") {
    w.Add(w.Member(3, 3, 3).Gated().Rank(2));
    w.Tick();
    CHECK_FALSE(w.Planned("m3").empty());
  }
  SECTION("of one that has: a fresh set") {
    w.Add(w.Member(3, 3, 3).Gated().Rank(0));
    w.Tick();
    CHECK(w.Why("m3") == "WaitingForMembers");
  }
  SECTION("without an index: a fresh set") {
    w.Add(w.Member(3, 3, 3).Gated());
    w.Tick();
    CHECK(w.Why("m3") == "WaitingForMembers");
  }
}

TEST_CASE("a running gang whose other members have succeeded is not below its minimum",
          "[unit][engine]") {
  GangWorld w(3);
  for (int i = 0; i < 2; ++i) w.Add(Worker("w" + std::to_string(i), 2));
  w.Tick();
  w.Schedule();
  w.Add(MakePod("block").Gpu(8).On("n2"));
  w.Add(MakePod("other").Gpu(8).Priority(10).Gated());
  End(w, "w0", kube::PodPhase::kSucceeded);
  w.Add(Worker("more", 2));
  w.Tick();
  CHECK_FALSE(w.Planned("other").empty());
  CHECK(w.Planned("more").empty());
}

}  // namespace
}  // namespace berth::engine
