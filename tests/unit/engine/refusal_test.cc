// kube-scheduler refuses a planned node by its own filters: only the pod's status says so.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::World;

class Nodes : public World {
 public:
  explicit Nodes(int nodes) {
    for (int i = 0; i < nodes; ++i) Add(MakeNode("n" + std::to_string(i)).Gpu(8));
    Start();
  }
};

TEST_CASE("a refused member is planned around the node", "[unit][engine]") {
  Nodes w(3);
  w.Add(MakePod("a").Gpu(8).Gang("g", 2).Gated());
  w.Add(MakePod("b").Gpu(8).Gang("g", 2).Gated());
  w.Tick();
  const std::string a = w.Planned("a");
  const std::string b = w.Planned("b");
  REQUIRE_FALSE(a.empty());
  w.Refuse("a", "0/3 nodes are available: volume node affinity conflict");
  CHECK(w.Planned("a") != a);
  CHECK(w.Planned("a") != b);
  CHECK(w.Planned("b") == b);  // the others stay
  CHECK(w.pod("a").nominated_node == w.Planned("a"));
  w.Schedule();
  CHECK(w.BoundPods() == 2);
}

// The search put the refused member alone into the tightest rack, and then wanted the others there.
TEST_CASE("a refused member and the others find another rack", "[unit][engine][bug]") {
  testing::World w;
  for (const char* name : {"a1", "a2"}) w.Add(MakeNode(name).Gpu(8).Rack("a"));
  for (const char* name : {"b1", "b2", "b3"}) w.Add(MakeNode(name).Gpu(8).Rack("b"));
  w.Start();
  for (const char* name : {"m0", "m1"}) {
    w.Add(MakePod(name).Gpu(8).Gang("g", 2).Required("rack").Gated());
  }
  w.Tick();
  REQUIRE(w.UsedGpus("a1") + w.UsedGpus("a2") == 16);
  w.Refuse("m0");
  CHECK(w.Planned("m0").starts_with('b'));
  CHECK(w.Planned("m1").starts_with('b'));
  w.Schedule();
  CHECK(w.BoundPods() == 2);
}

