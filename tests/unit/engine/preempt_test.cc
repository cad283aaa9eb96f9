// preempt: kube-scheduler names victims by its own count; the answer names those of Berth's own
// plan, if kube-scheduler can evict them.
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
using Names = std::vector<std::string>;

/// n1 and n2 of 8 GPUs; the preemptor `p` asks for 8 at priority 10.
class Preemption : public World {
 public:
  explicit Preemption(config::PolicyConfiguration policy = {}) : World(std::move(policy)) {
    Add(MakeNode("n1").Gpu(8));
    Add(MakeNode("n2").Gpu(8));
    Start();
    Add(MakePod("p").Gpu(8).Priority(10));
  }
  VictimMap Ask(const std::map<std::string, Names>& victims) {
    VictimMap map;
    for (const auto& [node, names] : victims) {
      for (const std::string& name : names) map[node].uids.push_back("uid-" + name);
      map.try_emplace(node);
    }
    auto answer = engine().Preempt("uid-p", map, now());
    Tick();
    return answer;
  }
  static Names Victims(const VictimMap& answer, const std::string& node) {
    Names names;
    if (!answer.contains(node)) return names;
    for (const auto& uid : answer.find(node)->second.uids) names.push_back(uid.substr(4));
    return names;
  }
};

TEST_CASE("a victim of lower priority is kept, and the room held", "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("v1").Gpu(8).On("n1"));
  w.Add(MakePod("v2").Gpu(8).On("n2"));
  CHECK(w.Filter("p").reason == "InsufficientDevices");
  const auto answer = w.Ask({{"n1", {"v1"}}});
  REQUIRE(answer.size() == 1);
  CHECK(Preemption::Victims(answer, "n1") == Names{"v1"});
  CHECK(w.Planned("p") == "n1");
  CHECK(w.LogOf("release p").empty());  // kube-scheduler nominates it by itself
  // The room is p's when the victim has gone.
  w.Add(MakePod("q").Gpu(8).Priority(10));
  CHECK(w.Filter("q").kept.empty());
  w.Delete("v1");
  CHECK(w.Filter("q").kept.empty());
  CHECK(w.Filter("p", {"n1"}).node() == "n1");
  CHECK(w.Bind("p", "n1").posted);
}

TEST_CASE("held room expires", "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("v1").Gpu(8).On("n1"));
  w.Add(MakePod("v2").Gpu(8).On("n2"));
  REQUIRE(w.Ask({{"n1", {"v1"}}}).size() == 1);
  REQUIRE(w.Planned("p") == "n1");
  w.Delete("v1");
  w.Delete("p");
  w.Advance(61'000);
  CHECK(w.UsedGpus("n1") == 0);
}

TEST_CASE("victims that may not go", "[unit][engine]") {
  Preemption w;
  SECTION("equal priority") { w.Add(MakePod("v").Gpu(8).Priority(10).On("n1")); }
  SECTION("higher priority") { w.Add(MakePod("v").Gpu(8).Priority(11).On("n1")); }
  SECTION("a gang that runs on elsewhere") {
    w.Add(MakePod("v").Gpu(8).Gang("g", 2).On("n1"));
    w.Add(MakePod("w").Gpu(8).Gang("g", 2).On("n2"));
  }
  SECTION("on another node than it is said") { w.Add(MakePod("v").Gpu(8).On("n2")); }
  SECTION("gone already, and nothing to gain") {
    w.Add(MakePod("other").Gpu(8).Priority(99).On("n1"));
  }
  SECTION("too few to make room") {
    w.Add(MakePod("v").Gpu(4).On("n1"));
    w.Add(MakePod("x").Gpu(4).Priority(99).On("n1"));
  }
  w.Tick();
  CHECK(w.Ask({{"n1", {"v"}}}).empty());
}

TEST_CASE("a gang that lies wholly on the node may go whole", "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("a").Gpu(4).Gang("g", 2).On("n1"));
  w.Add(MakePod("b").Gpu(4).Gang("g", 2).Priority(1).On("n1"));
  w.Add(MakePod("full").Gpu(8).Priority(99).On("n2"));
  w.Tick();
  CHECK(Preemption::Victims(w.Ask({{"n1", {"a"}}}), "n1") == Names{"b", "a"});
}

// Its sibling's Binding is under way on another node: that is a gang that runs on elsewhere.
TEST_CASE("a gang in the middle of its start is not torn", "[unit][engine][bug]") {
  Preemption w;
  w.Delete("p");
  w.Add(MakePod("a").Gpu(8).Gang("g", 2).Gated());
  w.Add(MakePod("b").Gpu(8).Gang("g", 2).Gated());
  w.Tick();
  const std::string node = w.Planned("a");
  REQUIRE(w.Bind("b", w.Planned("b")).parked);
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("a", node).posted);
  w.Change("a", [&](kube::Pod& pod) { pod.node_name = node; });  // b's is still on its way
  w.Tick();
  w.Add(MakePod("p").Gpu(8).Priority(10));
  CHECK(w.Ask({{node, {"a"}}}).empty());
}

