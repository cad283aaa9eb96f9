// Room that queues take back from each other: who begins it, what ends it, and what victims are
// told. Which victims the rules permit is in tests/unit/policy/claims_test.cc and in
// tests/property/reclaim_property_test.cc.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeBorrowing;
using testing::MakeBudget;
using testing::MakeNode;
using testing::MakePod;
using testing::MakeQueue;
using testing::PodBuilder;
using testing::World;

/// Two nodes of 8 GPUs, and two queues with a quota of 8 each. `a` runs 16 pods of one GPU: x0 to
/// x7 on n0, x8 to x15 on n1.
class Reclaim : public World {
 public:
  explicit Reclaim(config::PolicyConfiguration policy = Queues(8, 8)) : World(std::move(policy)) {
    for (int i = 0; i < 2; ++i) Add(MakeNode(fmt::format("n{}", i)).Gpu(8));
    for (int i = 0; i < 16; ++i) {
      Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).On(fmt::format("n{}", i / 8)));
    }
    Start();
  }
  static config::PolicyConfiguration Queues(int a, int b) {
    return MakeBorrowing({MakeQueue("a", {"a"}, -1, a), MakeQueue("b", {"b"}, -1, b)});
  }
  static PodBuilder Mine(const std::string& name, int gpus) {
    return MakePod(name).Ns("b").Gpu(gpus).Gated();
  }
  std::size_t evictions() const { return LogOf("evict ").size(); }
};

TEST_CASE("a single pod takes back room, and is released when its victims are gone",
          "[unit][engine]") {
  Reclaim w;
  w.Add(Reclaim::Mine("y", 8));
  w.Tick();
  CHECK(w.evictions() == 8);
  CHECK(w.Why("y") == "WaitingForVictims");
  CHECK(w.LogOf("release y").empty());
  CHECK(w.engine().TakeCounters().evictions ==
        std::map<std::string, std::uint64_t>{{"reclaim", 8}});
  w.EndVictims();
  CHECK(w.LogOf("release y").size() == 1);
  w.Schedule();
  CHECK_FALSE(w.NodeOf("y").empty());
  CHECK(w.evictions() == 8);
}

TEST_CASE("an Event tells work of its own queue from that of others", "[unit][engine]") {
  World w(Reclaim::Queues(-1, 2));
  w.Add(MakeNode("n").Gpu(2));
  w.Add(MakePod("x").Ns("a").Gpu(1).On("n"));
  w.Add(MakePod("low").Ns("b").Gpu(1).On("n"));
  w.Start();
  w.Add(Reclaim::Mine("y", 2).Priority(10));
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 2);
  const auto events = w.LogOf("event y WaitingForVictims");
  REQUIRE(events.size() == 1);
  CHECK(events.front() ==
        "event y WaitingForVictims Its queue takes back what is used above quota and fair share in "
        "queue a: 1 pod, and 1 pod of lower priority in its own queue, are to be evicted.");
}

constexpr const char* kNic = "example.com/nic";

/// A node of so many GPUs and NICs, full of pods of `a` with one of each: x0, x1, ...
class FullOfNics : public World {
 public:
  FullOfNics(config::PolicyConfiguration policy, int count) : World(WithNics(std::move(policy))) {
    Add(MakeNode("n").Gpu(count).Allocatable(kNic, count * 1'000));
    for (int i = 0; i < count; ++i) {
      Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).Request(kNic, "1").On("n"));
    }
    Start();
  }

 private:
  static config::PolicyConfiguration WithNics(config::PolicyConfiguration policy) {
    policy.devices.push_back({.name = kNic, .kind = config::DeviceKind::kWhole});
    return policy;
  }
};

// The quota of b names the GPUs alone, and its pod asks for a NIC, too. `a` holds all of both.
TEST_CASE("a quota of GPUs is taken back for work that asks for other devices, too",
          "[unit][engine][bug]") {
  FullOfNics w(Reclaim::Queues(-1, 8), 8);
  w.Add(Reclaim::Mine("y", 4).Request(kNic, "4"));
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 4);
}

