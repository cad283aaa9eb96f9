// Evictions that Berth makes by itself: a gang takes the room of whole jobs of lower priority.
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/engine/evictions_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeBudget;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

TEST_CASE("a gang is released when the last of its victims is gone", "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  CHECK(w.Orders() == kBoth);
  CHECK(w.Planned("m0") == "n0");
  CHECK(w.Why("m0") == "WaitingForVictims");
  CHECK(w.LogOf("event l0 Preempted").size() == 1);
  w.Delete("l0");
  w.Tick();
  CHECK(w.LogOf("release m").empty());
  w.Delete("l1");
  w.Tick();
  CHECK(w.LogOf("release m").size() == 2);
  CHECK(w.Why("m0") == "Starting");
  w.Schedule();
  CHECK(w.Bound(0));
  CHECK(w.Bound(1));
  CHECK(w.Orders() == kBoth);
}

TEST_CASE("an eviction that is answered after its victim's end is counted and told",
          "[unit][engine]") {
  EvictionsWorld w;
  w.HoldEvictions();
  w.GatherHigh();
  w.CarryOutEvictions();  // the dry runs
  w.Tick();
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Tick();
  REQUIRE(w.LogOf("release m").size() == 2);
  w.CarryOutEvictions();
  w.Tick();
  CHECK(w.LogOf("event l0 Preempted").size() == 1);
  CHECK(w.engine().TakeCounters().evictions ==
        std::map<std::string, std::uint64_t>{{"preemption", 2}});
}

TEST_CASE("a pod whose Binding does not take effect is no victim", "[unit][engine][bug]") {
  // The Binding of `low` is under way when m0 is planned in its place.
  GangWorld w(1);
  w.HoldEvictions();
  w.SetPosting(testing::Posting::kHangs);
  w.Add(MakePod("low").Gpu(8).Gated());
  w.Tick();
  REQUIRE(w.Bind("low", w.Planned("low")).posted);
  const std::string uid = w.pod("low").meta.uid;
  w.Add(w.Member(0, 1, 1).Gated().Priority(10));
  w.Tick();
  REQUIRE(w.LogOf("try ") == std::vector<std::string>{"try low for default/gang/g"});
  REQUIRE(w.Why("m0") == "WaitingForVictims");
  SECTION("before the dry run is answered") {
    w.engine().BindFinished(uid, BindOutcome::kRefused, w.now());
    w.Tick();
    w.CarryOutEvictions();
    w.Tick();
    CHECK(w.LogOf("evict ").empty());
  }
  SECTION("after the dry run is answered") {
    w.CarryOutEvictions();
    w.Tick();
    w.engine().BindFinished(uid, BindOutcome::kRefused, w.now());
    w.Tick();
  }
  w.SetPosting(testing::Posting::kBinds);
  CHECK(w.Planned("low").empty());
  CHECK(w.Why("m0") == "Starting");
  w.Schedule();
  CHECK(w.Bound(0));
}