TEST_CASE("no victims named: we find them", "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("low").Gpu(2).Priority(1).Created(5).On("n1"));
  w.Add(MakePod("lower").Gpu(2).Priority(0).Created(5).On("n1"));
  w.Add(MakePod("young").Gpu(2).Priority(1).Created(9).On("n1"));
  w.Add(MakePod("cpu").Cpu("1").Priority(0).On("n1"));
  w.Add(MakePod("full").Gpu(8).Priority(99).On("n2"));
  SECTION("as few and as low as needed") {
    w.Change("p", [](kube::Pod& pod) {
      pod = MakePod("p").Gpu(6).Priority(10);  // 2 are free: 4 more
    });
    const auto answer = w.Ask({{"n1", {}}, {"n2", {}}});
    REQUIRE(answer.size() == 1);
    CHECK(Preemption::Victims(answer, "n1") == Names{"young", "lower"});
  }
  SECTION("all of them if it must be, never those without use") {
    CHECK(Preemption::Victims(w.Ask({{"n1", {}}}), "n1") == Names{"young", "low", "lower"});
  }
  SECTION("what a budget keeps stays") {
    w.Change("p", [](kube::Pod& pod) {
      pod = MakePod("p").Gpu(6).Priority(10);  // 2 are free: 4 more
    });
    w.Change("lower", [](kube::Pod& pod) { pod.meta.labels["app"] = "db"; });
    w.engine().OnDisruptionBudget(testing::MakeBudget("db", "app", "db", 0));
    auto answer = w.Ask({{"n1", {}}});
    CHECK(Preemption::Victims(answer, "n1") == Names{"young", "low"});
    CHECK(answer["n1"].pdb_violations == 0);
  }
  SECTION("also where there is no other way") {
    w.Change("lower", [](kube::Pod& pod) { pod.meta.labels["app"] = "db"; });
    w.engine().OnDisruptionBudget(testing::MakeBudget("db", "app", "db", 0));
    CHECK(w.Ask({{"n1", {"young", "low", "lower"}}}).empty());
  }
  SECTION("a gang is not taken apart for it") {
    w.Add(MakePod("g0").Gpu(2).Gang("g", 2).On("n1"));
    w.Add(MakePod("g1").Gpu(0).Gang("g", 2).On("n2"));
    w.Tick();
    CHECK(w.Ask({{"n1", {}}}).empty());
  }
}

