// Who rests until something has happened that can help it, and who is judged whenever room is made.
#include <string>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

/// Nodes `full` and `half` of 8 GPUs, of which pods hold 8 and 5; queue `q` may use `limit`.
class Waiting : public World {
 public:
  explicit Waiting(int limit = 100)
      : World(MakePolicy({MakeQueue("q", {"default"}, limit), MakeQueue("other", {"default"})})) {
    for (const char* name : {"full", "half"}) Add(MakeNode(name).Gpu(8));
    Start();
    Add(MakePod("a").Gpu(8).Priority(50).Queue("other").On("full"));
    Add(MakePod("b").Gpu(5).Priority(50).Queue("other").On("half"));
    Tick();
  }
  bool Rests(const std::string& workload) {
    return engine().Rests(*store().FindWorkload("default/" + workload));
  }
  bool Gated(const std::string& name) { return !pod(name).scheduling_gates.empty(); }
};

TEST_CASE("a workload that waits for room rests until a node may have it", "[unit][engine]") {
  Waiting w;
  w.Add(MakePod("p").Gpu(4).Gated());
  w.Tick();
  CHECK(w.Rests("pod/p"));
  w.Add(MakePod("c").Gpu(1).Queue("other").On("half"));
  w.Delete("c");
  w.Tick();
  CHECK(w.Rests("pod/p"));  // 3 are free there, as before
  w.Delete("b");
  w.Tick();
  CHECK(w.Planned("p") == "half");
}

TEST_CASE("a workload that waits for room is woken by a node", "[unit][engine]") {
  Waiting w;
  w.Add(MakePod("p").Gpu(4).Gated().Selector("pool", "x"));
  w.Tick();
  REQUIRE(w.Rests("pod/p"));
  SECTION("that joins") {
    w.Add(MakeNode("wrong").Gpu(8));
    w.Tick();
    CHECK(w.Rests("pod/p"));
    w.Add(MakeNode("right").Gpu(8).Label("pool", "x"));
    w.Tick();
    CHECK(w.Planned("p") == "right");
  }
  SECTION("whose labels change") {
    w.Delete("b");
    w.Tick();
    CHECK(w.Rests("pod/p"));
    w.Add(MakeNode("half").Gpu(8).Label("pool", "x"));
    w.Tick();
    CHECK(w.Planned("p") == "half");
  }
}

TEST_CASE("counting that finds room with victims lets no workload like it rest",
          "[unit][engine][bug]") {
  Waiting w;
  w.Add(MakePod("low").Gpu(1).Priority(0).Queue("q").On("half"));
  for (const char* gang : {"g", "h"}) {
    for (int i = 0; i < 2; ++i) {
      w.Add(MakePod(gang + std::to_string(i)).Gpu(8).Gang(gang, 2).Priority(100).Gated());
    }
  }
  w.Tick();
  REQUIRE(w.Rests("gang/g"));
  REQUIRE(w.Rests("gang/h"));
  w.Delete("a");  // room for one member, and each needs two
  w.Tick();
  CHECK_FALSE(w.Rests("gang/g"));
  CHECK_FALSE(w.Rests("gang/h"));
  w.Delete("low");
  w.Delete("b");
  w.Tick();
  CHECK(w.Planned("g0") != "");
  CHECK(w.Why("h0") == "InsufficientDevices");
}

TEST_CASE("one more of a kind that does not fit is told so, and rests as well", "[unit][engine]") {
  Waiting w;
  for (const char* name : {"p1", "p2"}) w.Add(MakePod(name).Gpu(4).Gated());
  w.Tick();
  CHECK(w.Rests("pod/p2"));
  CHECK(w.Why("p2") == "InsufficientDevices");
  w.Delete("a");
  w.Tick();
  CHECK(w.Planned("p1") == "full");
  CHECK(w.Planned("p2") == "full");
}

TEST_CASE("a gang rests until its members are there", "[unit][engine]") {
  Waiting w;
  w.Add(MakePod("m0").Gpu(1).Gang("g", 2).Gated());
  w.Tick();
  CHECK(w.Rests("gang/g"));
  w.Add(MakePod("m1").Gpu(1).Gang("g", 2).Gated());
  w.Tick();
  CHECK(w.Planned("m0") == "half");
}

