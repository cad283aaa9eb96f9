// Room that a running gang gets for members that its minimum lacks: others end for them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::PodBuilder;
using testing::World;

config::PolicyConfiguration Queues(int a, int b) {
  auto policy = MakePolicy({MakeQueue("a", {"a"}, -1, a), MakeQueue("b", {"b"}, -1, b)});
  policy.borrowing = true;
  return policy;
}

/// Three nodes of 8 GPUs. The gang g of queue `b`, which has a quota of 16, had three members of 4
/// GPUs and needs all of them: m0 and m1 run on n0. `a` has a quota of 8 and runs 16 pods of one
/// GPU: x0 to x7 on n1, x8 to x15 on n2.
class Lacking : public World {
 public:
  explicit Lacking(config::PolicyConfiguration policy = Queues(8, 16)) : World(std::move(policy)) {
    for (int i = 0; i < 3; ++i) Add(MakeNode(fmt::format("n{}", i)).Gpu(8));
    for (int i = 0; i < 2; ++i) Add(Member(i).On("n0").Claim("old-1", "n0", "b"));
    for (int i = 0; i < 16; ++i) {
      Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).On(fmt::format("n{}", 1 + i / 8)));
    }
    Start();
  }
  static PodBuilder Member(int i) {
    return MakePod(fmt::format("m{}", i)).Ns("b").Gpu(4).Gang("g", 3).Gated();
  }
  /// Whether kube-scheduler can bind the pod now.
  bool Starts(const std::string& pod) {
    Schedule();
    return !NodeOf(pod).empty();
  }
  std::size_t evictions() const { return LogOf("evict ").size(); }
};

TEST_CASE("a running gang takes back room for the member that it lacks", "[unit][engine]") {
  Lacking w;
  w.Add(Lacking::Member(2));
  w.Tick();
  CHECK(w.evictions() == 4);
  CHECK(w.Why("m2") == "WaitingForVictims");
  CHECK(w.Filter("m2").reason == "WaitingForVictims");
  CHECK(w.LogOf("release m2").empty());
  w.EndVictims();
  CHECK(w.LogOf("release m2").size() == 1);
  w.Schedule();
  CHECK_FALSE(w.NodeOf("m2").empty());
  CHECK(w.evictions() == 4);
  const Counters counters = w.engine().TakeCounters();
  CHECK(counters.evictions == std::map<std::string, std::uint64_t>{{"reclaim", 4}});
  CHECK(counters.evictions_in_vain.empty());
  CHECK(counters.gang_waits_ms.empty());  // it ran already
  CHECK(w.LogOf("event m0 GangStarted").empty());
}

TEST_CASE("a running gang takes nothing back for members beyond its minimum", "[unit][engine]") {
  Lacking w;
  w.Add(Lacking::Member(2).Min(2));
  for (int i = 0; i < 2; ++i) {
    w.Change(fmt::format("m{}", i),
             [](kube::Pod& pod) { pod.meta.annotations["berth.dev/gang-min-member"] = "2"; });
  }
  w.Restart();  // its terms are those of the start
  w.Tick();
  CHECK(w.evictions() == 0);
  CHECK(w.Why("m2") == "InsufficientDevices");
}