TEST_CASE("one node is kept: the least harm", "[unit][engine]") {
  Preemption w;
  SECTION("fewer budgets broken") {
    w.Add(MakePod("v1").Gpu(8).Label("app", "db").On("n1"));
    w.Add(MakePod("v2").Gpu(8).Priority(5).On("n2"));
    w.engine().OnDisruptionBudget(testing::MakeBudget("db", "app", "db", 0));
    const auto answer = w.Ask({{"n1", {"v1"}}, {"n2", {"v2"}}});
    REQUIRE(answer.size() == 1);
    CHECK(answer.begin()->first == "n2");
    CHECK(answer.begin()->second.pdb_violations == 0);
  }
  SECTION("lower priority") {
    w.Add(MakePod("v1").Gpu(8).Priority(3).On("n1"));
    w.Add(MakePod("v2").Gpu(8).Priority(2).On("n2"));
    CHECK(w.Ask({{"n1", {"v1"}}, {"n2", {"v2"}}}).begin()->first == "n2");
  }
  SECTION("fewer victims") {
    w.Add(MakePod("v1").Gpu(4).On("n1"));
    w.Add(MakePod("v1b").Gpu(4).On("n1"));
    w.Add(MakePod("v2").Gpu(8).On("n2"));
    CHECK(w.Ask({{"n1", {"v1", "v1b"}}, {"n2", {"v2"}}}).begin()->first == "n2");
  }
}

TEST_CASE("budgets are counted over the victims of one answer", "[unit][engine]") {
  config::PolicyConfiguration policy;
  const bool deletes = GENERATE(false, true);
  policy.eviction.by = deletes ? config::EvictBy::kDelete : config::EvictBy::kEviction;
  Preemption w(policy);
  w.Add(MakePod("full").Gpu(8).Priority(99).On("n2"));
  w.Add(MakePod("a").Gpu(4).Label("app", "db").On("n1"));
  w.Add(MakePod("b").Gpu(4).Label("app", "db").On("n1"));
  w.engine().OnDisruptionBudget(testing::MakeBudget("db", "app", "db", 1));
  const auto answer = w.Ask({{"n1", {"a", "b"}}});
  REQUIRE(answer.size() == (deletes ? 1U : 0U));
  if (deletes) CHECK(answer.begin()->second.pdb_violations == 1);
}

TEST_CASE("the victims that Berth chooses, and not the ones that kube-scheduler proposes",
          "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("v1").Gpu(8).Priority(3).On("n1"));
  w.Add(MakePod("v2").Gpu(8).Priority(2).On("n2"));
  SECTION("on another node that it offers") {
    w.Add(MakePod("v2b").Cpu("1").Priority(2).On("n2"));
    CHECK(Preemption::Victims(w.Ask({{"n1", {"v1"}}, {"n2", {"v2", "v2b"}}}), "n2") == Names{"v2"});
    CHECK(w.LogOf("evict ").empty());
  }
  SECTION("on a node that it does not offer: Berth evicts, and it nobody") {
    CHECK(w.Ask({{"n1", {"v1"}}}).empty());
    CHECK(w.LogOf("evict ") == Names{"evict v2 for default/pod/p"});
    w.Delete("v2");
    w.Tick();
    CHECK(w.LogOf("release p").size() == 1);
    CHECK(w.Planned("p") == "n2");
  }
}

TEST_CASE("a pod whose eviction was refused is not left to kube-scheduler", "[unit][engine][bug]") {
  Preemption w;
  w.Delete("p");
  w.Add(MakePod("v1").Gpu(8).On("n1"));
  w.Add(MakePod("full").Gpu(8).Priority(99).On("n2"));
  w.Protect("v1");
  w.Add(MakePod("gated").Gpu(8).Priority(10).Gated());
  w.Tick();
  REQUIRE(w.LogOf("try v1").size() == 1);
  CHECK_FALSE(w.pod("gated").scheduling_gates.empty());
  w.Add(MakePod("p").Gpu(8).Priority(10));
  CHECK(w.Ask({{"n1", {"v1"}}}).empty());
}