// Quotas promise 8 of 6 GPUs, so the fair share of z does not cover its quota, nor its job's NICs.
TEST_CASE("a quota of GPUs that is overcommitted is taken back together with other devices",
          "[unit][engine][bug]") {
  config::PolicyConfiguration policy = testing::MakeBorrowing(
      {MakeQueue("a", {"a"}, -1, 3), MakeQueue("b", {"b"}, -1, 3), MakeQueue("z", {"z"}, -1, 2)});
  policy.queues[1].preemption.reclaim = config::Reclaim::kNever;
  FullOfNics w(policy, 6);
  w.Add(Reclaim::Mine("y", 3).Request(kNic, "3"));
  w.Add(MakePod("z").Ns("z").Gpu(2).Request(kNic, "2").Gated());
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 2);
  CHECK(w.Why("z") == "WaitingForVictims");
}

// 50 handles are no devices: the pod with one GPU goes, and not the one with four.
TEST_CASE("handles are not counted among the devices that victims lose", "[unit][engine][bug]") {
  constexpr const char* kHandle = "rdma/hca";
  config::PolicyConfiguration policy;
  policy.devices.push_back({.name = kHandle, .kind = config::DeviceKind::kHandles});
  World w(policy);
  w.Add(MakeNode("n0").Gpu(1).Allocatable(kHandle, 100'000));
  w.Add(MakeNode("n1").Gpu(4).Allocatable(kHandle, 100'000));
  w.Add(MakePod("small").Gpu(1).Request(kHandle, "50").On("n0"));
  w.Add(MakePod("large").Gpu(4).On("n1"));
  w.Start();
  w.Add(MakePod("y").Gpu(1).Gang("y", 1).Priority(10).Gated());
  w.Tick();
  CHECK(w.LogOf("evict small").size() == 1);
}

// a has a quota of GPUs, and its pods hold NICs alone, which are above that.
TEST_CASE("a quota of GPUs protects no pods that hold other devices alone", "[unit][engine][bug]") {
  config::PolicyConfiguration policy = Reclaim::Queues(8, -1);
  policy.devices.push_back({.name = kNic, .kind = config::DeviceKind::kWhole});
  World w(policy);
  w.Add(MakeNode("n").Gpu(8).Allocatable(kNic, 8000));
  for (int i = 0; i < 8; ++i) {
    w.Add(MakePod(fmt::format("x{}", i)).Ns("a").Request(kNic, "1").On("n"));
  }
  w.Start();
  PodBuilder y = MakePod("y").Ns("b").Request(kNic, "1").Gated();
  if (GENERATE(false, true)) y.Gpu(1);
  w.Add(y);
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 1);
}

// Nothing else happens that would have the claim judged again.
TEST_CASE("a claim is judged again when a budget permits more", "[unit][engine][bug]") {
  Reclaim w;
  for (int i = 0; i < 16; ++i) {
    w.Change(fmt::format("x{}", i), [](kube::Pod& pod) { pod.meta.labels["app"] = "x"; });
  }
  kube::PodDisruptionBudget budget = MakeBudget("b", "app", "x", 0);
  budget.meta.ns = "a";
  w.engine().OnDisruptionBudget(budget);
  w.Add(Reclaim::Mine("y", 8));
  w.Tick();
  w.Advance(60'000);
  REQUIRE(w.LogOf("try ").empty());
  const int how = GENERATE(0, 1, 2);
  if (how == 0) {
    budget.disruptions_allowed = 8;
    w.engine().OnDisruptionBudget(budget);
  } else if (how == 1) {
    budget.selector = MakeBudget("b", "app", "other", 0).selector;
    w.engine().OnDisruptionBudget(budget);
  } else {
    w.engine().OnDisruptionBudgetDeleted(budget.meta.uid);
  }
  w.Tick();
  w.Advance(2'000);
  CHECK(w.evictions() == 8);
}

// `lender` has reached the limit above it: only `sibling` can make room for it. The hundreds of
// jobs that `other` has above its fair share come first in the order, and none of them is needed.
TEST_CASE("of hundreds of jobs only the one goes that is needed", "[unit][engine][bug]") {
  constexpr int kNodes = 800;
  constexpr int kSiblings = 8;
  config::Queue above = MakeQueue("above", {}, kSiblings, -1);
  config::Queue lender = MakeQueue("lender", {"lender"}, -1, 1);
  config::Queue sibling = MakeQueue("sibling", {"sibling"}, -1, 0);
  config::Queue waiting = MakeQueue("waiting", {"waiting"}, -1, 0);
  lender.parent = sibling.parent = above.name;
  waiting.preemption.reclaim = config::Reclaim::kNever;
  World w(MakeBorrowing({above, lender, sibling, MakeQueue("other", {"other"}, -1, 0), waiting}));
  for (int i = 0; i < kNodes; ++i) {
    w.Add(MakeNode(fmt::format("n{}", i)).Gpu(1));
    const bool runs_beside = i < kSiblings;
    w.Add(MakePod(fmt::format("{}{}", runs_beside ? "s" : "x", i))
              .Ns(runs_beside ? "sibling" : "other")
              .Gpu(1)
              .On(fmt::format("n{}", i)));
    w.Add(MakePod(fmt::format("w{}", i)).Ns("waiting").Gpu(1).Gated());
  }
  w.Start();
  w.Add(MakePod("y").Ns("lender").Gpu(1).Gated());
  w.Tick();
  REQUIRE(w.LogOf("evict ").size() == 1);
  CHECK(w.LogOf("evict ").front().starts_with("evict s"));
}

TEST_CASE("work of higher priority inherits what its queue takes back", "[unit][engine]") {
  SECTION("where the quota is enough for one") {
    Reclaim w;
    w.Add(Reclaim::Mine("y", 8));
    w.Tick();
    REQUIRE(w.evictions() == 8);
    w.Add(Reclaim::Mine("z", 8).Priority(10));
    w.Tick();
    CHECK(w.Why("z") == "WaitingForVictims");
    CHECK(w.Planned("y").empty());
    w.EndVictims();
    w.Schedule();
    CHECK_FALSE(w.NodeOf("z").empty());
    CHECK(w.NodeOf("y").empty());
    CHECK(w.evictions() == 8);
  }
  SECTION("where it is enough for both, the other one takes more back") {
    Reclaim w(Reclaim::Queues(0, 16));
    w.Add(Reclaim::Mine("y", 8));
    w.Tick();
    REQUIRE(w.evictions() == 8);
    w.Add(Reclaim::Mine("z", 8).Priority(10));
    w.Tick();
    w.EndVictims();
    w.EndVictims();
    w.Schedule();
    CHECK_FALSE(w.NodeOf("z").empty());
    CHECK_FALSE(w.NodeOf("y").empty());
    CHECK(w.evictions() == 16);
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  }
}

TEST_CASE("work that counted on the quota of pods that stay after all gives its plan up",
          "[unit][engine]") {
  // `a` may have 10 GPUs and has 10: x on n0, and l on n1. b takes x's room for y. z needs l's
  // room, and quota: without l and x it has 4 of 10, without l alone 12.
  World w(MakeBorrowing({MakeQueue("a", {"a"}, 10, 0), MakeQueue("b", {"b"}, -1, 8)}));
  w.HoldEvictions();
  w.Add(MakeNode("n0").Gpu(8));
  w.Add(MakeNode("n1").Gpu(4));
  w.Add(MakePod("x").Ns("a").Gpu(8).Priority(20).On("n0"));
  w.Add(MakePod("l").Ns("a").Gpu(2).On("n1"));
  w.Start();
  w.Add(Reclaim::Mine("y", 8));
  w.Tick();
  REQUIRE(w.Why("y") == "WaitingForVictims");
  w.Add(MakePod("z").Ns("a").Gpu(4).Priority(10).Gated());
  w.Tick();
  REQUIRE(w.Why("z") == "WaitingForVictims");
  w.Delete("y");
  w.CarryOutEvictions();
  w.Tick();
  CHECK(w.LogOf("evict ").empty());
  CHECK(w.Why("z") == "WaitingForQuota");
}

TEST_CASE("work that can never fit is no demand, also before it is judged", "[unit][engine]") {
  // Of 16 GPUs `a` uses 14, and one is free on each node. `y` needs two on one node. Both fit into
  // what `b` may claim, but the fair share of `a` is 14, so that nothing is taken from it. If `z`
  // were demand too, it would be 12.
  World w(Reclaim::Queues(0, 4));
  for (int i = 0; i < 2; ++i) w.Add(MakeNode(fmt::format("n{}", i)).Gpu(8));
  for (int i = 0; i < 14; ++i) {
    w.Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).On(fmt::format("n{}", i / 7)));
  }
  w.Add(Reclaim::Mine("y", 2).Created(1000));
  w.Add(Reclaim::Mine("z", 2).Cpu("1000").Created(2000));
  w.Start();
  w.Tick();
  CHECK(w.Why("z") == "NeverFits");
  CHECK(w.Why("y") == "Fragmented");
  CHECK(w.LogOf("evict ").empty());
}

TEST_CASE("a gang that becomes complete and never fits is no demand either",
          "[unit][engine][bug]") {
  // Of 12 GPUs a has 8 and b asks for 2. With the 7 of c, a would be entitled to nothing.
  World w(MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"}), MakeQueue("c", {"c"})}));
  w.Add(MakeNode("n0").Gpu(8).Label("disk", "ssd"));
  w.Add(MakeNode("n1").Gpu(4));
  w.Add(MakePod("x").Ns("a").Gpu(8).On("n0"));
  w.Start();
  w.Add(MakePod("g0").Ns("c").Gpu(1).Cpu("900").Gang("g", 7).Gated());
  w.Tick();
  REQUIRE(w.Why("g0") == "WaitingForMembers");
  w.Add(MakePod("y").Ns("b").Gpu(2).Selector("disk", "ssd").Gated());
  for (int i = 1; i < 7; ++i) {
    w.Add(MakePod(fmt::format("g{}", i)).Ns("c").Gpu(1).Cpu("900").Gang("g", 7).Gated());
  }
  w.Tick();
  CHECK(w.Why("g0") == "NeverFits");
  CHECK(w.LogOf("try ").empty());
}

TEST_CASE("work that never fitted is demand as soon as a node comes back", "[unit][engine][bug]") {
  // Of 12 GPUs a has 8 on n0, c has 2, and b asks for 3. While n0 is cordoned, the gang of 5 in a
  // does not fit into the 4 of n1. Without it, a is entitled to 7 at most, in which its job of 8
  // has no place; with it, to 5.
  World w(MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"}), MakeQueue("c", {"c"})}));
  w.Add(MakeNode("n0").Gpu(8));
  w.Add(MakeNode("n1").Gpu(4));
  w.Add(MakePod("x").Ns("a").Gpu(8).On("n0"));
  w.Add(MakePod("z").Ns("c").Gpu(2).On("n1"));
  w.Start();
  w.Add(MakeNode("n0").Gpu(8).Cordoned());
  for (int i = 0; i < 5; ++i) {
    w.Add(MakePod(fmt::format("g{}", i)).Ns("a").Gpu(1).Gang("g", 5).Gated());
  }
  w.Add(MakePod("y").Ns("b").Gpu(3).Gated());
  w.Tick();
  REQUIRE(w.Why("g0") == "NeverFits");
  w.Add(MakeNode("n0").Gpu(8));
  w.Tick();
  CHECK(w.Why("g0") == "InsufficientDevices");
  CHECK(w.LogOf("try ").empty());
}

TEST_CASE("work that fits no longer is no demand from then on", "[unit][engine][bug]") {
  // Of 11 GPUs on n0, n1 and n3, a has 7 on n0, c has 2, and b asks for 2 on n0. The gang of c asks
  // for 4, on n1 and n2. As long as it counts, the job of 7 has no place in the share of a; once n2
  // is cordoned it has.
  World w(MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"}), MakeQueue("c", {"c"})}));
  w.Add(MakeNode("n0").Gpu(7).Label("disk", "ssd"));
  w.Add(MakeNode("n1").Gpu(2).Cpu(200));
  w.Add(MakeNode("n2").Gpu(4).Cpu(200));
  w.Add(MakeNode("n3").Gpu(2));
  w.Add(MakePod("x").Ns("a").Gpu(7).On("n0"));
  w.Add(MakePod("z").Ns("c").Gpu(2).On("n1"));
  w.Start();
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod(fmt::format("g{}", i)).Ns("c").Gpu(2).Cpu("150").Gang("g", 2).Gated());
  }
  w.Tick();
  REQUIRE(w.Why("g0") == "InsufficientCpuOrMemory");
  w.Add(MakeNode("n2").Gpu(4).Cpu(200).Cordoned());
  w.Add(MakePod("y").Ns("b").Gpu(2).Selector("disk", "ssd").Gated());
  w.Tick();
  CHECK(w.Why("g0") == "NeverFits");
  CHECK(w.Why("y") == "InsufficientDevices");
  CHECK(w.LogOf("try ").empty());
}

TEST_CASE("victims are told which queue takes back what", "[unit][engine]") {
  Reclaim w;
  w.Add(Reclaim::Mine("y", 1));
  w.Tick();
  std::vector<std::string> told;
  for (const std::string& line : w.LogOf("event x")) told.push_back(line.substr(line.find(' ', 6)));
  CHECK(told == std::vector<std::string>{" Reclaimed Evicted: queue b takes back what queue a uses "
                                         "above its quota and its fair share."});
}

TEST_CASE("two claims at the same time take one victim each", "[unit][engine]") {
  Reclaim w;
  for (const char* name : {"y", "z"}) w.Add(Reclaim::Mine(name, 1));
  w.Tick();
  CHECK(w.evictions() == 2);
  w.EndVictims();
  w.Schedule();
  CHECK_FALSE(w.NodeOf("y").empty());
  CHECK_FALSE(w.NodeOf("z").empty());
  CHECK(w.evictions() == 2);
}

TEST_CASE("work without the gate takes back room, too", "[unit][engine]") {
  Reclaim w;
  w.Add(MakePod("y").Ns("b").Gpu(1));
  CHECK(w.Filter("y").reason == "WaitingForVictims");
  w.Tick();
  CHECK(w.evictions() == 1);
  CHECK(w.engine().Preempt("uid-y", {{"n0", {.uids = {"uid-x0"}}}}, w.now()).empty());
  w.EndVictims();
  w.Schedule();
  CHECK_FALSE(w.NodeOf("y").empty());
}

TEST_CASE("a refused eviction is asked again, or another pod is taken", "[unit][engine]") {
  Reclaim w(Reclaim::Queues(15, 1));
  for (int i = 0; i < 15; ++i) w.Protect(fmt::format("x{}", i));
  w.Add(Reclaim::Mine("y", 1));
  w.Advance(5'000);
  CHECK(w.LogOf("evict ") == std::vector<std::string>{"evict x15 for b/pod/y"});
}

TEST_CASE("a claim that an edit makes is seen, and one that it ends is not carried out",
          "[unit][engine]") {
  Reclaim w(Reclaim::Queues(16, 0));
  w.Add(Reclaim::Mine("y", 8));
  w.Tick();
  CHECK(w.evictions() == 0);
  SECTION("the quota of the waiting queue grows, that of the other one shrinks") {
    w.Reload(Reclaim::Queues(8, 8));
    w.Tick();
    CHECK(w.evictions() == 8);
  }
  SECTION("the other one keeps its quota") {
    w.Reload(Reclaim::Queues(16, 8));
    w.Tick();
    CHECK(w.evictions() == 0);
  }
}

TEST_CASE("demand that goes away gives others a claim", "[unit][engine]") {
  // Shares of 16 by weight: as long as c asks for 8, too, 4 for b do not fit beside 6 and 6.
  World w(MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"}), MakeQueue("c", {"c"})}));
  w.Add(MakeNode("n0").Gpu(8));
  for (int i = 0; i < 8; ++i) w.Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).On("n0"));
  w.Start();
  auto policy =
      MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"}), MakeQueue("c", {"c"})});
  policy.queues[2].preemption.reclaim = config::Reclaim::kNever;
  w.Reload(policy);
  for (int i = 0; i < 8; ++i) w.Add(MakePod(fmt::format("z{}", i)).Ns("c").Gpu(1).Gated());
  w.Add(MakePod("y").Ns("b").Gpu(4).Gated());
  w.Tick();
  CHECK(w.LogOf("evict ").empty());
  for (int i = 0; i < 8; ++i) w.Delete(fmt::format("z{}", i));
  w.Advance(1'000);
  CHECK(w.LogOf("evict ").size() == 4);
}

TEST_CASE("another process goes on with what is taken back", "[unit][engine]") {
  Reclaim w;
  for (int i = 0; i < 2; ++i) {
    w.Add(Reclaim::Mine(fmt::format("m{}", i), 4).Gang("g", 2));
  }
  w.Tick();
  CHECK(w.evictions() == 8);
  w.Restart();
  w.Tick();
  CHECK(w.Why("m0") == "WaitingForVictims");
  CHECK(w.evictions() == 8);
  w.EndVictims();
  w.Schedule();
  CHECK_FALSE(w.NodeOf("m0").empty());
  CHECK_FALSE(w.NodeOf("m1").empty());
}

// A gang of a that reaches from above its quota to below it goes whole, also if one member is
// deleted already: what is left of it is one job.
TEST_CASE("another process goes on with a gang that reaches below the floor", "[unit][engine]") {
  World w(MakeBorrowing({MakeQueue("a", {"a"}, -1, 6), MakeQueue("b", {"b"}, -1, 8)}));
  for (int i = 0; i < 2; ++i) w.Add(MakeNode(fmt::format("n{}", i)).Gpu(4));
  for (int i = 0; i < 4; ++i) {
    const std::string node = fmt::format("n{}", i / 2);
    auto pod = MakePod(fmt::format("x{}", i)).Ns("a").Gpu(2).Gang("x", 4).On(node);
    w.Add(pod.Claim("old-1", node, "a"));
  }
  w.Start();
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod(fmt::format("m{}", i)).Ns("b").Gpu(4).Gang("g", 2).Gated());
  }
  w.Tick();
  REQUIRE(w.LogOf("evict ").size() == 4);
  for (const char* pod : {"x1", "x2", "x3"}) {  // only the first one was sent
    w.Change(pod, [](kube::Pod& p) { p.meta.deletion.reset(); });
  }
  w.Restart();
  w.Tick();
  for (const char* pod : {"x1", "x2", "x3"}) CHECK(w.pod(pod).meta.deletion.has_value());
}

TEST_CASE("a mark that a user writes takes nothing from another queue", "[unit][engine]") {
  Reclaim w(Reclaim::Queues(16, 8));
  w.Change("x0", [](kube::Pod& pod) {
    pod.meta.annotations["berth.dev/evicted-for"] = "b/pod/y";
    pod.meta.deletion = 0;
  });
  w.Change("x1", [](kube::Pod& pod) { pod.meta.annotations["berth.dev/evicted-for"] = "b/pod/y"; });
  w.Add(Reclaim::Mine("y", 2));
  w.Restart();
  w.Tick();
  CHECK(w.evictions() == 0);
}

// Four nodes of 8 GPUs. Of a gang of four members of `b` two run, one has a place, and one is gone:
// together that is a job of 24 GPUs, which does not fit beside the 16 that the others are entitled
// to. Once the member gave its place up, the 16 that run would be a job that does.
TEST_CASE("floors are the ones of queues whose members gave their places up",
          "[unit][engine][bug]") {
  World w(MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"}), MakeQueue("c", {"c"})}));
  for (int i = 0; i < 4; ++i) w.Add(MakeNode(fmt::format("n{}", i)).Gpu(8));
  const auto member = [](int i) {
    return MakePod(fmt::format("m{}", i)).Ns("b").Gpu(8).Gang("g", 4);
  };
  for (int i = 0; i < 4; ++i) w.Add(member(i).On(fmt::format("n{}", i)));
  w.Start();
  w.Delete("m3");
  w.Add(MakePod("c").Ns("c").Gpu(8).On("n3"));
  w.Delete("m2");
  w.Add(member(2).Gated());
  w.Tick();
  REQUIRE(w.Planned("m2") == "n2");
  w.Add(MakePod("y").Ns("a").Gpu(8).Gated());
  w.Tick();
  CHECK(w.LogOf("evict ").empty());
  CHECK(w.Planned("m2") == "n2");
}

// Its taint manager deletes the pods of a node that is lost, and nobody ends them.
TEST_CASE("what ends on a lost node is in no queue's share", "[unit][engine][bug]") {
  World w(Reclaim::Queues(8, 8));
  for (const char* node : {"n0", "n1", "n2"}) {
    w.Add(MakeNode(node).Gpu(8));
    w.Add(MakePod(fmt::format("x-{}", node)).Ns("a").Gpu(8).On(node));
  }
  w.Start();
  SECTION("it is not ready") { w.Add(MakeNode("n0").Gpu(8).NotReady()); }
  SECTION("it is cordoned") { w.Add(MakeNode("n0").Gpu(8).Cordoned()); }
  SECTION("it is deleted") { w.Remove("n0"); }
  w.Terminate("x-n0");
  w.Advance(1'000);
  w.Add(Reclaim::Mine("y", 8));
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 1);  // of 16 GPUs each queue has a share of 8
  CHECK(w.Why("y") == "WaitingForVictims");
}

TEST_CASE("a pod with required affinity takes back room beside pods that stay",
          "[unit][engine][bug]") {
  World w(Reclaim::Queues(8, 8));
  for (int i = 0; i < 4; ++i) {
    if (i % 2 == 0) w.Add(MakeNode(fmt::format("n{}", i / 2)).Gpu(8));
    w.Add(MakePod(fmt::format("x{}", i))
              .Ns("a")
              .Label("app", "x")
              .Gpu(4)
              .On(fmt::format("n{}", i / 2)));
  }
  w.Start();
  auto y = Reclaim::Mine("y", 4).Near("app", "x", "kubernetes.io/hostname");
  y.spec().required_pod_affinity[0].namespaces = {"a"};
  w.Add(y);
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 1);
  w.EndVictims();
  w.Schedule();
  CHECK_FALSE(w.NodeOf("y").empty());
}

TEST_CASE("a pod that waits for the user's cap alone is not judged again and again",
          "[unit][engine][bug]") {
  auto policy = MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"}, -1, 4)});
  policy.queues[1].max_jobs_per_user = 1;
  World w(policy);
  w.Add(MakeNode("n").Gpu(8));
  w.Add(MakePod("runs").Ns("b").Gpu(1).On("n"));
  w.Start();
  w.Add(Reclaim::Mine("waits", 1));
  w.Tick();
  CHECK(w.Why("waits") == "WaitingForQuota");
  for (int i = 0; i < 3; ++i) {
    w.engine().Step(w.now());
    CHECK(w.engine().TakeActions().empty());
  }
  CHECK_FALSE(w.engine().NextDeadline() == w.now());
}

TEST_CASE("what a queue may take back it takes once", "[unit][engine]") {
  Reclaim w;
  for (int i = 0; i < 12; ++i) w.Add(Reclaim::Mine(fmt::format("y{}", i), 1));
  for (int round = 0; round < 5; ++round) {
    w.Advance(1'000);
    w.EndVictims();
    w.Schedule();
  }
  CHECK(w.evictions() == 8);  // a keeps its quota of 8
  CHECK(w.UsedGpus() == 16);
}

TEST_CASE("a pod that does not end is neither coming room nor use of its queue", "[unit][engine]") {
  // a: a pod of 8 GPUs on n0 that is deleted, and 8 of one GPU on n1. Of the 16 GPUs, b asks for 4.
  World w(MakeBorrowing({MakeQueue("a", {"a"}), MakeQueue("b", {"b"})}));
  for (const char* node : {"n0", "n1"}) w.Add(MakeNode(node).Gpu(8));
  w.Add(MakePod("s").Ns("a").Gpu(8).On("n0"));
  for (int i = 0; i < 8; ++i) w.Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).On("n1"));
  w.Start();
  w.Terminate("s");
  w.Add(Reclaim::Mine("y", 4));
  w.Tick();
  CHECK(w.LogOf("evict ").empty());
  w.Advance(700'000);
  w.Add(Reclaim::Mine("z", 8));  // queue b is looked at again
  w.Tick();
  // What a can use is 8, and its fair share of the 16 is 8.
  CHECK(w.LogOf("evict ").empty());
  w.Delete("s");
  w.Tick();
  w.Schedule();
  CHECK(w.NodeOf("y") == "n0");
}

}  // namespace
}  // namespace berth::engine
