// Evictions that take the surplus of elastic gangs first: their gangs go on with their minimum.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using Lines = std::vector<std::string>;

/// Nodes n0, n1, ... of 8 GPUs, each full of one pod.
class Surplus : public GangWorld {
 public:
  explicit Surplus(int nodes, config::PolicyConfiguration policy = {})
      : GangWorld(nodes, std::move(policy)) {}
  /// A gang of `size` pods of 8 GPUs, NAME0 on node `first`, and so on.
  void Run(const std::string& name, int first, int size, int min, TimePoint created = 10) {
    for (int i = 0; i < size; ++i) {
      Add(Pod(name, i, size, min).Created(created).On("n" + std::to_string(first + i)));
    }
    Tick();
  }
  static testing::PodBuilder Pod(const std::string& name, int i, int size, int min) {
    return MakePod(name + std::to_string(i)).Gpu(8).Gang(name, size).Min(min);
  }
  /// The gang h of priority 10, of that many pods of 8 GPUs.
  void Want(int pods) {
    for (int i = 0; i < pods; ++i) {
      Add(Pod("h", i, pods, pods).Created(5000).Gated().Priority(10));
    }
    Tick();
  }
  /// Names of those for whom there was such a line.
  Lines Names(const std::string& verb) const {
    Lines names;
    for (const std::string& line : LogOf(verb + " ")) {
      names.push_back(
          line.substr(verb.size() + 1, line.find(' ', verb.size() + 1) - verb.size() - 1));
    }
    return names;
  }
  Lines Evicted() const { return Names("evict"); }
  void EndVictims() {
    for (const std::string& name : Evicted()) Delete(name);
    Tick();
  }
};

TEST_CASE("surplus goes before a minimum, and is enough up to its last pod", "[unit][engine]") {
  Surplus w(4);
  w.Run("l", 0, 4, 2);
  SECTION("one of two") {
    w.Want(1);
    CHECK(w.Evicted() == Lines{"l3"});
  }
  SECTION("both") {
    w.Want(2);
    CHECK(w.Evicted() == Lines{"l3", "l2"});
  }
  SECTION("one too few: the whole gang goes") {
    w.Want(3);
    CHECK(w.Evicted().size() == 4);
    CHECK(w.LogOf("event l3 Preempted").front().find("goes on") == std::string::npos);
  }
}

TEST_CASE("a gang that loses surplus goes on, and may grow again", "[unit][engine]") {
  Surplus w(3);
  w.Run("l", 0, 3, 2);
  w.Want(1);
  REQUIRE(w.Evicted() == Lines{"l2"});
  CHECK(w.LogOf("event l2 Preempted")
            .front()
            .ends_with("Evicted: work of priority 10 in queue default takes its room, and this "
                       "work has priority 0. "
                       "Its gang goes on with its minimum."));
  w.EndVictims();
  w.Add(Surplus::Pod("l", 9, 3, 2).Gated());
  w.Tick();
  CHECK(w.Planned("h0") == "n2");
  CHECK(w.Planned("l9").empty());  // the room is not its own
  w.Schedule();
  CHECK(w.NodeOf("h0") == "n2");
  CHECK(w.NodeOf("l0") == "n0");
  CHECK(w.NodeOf("l1") == "n1");
  w.Delete("h0");
  w.Tick();
  CHECK(w.Planned("l9") == "n2");
}

TEST_CASE("surplus of several gangs goes before the minimum of one", "[unit][engine]") {
  Surplus w(5);
  w.Run("a", 0, 2, 1, 10);
  w.Run("b", 2, 2, 1, 20);
  w.Add(MakePod("s").Gpu(8).Created(30).On("n4"));
  SECTION("it is enough") {
    w.Want(2);
    CHECK(w.Evicted() == Lines{"b1", "a1"});
  }
  SECTION("with a pod by itself, before a gang") {
    w.Want(3);
    CHECK(w.Evicted() == Lines{"s", "b1", "a1"});
  }
  SECTION("with the minimum of the younger one") {
    w.Want(4);
    CHECK(w.Evicted() == Lines{"s", "b1", "b0", "a1"});
  }
}

TEST_CASE("the lowest priority goes first, then the highest rank", "[unit][engine]") {
  Surplus w(4);
  const std::vector<int> ranks{3, 0, 2, 1};
  for (int i = 0; i < 4; ++i) {
    w.Add(Surplus::Pod("l", i, 4, 2)
              .Rank(ranks[static_cast<std::size_t>(i)])
              .Priority(i == 3 ? 0 : 1)
              .On("n" + std::to_string(i)));
  }
  w.Tick();
  w.Want(2);
  CHECK(w.Evicted() == Lines{"l3", "l0"});
}