TEST_CASE("no pod is evicted unless all evictions would be done", "[unit][engine]") {
  EvictionsWorld w;
  w.Protect("l1");
  w.GatherHigh();
  CHECK(w.LogOf("evict ").empty());
  CHECK(w.LogOf("try ").size() == 2);
  CHECK(w.Why("m0") == "InsufficientDevices");
  CHECK(w.UsedGpus() == 16);
  w.Advance(59'000);
  CHECK(w.LogOf("try ").size() == 2);
  w.Advance(2'000);  // after a minute it is asked again
  CHECK(w.LogOf("try ").size() == 4);
  CHECK(w.LogOf("evict ").empty());
}

/// Three nodes, full with single pods: s0 and s1 of priority 0, and t. The gang g (m0, m1) has
/// priority 10. A budget comes after the dry runs: s0 is evicted, and s1 is not.
class RefusedEviction : public GangWorld {
 public:
  explicit RefusedEviction(std::int32_t priority_of_t) : GangWorld(3, {}) {
    for (int i = 0; i < 2; ++i) {
      Add(MakePod("s" + std::to_string(i)).Gpu(8).On("n" + std::to_string(i)));
    }
    Add(MakePod("t").Gpu(8).Priority(priority_of_t).On("n2"));
    Tick();
    HoldEvictions();
    for (int i = 0; i < 2; ++i) Add(Member(i, 2, 2).Gated().Priority(10));
    Tick();
    CarryOutEvictions();  // the dry runs
    Protect("s1");
    CarryOutEvictions();
  }
};

TEST_CASE("where one of several evictions is refused, others go instead", "[unit][engine][bug]") {
  const bool others = GENERATE(true, false);
  RefusedEviction w(others ? 1 : 10);
  CHECK(w.LogOf("evict ").size() == 2);
  w.CarryOutEvictions();  // dry runs, for those instead
  w.CarryOutEvictions();
  if (others) {
    CHECK(w.LogOf("evict t for default/gang/g").size() == 1);
    w.EndVictims();
    w.Schedule();
    CHECK(std::set{w.NodeOf("m0"), w.NodeOf("m1")} == std::set<std::string>{"n0", "n2"});
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
  } else {  // it keeps the room, and tries again
    CHECK(w.Why("m0") == "WaitingForVictims");
    CHECK(w.Planned("m0") == "n0");
  }
}

// Neither s1 nor t may be evicted in the end.
TEST_CASE("where one eviction after the other is refused, the room of the evicted pods is kept",
          "[unit][engine][bug]") {
  RefusedEviction w(1);
  w.CarryOutEvictions();  // a dry run, for t
  w.Protect("t");
  w.CarryOutEvictions();
  CHECK(w.Why("m0") == "WaitingForVictims");
  CHECK((w.Planned("m0") == "n0" || w.Planned("m1") == "n0"));
  SECTION("and given up with the work") {
    for (int i = 0; i < 2; ++i) w.Delete("m" + std::to_string(i));
    w.Tick();
    const Counts in_vain = w.engine().TakeCounters().evictions_in_vain;
    REQUIRE(in_vain.size() == 1);
    CHECK(in_vain.begin()->second == 1);
  }
  SECTION("until another one may go") {
    CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
    CHECK(w.LogOf("evict s0").size() == 1);
  }
}

TEST_CASE("victims that do not end are given up on time", "[unit][engine][bug]") {
  config::PolicyConfiguration policy = MakePolicy();
  policy.eviction.stuck_after = std::chrono::seconds(20);
  policy.gang.plan_timeout = std::chrono::hours(1);
  EvictionsWorld w(2, policy);
  w.GatherHigh();
  CHECK(w.LogOf("evict ").size() == 2);
  w.Advance(19'000);
  CHECK_FALSE(w.Planned("m0").empty());
  w.Advance(3'000);
  CHECK(w.Planned("m0").empty());
}

TEST_CASE("a victim that does not end counts no more, nor after a restart", "[unit][engine][bug]") {
  config::PolicyConfiguration policy = MakePolicy();
  policy.eviction.stuck_after = std::chrono::seconds(20);
  GangWorld w(2, policy);
  w.Add(MakePod("young").Gpu(8).Created(20).On("n0"));
  w.Add(MakePod("old").Gpu(8).Created(10).On("n1"));
  w.Add(MakePod("high").Gpu(8).Priority(10).Gated());
  w.Tick();
  REQUIRE(w.LogOf("evict ") == Lines{"evict young for default/pod/high"});
  w.Advance(20'001);
  CHECK(w.LogOf("evict ").back() == "evict old for default/pod/high");  // at once, and no refusal
  CHECK(w.Why("high") == "WaitingForVictims");
  SECTION("its room is waited for") {}
  SECTION("and by the next process") { w.Restart(); }
  w.Tick();
  CHECK(w.Planned("high") == "n1");
  w.Add(MakePod("again").Gpu(8).Gated());
  w.Delete("old");
  w.Tick();
  w.Schedule();
  CHECK(w.NodeOf("high") == "n1");
  CHECK(w.Planned("again").empty());
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("a budget that is known is not tried", "[unit][engine]") {
  EvictionsWorld w;
  const int allowed = GENERATE(1, 2);
  for (const char* pod : {"l0", "l1"}) {
    w.Change(pod, [](kube::Pod& p) { p.meta.labels["app"] = "low"; });
  }
  kube::PodDisruptionBudget budget = MakeBudget("b", "app", "low", allowed);
  w.engine().OnDisruptionBudget(budget);
  w.GatherHigh();
  CHECK(w.LogOf("try ").empty() == (allowed == 1));
  if (allowed == 2) return;
  budget.disruptions_allowed = 2;
  w.engine().OnDisruptionBudget(budget);
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 2);
}

// The Eviction API answers with an error, however much each of the budgets permits.
TEST_CASE("a pod that two budgets cover is not tried", "[unit][engine][bug]") {
  config::PolicyConfiguration policy;
  policy.eviction.by = GENERATE(config::EvictBy::kEviction, config::EvictBy::kDelete);
  EvictionsWorld w(2, policy);
  w.Change("l0", [](kube::Pod& pod) {
    pod.meta.labels["app"] = "low";
    pod.meta.labels["tier"] = "batch";
  });
  w.engine().OnDisruptionBudget(MakeBudget("b", "app", "low", 8));
  w.engine().OnDisruptionBudget(MakeBudget("c", "tier", "batch", 8));
  w.GatherHigh();
  const bool deletes = policy.eviction.by == config::EvictBy::kDelete;
  CHECK(w.LogOf("evict ").size() == (deletes ? 2 : 0));
  if (deletes) return;
  CHECK(w.LogOf("try ").empty());
  w.engine().OnDisruptionBudgetDeleted("uid-pdb-c");
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("where victims are deleted no budget holds", "[unit][engine]") {
  config::PolicyConfiguration policy;
  policy.eviction.by = config::EvictBy::kDelete;
  EvictionsWorld w(2, policy);
  for (const char* pod : {"l0", "l1"}) {
    w.Change(pod, [](kube::Pod& p) { p.meta.labels["app"] = "low"; });
  }
  w.engine().OnDisruptionBudget(MakeBudget("b", "app", "low", 0));
  w.GatherHigh();
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("room that comes anyway is waited for", "[unit][engine]") {
  EvictionsWorld w(3);
  w.Add(MakePod("ends").Gpu(8).On("n2"));
  w.Terminate("ends");
  w.Advance(1'000);
  w.Add(EvictionsWorld::Low(9).On("n0").Gpu(1).Gang("", 0));
  SECTION("it is enough") {
    w.Add(MakePod("single").Gpu(8).Gang("h", 1).Gated().Priority(10));
    w.Tick();
    CHECK(w.Orders().empty());
  }
  SECTION("it is not: it is waited for together with the victims") {
    w.Add(MakePod("a").Gpu(8).Gang("h", 3).Gated().Priority(10));
    w.Add(MakePod("b").Gpu(8).Gang("h", 3).Gated().Priority(10));
    w.Add(MakePod("c").Gpu(8).Gang("h", 3).Gated().Priority(10));
    w.Tick();
    CHECK(w.LogOf("evict ").size() == 3);
    for (const char* pod : {"l0", "l1", "l9"}) w.Delete(pod);
    w.Tick();
    CHECK(w.LogOf("release ").empty());
    w.Delete("ends");
    w.Tick();
    CHECK(w.LogOf("release ").size() == 3);
  }
}

// Seed 3721266 of tree. Its end gives no room to the plan, only the user's turn.
TEST_CASE("a job of the same user that ends elsewhere is waited for", "[unit][engine][bug]") {
  auto policy = MakePolicy({MakeQueue("default", {"*"})});
  policy.queues[0].max_jobs_per_user = 1;
  GangWorld w(2, policy);
  const auto of = [](const char* user, const char* name, int gpus) {
    return MakePod(name).Gpu(gpus).Label("berth.dev/user", user);
  };
  w.Add(of("ann", "ends", 4).On("n0"));
  w.Add(of("cid", "kept", 4).Priority(10).On("n0"));
  w.Add(of("bob", "low", 8).On("n1"));
  w.Terminate("ends");
  w.Advance(1'000);
  w.Add(of("ann", "high", 8).Gang("h", 1).Priority(10).Gated());
  w.Tick();
  CHECK(w.LogOf("evict ") == Lines{"evict low for default/gang/h"});
  w.Delete("low");
  w.Tick();
  CHECK(w.LogOf("release ").empty());
  w.Delete("ends");
  w.Tick();
  CHECK(w.LogOf("release ").size() == 1);
}

TEST_CASE("a plan that pods were evicted for ends if an edit leaves its user too many jobs",
          "[unit][engine]") {
  auto policy = MakePolicy({MakeQueue("default", {"*"})});
  policy.queues[0].max_jobs_per_user = 2;
  GangWorld w(2, policy);
  const auto of = [](const char* user, const char* name) {
    return MakePod(name).Gpu(8).Label("berth.dev/user", user);
  };
  w.Add(of("ann", "kept").Priority(10).On("n0"));
  w.Add(of("bob", "low").On("n1"));
  w.Add(of("ann", "high").Gang("h", 1).Priority(10).Gated());
  w.Tick();
  REQUIRE(w.LogOf("evict ") == Lines{"evict low for default/gang/h"});
  policy.queues[0].max_jobs_per_user = GENERATE(1, 2);
  w.engine().OnPolicy(policy, w.now());
  w.Delete("low");
  w.Tick();
  const bool may = policy.queues[0].max_jobs_per_user == 2;
  CHECK(w.LogOf("release ").size() == (may ? 1 : 0));
  CHECK(w.engine().TakeCounters().evictions_in_vain == (may ? Counts{} : Counts{{"policy", 1}}));
}

TEST_CASE("a budget over work of no use forbids nothing", "[unit][engine]") {
  const int more = GENERATE(0, 12);  // more candidates than are tried in all sets
  GangWorld w(4 + more);
  for (int i = 0; i < 4 + more; ++i) {
    auto pod = MakePod("l" + std::to_string(i)).Gpu(i < 2 ? 8 : 1);
    w.Add(pod.Label("app", i == 0 ? "kept" : "free").On("n" + std::to_string(i)));
    if (i < 2) continue;
    w.Add(MakePod("s" + std::to_string(i)).Gpu(7).Priority(10).On("n" + std::to_string(i)));
  }
  w.engine().OnDisruptionBudget(MakeBudget("b", "app", "kept", 0));
  w.Add(w.Member(0, 1, 1).Gated().Priority(10));
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 1);
  CHECK(w.LogOf("evict l1").size() == 1);
}

TEST_CASE("a gang that must not preempt evicts no pod", "[unit][engine]") {
  EvictionsWorld w;
  for (int i = 0; i < 2; ++i) {
    kube::Pod pod = w.Member(i, 2, 2).Gated().Priority(10);
    pod.preempt_never = true;
    w.Add(pod);
  }
  w.Tick();
  CHECK(w.Orders().empty());
  CHECK(w.Why("m0") == "InsufficientDevices");
}

TEST_CASE("an edit of the policy takes no room from the gang that evicted for it",
          "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  REQUIRE(w.LogOf("evict ").size() == 2);
  SECTION("its queue still has the quota") {
    w.Reload(MakePolicy({MakeQueue("default", {"*"}, 16), MakeQueue("c", {"c"})}));
    CHECK(w.Planned("m0") == "n0");
  }
  SECTION("its queue has it no more") {
    w.Reload(MakePolicy({MakeQueue("default", {"*"}, 15)}));
    CHECK(w.Planned("m0").empty());
  }
}

// Seed 3766818 of profile frozen: the victim was elsewhere, where it held the quota.
TEST_CASE("a whole node that has grown since may cost too much", "[unit][engine][bug]") {
  GangWorld w(1, MakePolicy({MakeQueue("default", {"*"}, 10)}));
  w.Add(MakePod("low").Gpu(8).On("n0"));
  w.Add(MakeNode("n1").Gpu(6));
  w.Add(MakePod("high")
            .WholeNode()
            .Gpu(1)
            .Priority(10)
            .Selector("kubernetes.io/hostname", "n1")
            .Gated());
  w.Tick();
  REQUIRE(w.Planned("high") == "n1");
  REQUIRE(w.LogOf("evict low").size() == 1);
  w.Add(MakeNode("n1").Gpu(12));
  w.Delete("low");
  w.Tick();
  CHECK(w.LogOf("release high").empty());
  CHECK(w.UsedGpus() == 0);
}

// Seed 3766917 of profile calm: kube-scheduler does not ask about it, and had it on its way.
TEST_CASE("a launcher that is bound while its gang is evicted goes with it",
          "[unit][engine][bug]") {
  GangWorld w(1);
  w.Add(MakePod("worker").Gpu(8).Gang("low", 2).Created(10).On("n0"));
  w.Add(MakePod("launcher").Cpu("1").Gang("low", 2).Created(10));
  w.Tick();
  w.HoldEvictions();
  w.Add(MakePod("high").Gpu(8).Priority(10).Gated());
  w.Tick();
  w.CarryOutEvictions();  // the dry run
  REQUIRE(w.LogOf("evict worker").size() == 1);
  w.Change("launcher", [](kube::Pod& pod) { pod.node_name = "n0"; });
  w.Tick();
  CHECK(w.LogOf("evict launcher").size() == 1);
}

TEST_CASE("victims of a gang that is gone may be evicted for another one", "[unit][engine]") {
  GangWorld w(1);
  w.Add(MakePod("l0").Gpu(8).On("n0"));
  w.Protect("l0");
  w.SetWatchDelay(0);
  w.Add(w.Member(0, 1, 1).Gated().Priority(10));
  w.Delete("m0");
  w.Tick();
  w.Advance(61'000);
  w.Add(w.Member(1, 1, 1).Gated().Priority(10));
  w.Tick();
  CHECK(w.LogOf("try l0").size() >= 1);
  CHECK_FALSE(w.engine().IsVictim(*w.store().FindPod("uid-l0")));
}

TEST_CASE("another process goes on with the evictions", "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  REQUIRE(w.LogOf("evict ").size() == 2);
  SECTION("both end") {
    w.Restart();
    CHECK(w.Planned("m0") == "n0");
    CHECK(w.Planned("m1") == "n1");
    w.Add(MakePod("x").Gpu(8).Gated().Priority(5));
    w.Delete("l0");
    w.Tick();
    CHECK(w.Planned("x").empty());
    w.Delete("l1");
    w.Tick();
    CHECK(w.LogOf("release m").size() == 2);
  }
  SECTION("one is marked, and its eviction was not sent") {
    w.Change("l1", [](kube::Pod& pod) { pod.meta.deletion.reset(); });
    w.Restart();
    CHECK(w.LogOf("evict l1").size() == 2);
    CHECK(w.pod("l1").meta.deletion.has_value());
  }
  SECTION("the gang is gone") {
    w.Delete("m0");
    w.Delete("m1");
    w.Restart();
    CHECK(w.UsedGpus() == 16);
    w.Delete("l0");
    w.Delete("l1");
    w.Tick();
    CHECK(w.UsedGpus() == 0);
  }
}

TEST_CASE("victims that do not end are given up", "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  w.Advance(599'000);
  CHECK(w.Planned("m0") == "n0");
  w.Advance(120'000);
  CHECK(w.Planned("m0").empty());
  CHECK(w.UsedGpus() == 16);
}

TEST_CASE("work that is to be evicted is no victim for kube-scheduler's preemption",
          "[unit][engine]") {
  EvictionsWorld w;
  w.GatherHigh();
  w.Add(MakePod("p").Gpu(8).Priority(20));
  w.Filter("p");
  VictimMap offered;
  offered["n0"].uids = {"uid-l0"};
  CHECK(w.engine().Preempt("uid-p", offered, w.now()).empty());
}

TEST_CASE("a plan that yields spares the pods that it was about to evict", "[unit][engine]") {
  EvictionsWorld w(2, MakePolicy({MakeQueue("default", {"*"}, 16)}));
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod("mid" + std::to_string(i)).Gpu(8).Gang("mid", 2).Priority(5).Gated());
  }
  w.engine().Step(w.now());  // the plan is made, and no answer to its dry runs has come
  w.Add(MakeNode("n2").Gpu(8));
  w.Add(MakeNode("n3").Gpu(8));
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 2, 2).Gated().Priority(10));
  w.Tick();
  // There is room for g on n2 and n3, but no quota while `low` runs.
  w.Schedule();
  CHECK(w.BoundPods() <= 2);
  for (const char* pod : {"l0", "l1"}) {
    if (w.Exists(pod) && w.pod(pod).meta.deletion) w.Delete(pod);
  }
  for (int i = 0; i < 5; ++i) {
    w.Advance(1'000);
    w.Schedule();
  }
  CHECK((w.Bound(0) && w.Bound(1)));
  CHECK(w.BoundPods() == 2);
  // Whoever evicted `low`, it is `g` of the highest priority that gets its quota.
  CHECK(w.LogOf("evict ").size() == 2);
}

TEST_CASE("work that runs after evictions can be evicted in its turn", "[unit][engine]") {
  EvictionsWorld w;
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod("mid" + std::to_string(i)).Gpu(8).Gang("mid", 2).Priority(5).Gated());
  }
  w.Tick();
  for (const char* pod : {"l0", "l1"}) w.Delete(pod);
  w.Tick();
  w.Schedule();
  REQUIRE(w.BoundPods() == 2);
  w.GatherHigh();
  CHECK(w.LogOf("evict mid").size() == 2);
}

TEST_CASE("a plan that has not started gives its room up", "[unit][engine]") {
  GangWorld w(2);
  for (int i = 0; i < 2; ++i) w.Add(EvictionsWorld::Low(i).Gated());
  w.Tick();
  REQUIRE(w.Planned("l0") == "n0");
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 2, 2).Gated().Priority(10));
  w.Tick();
  CHECK(w.Planned("l0").empty());
  CHECK(w.Planned("m0") == "n0");
  CHECK(w.LogOf("evict ").empty());
  w.Schedule();
  CHECK(w.Bound(0));
}

}  // namespace
}  // namespace berth::engine