TEST_CASE("a pod that is left to kube-scheduler says nothing of others", "[unit][engine][bug]") {
  Preemption w;
  w.Add(MakePod("v1").Gpu(8).On("n1"));
  w.Add(MakePod("v2").Gpu(8).On("n2"));
  w.Refuse("p");  // before it asks for victims, for example for want of a volume
  w.Tick();
  REQUIRE(w.LogOf("evict ").empty());
  w.Add(MakePod("gated").Gpu(8).Priority(10).Gated());
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 1);
}

TEST_CASE("a place that others gave up for it is told", "[unit][engine][bug]") {
  Preemption w;
  w.Add(MakePod("full").Gpu(8).Priority(99).On("n2"));
  w.Add(MakePod("low").Gpu(8).Gated());
  w.Tick();
  REQUIRE(w.Planned("low") == "n1");
  CHECK(w.Ask({{"n1", {}}}).empty());
  CHECK(w.Planned("p") == "n1");
  CHECK(w.LogOf("release p").size() == 1);
}

TEST_CASE("a gang on several nodes goes by Berth's own evictions", "[unit][engine]") {
  Preemption w;
  for (const char* node : {"n1", "n2"}) {
    w.Add(MakePod(std::string("g-") + node).Gpu(8).Gang("g", 2).On(node));
  }
  w.Tick();
  CHECK(w.Ask({{"n1", {"g-n1"}}}).empty());
  CHECK(w.LogOf("evict ").size() == 2);
  CHECK(w.Why("p") == "WaitingForVictims");
}

TEST_CASE("pods that may not preempt", "[unit][engine]") {
  SECTION("a gang member") {
    Preemption w;
    w.Add(MakePod("v").Gpu(8).On("n1"));
    w.Change("p", [](kube::Pod& pod) { pod = MakePod("p").Gpu(8).Gang("g", 1).Priority(10); });
    CHECK(w.Ask({{"n1", {"v"}}}).empty());
  }
  SECTION("a pod whose queue is full") {
    Preemption w(MakePolicy({MakeQueue("q", {"default"}, 8)}));
    w.Add(MakePod("used").Gpu(8).On("n2"));
    w.Add(MakePod("v").Gpu(8).Ns("default").Scheduler("other").On("n1"));
    CHECK(w.Filter("p").reason == "WaitingForQuota");
    CHECK(w.Ask({{"n1", {"v"}}}).empty());
  }
  SECTION("a pod of no queue") {
    Preemption w;
    w.Add(MakePod("v").Gpu(8).On("n1"));
    w.Change("p", [](kube::Pod& pod) { pod.meta.labels["berth.dev/queue"] = "nope"; });
    CHECK(w.Ask({{"n1", {"v"}}}).empty());
  }
  SECTION("a pod that is bound, ending or unknown") {
    Preemption w;
    w.Add(MakePod("v").Gpu(8).On("n1"));
    w.Change("p", [](kube::Pod& pod) { pod.meta.deletion = 5; });
    CHECK(w.Ask({{"n1", {"v"}}}).empty());
    CHECK(w.engine().Preempt("uid-nobody", {{"n1", {{"uid-v"}, 0}}}, w.now()).empty());
  }
}

TEST_CASE("the queue's victims make room in the queue", "[unit][engine]") {
  Preemption w(MakePolicy({MakeQueue("q", {"default"}, 8)}));
  w.Add(MakePod("v").Gpu(8).On("n1"));
  w.Add(MakePod("x").Gpu(8).Scheduler("other").On("n2"));
  // Asked by kube-scheduler's own count, before filter ever saw it.
  CHECK(Preemption::Victims(w.Ask({{"n1", {"v"}}}), "n1") == Names{"v"});
}

TEST_CASE("a queue that is over a cap may preempt for what it does not ask for of it",
          "[unit][engine]") {
  config::Queue queue = MakeQueue("q", {"default"}, 16);
  queue.limit["cpu"] = 1'000;
  Preemption w(MakePolicy({queue}));
  w.Add(MakePod("v").Gpu(8).On("n1"));
  w.Add(MakePod("x").Gpu(8).Cpu("2").Priority(10).On("n2"));  // from before the limit
  SECTION("no CPU") { CHECK(Preemption::Victims(w.Ask({{"n1", {"v"}}}), "n1") == Names{"v"}); }
  SECTION("some CPU") {
    w.Change("p", [](kube::Pod& pod) { pod = MakePod("p").Gpu(8).Cpu("1").Priority(10); });
    CHECK(w.Ask({{"n1", {"v"}}}).empty());
  }
}

