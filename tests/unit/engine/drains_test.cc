// queues[].hold: holdAndDrain. What runs in such a queue ends, job by job.
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

config::PolicyConfiguration Policy(config::Hold hold) {
  config::PolicyConfiguration policy = MakePolicy({MakeQueue("default", {"*"})});
  policy.queues[0].hold = hold;
  return policy;
}
config::PolicyConfiguration Drained() { return Policy(config::Hold::kHoldAndDrain); }

/// n0 to n2 of 8 GPUs; the gang `low` (l0, l1) runs on n0 and n1.
class Drains : public GangWorld {
 public:
  Drains() : GangWorld(3, Policy(config::Hold::kNone)) {
    for (const char* i : {"0", "1"}) {
      Add(MakePod(std::string("l") + i).Gpu(8).Gang("low", 2).On(std::string("n") + i));
    }
    Tick();
  }
  void Drain(config::PolicyConfiguration policy = Drained()) {
    Reload(std::move(policy));
    Tick();
  }
  std::size_t tries() const { return LogOf("try ").size(); }
  std::size_t evictions() const { return LogOf("evict ").size(); }
};

TEST_CASE("all pods of a job are tried dry, and evicted", "[unit][engine]") {
  Drains w;
  w.Drain();
  CHECK(w.tries() == 2);
  CHECK(w.evictions() == 2);
  CHECK(w.LogOf("event l0 Drained").size() == 1);
  CHECK(w.engine().TakeCounters().evictions.at("drain") == 2);
  w.Advance(600'000);  // they end
  CHECK(w.evictions() == 2);
}

TEST_CASE("a queue that is only held keeps what runs", "[unit][engine]") {
  Drains w;
  w.Drain(Policy(config::Hold::kHold));
  w.Advance(600'000);
  CHECK(w.tries() == 0);
}

TEST_CASE("no pod is drained where Berth lets everything pass", "[unit][engine]") {
  Drains w;
  auto policy = Drained();
  policy.mode = config::Mode::kPassthrough;
  w.Drain(policy);
  CHECK(w.tries() == 0);
}

TEST_CASE("a job of which one pod may not go stays whole, and is tried again", "[unit][engine]") {
  Drains w;
  w.Protect("l1");
  w.Add(MakePod("single").Gpu(8).On("n2"));
  w.Drain();
  CHECK(w.tries() == 3);
  CHECK(w.LogOf("evict single").size() == 1);
  CHECK(w.evictions() == 1);
  w.Advance(59'000);
  CHECK(w.tries() == 3);
  w.Advance(2'000);
  CHECK(w.tries() == 5);
  CHECK(w.evictions() == 1);
}

TEST_CASE("a gang whose budget permits fewer of them to go stays whole", "[unit][engine]") {
  GangWorld w(2, Policy(config::Hold::kNone));
  for (const char* i : {"0", "1"}) {
    w.Add(MakePod(std::string("l") + i)
              .Gpu(8)
              .Gang("low", 2)
              .Label("app", "x")
              .On(std::string("n") + i));
  }
  w.engine().OnDisruptionBudget(testing::MakeBudget("b", "app", "x", 1));
  w.Reload(Drained());
  w.Tick();
  CHECK(w.LogOf("evict ").empty());
  w.engine().OnDisruptionBudget(testing::MakeBudget("b", "app", "x", 2));
  w.Advance(61'000);
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("what comes to run later goes, too", "[unit][engine]") {
  Drains w;
  w.Drain();
  w.Add(MakePod("late").Gpu(8).On("n2"));
  w.Tick();
  CHECK(w.LogOf("evict late").size() == 1);
}

TEST_CASE("members that a gang gets meanwhile find no place", "[unit][engine]") {
  Drains w;
  w.Drain();
  w.Delete("l0");
  w.Add(MakePod("l0").Gpu(8).Gang("low", 2).Uid("l0-2").Gated());
  w.Tick();
  w.Advance(60'000);
  CHECK(w.Planned("l0").empty());
}

TEST_CASE("a hold that is lifted before the evictions ends nothing", "[unit][engine]") {
  Drains w;
  w.HoldEvictions();
  w.Drain();
  w.Reload(Policy(config::Hold::kNone));
  w.CarryOutEvictions();
  w.Tick();
  w.Advance(120'000);
  CHECK(w.evictions() == 0);
  // They are victims of nobody: work of higher priority may evict them.
  w.Add(MakeNode("n2").Gpu(0));
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 2, 2).Gated().Priority(10));
  w.Tick();
  w.CarryOutEvictions();
  w.Tick();
  w.CarryOutEvictions();
  CHECK(w.evictions() == 2);
}

TEST_CASE("pods are told before a drain ends them", "[unit][engine]") {
  Drains w;
  auto policy = Drained();
  policy.eviction.warning = std::chrono::minutes(5);
  w.Drain(policy);
  CHECK(w.LogOf("warn l").size() == 2);
  w.Advance(299'000);
  CHECK(w.evictions() == 0);
  SECTION("and it ends them then") {
    w.Advance(1'000);
    CHECK(w.evictions() == 2);
  }
  SECTION("unless a budget forbids it by then") {
    w.Protect("l1");
    w.Advance(2'000);
    CHECK(w.tries() == 4);
    CHECK(w.evictions() == 0);
    CHECK(w.LogOf("event l0 EvictionWithdrawn").empty());  // it is tried again
  }
  SECTION("and the next process does not wait all over again") {
    w.Restart();
    w.Advance(2'000);
    CHECK(w.evictions() == 2);
  }
  SECTION("it is withdrawn when the hold is lifted") {
    w.Reload(Policy(config::Hold::kNone));
    w.Advance(2'000);
    CHECK(w.evictions() == 0);
    CHECK(w.LogOf("event l0 EvictionWithdrawn").size() == 1);
  }
}

TEST_CASE("a new process goes on draining", "[unit][engine]") {
  Drains w;
  w.HoldEvictions();
  w.Drain();
  w.Restart();
  w.Tick();
  w.CarryOutEvictions();
  w.Tick();
  w.CarryOutEvictions();
  CHECK(w.evictions() == 2);
}

TEST_CASE("a drain ends what may not be evicted for other work", "[unit][engine]") {
  Drains w;
  w.Add(MakePod("kept").Gpu(8).Label("berth.dev/preemptible", "false").On("n2"));
  auto policy = Drained();
  policy.queues[0].min_run_time = std::chrono::hours(1);
  w.Drain(policy);
  CHECK(w.evictions() == 3);
}

/// The department science has 24 GPUs in use, of which its fair share covers 16: 8 of lab and 16 of
/// astro. That astro has more than the half that waiting work of bio leaves it is no matter between
/// departments. Then lab is drained, and web, whose claimant asks for 8, is held no more.
class DrainBesideClaim : public World {
 public:
  DrainBesideClaim() : World(Departments()) {
    for (const char* name : {"n0", "n1", "n2", "n3"}) Add(MakeNode(name).Gpu(8));
    Add(MakePod("drained").Ns("lab").Gpu(8).On("n0"));
    Add(MakePod("covered0").Ns("astro").Gpu(8).On("n1"));
    Add(MakePod("covered1").Ns("astro").Gpu(8).On("n2"));
    Add(MakePod("kept").Ns("web").Gpu(8).Label("berth.dev/preemptible", "false").On("n3"));
    Start();
    HoldEvictions();
    Add(MakePod("waiting").Ns("bio").Gpu(8).Selector("kubernetes.io/hostname", "n3").Gated());
    Add(MakePod("claimant").Ns("web").Gpu(8).Gated());
    Tick();
  }
  void Edit() {
    config::PolicyConfiguration policy = Departments();
    policy.queues[1].hold = config::Hold::kHoldAndDrain;
    policy.queues[4].hold = config::Hold::kNone;
    Reload(policy);
    Advance(10'000);
  }

 private:
  static config::PolicyConfiguration Departments() {
    auto policy = testing::MakeBorrowing({MakeQueue("science", {}), MakeQueue("lab", {"lab"}),
                                          MakeQueue("astro", {"astro"}), MakeQueue("bio", {"bio"}),
                                          MakeQueue("web", {"web"}, -1, 8)});
    for (std::size_t child : {1U, 2U, 3U}) policy.queues[child].parent = "science";
    policy.queues[4].hold = config::Hold::kHold;
    return policy;
  }
};

TEST_CASE("a claim beside a drain takes nothing that is covered once the drain is done",
          "[unit][engine][bug]") {
  DrainBesideClaim w;
  w.Edit();
  CHECK(w.LogOf("try covered").empty());
  CHECK(w.LogOf("try drained").size() == 1);
  w.CarryOutEvictions();
  w.Tick();
  w.CarryOutEvictions();
  w.EndVictims();
  w.Schedule();
  CHECK(w.NodeOf("claimant") == "n0");
}

TEST_CASE("if what is drained may not go yet, it counts for the queue that loses",
          "[unit][engine]") {
  DrainBesideClaim w;
  w.Protect("drained");
  w.Edit();
  w.CarryOutEvictions();
  w.Advance(3'000);
  CHECK(w.LogOf("try covered").size() == 1);
}

}  // namespace
}  // namespace berth::engine
