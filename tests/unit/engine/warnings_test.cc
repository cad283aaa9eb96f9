// eviction.warning: pods are told of their eviction some time before it.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using Lines = std::vector<std::string>;

config::PolicyConfiguration Warn(config::PolicyConfiguration policy = {}) {
  policy.eviction.warning = std::chrono::minutes(5);
  return policy;
}

/// n0 and n1 of 8 GPUs, full of the gang `low` (l0, l1). Pods are told of an eviction 5 minutes
/// before it.
class Warnings : public GangWorld {
 public:
  explicit Warnings(int nodes = 2, config::PolicyConfiguration policy = Warn())
      : GangWorld(nodes, std::move(policy)) {
    for (int i = 0; i < 2; ++i) {
      const std::string name = std::to_string(i);
      Add(MakePod("l" + name).Gpu(8).Gang("low", 2).Created(10).On("n" + name));
    }
    Tick();
  }
  /// The gang g (m0, m1) of priority 10.
  void GatherHigh() {
    for (int i = 0; i < 2; ++i) Add(Member(i, 2, 2).Gated().Priority(10));
    Tick();
  }
  bool IsMarked(const std::string& name) {
    return pod(name).meta.annotations.contains("berth.dev/eviction-time");
  }
};

TEST_CASE("victims are told, and evicted when their time is over", "[unit][engine]") {
  Warnings w;
  w.GatherHigh();
  CHECK(w.LogOf("try ").size() == 2);
  CHECK(w.LogOf("evict ").empty());
  CHECK(w.LogOf("warn l").size() == 2);
  CHECK(w.LogOf("event l0 EvictionWarning").size() == 1);
  CHECK(w.IsMarked("l0"));
  CHECK(w.Why("m0") == "WaitingForVictims");
  w.Advance(299'000);
  CHECK(w.LogOf("evict ").empty());
  w.Advance(1'000);
  CHECK(w.LogOf("try ").size() == 4);  // it is asked again whether they would be done
  CHECK(w.LogOf("evict ").size() == 2);
  CHECK(w.LogOf("warn ").size() == 2);
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Tick();
  w.Schedule();
  CHECK(w.Bound(0));
  CHECK(w.Bound(1));
}

TEST_CASE("no pod is told of an eviction that would be refused", "[unit][engine]") {
  Warnings w;
  w.Protect("l1");
  w.GatherHigh();
  CHECK(w.LogOf("try ").size() == 2);
  CHECK(w.LogOf("warn ").empty());
}

TEST_CASE("a warning is withdrawn when it is not needed any more", "[unit][engine]") {
  Warnings w;
  w.GatherHigh();
  REQUIRE(w.IsMarked("l0"));
  SECTION("the work is gone") {
    for (const char* pod : {"m0", "m1"}) w.Delete(pod);
  }
  SECTION("there is room elsewhere") {
    for (const char* node : {"n2", "n3"}) w.Add(MakeNode(node).Gpu(8));
  }
  SECTION("an edit of the policy forbids it") {
    auto policy = Warn(MakePolicy({MakeQueue("default", {"*"})}));
    policy.queues[0].preemption.within = config::Within::kNever;
    w.Reload(policy);
  }
  w.Tick();
  CHECK(w.LogOf("event l0 EvictionWithdrawn").size() == 1);
  CHECK_FALSE(w.IsMarked("l0"));
  w.Advance(600'000);
  CHECK(w.LogOf("evict ").empty());
}

TEST_CASE("room that is too little changes nothing", "[unit][engine]") {
  Warnings w;
  w.GatherHigh();
  w.Add(MakeNode("n2").Gpu(8));
  w.Tick();
  CHECK(w.IsMarked("l0"));
  CHECK(w.LogOf("decision dissolve").empty());
  w.Advance(300'000);
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("a pod that ends by itself meanwhile is not evicted", "[unit][engine]") {
  Warnings w;
  w.GatherHigh();
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Tick();
  CHECK(w.LogOf("release m").size() == 2);
  CHECK(w.LogOf("evict ").empty());
}

TEST_CASE("when the time is over work of higher priority comes first", "[unit][engine]") {
  Warnings w;
  w.GatherHigh();
  w.Advance(200'000);
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod("u" + std::to_string(i)).Gpu(8).Gang("urgent", 2).Priority(20).Gated());
  }
  w.Tick();
  CHECK(w.Why("u0") == "InsufficientDevices");
  w.Advance(99'000);
  CHECK(w.LogOf("evict ").empty());
  w.Advance(1'000);
  CHECK(w.Why("m0") == "InsufficientDevices");
  CHECK(w.LogOf("evict l0 for default/gang/urgent").size() == 1);
  CHECK(w.LogOf("warn ").size() == 2);  // those told once were not told again
}

TEST_CASE("a new process keeps the time that was told", "[unit][engine]") {
  Warnings w;
  w.GatherHigh();
  w.Advance(200'000);
  SECTION("that of the last one") {}
  SECTION("but not one that is later than any policy allows") {
    w.Change("l0", [](kube::Pod& pod) {
      pod.meta.annotations["berth.dev/eviction-time"] = "2099-01-01T00:00:00Z";
    });
    w.Restart();
    w.Tick();
    w.Advance(24 * 3'600'000 - 1'000);
    CHECK(w.LogOf("evict ").empty());
    w.Advance(1'000);
    CHECK(w.LogOf("evict ").size() == 2);
    return;
  }
  w.Restart();
  w.Tick();
  CHECK(w.LogOf("warn ").size() == 2);
  w.Advance(99'000);
  CHECK(w.LogOf("evict ").empty());
  w.Advance(1'000);
  CHECK(w.LogOf("evict ").size() == 2);
}

// It was not withdrawn in time.
TEST_CASE("a new process does not believe a time that is long over", "[unit][engine][bug]") {
  Warnings w;
  for (const char* pod : {"l0", "l1"}) {
    w.Change(pod, [](kube::Pod& p) {
      p.meta.annotations["berth.dev/eviction-time"] = "1970-01-01T00:10:00Z";
    });
  }
  w.Restart();
  w.Tick();
  w.GatherHigh();
  CHECK(w.LogOf("evict ").empty());
  CHECK(w.LogOf("warn ").size() == 2);
  w.Advance(299'000);
  CHECK(w.LogOf("evict ").empty());
  w.Advance(1'000);
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("a new process withdraws warnings that no work needs", "[unit][engine]") {
  Warnings w;
  w.Change("l0", [](kube::Pod& pod) { pod.meta.annotations["berth.dev/eviction-time"] = "soon"; });
  w.Restart();
  w.Tick();
  w.Advance(15'000);
  CHECK_FALSE(w.IsMarked("l0"));
}

TEST_CASE("pods that were warned go before pods that were not", "[unit][engine]") {
  Warnings w(3);
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Advance(1'000);
  w.Add(MakePod("a").Gpu(8).On("n0"));
  w.Add(MakePod("x").Gpu(8).Priority(99).On("n1"));
  w.Add(MakePod("y").Gpu(8).Priority(99).On("n2"));
  w.Add(MakePod("high").Gpu(8).Priority(10).Gated());
  w.Tick();
  REQUIRE(w.IsMarked("a"));
  w.Advance(200'000);
  // One that would have been taken first: it has lost less, and is younger.
  w.Delete("y");
  w.Add(MakePod("p").Gpu(8).Created(900'000).On("n2"));
  w.Advance(100'000);
  CHECK(w.LogOf("evict ") == Lines{"evict a for default/pod/high"});
}

TEST_CASE("a member that comes after its gang's warning has no more time than the others",
          "[unit][engine][bug]") {
  Warnings w(3);
  w.Add(MakePod("x").Gpu(8).Priority(99).On("n2"));
  w.GatherHigh();
  REQUIRE(w.IsMarked("l0"));
  w.Advance(200'000);
  w.Add(MakePod("late").Cpu("1").Gang("low", 2).Created(900'000).On("n2"));
  w.Tick();
  w.Advance(100'000);
  CHECK(w.IsMarked("late"));
  CHECK(w.LogOf("evict ").size() == 3);
}

// An elastic gang whose launcher was bound ahead needs no member more: its plan had no place left.
TEST_CASE("a plan ends when all of its members have gone", "[unit][engine][bug]") {
  Warnings w(3);
  w.Add(MakePod("x").Gpu(8).Priority(99).On("n2"));
  w.Add(MakePod("launcher").Cpu("1").Gang("e", 2).Min(1).Priority(10));
  w.Add(MakePod("worker").Gpu(8).Gang("e", 2).Min(1).Priority(10).Gated());
  w.Change("launcher", [](kube::Pod& pod) { pod.node_name = "n2"; });
  w.Advance(2'000);
  REQUIRE(w.Why("worker") == "WaitingForVictims");
  w.Delete("worker");
  w.Delete("x");
  w.Tick();
  w.Advance(100'000);
  CHECK_FALSE(w.IsMarked("l0"));
  CHECK(w.LogOf("evict ").empty());
}

TEST_CASE("one of many victims that ends by itself leaves the others their time",
          "[unit][engine][bug]") {
  Warnings w;
  w.GatherHigh();
  w.Advance(290'000);
  w.Delete("l0");
  w.Tick();
  w.Advance(10'000);
  CHECK(w.LogOf("evict l1").size() == 1);
}

TEST_CASE("work that needs a warning may have a pause", "[unit][engine][bug]") {
  Warnings w;
  SECTION("after a restart, for more members of an elastic gang") {
    for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 4, 2).Gated().Priority(10));
    w.Advance(2'000);
    REQUIRE(w.IsMarked("l0"));
    const std::string time = w.pod("l0").meta.annotations.at("berth.dev/eviction-time");
    w.Restart();
    w.Tick();
    w.Advance(5'000);
    CHECK(w.pod("l0").meta.annotations.at("berth.dev/eviction-time") == time);
  }
  SECTION("when one of the evictions is refused in the end") {
    w.GatherHigh();
    w.Advance(299'000);
    w.Protect("l1");
    w.Advance(2'000);
    REQUIRE(w.LogOf("try ").size() == 4);
    CHECK(w.IsMarked("l0"));
    w.Advance(120'000);
  }
  CHECK(w.LogOf("event l0 EvictionWithdrawn").empty());
}

TEST_CASE("an edit takes no time from pods that were told", "[unit][engine]") {
  Warnings w;
  w.GatherHigh();
  w.Advance(100'000);
  w.Reload({});
  w.Tick();
  w.Advance(199'000);
  CHECK(w.LogOf("evict ").empty());
  w.Advance(1'000);
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("a plan whose victims have ended by themselves is like any other",
          "[unit][engine][bug]") {
  Warnings w(3);
  w.Add(MakePod("x").Gpu(8).Priority(99).On("n2"));
  w.GatherHigh();
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Tick();
  REQUIRE(w.LogOf("release m").size() == 2);
  w.Delete("x");
  w.Tick();
  CHECK(w.LogOf("decision dissolve").empty());
  CHECK(w.Why("m0") == "Starting");
}

TEST_CASE("kube-scheduler evicts no pod that must be warned", "[unit][engine]") {
  Warnings w;
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Advance(1'000);
  w.Add(MakePod("a").Gpu(8).On("n0"));
  w.Add(MakePod("b").Gpu(8).On("n1"));
  w.Add(MakePod("p").Gpu(8).Priority(10));
  CHECK(w.engine().Preempt("uid-p", {{"n0", {{"uid-a"}, 0}}}, w.now()).empty());
  w.Tick();
  CHECK(w.LogOf("warn ").size() == 1);
  w.Advance(300'000);
  CHECK(w.LogOf("evict ").size() == 1);
}

}  // namespace
}  // namespace berth::engine
