// Pods and the workloads they form: first member, faults, incarnations.
#include <string>
#include <vector>

#include "cluster/store.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::PodBuilder;

std::vector<std::string> Names(const std::vector<const PodInfo*>& pods) {
  std::vector<std::string> names;
  for (const PodInfo* pod : pods) names.push_back(pod->object.meta.name);
  return names;
}

PodBuilder Member(const std::string& name, kube::Millis created) {
  return MakePod(name).Gpu(8).Gang("g", 2).Created(created);
}

TEST_CASE("a pod alone is a workload of one", "[unit][cluster]") {
  Store store({});
  store.UpsertPod(MakePod("p").Gpu(1).Priority(7));
  store.Refresh();
  const Workload* workload = store.FindWorkload("default/pod/p");
  REQUIRE(workload != nullptr);
  CHECK_FALSE(workload->gang);
  CHECK(workload->size == 1);
  CHECK(workload->min_member == 1);
  CHECK(workload->priority == 7);
}

TEST_CASE("pods without devices are planned in a gang only", "[unit][cluster]") {
  Store store({});
  CHECK(store.UpsertPod(MakePod("web").Cpu("1"))->workload == nullptr);
  CHECK(store.UpsertPod(MakePod("launcher").Cpu("1").Gang("g", 3))->workload != nullptr);
}

TEST_CASE("a gang is unique in its namespace", "[unit][cluster]") {
  Store store({});
  store.UpsertPod(Member("a", 1));
  store.UpsertPod(MakePod("b").Ns("other").Gpu(8).Gang("g", 2));
  store.UpsertPod(MakePod("g").Gpu(8));  // a pod of the gang's name is somebody else
  store.Refresh();
  CHECK(store.workloads().size() == 3);
}

TEST_CASE("the first member speaks for the gang", "[unit][cluster]") {
  Store store({});
  // The watch may tell of the younger one first.
  store.UpsertPod(MakePod("late").Gpu(8).Gang("g", 3).Created(20));
  store.UpsertPod(MakePod("first").Gpu(8).Gang("g", 4).Min(2).Required("rack").Created(10));
  store.UpsertPod(MakePod("same").Gpu(8).Gang("g", 4).Min(2).Required("rack").Created(30));
  store.Refresh();
  const Workload* gang = store.FindWorkload("default/gang/g");
  REQUIRE(gang != nullptr);
  CHECK(gang->size == 4);
  CHECK(gang->min_member == 2);
  CHECK(gang->topology_required == "rack");
  CHECK(gang->creation == 10);
  CHECK(Names(gang->members) == std::vector<std::string>{"first", "same"});
  CHECK(Names(gang->faulty) == std::vector<std::string>{"late"});
  CHECK(store.FindPod("uid-late")->refusal.reason == ReasonId::kGangConflict);
  CHECK(Sentence(store.FindPod("uid-late")->refusal) ==
        "The gang's first member, first, says size 4 and minimum 2, this pod 3 and 3.");

  SECTION("when it goes, the next one does") {
    store.DeletePod("uid-first");
    store.DeletePod("uid-same");
    store.Refresh();
    CHECK(gang->size == 3);
    CHECK(Names(gang->members) == std::vector<std::string>{"late"});
    CHECK(store.FindPod("uid-late")->refusal.reason == ReasonId::kNone);
  }
}

TEST_CASE("same creation: the smaller UID is first", "[unit][cluster]") {
  Store store({});
  store.UpsertPod(MakePod("x").Uid("2").Gpu(1).Gang("g", 5));
  store.UpsertPod(MakePod("y").Uid("1").Gpu(1).Gang("g", 4));
  store.Refresh();
  CHECK(store.FindWorkload("default/gang/g")->size == 4);
}

