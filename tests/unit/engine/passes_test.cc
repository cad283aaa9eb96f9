// A round of planning that is divided into passes: events and verbs come in between.
#include <string>
#include <string_view>
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

/// A node of 8 GPUs; each pass judges one workload.
class ShortPasses : public World {
 public:
  ShortPasses() : World(MakePolicy({MakeQueue("q", {"default"})}), {.pass_budget = 1}) {
    Add(MakeNode("n").Gpu(8));
    Start();
  }
  /// One pass.
  void Pass() { engine().Step(now()); }
  /// Passes until all who are to be judged are in line.
  void Activate(const std::string& last) {
    while (!engine().InLine(*store().FindWorkload("default/pod/" + last))) Pass();
  }
};

TEST_CASE("a pass that has spent its budget leaves the others to the next", "[unit][engine]") {
  ShortPasses w;
  for (const char* name : {"a", "b", "c"}) w.Add(MakePod(name).Gpu(1).Gated());
  w.Activate("c");
  REQUIRE(w.engine().unfinished());
  CHECK(w.engine().NextDeadline() == w.now());  // at once

  w.Tick();
  CHECK_FALSE(w.engine().unfinished());
  CHECK(w.engine().NextDeadline() > w.now());
  for (const char* name : {"a", "b", "c"}) CHECK(w.Planned(name) == "n");
}

TEST_CASE("no workload is judged before all are in line", "[unit][engine]") {
  ShortPasses w;
  w.Add(MakePod("a").Gpu(8).Gated().Priority(1));
  w.Add(MakePod("z").Gpu(8).Gated().Priority(2));  // taken in later, and first
  w.Tick();
  CHECK(w.Planned("z") == "n");
  CHECK(w.Planned("a").empty());
}

TEST_CASE("a workload that comes in the midst of a round takes its turn", "[unit][engine]") {
  ShortPasses w;
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Add(MakePod("b").Gpu(8).Gated());
  w.Activate("b");
  SECTION("before those that stand behind it") {
    w.Add(MakePod("c").Gpu(8).Gated().Priority(1));
    w.Tick();
    CHECK(w.Planned("c") == "n");
  }
  SECTION("who goes is not judged") {
    w.Delete("a");
    w.Tick();
    CHECK(w.Planned("b") == "n");
  }
  SECTION("who changes stands where it belongs now") {
    w.Change("b", [](kube::Pod& pod) { pod.priority = 1; });
    w.Tick();
    CHECK(w.Planned("b") == "n");
  }
}

TEST_CASE("filter refuses a pod that was not come to, and its plan wakes it", "[unit][engine]") {
  ShortPasses w;
  for (const char* name : {"a", "b", "c"}) w.Add(MakePod(name).Gpu(1).Gated());
  w.Add(MakePod("z-asks").Gpu(1));
  w.Activate("c");
  const testing::FilterResult answer = w.Filter("z-asks");
  CHECK(answer.kept.empty());
  CHECK(answer.reason == "NotReady");

  w.Tick();
  CHECK(w.Planned("z-asks") == "n");
  CHECK(w.LogOf("release z-asks").size() == 1);  // it would sleep otherwise
}

TEST_CASE("after an edit of the queues nothing is decided until all pods are read",
          "[unit][engine]") {
  ShortPasses w;
  w.Add(MakePod("runs").Gpu(2).On("n").Claim("x", "n", "q"));
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    w.Add(MakePod(name).Gpu(1).Queue("q").Gated());
  }
  w.Add(MakePod("victim").Gpu(6).On("n").Claim("y", "n", "q"));
  w.Tick();
  REQUIRE(w.Planned("a").empty());

  // The queue that takes its pods is full of what runs, which only reading them shows.
  auto edit = MakePolicy({MakeQueue("q", {"default"}), MakeQueue("r", {"default"}, 2)});
  edit.queues[0].name = "s";
  edit.queues[0].namespaces = {{"other"}};
  w.Delete("victim");
  w.Add(MakePod("asks").Gpu(1).Queue("r"));
  w.engine().OnPolicy(edit, w.now());
  const std::vector<std::string_view> offered{"n"};
  int passes = 0;
  while (w.store().reading()) {
    ++passes;
    CHECK(w.engine().unfinished());
    CHECK(w.engine().Preempt("uid-asks", {{"n", {.uids = {"uid-runs"}}}}, w.now()).empty());
    CHECK(w.engine().Filter({.uid = "uid-asks", .offered = offered}, w.now()).kept.empty());
    w.Pass();
  }
  CHECK(passes > 3);
  w.Tick();
  CHECK_FALSE(w.engine().unfinished());
  w.Filter("asks");
  CHECK(w.Why("asks") == "WaitingForQuota");
  CHECK(w.Why("a") == "UnknownQueue");
}