TEST_CASE("members that the minimum lacks get room together or not at all", "[unit][engine]") {
  const auto with = [](int quota_of_a) {
    Lacking w(Queues(quota_of_a, 16));
    w.Delete("m1");
    w.Advance(1'000);
    w.Add(MakePod("z").Ns("a").Gpu(4).On("n0"));
    for (int i = 2; i < 4; ++i) w.Add(Lacking::Member(i));
    w.Tick();
    return w.evictions();
  };
  // Of 20 that a uses it can lose 8, which makes room for both; or 7, which does so for one.
  CHECK(with(12) > 0);
  CHECK(with(13) == 0);
}

TEST_CASE("no pod ends if one of the members is gone before the evictions are sent",
          "[unit][engine][bug]") {
  Lacking w(Queues(12, 16));
  w.HoldEvictions();
  w.Delete("m1");
  w.Advance(1'000);
  w.Add(MakePod("z").Ns("a").Gpu(4).On("n0"));
  for (int i = 2; i < 4; ++i) w.Add(Lacking::Member(i));
  w.Tick();
  REQUIRE(w.Why("m2") == "WaitingForVictims");
  SECTION("one that waits") { w.Delete("m3"); }
  SECTION("one that runs") {
    w.Add(Lacking::Member(5).On("n1"));  // otherwise none would be left
    w.Delete("m0");
  }
  for (int round = 0; round < 4; ++round) w.CarryOutEvictions();
  CHECK(w.LogOf("evict ").empty());
}

TEST_CASE("a gang that is about to be evicted evicts no pod", "[unit][engine][bug]") {
  auto policy = Queues(8, 16);
  policy.eviction.warning = std::chrono::milliseconds(30'000);
  Lacking w(policy);
  w.Add(
      MakePod("high").Ns("b").Gpu(8).Priority(10).Selector("kubernetes.io/hostname", "n0").Gated());
  w.Tick();
  REQUIRE(w.LogOf("warn m").size() == 2);
  w.Add(Lacking::Member(2));
  w.Tick();
  CHECK(w.LogOf("warn x").empty());
  w.Advance(31'000);
  CHECK(w.LogOf("evict m").size() == 2);
}

TEST_CASE("what is recovered stays where more was evicted for the gang", "[unit][engine][bug]") {
  // m2 has the place that the last process gave it; x0 to x3 end for m3, by what they are marked
  // with.
  Lacking w;
  w.Delete("m1");
  w.Add(Lacking::Member(2).Claim("old-1", "n0", "b"));
  w.Add(Lacking::Member(3));
  for (int i = 0; i < 4; ++i) {
    w.Change(fmt::format("x{}", i), [](kube::Pod& pod) {
      pod.meta.annotations["berth.dev/evicted-for"] = "b/gang/g";
      pod.meta.deletion = 0;
    });
  }
  w.Restart();
  w.Tick();
  CHECK(w.Planned("m2") == "n0");
  w.EndVictims();
  w.Schedule();
  CHECK(w.NodeOf("m2") == "n0");
  CHECK_FALSE(w.NodeOf("m3").empty());
}

TEST_CASE("what is taken back for a gang goes on while it changes", "[unit][engine]") {
  Lacking w;
  w.Add(Lacking::Member(2));
  w.Tick();
  REQUIRE(w.evictions() == 4);
  SECTION("a member that runs reports something") {
    w.Change("m0", [](kube::Pod& pod) { pod.meta.labels["step"] = "2"; });
    w.Tick();
    CHECK(w.Why("m2") == "WaitingForVictims");
    CHECK(w.LogOf("decision dissolve").empty());
  }
  SECTION("another member is lost") {
    w.Delete("m1");
    w.Tick();
    CHECK(w.Why("m2") == "WaitingForVictims");
    w.EndVictims();
    CHECK(w.Starts("m2"));
    CHECK(w.evictions() == 4);
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  }
  SECTION("work of higher priority comes, which would otherwise evict the gang") {
    w.Add(MakePod("high").Ns("b").Gpu(8).Priority(10).Gated());
    w.Tick();
    CHECK(w.LogOf("evict m").empty());
    w.EndVictims();
    CHECK(w.Starts("m2"));
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
    w.Tick();
    CHECK(w.LogOf("evict m").size() == 3);  // now it is a gang like any other
  }
  SECTION("another member is lost, and another process decides") {
    w.Delete("m1");
    w.Restart();
    w.Tick();
    CHECK(w.Why("m2") == "WaitingForVictims");
    w.EndVictims();
    CHECK(w.Starts("m2"));
    CHECK(w.evictions() == 4);
  }
  SECTION("its user binds the member elsewhere") {
    w.Add(MakeNode("n3").Gpu(8));
    w.Add(Lacking::Member(2).On("n3"));
    w.Tick();
    CHECK(w.engine().TakeCounters().evictions_in_vain ==
          std::map<std::string, std::uint64_t>{{"changed", 4}});
  }
  SECTION("work of higher priority comes, and the member is not bound in time") {
    w.Add(MakePod("high").Ns("b").Gpu(8).Priority(10).Gated());
    w.EndVictims();
    CHECK(w.LogOf("evict m").empty());
    w.Advance(700'000);
    CHECK(w.LogOf("evict m").size() == 2);
  }
  SECTION("another process decides") {
    w.Restart();
    w.Tick();
    CHECK(w.Why("m2") == "WaitingForVictims");
    w.EndVictims();
    CHECK(w.Starts("m2"));
    CHECK(w.evictions() == 4);
  }
  SECTION("another process decides, and nothing is lacking any more") {
    w.Delete("m2");
    w.Restart();
    w.Tick();
    CHECK(w.evictions() == 4);
    CHECK(w.Why("m0").empty());
  }
}

TEST_CASE("evictions that a gang no longer needs are not sent when it needs others",
          "[unit][engine]") {
  Lacking w;
  w.HoldEvictions();
  w.Add(Lacking::Member(2));
  w.Tick();
  w.CarryOutEvictions();  // the dry runs; the evictions are under way
  REQUIRE(w.evictions() == 4);
  w.Delete("m2");
  for (int i = 8; i < 12; ++i) w.Delete(fmt::format("x{}", i));
  w.Advance(1'000);
  w.Add(Lacking::Member(3).Gpu(6));  // 4 are free on n2
  const auto ending = [&] {
    return std::ranges::count_if(
        w.pods(), [](const auto& pod) { return pod.second.meta.deletion.has_value(); });
  };
  w.CarryOutEvictions();
  CHECK(ending() == 0);  // those for m2 are not sent any more
  for (int round = 0; round < 4; ++round) w.CarryOutEvictions();
  CHECK(ending() == 2);
  w.EndVictims();
  CHECK(w.Starts("m3"));
}

TEST_CASE("a queue on hold takes back what its running gang lacks, a drained one does not",
          "[unit][engine]") {
  auto policy = Queues(8, 16);
  SECTION("hold") {
    policy.queues[1].hold = config::Hold::kHold;
    Lacking w(policy);
    w.Add(Lacking::Member(2));
    w.Tick();
    CHECK(w.evictions() == 4);
    CHECK(w.Why("m2") == "WaitingForVictims");
  }
  SECTION("hold, by an edit while others end") {
    Lacking w(policy);
    w.Add(Lacking::Member(2));
    w.Tick();
    REQUIRE(w.evictions() == 4);
    policy.queues[1].hold = config::Hold::kHold;
    w.Reload(policy);
    w.Tick();
    CHECK(w.Why("m2") == "WaitingForVictims");
    w.EndVictims();
    CHECK(w.Starts("m2"));
  }
  SECTION("hold and drain") {
    policy.queues[1].hold = config::Hold::kHoldAndDrain;
    Lacking w(policy);
    w.Add(Lacking::Member(2));
    w.Tick();
    CHECK(w.LogOf("evict m").size() == 2);
    CHECK(w.LogOf("evict x").empty());
  }
}

TEST_CASE("members that wait for others are warned about like those of any plan",
          "[unit][engine]") {
  auto policy = Queues(8, 16);
  policy.eviction.warning = std::chrono::milliseconds(30'000);
  Lacking w(policy);
  w.Add(Lacking::Member(2));
  w.Tick();
  CHECK(w.evictions() == 0);
  CHECK(w.LogOf("warn x").size() == 4);
  SECTION("they end when their time is over") {
    w.Advance(31'000);
    CHECK(w.evictions() == 4);
    w.EndVictims();
    CHECK(w.Starts("m2"));
  }
  SECTION("they stay if room is found") {
    for (int i = 8; i < 12; ++i) w.Delete(fmt::format("x{}", i));
    for (int i = 0; i < 4; ++i) w.Delete(fmt::format("x{}", i));
    w.Advance(31'000);
    w.Schedule();
    CHECK(w.evictions() == 0);
    CHECK_FALSE(w.NodeOf("m2").empty());
  }
}

}  // namespace
}  // namespace berth::engine