TEST_CASE("what makes a member deviate", "[unit][cluster]") {
  // And what is said of it, after "The gang's first member, first, ".
  const std::vector<std::pair<const char*, PodBuilder>> rows = {
      {"says size 2 and minimum 2, this pod 3 and 3.", MakePod("x").Gpu(8).Gang("g", 3).Created(9)},
      {"says size 2 and minimum 2, this pod 2 and 1.", Member("x", 9).Min(1)},
      {"is in another queue.", Member("x", 9).Queue("other")},
      {"asks for another topology.", Member("x", 9).Required("rack")},
      {"asks for another topology.", Member("x", 9).Preferred("rack")},
  };
  for (const auto& [said, pod] : rows) {
    Store store(MakePolicy({MakeQueue("default", {"*"}), MakeQueue("other", {"*"})}));
    store.UpsertPod(Member("first", 1));
    store.UpsertPod(pod);
    store.Refresh();
    CHECK(store.FindPod("uid-x")->refusal.reason == ReasonId::kGangConflict);
    CHECK(Sentence(store.FindPod("uid-x")->refusal) ==
          std::string("The gang's first member, first, ") + said);
    CHECK(store.FindWorkload("default/gang/g")->members.size() == 1);
  }
  // Another shape, priority or name is no deviation.
  Store store({});
  store.UpsertPod(Member("first", 1));
  store.UpsertPod(MakePod("x").Cpu("3").Gang("g", 2).Priority(9).Created(9));
  store.Refresh();
  CHECK(store.FindWorkload("default/gang/g")->members.size() == 2);
}

TEST_CASE("a member that is itself unsound does not speak for the gang", "[unit][cluster]") {
  Store store({});
  store.UpsertPod(Member("broken", 1).Queue("nope"));
  store.UpsertPod(Member("invalid", 2).Invalid("nvidia.com/gpu: request differs from limit."));
  store.UpsertPod(Member("good", 3));
  store.Refresh();
  const Workload* gang = store.FindWorkload("default/gang/g");
  CHECK(Names(gang->members) == std::vector<std::string>{"good"});
  CHECK(store.FindPod("uid-broken")->refusal.reason == ReasonId::kUnknownQueue);
  CHECK(store.FindPod("uid-invalid")->refusal.reason == ReasonId::kInvalidRequest);
  CHECK(gang->creation == 3);
}

TEST_CASE("a terminating member is a member no more", "[unit][cluster]") {
  Store store({});
  store.UpsertNode(MakeNode("n1").Gpu(16));
  store.UpsertPod(Member("a", 1).On("n1"));
  store.UpsertPod(Member("b", 2).On("n1"));
  store.UpsertPod(Member("b", 2).On("n1").Terminating());
  store.Refresh();
  CHECK(Names(store.FindWorkload("default/gang/g")->members) == std::vector<std::string>{"a"});
}

TEST_CASE("a fresh set under an emptied name is a new incarnation", "[unit][cluster]") {
  Store store({});
  store.UpsertNode(MakeNode("n1").Gpu(16));
  store.UpsertPod(Member("a", 1).On("n1"));
  store.SetStarted(*store.FindWorkload("default/gang/g"), true);
  store.UpsertPod(Member("a", 1).On("n1").Terminating());
  CHECK(store.FindWorkload("default/gang/g") == nullptr);
  store.UpsertPod(MakePod("b").Gpu(8).Gang("g", 4).Created(5));
  store.Refresh();
  CHECK_FALSE(store.FindWorkload("default/gang/g")->started);
  CHECK(store.FindWorkload("default/gang/g")->size == 4);
}

// "Stays started until no live member is left": a refused pod never was a member.
TEST_CASE("a pod that was refused does not keep a started gang alive", "[unit][cluster][bug]") {
  Store store({});
  store.UpsertNode(MakeNode("n1").Gpu(16));
  store.UpsertPod(Member("a", 1).On("n1"));
  store.UpsertPod(MakePod("x").Gpu(8).Gang("g", 3).Created(9));
  store.Refresh();
  const Workload* gang = store.FindWorkload("default/gang/g");
  store.SetStarted(*gang, true);
  REQUIRE(Names(gang->faulty) == std::vector<std::string>{"x"});
  store.DeletePod("uid-a");
  store.Refresh();
  gang = store.FindWorkload("default/gang/g");
  REQUIRE(gang != nullptr);
  CHECK_FALSE(gang->started);
  CHECK(gang->size == 3);
}