TEST_CASE("in the midst of an edit of the levels a member moves inside its rack",
          "[unit][engine]") {
  ShortPasses w;
  for (const char* name : {"n0", "n1", "n3"}) w.Add(MakeNode(name).Gpu(8).Block("b").Rack("r"));
  w.Add(MakeNode("n2").Gpu(8).Block("b").Rack("s"));
  const auto member = [](const char* name, const char* node) {
    return MakePod(name).Gpu(8).Gang("g", 2).Required("rack").Claim("x-1", node, "q");
  };
  w.Add(member("a", "n0").On("n0"));
  w.Add(member("b", "n1").Nominated("n1"));
  w.Restart();
  REQUIRE(w.Planned("b") == "n1");
  auto edit = w.store().policy();
  edit.levels.front().node_label = "example.com/hall";
  w.engine().OnPolicy(edit, w.now());
  REQUIRE(w.store().reading());
  REQUIRE(w.store().domains().empty());
  const std::vector<std::string_view> offered{"n2", "n3"};
  const auto answer = w.engine().Filter({.uid = "uid-b", .offered = offered}, w.now());
  CHECK(answer.kept == std::vector<std::size_t>{1});
  CHECK_FALSE(w.store().domains().empty());
}

TEST_CASE("an engine that expects many pods has room for them", "[unit][engine]") {
  const Engine engine({}, {.instance = "x", .expected_pods = 50'000});
  CHECK(engine.store().pods().bucket_count() >= 50'000);
}

TEST_CASE("room that is given back all the time keeps no workload from its turn",
          "[unit][engine]") {
  ShortPasses w;
  w.Add(MakePod("filler").Gpu(6).On("n"));
  // Of two shapes: what they wait for is not told exactly, so that any room wakes them.
  for (const char* gang : {"a", "b", "c"}) {
    for (const int gpus : {2, 3}) {
      w.Add(MakePod(std::string(gang) + std::to_string(gpus)).Gpu(gpus).Gang(gang, 2).Gated());
    }
  }
  w.Tick();
  REQUIRE(w.Planned("a2").empty());
  w.Add(MakePod("z").Gpu(1).Gated());
  for (int i = 0; i < 40 && w.Planned("z").empty(); ++i) {
    w.Add(MakePod("guest").Gpu(1).On("n"));
    w.Delete("guest");
    w.Pass();
  }
  CHECK(w.Planned("z") == "n");
}

TEST_CASE("kubelets that reject pods all the time keep no workload from its turn",
          "[unit][engine]") {
  ShortPasses w;
  for (const char* name : {"a", "b", "c", "d"}) w.Add(MakePod(name).Gpu(9).Gated());
  w.Add(MakePod("z").Gpu(1).Gated());
  for (int i = 0; i < 40 && w.Planned("z").empty(); ++i) {
    kube::Pod pod = MakePod("rejected-" + std::to_string(i)).Gpu(1).On("n");
    w.engine().OnPod(pod, w.now() - 5'000);
    pod.phase = kube::PodPhase::kFailed;
    pod.status_reason = "OutOfcpu";
    w.engine().OnPod(pod, w.now() - 5'000);  // its timer is due now
    w.Pass();
  }
  CHECK(w.Planned("z") == "n");
}

TEST_CASE("no pod is evicted for one that may only have to wait for its turn", "[unit][engine]") {
  ShortPasses w;
  w.Add(MakeNode("full").Gpu(8));
  w.Add(MakePod("victim").Gpu(8).On("full"));
  for (const char* name : {"a", "b", "c"}) w.Add(MakePod(name).Gpu(1).Gated());
  w.Add(MakePod("z").Gpu(8).Priority(-1));
  w.Activate("c");
  REQUIRE(w.engine().unfinished());
  const VictimMap candidates{{"full", {.uids = {"uid-victim"}}}};
  CHECK(w.engine().Preempt("uid-z", candidates, w.now()).empty());
}

TEST_CASE("an edit of the policy is a round over all", "[unit][engine]") {
  ShortPasses w;
  for (const char* name : {"a", "b", "c"}) w.Add(MakePod(name).Gpu(8).Gated());
  w.Tick();
  REQUIRE(w.Planned("a") == "n");
  w.Reload(MakePolicy({MakeQueue("q", {"default"}, 4)}));
  w.Tick();
  for (const char* name : {"a", "b", "c"}) CHECK(w.Why(name) == "ExceedsLimit");
}

}  // namespace
}  // namespace berth::engine