TEST_CASE("an elastic gang starts without a member that is refused everywhere",
          "[unit][engine][bug]") {
  Nodes w(3);
  for (const char* name : {"a", "b", "c"}) {
    w.Add(MakePod(name).Gpu(8).Gang("g", 3).Min(2).Gated());
  }
  w.Tick();
  REQUIRE(w.UsedGpus() == 24);
  REQUIRE(w.Filter("a").kept.size() == 1);
  REQUIRE(w.Filter("b").kept.size() == 1);
  w.Refuse("c");
  CHECK(w.Planned("c").empty());
  CHECK(w.UsedGpus() == 16);
  CHECK(w.Attempt("a"));
  CHECK(w.Attempt("b"));
  CHECK(w.BoundPods() == 2);
  w.Advance(10'000);
  w.Schedule();
  CHECK(w.BoundPods() == 3);
}

TEST_CASE("the last member of an elastic gang that is refused pauses it", "[unit][engine]") {
  Nodes w(1);
  w.Add(MakePod("launcher").Gang("g", 3).Min(1).On("n0"));
  w.Add(MakePod("a").Gpu(8).Gang("g", 3).Min(1).Gated());
  w.Tick();
  w.Advance(1'000);
  REQUIRE(w.Planned("a") == "n0");
  w.Refuse("a");
  w.Tick();
  CHECK(w.Planned("a").empty());
  CHECK(w.UsedGpus() == 0);
  w.Advance(60'000);
  w.Schedule();
  CHECK(w.NodeOf("a") == "n0");
}

TEST_CASE("one refusal is one release", "[unit][engine][bug]") {
  Nodes w(3);
  w.Add(MakePod("a").Gpu(8).Gang("g", 2).Gated());
  w.Add(MakePod("b").Gpu(8).Gang("g", 2).Gated());
  w.Tick();
  REQUIRE(w.LogOf("release a").size() == 1);
  w.Refuse("a");
  CHECK(w.LogOf("release a").size() == 2);
}

TEST_CASE("what is no refusal", "[unit][engine]") {
  Nodes w(2);
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Tick();
  const std::string a = w.Planned("a");
  SECTION("our own words") {
    w.Refuse("a", "0/2 nodes are available: 2 berth: Starting: its gang is being placed.");
  }
  SECTION("a gated pod's condition") {
    w.Change("a", [](kube::Pod& pod) {
      pod.pod_scheduled = {.status = false, .reason = "SchedulingGated", .message = "x"};
    });
    w.Tick();
  }
  SECTION("an old message that was there before the release") {
    w.Add(MakePod("c").Gpu(8));
    w.Change("c", [](kube::Pod& pod) {
      pod.pod_scheduled = {.status = false, .reason = "Unschedulable", .message = "old"};
    });
    w.Tick();
    const std::string c = w.Planned("c");
    w.Change("c", [](kube::Pod& pod) { pod.meta.labels["x"] = "y"; });
    w.Tick();
    CHECK(w.Planned("c") == c);
  }
  SECTION("an error of kube-scheduler's") {
    w.Change("a", [](kube::Pod& pod) {
      pod.pod_scheduled = {.status = false, .reason = "SchedulerError", .message = "bind timeout"};
      pod.nominated_node.clear();
    });
    w.Tick();
    CHECK(w.pod("a").nominated_node == a);  // nominated again
  }
  CHECK(w.Planned("a") == a);
}

TEST_CASE("nothing is left: the room serves others, and a pause follows", "[unit][engine]") {
  Nodes w(2);
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Tick();
  w.Refuse("a", "first");
  REQUIRE_FALSE(w.Planned("a").empty());
  w.Refuse("a", "second");
  CHECK(w.Planned("a").empty());
  CHECK(w.UsedGpus() == 0);
  CHECK((w.Why("a") == "RefusedByScheduler" || w.Why("a") == "CoolingDown"));
  w.Add(MakePod("b").Gpu(8));
  w.Add(MakePod("c").Gpu(8));
  CHECK(w.Filter("b").kept.size() == 1);
  CHECK(w.Filter("c").kept.size() == 1);
}

// The word of kube-scheduler came before the planner's next pass had seen the new node.
TEST_CASE("a refused member does not follow a node's slot into another rack",
          "[unit][engine][bug]") {
  testing::World w;
  for (const char* name : {"a1", "a2", "a3"}) w.Add(MakeNode(name).Gpu(8).Rack("a"));
  w.Start();
  for (const char* name : {"m0", "m1"}) {
    w.Add(MakePod(name).Gpu(8).Gang("g", 2).Required("rack").Gated());
  }
  w.Tick();
  std::string spare;
  for (const char* name : {"a1", "a2", "a3"}) {
    if (w.UsedGpus(name) == 0) spare = name;
  }
  w.Remove(spare);
  w.Add(MakeNode("b1").Gpu(8).Rack("b"));
  w.Refuse("m0");
  CHECK(w.Planned("m0") != "b1");
  CHECK(w.UsedGpus("b1") == 0);
}

// A refused pair is avoided for a while, not for ever: somebody has to look again.
TEST_CASE("refusals are forgotten after a while", "[unit][engine][bug]") {
  Nodes w(1);
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Tick();
  w.Refuse("a");
  w.Advance(9'999);
  REQUIRE(w.Planned("a").empty());
  w.Advance(1);
  CHECK(w.Planned("a") == "n0");
}

// The same for a member that joins a started gang.
TEST_CASE("refusals are forgotten in a started gang too", "[unit][engine][bug]") {
  Nodes w(2);
  w.Add(MakePod("a").Gpu(8).Gang("g", 1).Gated());
  w.Tick();
  const std::string first = w.Planned("a");
  w.Refuse("a");
  const std::string second = w.Planned("a");
  REQUIRE(second != first);
  REQUIRE(w.Attempt("a"));
  REQUIRE(w.NodeOf("a") == second);
  w.Advance(400'000);
  w.Add(MakePod("b").Gpu(8).Gang("g", 1).Gated());
  w.Tick();
  CHECK(w.Planned("b") == first);
}

TEST_CASE("refusals of one member do not go on for ever", "[unit][engine]") {
  Nodes w(60);
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Tick();
  int moves = 0;
  for (; moves < 60 && !w.Planned("a").empty(); ++moves) {
    w.Refuse("a", "refusal " + std::to_string(moves));
  }
  CHECK(moves <= 21);  // 16 + 4 per member, then a pause
  CHECK(w.UsedGpus() == 0);
}

TEST_CASE("a member of a running gang that is refused waits alone", "[unit][engine]") {
  Nodes w(2);
  w.Add(MakePod("a").Gpu(8).Gang("g", 2).Min(1).Gated());
  w.Add(MakePod("b").Gpu(8).Gang("g", 2).Min(1).Gated());
  w.Tick();
  REQUIRE(w.Attempt("a"));
  REQUIRE_FALSE(w.NodeOf("a").empty());
  w.Refuse("b");
  CHECK(w.Planned("b").empty());
  CHECK(w.UsedGpus() == 8);
  CHECK(w.NodeOf("a") != "");
}

// What one pod could not have for its labels says nothing about the next one.
TEST_CASE("a failure is remembered for the pods that it is true of", "[unit][engine][bug]") {
  Nodes w(1);
  w.Add(MakePod("hermit").Gpu(1).NotNear("app", "web", "kubernetes.io/hostname").On("n0"));
  w.Add(MakePod("a").Gpu(1).Label("app", "web"));
  w.Add(MakePod("b").Gpu(1));
  CHECK(w.Filter("a").kept.empty());
  CHECK(w.Filter("b").kept.size() == 1);
}

TEST_CASE("a node that goes takes no plan along", "[unit][engine]") {
  Nodes w(2);
  w.Add(MakePod("a").Gpu(8).Gang("g", 1).Gated());
  w.Tick();
  const std::string first = w.Planned("a");
  SECTION("deleted") { w.Remove(first); }
  SECTION("cordoned") { w.Add(MakeNode(first).Gpu(8).Cordoned()); }
  SECTION("shrunk") { w.Add(MakeNode(first).Gpu(4)); }
  SECTION("taken by a pod of another scheduler") {
    w.Add(MakePod("x").Gpu(4).Scheduler("other").On(first));
  }
  w.Tick();
  CHECK(w.Planned("a") != first);
  CHECK_FALSE(w.Planned("a").empty());
}

// Only what preempt holds may be overfull for a while.
TEST_CASE("a single does not stay planned on a node that is overfull", "[unit][engine][bug]") {
  Nodes w(2);
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Tick();
  const std::string first = w.Planned("a");
  SECTION("shrunk") { w.Add(MakeNode(first).Gpu(4)); }
  SECTION("taken by a pod of another scheduler") {
    w.Add(MakePod("x").Gpu(4).Scheduler("other").On(first));
  }
  w.Tick();
  CHECK(w.Planned("a") != first);
  CHECK_FALSE(w.Planned("a").empty());
}

// The node shrank while nobody knew what had become of the Binding; then it turned out to be lost.
TEST_CASE("a Binding that was lost keeps no room on a node that is overfull",
          "[unit][engine][bug]") {
  Nodes w(2);
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Tick();
  const std::string first = w.Planned("a");
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("a", first).posted);
  w.Add(MakeNode(first).Gpu(4));
  CHECK(w.UsedGpus(first) == 8);  // it may be bound there
  w.engine().BindFinished("uid-a", BindOutcome::kRefused, w.now());
  w.Tick();
  CHECK(w.UsedGpus(first) == 0);
  CHECK(w.Planned("a") != first);
  CHECK_FALSE(w.Planned("a").empty());
}

}  // namespace
}  // namespace berth::engine