TEST_CASE("gang and size are fixed once a member is bound", "[unit][cluster]") {
  Store store({});
  store.UpsertNode(MakeNode("n1").Gpu(16));
  store.UpsertPod(Member("a", 1).On("n1"));
  store.UpsertPod(MakePod("a").Gpu(8).Gang("other", 9).Created(1).On("n1"));
  store.Refresh();
  CHECK(store.FindPod("uid-a")->workload->key == "default/gang/g");
  CHECK(store.FindWorkload("default/gang/other") == nullptr);

  SECTION("over a new policy, too") {
    store.SetPolicy({});
    CHECK(store.FindPod("uid-a")->workload->key == "default/gang/g");
  }
}

TEST_CASE("an unbound pod may change its gang", "[unit][cluster]") {
  Store store({});
  store.UpsertPod(Member("a", 1));
  store.UpsertPod(MakePod("a").Gpu(8).Gang("other", 2).Created(1));
  store.Refresh();
  CHECK(store.FindWorkload("default/gang/g") == nullptr);
  CHECK(store.FindWorkload("default/gang/other") != nullptr);
}

// The plan is uncommitted only while nothing is bound; SetPolicy is called after those dissolved.
TEST_CASE("a member that a new policy moves to another workload takes no room along",
          "[unit][cluster][bug]") {
  Store store({});
  store.UpsertNode(MakeNode("n1").Gpu(32));
  const auto member = [](const char* name) {
    return MakePod(name)
        .Gpu(8)
        .Label("pod-group.scheduling.sigs.k8s.io/name", "g")
        .Label("pod-group.scheduling.sigs.k8s.io/min-available", "2");
  };
  store.UpsertPod(member("a").On("n1"));
  const PodInfo* late = store.UpsertPod(member("b"));
  store.Refresh();
  const Workload& gang = *store.FindWorkload("default/gang/g");
  store.SetStarted(gang, true);
  store.SetPlan(gang, "p-1");
  store.SetCharge(*late, 0, Charge::kPlanned);
  config::PolicyConfiguration policy;
  policy.dialects.scheduler_plugins = config::DialectSwitch::kOff;
  store.SetPolicy(policy);
  const bool has_plan = late->workload != nullptr && !late->workload->plan.empty();
  CHECK((late->charge == Charge::kNone || has_plan));
}

// It had room by kube-scheduler's nomination, as nobody's to plan; with a gang it is planned.
TEST_CASE("a nominated pod that joins a gang holds no room before the gang's plan",
          "[unit][cluster][bug]") {
  Store store({});
  store.UpsertNode(MakeNode("n1").Gpu(8));
  const auto launcher = [] { return MakePod("launcher").Cpu("1").Nominated("n1"); };
  store.UpsertPod(launcher());
  store.Refresh();
  REQUIRE(store.FindPod("uid-launcher")->charge == Charge::kPlanned);
  store.UpsertPod(launcher().Gang("g", 2));
  store.Refresh();
  REQUIRE(store.FindPod("uid-launcher")->workload != nullptr);
  CHECK(store.FindPod("uid-launcher")->charge == Charge::kNone);
}

TEST_CASE("what changed is told once", "[unit][cluster]") {
  Store store({});
  store.UpsertPod(Member("a", 1));
  store.UpsertPod(MakePod("single").Gpu(1));
  store.Refresh();
  CHECK(store.TakeChanged(10).size() == 2);
  CHECK(store.TakeChanged(10).empty());
  store.UpsertPod(MakePod("single").Gpu(1).Priority(3));
  store.Refresh();
  REQUIRE(store.TakeChanged(10).size() == 1);
}

TEST_CASE("pods of one controller share a shape", "[unit][cluster]") {
  Store store({});
  const auto* a = store.UpsertPod(MakePod("a").Gpu(1).Cpu("2"));
  const auto* b = store.UpsertPod(MakePod("b").Gpu(1).Cpu("2"));
  const auto* c = store.UpsertPod(MakePod("c").Gpu(1).Cpu("2").WholeNode());
  CHECK(a->shape == b->shape);
  CHECK(a->object.spec == b->object.spec);
  CHECK(a->shape != c->shape);
  CHECK(c->shape->whole_node);
}

}  // namespace
}  // namespace berth::cluster
