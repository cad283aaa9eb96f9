// Preemption, before and after the answer: who is let go for it, and whose the room of victims is.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

/// One node of 2 GPUs. In queue a a victim that fills it and the pod `high`; an older pod of queue
/// b waits for the same room.
class SlowVictim : public World {
 public:
  SlowVictim() : World(MakePolicy({MakeQueue("a", {"*"}), MakeQueue("b", {"*"})})) {
    Add(MakeNode("n").Gpu(2));
    Start();
    Add(MakePod("victim").Gpu(2).Queue("a").On("n"));
    Add(MakePod("older").Gpu(2).Queue("b").Created(1500).Gated());
    Add(MakePod("high").Gpu(2).Queue("a").Priority(10).Created(2000));
    Tick();
  }
  /// kube-scheduler evicts the victim, nominates `high`, and tries it again and again.
  void Evict() {
    REQUIRE(engine().Preempt("uid-high", {{"n", {{"uid-victim"}, 0}}}, now()).size() == 1);
    Terminate("victim");
    Change("high", [](kube::Pod& pod) {
      pod.nominated_node = "n";
      pod.pod_scheduled = {.status = false, .reason = "Unschedulable", .message = "0/1 nodes"};
    });
    Tick();
  }
  void ExpectTheRoomIsHighs() {
    Delete("victim");
    Tick();
    CHECK(Planned("older").empty());
    CHECK(Filter("high", {"n"}).node() == "n");
    CHECK(Bind("high", "n").posted);
    CHECK(NodeOf("high") == "n");
  }
};