TEST_CASE("a workload that waits for quota rests until its queue has it", "[unit][engine]") {
  Waiting w(2);
  w.Add(MakePod("q0").Gpu(1).Queue("q").On("half"));
  w.Add(MakePod("q1").Gpu(1).Queue("q").On("half"));
  w.Add(MakePod("p").Gpu(2).Queue("q").Gang("g", 1).Gated());
  w.Tick();
  CHECK(w.Rests("gang/g"));
  w.Delete("a");  // room, but of another queue
  w.Tick();
  CHECK(w.Rests("gang/g"));
  w.Delete("q0");
  w.Tick();
  CHECK(w.Rests("gang/g"));
  CHECK(w.VerdictOf("p").have == 1000);  // what is left now, not when it was judged
  w.Delete("q1");
  w.Tick();
  CHECK_FALSE(w.Planned("p").empty());
}

TEST_CASE("a workload at rest rests no more under another policy", "[unit][engine]") {
  Waiting w(2);
  w.Add(MakePod("p").Gpu(3).Queue("q").Gated());
  w.Tick();
  CHECK(w.Why("p") == "ExceedsLimit");
  CHECK(w.Rests("pod/p"));
  w.Reload(MakePolicy({MakeQueue("q", {"default"}, 4), MakeQueue("other", {"default"})}));
  CHECK(w.Planned("p") == "half");
}

TEST_CASE("a gated pod rests until pods that come after it hold what it needs", "[unit][engine]") {
  Waiting w;
  w.Add(MakePod("v").Gpu(3).Queue("q").Label("berth.dev/preemptible", "false").On("half"));
  w.Add(MakePod("p").Gpu(3).Queue("q").Priority(10).Gated());
  w.Tick();
  CHECK(w.Rests("pod/p"));
  w.Change("v", [](kube::Pod& pod) { pod.meta.labels.erase("berth.dev/preemptible"); });
  w.Tick();
  CHECK(w.LogOf("evict v").size() == 1);
}

TEST_CASE("a pod that no node would take is judged again when a full node would",
          "[unit][engine][bug]") {
  Waiting w;
  w.Add(MakePod("v").Gpu(3).Queue("q").On("half"));
  w.Add(MakeNode("half").Gpu(8).Cordoned());
  w.Add(MakeNode("full").Gpu(8).Cordoned());
  w.Add(MakePod("p").Gpu(3).Queue("q").Priority(10).Gated());
  w.Tick();
  CHECK(w.Why("p") == "NoMatchingNodes");
  w.Add(MakeNode("half").Gpu(8));
  w.Tick();
  CHECK(w.LogOf("evict v").size() == 1);
}

TEST_CASE("a pod that comes after it and is not bound yet gives its place up", "[unit][engine]") {
  Waiting w;
  w.Add(MakePod("v").Gpu(3).Queue("q"));
  REQUIRE(w.Filter("v").node() == "half");
  w.Add(MakePod("p").Gpu(3).Queue("q").Priority(10).Gated());
  w.Tick();
  CHECK(w.Planned("p") == "half");
  CHECK_FALSE(w.Bind("v", "half").posted);
  CHECK(w.LogOf("try ").empty());
}

TEST_CASE("workloads whose neighbours matter rest where no node has room", "[unit][engine]") {
  Waiting w;
  w.Add(MakePod("p").Gpu(4).Gated().NotNear("app", "x", "kubernetes.io/hostname"));
  w.Tick();
  CHECK(w.Rests("pod/p"));
  w.Add(MakePod("c").Gpu(1).Queue("other").On("half"));
  w.Delete("c");
  w.Tick();
  CHECK(w.Rests("pod/p"));
  w.Delete("b");
  w.Tick();
  CHECK(w.Planned("p") == "half");
}

TEST_CASE("workloads that wait for neighbours do not rest", "[unit][engine]") {
  Waiting w;
  w.Add(MakePod("p").Gpu(1).Gated().Near("app", "x", "kubernetes.io/hostname"));
  w.Tick();
  CHECK_FALSE(w.Rests("pod/p"));
}

}  // namespace
}  // namespace berth::engine