TEST_CASE("a pod that is not ours is kube-scheduler's business", "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("v").Gpu(8).On("n1"));
  w.Change("p", [](kube::Pod& pod) { pod = MakePod("p").Cpu("1").Priority(10); });
  CHECK(Preemption::Victims(w.Ask({{"n1", {"v"}}}), "n1") == Names{"v"});
}

TEST_CASE("the eviction must be enough: selectors, ports, neighbours", "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("v").Gpu(8).On("n1"));
  SECTION("the node does not match") {
    w.Change("p",
             [](kube::Pod& pod) { pod = MakePod("p").Gpu(8).Priority(10).Selector("zone", "x"); });
  }
  SECTION("a port stays taken") {
    w.Add(MakePod("port").HostPort(80).Priority(99).On("n1"));
    w.Change("p", [](kube::Pod& pod) { pod = MakePod("p").Gpu(8).Priority(10).HostPort(80); });
  }
  SECTION("a hermit stays") {
    w.Add(MakePod("hermit").Priority(99).NotNear("app", "p", "kubernetes.io/hostname").On("n1"));
    w.Change("p", [](kube::Pod& pod) { pod = MakePod("p").Gpu(8).Priority(10).Label("app", "p"); });
  }
  CHECK(w.Ask({{"n1", {"v"}}}).empty());
}

// Its own Binding may yet succeed on n1.
TEST_CASE("a pod whose Binding is under way does not preempt", "[unit][engine][bug]") {
  Preemption w;
  w.Add(MakePod("v").Gpu(8).On("n2"));
  REQUIRE(w.Filter("p").node() == "n1");
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("p", "n1").posted);
  CHECK(w.Ask({{"n2", {"v"}}}).empty());
  CHECK(w.UsedGpus("n1") == 8);
}

TEST_CASE("asking twice gives the same answer", "[unit][engine]") {
  Preemption w;
  w.Add(MakePod("v1").Gpu(8).On("n1"));
  w.Add(MakePod("v2").Gpu(8).On("n2"));
  const auto first = w.Ask({{"n1", {"v1"}}, {"n2", {"v2"}}});
  const auto second = w.Ask({{"n1", {"v1"}}, {"n2", {"v2"}}});
  REQUIRE(first.size() == 1);
  REQUIRE(second.size() == 1);
  CHECK(first.begin()->first == second.begin()->first);
  CHECK(w.UsedGpus() == 24);
}

TEST_CASE("a pod that asks in vain keeps what was planned", "[unit][engine][bug]") {
  Preemption w;
  w.Add(MakePod("v2").Gpu(8).Priority(99).On("n2"));
  REQUIRE(w.Filter("p").node() == "n1");
  CHECK(w.Ask({{"n2", {"v2"}}}).empty());
  CHECK(w.Planned("p") == "n1");
  CHECK(w.Bind("p", "n1").posted);
}

// Its own plan is no use of the queue that stands in its way.
TEST_CASE("a plan of its own does not keep a pod from preempting", "[unit][engine]") {
  Preemption w(MakePolicy({MakeQueue("default", {"*"}, 16)}));
  w.Add(MakePod("v2").Gpu(8).On("n2"));
  REQUIRE(w.Filter("p").node() == "n1");
  w.Add(MakeNode("n1").Gpu(8).Cordoned());
  CHECK(Preemption::Victims(w.Ask({{"n2", {"v2"}}}), "n2") == Names{"v2"});
  CHECK(w.Planned("p") == "n2");
}

}  // namespace
}  // namespace berth::engine