TEST_CASE("the room of a victim waits as long as the victim takes", "[unit][engine][bug]") {
  SlowVictim w;
  w.Evict();
  SECTION("75 s, when a plan lives 60") { w.Advance(75'000); }
  SECTION("an hour, to the last second of a planTimeout") { w.Advance(3'599'900); }
  SECTION("and the pod has a planTimeout after that") {
    w.Advance(119'000);
    w.Delete("victim");
    w.Tick();
    w.Add(MakePod("victim").Gpu(2).Queue("a").Scheduler("none"));  // for the last step
    w.Advance(50'000);
  }
  w.ExpectTheRoomIsHighs();
}

TEST_CASE("room is not held for an eviction that does not come", "[unit][engine]") {
  SlowVictim w;
  REQUIRE(w.engine().Preempt("uid-high", {{"n", {{"uid-victim"}, 0}}}, w.now()).size() == 1);
  w.Advance(61'000);
  CHECK(w.Planned("high").empty());
  CHECK(w.UsedGpus("n") == 2);
}

TEST_CASE("nor longer than its pod needs", "[unit][engine]") {
  SlowVictim w;
  w.Evict();
  w.Delete("victim");
  w.Advance(61'000);  // kube-scheduler does not come back
  CHECK(w.Planned("older") == "n");
}

TEST_CASE("the room of a victim outlives what undoes plans", "[unit][engine][bug]") {
  SlowVictim w;
  w.Evict();
  SECTION("a restart") { w.Restart(); }
  SECTION("another policy") {
    w.Reload(MakePolicy({MakeQueue("b", {"*"}), MakeQueue("a", {"*"}), MakeQueue("c", {"*"})}));
  }
  SECTION("a cordon that is taken back") {
    w.Add(MakeNode("n").Gpu(2).Cordoned());
    w.Tick();
    CHECK(w.Planned("high").empty());
    w.Add(MakeNode("n").Gpu(2));
  }
  SECTION("a second question that has no answer") {
    CHECK(w.engine().Preempt("uid-high", {}, w.now()).empty());
  }
  w.Tick();
  CHECK(w.Planned("high") == "n");
  w.Advance(75'000);
  w.ExpectTheRoomIsHighs();
}

TEST_CASE("a node that shrinks under its victims is not waited for", "[unit][engine][bug]") {
  SlowVictim w;
  w.Evict();
  SECTION("while they end") {
    w.Add(MakeNode("n").Gpu(1));
    w.Tick();
    CHECK(w.Planned("high").empty());
    w.Add(MakeNode("n").Gpu(2));
    w.Tick();
    w.ExpectTheRoomIsHighs();
  }
  SECTION("and is small when they have gone") {
    w.Add(MakeNode("n").Gpu(1));
    w.Delete("victim");
    w.Tick();
    CHECK(w.UsedGpus("n") == 0);
  }
}

TEST_CASE("two pods wait for victims on one node", "[unit][engine]") {
  World w;
  w.Add(MakeNode("n").Gpu(4));
  w.Start();
  for (const char* i : {"1", "2"}) {
    w.Add(MakePod(std::string("v") + i).Gpu(2).On("n"));
    w.Add(MakePod(std::string("p") + i).Gpu(2).Priority(10));
  }
  const auto ask = [&w](const std::string& pod, const std::vector<std::string>& victims) {
    return w.engine().Preempt(pod, {{"n", {victims, 0}}}, w.now()).size();
  };
  REQUIRE(ask("uid-p1", {"uid-v1"}) == 1);
  w.Terminate("v1");
  REQUIRE(ask("uid-p2", {"uid-v1", "uid-v2"}) == 1);
  w.Terminate("v2");
  w.Add(MakeNode("n").Gpu(4).Label("some", "label"));
  w.Tick();
  CHECK(w.Planned("p1") == "n");
  CHECK(w.Planned("p2") == "n");
  w.Delete("v1");
  w.Tick();
  CHECK(w.Filter("p1").node() == "n");
  CHECK(w.Planned("p2") == "n");
}

// The pod that is first to come takes what has become free, whoever it was evicted for: the other
// then waits for both.
TEST_CASE("of two that wait for victims the later one is let in first", "[unit][engine][bug]") {
  World w;
  w.Add(MakeNode("n").Gpu(4));
  w.Start();
  w.Add(MakePod("v1").Gpu(1).On("n"));
  w.Add(MakePod("v2").Gpu(3).On("n"));
  w.Add(MakePod("p1").Gpu(1).Priority(10));
  w.Add(MakePod("p2").Gpu(1).Priority(20));
  REQUIRE(w.engine().Preempt("uid-p1", {{"n", {{"uid-v1"}, 0}}}, w.now()).size() == 1);
  w.Terminate("v1");
  REQUIRE(w.engine().Preempt("uid-p2", {{"n", {{"uid-v2"}, 0}}}, w.now()).size() == 1);
  w.Terminate("v2");
  w.Delete("v1");
  CHECK(w.Filter("p2", {"n"}).node() == "n");
  CHECK(w.Bind("p2", "n").posted);
  w.Advance(75'000);  // longer than the time that a plan without victims has
  CHECK(w.Planned("p1") == "n");
  w.Delete("v2");
  CHECK(w.Filter("p1", {"n"}).node() == "n");
  CHECK(w.Bind("p1", "n").posted);
}

// u23 in seed 82522 of profile budgets: its victims were still there when it took the room that was
// planned for a gang.
TEST_CASE("a pod that waits for victims does not take the room of another plan",
          "[unit][engine][bug]") {
  World w;
  w.Add(MakeNode("n").Gpu(4));
  w.Start();
  w.Add(MakePod("victim").Gpu(2).On("n"));
  w.Add(MakePod("planned").Gpu(2).Priority(10).Created(1000).Gated());
  w.Tick();
  REQUIRE(w.Planned("planned") == "n");
  w.Add(MakePod("high").Gpu(2).Priority(10));
  REQUIRE(w.engine().Preempt("uid-high", {{"n", {{"uid-victim"}, 0}}}, w.now()).size() == 1);
  w.Terminate("victim");
  CHECK_FALSE(w.Bind("high", "n").posted);
  CHECK(w.Filter("planned", {"n"}).node() == "n");
  CHECK(w.Bind("planned", "n").posted);
  w.Delete("victim");
  CHECK(w.Filter("high", {"n"}).node() == "n");
  CHECK(w.Bind("high", "n").posted);
}

// kube-scheduler has heard of the victim's end before us: refused at filter it would preempt once
// more (gang/loses-no-member-to-preemption on a busy machine).
TEST_CASE("a pod that comes before the news of its victim's end is held at bind, not at filter",
          "[unit][engine][bug]") {
  SlowVictim w;
  w.Evict();
  CHECK(w.Filter("high", {"n"}).node() == "n");
  CHECK_FALSE(w.Bind("high", "n").posted);
  CHECK(w.Planned("high") == "n");
  w.Delete("victim");
  CHECK(w.Bind("high", "n").posted);
}

// The end of a pod of another scheduler makes room on the node, and none in the queue.
TEST_CASE("a pod is not let in before the quota of its victim is free", "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("default", {"*"}, 2)}));
  w.Add(MakeNode("n").Gpu(4));
  w.Start();
  w.Add(MakePod("other").Gpu(2).Scheduler("other").On("n"));
  w.Add(MakePod("victim").Gpu(2).On("n"));
  w.Add(MakePod("high").Gpu(2).Priority(10));
  REQUIRE(w.engine().Preempt("uid-high", {{"n", {{"uid-victim"}, 0}}}, w.now()).size() == 1);
  w.Terminate("victim");
  w.Delete("other");
  w.Tick();
  CHECK_FALSE(w.Bind("high", "n").posted);
  CHECK(w.Planned("high") == "n");
  w.Delete("victim");
  CHECK(w.Filter("high", {"n"}).node() == "n");
  CHECK(w.Bind("high", "n").posted);
}

// Seed 206513 of profile all: its outcome was unknown, and it had been planned elsewhere since.
TEST_CASE("a Binding of an earlier plan that comes through moves others off its node",
          "[unit][engine][bug]") {
  World w;
  for (const char* node : {"a", "b"}) w.Add(MakeNode(node).Gpu(4));
  w.Start();
  w.Add(MakePod("first").Gpu(4).Gated());
  w.Add(MakePod("second").Gpu(4).Gated());
  w.Tick();
  const std::string at = w.Planned("second");
  REQUIRE_FALSE(at.empty());
  w.Change("first", [&](kube::Pod& pod) {
    pod.node_name = at;
    pod.scheduling_gates.clear();
  });
  w.Tick();
  CHECK(w.Planned("second") == (at == "a" ? "b" : "a"));
}

// Seed 204338 of profile budgets: deleted while its Binding was under way, it is gone for
// kube-scheduler before we hear of it.
TEST_CASE("a victim that has not been bound yet is waited for", "[unit][engine][bug]") {
  World w;
  w.Add(MakeNode("n").Gpu(2));
  w.Start();
  w.Add(MakePod("victim").Gpu(2));
  REQUIRE(w.Filter("victim", {"n"}).node() == "n");
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("victim", "n").posted);
  w.SetPosting(testing::Posting::kBinds);
  w.Add(MakePod("high").Gpu(2).Priority(10));
  REQUIRE(w.engine().Preempt("uid-high", {{"n", {{"uid-victim"}, 0}}}, w.now()).size() == 1);
  CHECK_FALSE(w.Bind("high", "n").posted);
  w.Delete("victim");
  w.Tick();
  CHECK(w.Filter("high", {"n"}).node() == "n");
  CHECK(w.Bind("high", "n").posted);
}

TEST_CASE("a nomination alone holds no room", "[unit][engine]") {
  SlowVictim w;
  SECTION("nobody ends there") {}
  SECTION("who ends there stands above it") {
    w.Change("victim", [](kube::Pod& pod) { pod.priority = 99; });
    w.Terminate("victim");
  }
  SECTION("who ends there is another queue's") {
    w.Delete("victim");
    w.Add(MakePod("victim").Gpu(2).Queue("b").Claim("p-1", "n", "b").On("n"));
    w.Terminate("victim");
  }
  w.Change("high", [](kube::Pod& pod) { pod.nominated_node = "n"; });
  w.Tick();
  CHECK(w.Planned("high").empty());
}

TEST_CASE("kube-scheduler finds it another node meanwhile", "[unit][engine]") {
  SlowVictim w;
  w.Evict();
  w.Add(MakeNode("n2").Gpu(2));
  w.Delete("older");
  w.Tick();
  CHECK(w.Filter("high", {"n2"}).node() == "n2");
  CHECK(w.Bind("high", "n2").posted);
  CHECK(w.UsedGpus("n") == 2);
}

// The victim still has the quota that its preemptor needs.
TEST_CASE("room for victims does not move out of its quota", "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("default", {"*"}, 3)}));
  w.Add(MakeNode("n").Gpu(2));
  w.Start();
  w.Add(MakePod("victim").Gpu(2).On("n"));
  w.Add(MakePod("high").Gpu(2).Priority(10));
  w.Tick();
  REQUIRE(w.engine().Preempt("uid-high", {{"n", {{"uid-victim"}, 0}}}, w.now()).size() == 1);
  w.Terminate("victim");
  w.Change("high", [](kube::Pod& pod) { pod.nominated_node = "n"; });
  w.Add(MakeNode("n2").Gpu(2));
  w.Tick();
  CHECK(w.Filter("high", {"n2"}).kept.empty());
  CHECK(w.Planned("high") == "n");
  w.Delete("victim");
  CHECK(w.Filter("high", {"n", "n2"}).node() == "n");
}

TEST_CASE("a pod that waits for quota alone evicts for it", "[unit][engine]") {
  World w(MakePolicy({MakeQueue("default", {"*"}, 9)}));
  for (const char* node : {"n1", "n2"}) w.Add(MakeNode(node).Gpu(8));
  w.Start();
  w.Add(MakePod("low").Gpu(8).On("n1"));
  w.Add(MakePod("high").Gpu(2).Priority(10));
  // kube-scheduler would evict nobody, because there is room.
  CHECK(w.Filter("high").kept.empty());
  CHECK(w.engine().Preempt("uid-high", {{"n1", {{"uid-low"}, 0}}}, w.now()).empty());
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 1);
}

// --- The gate ------------------------------------------------------------------------------------

/// n1 and n2 of 8 GPUs, full of low pods of queue a; pods of queue a and others wait behind the
/// gate.
class Gate : public World {
 public:
  explicit Gate(int limit = -1)
      : World(MakePolicy({MakeQueue("a", {"*"}, limit), MakeQueue("b", {"*"})})) {
    Add(MakeNode("n1").Gpu(8));
    Add(MakeNode("n2").Gpu(8));
    Start();
    Add(MakePod("low1").Gpu(8).Queue("a").On("n1"));
    Add(MakePod("low2").Gpu(8).Queue("a").On("n2"));
    Tick();
  }
  testing::PodBuilder High() { return MakePod("high").Gpu(8).Queue("a").Priority(10).Gated(); }
  /// Its name and who is evicted for it, after the pod has come.
  std::vector<std::string> EvictedFor(const kube::Pod& pod) {
    Add(pod);
    Tick();
    std::vector<std::string> names;
    for (const std::string& line : LogOf("evict ")) names.push_back(line.substr(6, 4));
    return names;
  }
  bool Gated(const std::string& name) { return !pod(name).scheduling_gates.empty(); }
};
using Names = std::vector<std::string>;

TEST_CASE("for a gated pod Berth itself evicts in its queue", "[unit][engine]") {
  SECTION("without a limit") {
    Gate w;
    CHECK(w.EvictedFor(w.High()).size() == 1);
    CHECK(w.Why("high") == "WaitingForVictims");
    CHECK(w.Gated("high"));
    w.Delete(w.Planned("high") == "n1" ? "low1" : "low2");
    w.Tick();
    CHECK_FALSE(w.Gated("high"));
    CHECK(w.Filter("high").node() == w.Planned("high"));
  }
  SECTION("where the victims fill the queue as well") {
    Gate w(16);
    CHECK(w.EvictedFor(w.High()).size() == 1);
  }
  SECTION("where the queue alone is full") {
    Gate w(16);
    w.Add(MakeNode("n3").Gpu(8));
    CHECK(w.EvictedFor(w.High()).size() == 1);
  }
  SECTION("when its node has room for nothing but its CPU") {
    Gate w;
    w.Add(MakeNode("n3").Gpu(8).Cpu(8));
    w.Add(MakePod("cpus").Gpu(1).Cpu("8").Queue("a").On("n3"));
    CHECK(w.EvictedFor(w.High().Gpu(7).Cpu("1")) == Names{"cpus"});
  }
  SECTION("a gang whole, if no single pod will do") {
    Gate w;
    for (const char* low : {"low1", "low2"}) w.Delete(low);
    w.Advance(1'000);
    w.Add(MakePod("gan0").Gpu(8).Gang("g", 2).Queue("a").On("n1"));
    w.Add(MakePod("gan1").Gpu(8).Gang("g", 2).Queue("a").On("n2"));
    w.Tick();
    CHECK(w.EvictedFor(w.High()) == Names{"gan0", "gan1"});
  }
}

// Pods that Berth does not place are no victims of its own plan; kube-scheduler evicts them.
TEST_CASE("a gated pod is let go to kube-scheduler where pods of no queue must go",
          "[unit][engine]") {
  Gate w;
  w.Add(MakeNode("n3").Gpu(8).Cpu(8));
  w.Add(MakePod("web").Cpu("8").On("n3"));
  CHECK(w.EvictedFor(w.High().Cpu("1").Priority(10)).empty() == false);
  w.Delete("high");
  for (const char* low : {"low1", "low2"}) {
    w.Change(low, [](kube::Pod& p) { p.meta.labels["berth.dev/preemptible"] = "false"; });
  }
  w.Add(MakePod("next").Gpu(8).Cpu("1").Queue("a").Priority(10).Gated());
  w.Tick();
  CHECK_FALSE(w.Gated("next"));
  CHECK(w.engine().Preempt("uid-next", {{"n3", {{"uid-web"}, 0}}}, w.now()).contains("n3"));
}

TEST_CASE("a pod that would not run after an eviction keeps its gate", "[unit][engine]") {
  Gate w;
  kube::Pod pod = w.High();
  SECTION("no priority above them") { pod = w.High().Priority(0); }
  SECTION("another queue's victims") { pod = w.High().Queue("b"); }
  SECTION("it never preempts") { pod.preempt_never = true; }
  SECTION("somebody else's gate as well") { pod = w.High().Gate("other/gate"); }
  SECTION("no node would match") { pod = w.High().Selector("zone", "x"); }
  SECTION("the victims are spared") {
    for (const char* low : {"low1", "low2"}) {
      w.Change(low, [](kube::Pod& p) { p.meta.labels["berth.dev/preemptible"] = "false"; });
    }
  }
  SECTION("a budget keeps the victims") {
    for (const char* low : {"low1", "low2"}) {
      w.Change(low, [](kube::Pod& p) { p.meta.labels["app"] = "db"; });
    }
    w.engine().OnDisruptionBudget(testing::MakeBudget("db", "app", "db", 0));
  }
  w.Tick();
  CHECK(w.EvictedFor(pod).empty());
  CHECK(w.Gated("high"));
}

TEST_CASE("a gated pod has the room that comes before victims", "[unit][engine]") {
  Gate w;
  for (const char* low : {"low1", "low2"}) w.Delete(low);
  w.Add(MakePod("b1").Gpu(8).Queue("b").Claim("p-1", "n1", "b").On("n1"));
  w.Add(MakePod("b2").Gpu(8).Queue("b").Claim("p-1", "n2", "b").On("n2"));
  w.Tick();
  REQUIRE(w.EvictedFor(w.High()).empty());
  w.Delete("b1");
  w.Tick();
  CHECK(w.Planned("high") == "n1");  // room came first
}

}  // namespace
}  // namespace berth::engine