TEST_CASE("members that have succeeded count towards the minimum", "[unit][engine]") {
  const int min = GENERATE(2, 3);
  Surplus w(3);
  w.Gather(3, min);
  w.Schedule();
  REQUIRE(w.Bound(2));
  w.Change("m0", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
  w.Advance(1'000);
  w.Want(2);
  CHECK(w.Evicted() == (min == 2 ? Lines{"m2"} : Lines{"m1", "m2"}));
}

TEST_CASE("each surplus member is spared for its own reasons", "[unit][engine]") {
  Surplus w(3);
  const int spared = GENERATE(0, 2);
  for (int i = 0; i < 3; ++i) {
    auto pod = Surplus::Pod("l", i, 3, 1);
    if (i == spared) pod.Label("berth.dev/preemptible", "false");
    w.Add(pod.On("n" + std::to_string(i)));
  }
  w.Tick();
  SECTION("others go") {
    w.Want(1);
    CHECK(w.Evicted() == (spared == 0 ? Lines{"l2"} : Lines{"l1"}));
  }
  SECTION("the whole gang does not") {
    w.Want(3);
    CHECK(w.Names("try").empty());
  }
}

TEST_CASE("one that asks for devices stays beside a launcher", "[unit][engine]") {
  Surplus w(2);
  w.Add(MakePod("launcher").Cpu("1").Gang("l", 3).Min(1).On("n0"));
  w.Run("l", 0, 2, 1);
  SECTION("the other one is surplus") {
    w.Want(1);
    CHECK(w.Evicted() == Lines{"l1"});
  }
  SECTION("for both rooms, all go") {
    w.Want(2);
    CHECK(w.Evicted().size() == 3);
  }
}

TEST_CASE("surplus whose eviction is refused is passed over", "[unit][engine]") {
  Surplus w(3);
  w.Run("l", 0, 3, 1);
  w.Protect("l2");
  w.Want(1);
  CHECK(w.Names("try") == Lines{"l2", "l1"});
  CHECK(w.Evicted() == Lines{"l1"});
}

TEST_CASE("surplus that a budget covers is passed over", "[unit][engine]") {
  Surplus w(3);
  w.Run("l", 0, 3, 1);
  w.Change("l2", [](kube::Pod& pod) { pod.meta.labels["app"] = "kept"; });
  w.engine().OnDisruptionBudget(testing::MakeBudget("b", "app", "kept", 0));
  w.Want(1);
  CHECK(w.Evicted() == Lines{"l1"});
}

// Members of the minimum are being bound, and the others have a place: one of these gives it up.
TEST_CASE("a gang that starts loses its surplus only", "[unit][engine][bug]") {
  Surplus w(1);
  for (int i = 0; i < 4; ++i) {
    w.Add(MakePod("s" + std::to_string(i)).Gpu(2).Gang("s", 4).Min(2).Gated());
  }
  w.Advance(3'000);  // elastic gangs wait a moment for more
  for (const char* pod : {"s0", "s1"}) w.Bind(pod, w.Planned(pod));
  REQUIRE(w.Planned("s3") == "n0");
  w.Add(MakePod("h").Gpu(2).Gang("h", 1).Gated().Priority(10));
  w.Tick();
  CHECK(w.LogOf("try ").empty());
  CHECK(w.Planned("h") == "n0");
}

// Three nodes of 8 GPUs have one member each, and the gang needs two. Which one goes is decided by
// where the other work can run, before its rank.
TEST_CASE("surplus goes from a node that helps", "[unit][engine][bug]") {
  Surplus w(3);
  w.Run("l", 0, 3, 2);
  for (const char* node : {"n0", "n1", "n2"}) {
    w.Add(testing::MakeNode(node).Gpu(8).Label("name", node));
  }
  const std::string where = w.NodeOf("l0");
  w.Add(MakePod("h").Gpu(8).Gang("h", 1).Gated().Priority(10).Selector("name", where));
  w.Tick();
  CHECK(w.Evicted() == Lines{"l0"});
}

// Each gang can lose one of its three members. h needs 6 GPUs on two of the nodes n0, n1 and n2: on
// n0 the member of a is enough, on n1 that of b. Alone, each of the gangs would rather lose its
// member on n2.
TEST_CASE("which members are surplus is chosen for several gangs together", "[unit][engine][bug]") {
  Surplus w(3);
  for (int i = 0; i < 3; ++i) {
    const std::string node = "n" + std::to_string(i);
    w.Add(MakePod("a" + std::to_string(i)).Gpu(2).Gang("a", 3).Min(2).On(node));
    w.Add(MakePod("b" + std::to_string(i)).Gpu(1).Gang("b", 3).Min(2).On(node));
  }
  w.Add(MakePod("s").Gpu(1).On("n0"));
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod("h" + std::to_string(i)).Gpu(6).Gang("h", 2).Gated().Priority(10));
  }
  w.Tick();
  Lines evicted = w.Evicted();
  std::ranges::sort(evicted);
  CHECK(evicted == Lines{"a0", "b2"});
}

TEST_CASE("surplus has the minimum run time of its gang", "[unit][engine]") {
  config::Queue queue = MakeQueue("default", {"*"});
  queue.min_run_time = std::chrono::minutes{1};
  Surplus w(2, MakePolicy({queue}));
  w.Add(w.Member(0, 2, 1).Gated());
  w.Add(w.Member(1, 2, 1).Gated());
  w.Tick();
  w.Schedule();
  REQUIRE(w.Bound(1));
  const TimePoint bound = w.now() / 1000 * 1000;
  w.Want(1);
  w.Advance(bound + 59'999 - w.now());
  CHECK(w.Names("try").empty());
  w.Advance(1);
  CHECK(w.Evicted() == Lines{"m1"});
}

TEST_CASE("a planned place of surplus is given up, and no pod is evicted", "[unit][engine]") {
  Surplus w(2);
  w.Add(w.Member(0, 2, 1).Gated());
  w.Tick();
  w.Advance(2'000);
  w.Schedule();
  REQUIRE(w.Bound(0));
  w.Add(w.Member(1, 2, 1).Gated());
  w.Tick();
  const std::string node = w.Planned("m1");
  REQUIRE_FALSE(node.empty());
  w.Want(1);
  CHECK(w.Planned("h0") == node);
  CHECK(w.Planned("m1").empty());
  CHECK(w.Names("try").empty());
  w.Schedule();
  CHECK(w.NodeOf("h0") == node);
  CHECK(w.Bound(0));
}

TEST_CASE("what its gang needs by now is not evicted as surplus", "[unit][engine]") {
  Surplus w(3);
  w.Run("l", 0, 3, 2);
  w.HoldEvictions();
  w.Want(1);
  REQUIRE(w.Names("try") == Lines{"l2"});
  SECTION("the gang has its members yet") {
    w.CarryOutEvictions();
    CHECK(w.Evicted() == Lines{"l2"});
  }
  SECTION("it lost one meanwhile") {
    w.Delete("l1");
    w.CarryOutEvictions();
    CHECK(w.Evicted().empty());
    CHECK_FALSE(w.engine().IsVictim(*w.store().FindPod("uid-l2")));
    CHECK(w.Planned("h0") == "n1");
  }
}

TEST_CASE("another process goes on with the evictions of surplus", "[unit][engine]") {
  Surplus w(4);
  w.Run("l", 0, 4, 2);
  w.Want(2);
  REQUIRE(w.Evicted() == Lines{"l3", "l2"});
  CHECK(w.pod("l3").meta.annotations.at("berth.dev/evicted-for") == "default/gang/h surplus");
  SECTION("both end, and the gang is not torn") {
    w.Restart();
    CHECK_FALSE(w.Planned("h0").empty());
    CHECK_FALSE(w.engine().StateOf(*w.store().FindPod("uid-l0")->workload).evicted);
    w.EndVictims();
    w.Schedule();
    CHECK_FALSE(w.NodeOf("h0").empty());
    CHECK(w.NodeOf("l1") == "n1");
    CHECK(w.Evicted() == Lines{"l3", "l2"});
  }
  SECTION("one is marked, and its eviction was not sent") {
    w.Change("l2", [](kube::Pod& pod) { pod.meta.deletion.reset(); });
    w.Restart();
    CHECK(w.Evicted() == Lines{"l3", "l2", "l2"});
    CHECK(w.pod("l2").meta.deletion.has_value());
    CHECK_FALSE(w.pod("l1").meta.deletion.has_value());
  }
  SECTION("the one that is marked is needed now") {
    w.Change("l2", [](kube::Pod& pod) { pod.meta.deletion.reset(); });
    w.Delete("l1");
    w.Restart();
    CHECK(w.Evicted() == Lines{"l3", "l2"});
    CHECK_FALSE(w.pod("l2").meta.deletion.has_value());
    CHECK_FALSE(w.Planned("h0").empty());
    CHECK(w.Planned("h0") != "n2");
    CHECK(w.Planned("h1") != "n2");
  }
}

}  // namespace
}  // namespace berth::engine
