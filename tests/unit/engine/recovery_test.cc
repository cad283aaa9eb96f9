// A new process: the API server is the only truth, annotations are claims. And a new policy.
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
using testing::PodBuilder;
using testing::Posting;
using testing::World;
using Resolution = ResolveBind::Resolution;

PodBuilder Member(const std::string& name, int size = 4) {
  return MakePod(name).Gpu(8).Gang("g", size);
}

class FourNodes : public World {
 public:
  explicit FourNodes(config::PolicyConfiguration policy = {}) : World(std::move(policy)) {
    for (int i = 0; i < 4; ++i) Add(MakeNode("n" + std::to_string(i)).Gpu(8));
  }
};

TEST_CASE("a half-bound gang finds the room it was planned for", "[unit][engine]") {
  FourNodes w;
  w.Add(Member("a").On("n0").Claim("x-1", "n0", "default", 0));
  w.Add(Member("b").On("n1").Claim("x-1", "n1", "default", 1));
  w.Add(Member("c").Claim("x-1", "n3", "default", 2).Nominated("n3"));
  w.Add(Member("d").Claim("x-1", "n2", "default", 3));
  // Somebody who waits, too: the gang comes first.
  w.Add(MakePod("other").Gpu(8).Created(1).Gated());
  w.Start();
  CHECK(w.Planned("c") == "n3");
  CHECK(w.Planned("d") == "n2");
  CHECK(w.Planned("other").empty());
  CHECK(w.LogOf("release c").empty());      // nominated already
  CHECK(w.LogOf("release d").size() == 1);  // nominated again
  CHECK(w.Bind("d", "n2").posted);
  CHECK(w.Bind("c", "n3").posted);
  CHECK(w.BoundPods() == 4);
}

TEST_CASE("an engine made again is that of a new process", "[unit][engine]") {
  FourNodes w(MakePolicy({MakeQueue("default", {"*"}, 40)}));
  w.engine().OnNamespace(testing::MakeNamespace("default", {{"team", "x"}}));
  w.Add(Member("a").On("n0").Claim("x-1", "n0", "default", 0));
  w.Add(Member("b", 4).Claim("x-1", "n3", "default", 1));
  for (const char* name : {"c", "d"}) w.Add(MakePod(name).Gpu(8).Gang("g2", 2));
  w.Add(MakePod("orphan").Gpu(1).On("not-seen-yet"));
  w.Start();
  w.Filter("c");
  w.Bind("c", w.Planned("c"));
  REQUIRE(w.IsParked("c"));

  const auto rebuilt = Engine::WithClusterOf(w.engine(), {.instance = "y"}, w.now());
  CHECK_FALSE(rebuilt->started());
  CHECK(rebuilt->parked_binds() == 0);
  CHECK(rebuilt->TakeActions().empty());
  CHECK_FALSE(rebuilt->NextDeadline());
  rebuilt->Start(w.now());
  rebuilt->Step(w.now());
  w.Restart();
  w.Start();
  CHECK(rebuilt->store().LedgerString() == w.store().LedgerString());
  CHECK(*rebuilt->store().NamespaceLabels("default") == kube::StringMap{{"team", "x"}});
  CHECK(rebuilt->store().policy() == w.store().policy());
}

TEST_CASE("claims that are not to be believed", "[unit][engine]") {
  FourNodes w;
  SECTION("nobody is bound") {
    w.Add(Member("a").Claim("x-1", "n0", "default"));
    w.Add(Member("b").Claim("x-1", "n1", "default"));
    w.Start();
    CHECK(w.UsedGpus() == 0);
    CHECK(w.Why("a") == "WaitingForMembers");
  }
  SECTION("another plan than the bound member's") {
    w.Add(Member("a").On("n0").Claim("x-1", "n0", "default"));
    w.Add(Member("b").Claim("forged", "n3", "default").Gate("foreign"));
    w.Start();
    CHECK(w.UsedGpus() == 8);
  }
  SECTION("the room is taken") {
    w.Add(Member("a").On("n0").Claim("x-1", "n0", "default"));
    w.Add(MakePod("x").Gpu(1).On("n1"));
    w.Add(Member("b").Claim("x-1", "n1", "default").Gate("foreign"));
    w.Start();
    CHECK(w.UsedGpus("n1") == 1);
    CHECK(w.engine().TakeCounters().untrusted_claims == 1);
  }
  SECTION("two members claim the same room") {
    w.Add(Member("a").On("n0").Claim("x-1", "n0", "default"));
    w.Add(Member("b").Claim("x-1", "n1", "default").Gate("foreign"));
    w.Add(Member("c").Claim("x-1", "n1", "default").Gate("foreign"));
    w.Start();
    CHECK(w.UsedGpus("n1") == 8);
    CHECK(w.UsedGpus() == 16);
  }
  SECTION("no such node, or one that does not match") {
    w.Add(MakeNode("tainted").Gpu(8).Taint("x"));
    w.Add(Member("a").On("n0").Claim("x-1", "n0", "default"));
    w.Add(Member("b").Claim("x-1", "nowhere", "default").Gate("foreign"));
    w.Add(Member("c").Claim("x-1", "tainted", "default").Gate("foreign"));
    w.Start();
    CHECK(w.UsedGpus() == 8);
    CHECK(w.engine().TakeCounters().untrusted_claims == 2);
  }
  SECTION("nonsense") {
    w.Add(Member("a").On("n0").Annotation("berth.dev/plan", "v1;plan=;;"));
    w.Add(Member("b").Annotation("berth.dev/plan", "\xff\xfe").Gate("foreign"));
    w.Start();
    CHECK(w.UsedGpus() == 8);
  }
}

// Found by the fault search: forged, with the plan of a member that runs.
TEST_CASE("a claim does not leave the gang's required domain", "[unit][engine][bug]") {
  World w;
  for (const char* name : {"a1", "b1"}) {
    w.Add(MakeNode(name).Gpu(16).Rack(std::string(1, name[0])));
  }
  w.Add(Member("a", 2).Required("rack").On("a1").Claim("x-1", "a1", "default"));
  w.Add(Member("b", 2).Required("rack").Claim("x-1", "b1", "default"));
  w.Start();
  CHECK(w.UsedGpus("b1") == 0);
  CHECK(w.Planned("b") == "a1");
}

// Two releases back, or forward and back again: the plans are nobody's, the pods stay where they
// run.
TEST_CASE("plans in a format of another release count as none", "[unit][engine]") {
  const std::string plan = "v9;plan=x-1;on=n3;queue=other";
  FourNodes w(MakePolicy({MakeQueue("default", {"*"}, 32), MakeQueue("other", {"*"}, 32)}));
  w.Add(Member("a").On("n0").Annotation("berth.dev/plan", plan));
  w.Add(Member("b").On("n1").Annotation("berth.dev/plan", plan));
  w.Add(Member("c").Annotation("berth.dev/plan", plan));
  w.Add(Member("d").Annotation("berth.dev/plan", plan));
  w.Start();
  const auto used = [&w](std::size_t queue) {
    const auto& store = w.engine().store();
    return store.queue(store.queues()[queue]).used[store.device_ids().front()] / 1000;
  };
  CHECK(used(0) == 32);  // what the labels say, the two that wait planned again
  CHECK(used(1) == 0);   // nothing read by chance
  for (const char* name : {"c", "d"}) {
    w.Filter(name);
    CHECK(w.Bind(name, w.Planned(name)).posted);  // at once: the gang has started
  }
  CHECK(w.BoundPods() == 4);
}

TEST_CASE("a claim does not pass the limit", "[unit][engine]") {
  FourNodes w(MakePolicy({MakeQueue("q", {"default"}, 12)}));
  w.Add(Member("a").On("n0").Claim("x-1", "n0", "q"));
  w.Add(Member("b").Claim("x-1", "n1", "q").Gate("foreign"));
  w.Start();
  CHECK(w.UsedGpus() == 8);
}

TEST_CASE("a restart in the middle of a start loses nothing", "[unit][engine]") {
  FourNodes w;
  w.Start();
  for (int i = 0; i < 4; ++i) w.Add(Member("m" + std::to_string(i)).Gated());
  w.Tick();
  for (int i = 0; i < 3; ++i) {
    const std::string name = "m" + std::to_string(i);
    REQUIRE(w.Bind(name, w.Planned(name)).parked);
  }
  SECTION("before the commit: planned rebuilt, whole") {
    w.Restart();
    CHECK(w.BoundPods() == 0);
    w.Schedule();
    CHECK(w.BoundPods() == 4);
  }
  SECTION("after the commit, with one bound: completed where it was planned") {
    std::map<std::string, std::string> planned;
    for (int i = 0; i < 4; ++i) {
      planned["m" + std::to_string(i)] = w.Planned("m" + std::to_string(i));
    }
    w.SetPosting(Posting::kHangs);
    REQUIRE(w.Bind("m3", planned["m3"]).posted);
    w.Change("m3", [&](kube::Pod& pod) { pod.node_name = planned["m3"]; });
    w.SetPosting(Posting::kBinds);
    w.Restart();
    for (const auto& [name, node] : planned) CHECK(w.Planned(name) == node);
    w.Schedule();
    CHECK(w.BoundPods() == 4);
  }
  CHECK(w.UsedGpus() == 32);
}

TEST_CASE("what was released before the restart is planned without being asked", "[unit][engine]") {
  FourNodes w;
  w.Start();
  w.Add(MakePod("p").Gpu(8).Gated());
  w.Tick();
  REQUIRE_FALSE(w.pod("p").nominated_node.empty());
  w.Restart();
  CHECK_FALSE(w.Planned("p").empty());
  w.Schedule();
  CHECK(w.BoundPods() == 1);
}

TEST_CASE("the ledger is the same after a restart", "[unit][engine]") {
  FourNodes w(MakePolicy({MakeQueue("a", {"default"}, 24), MakeQueue("b", {"default"})}));
  w.Start();
  w.Add(MakePod("p").Gpu(3).Queue("b"));
  w.Add(MakePod("whole").Gpu(1).WholeNode());
  w.Add(MakePod("web").Cpu("2").On("n1"));
  for (int i = 0; i < 2; ++i) w.Add(Member("m" + std::to_string(i), 2).Queue("a").Gated());
  w.Tick();
  w.Schedule();
  REQUIRE(w.BoundPods() == 5);
  const std::string before = w.store().LedgerString();
  w.Restart();
  CHECK(w.store().LedgerString() == before);
}

// Members without devices do not make a gang started, after a restart neither.
TEST_CASE("a launcher that ran ahead does not start the gang over a restart",
          "[unit][engine][bug]") {
  FourNodes w;
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 4).Created(1).On("n0"));
  w.Add(Member("m0").Gated());
  w.Start();
  CHECK(w.Planned("m0").empty());
  CHECK(w.Why("m0") == "WaitingForMembers");
}

// --- Policies
// ---------------------------------------------------------------------------------------

TEST_CASE("a new policy makes uncommitted plans again", "[unit][engine]") {
  FourNodes w;
  w.Start();
  w.Add(Member("a", 2).Gated());
  w.Add(Member("b", 2).Gated());
  w.Tick();
  const auto bind = w.Bind("a", w.Planned("a"));
  REQUIRE(bind.parked);
  SECTION("under which it may not run") {
    w.Reload(MakePolicy({MakeQueue("tiny", {"default"}, 8)}));
    CHECK(w.resolved().at(bind.ticket).error == "berth: the policy changed");
    CHECK(w.UsedGpus() == 0);
    CHECK(w.Why("a") == "ExceedsLimit");
  }
  SECTION("under which it may") {
    w.Reload(MakePolicy({MakeQueue("other", {"default"})}));
    CHECK(w.resolved().at(bind.ticket).resolution == Resolution::kError);
    CHECK(w.UsedGpus() == 16);
    w.Schedule();
    CHECK(w.BoundPods() == 2);
    CHECK(w.pod("a").meta.annotations.at("berth.dev/plan").find("queue=other") !=
          std::string::npos);
  }
}

TEST_CASE("a new policy leaves a started gang its room", "[unit][engine]") {
  FourNodes w;
  w.Start();
  for (int i = 0; i < 4; ++i) w.Add(Member("m" + std::to_string(i)).Min(1).Gated());
  w.Tick();
  const std::string m3 = w.Planned("m3");
  REQUIRE(w.Bind("m0", w.Planned("m0")).posted);
  w.Reload(MakePolicy({MakeQueue("other", {"default"})}));
  CHECK(w.Planned("m3") == m3);
  CHECK(w.UsedGpus() == 32);
}

// The bound member's queue is gone; that is no disagreement between the members.
TEST_CASE("a gang that started under the old policy completes under the new one",
          "[unit][engine][bug]") {
  FourNodes w;
  w.Start();
  for (int i = 0; i < 4; ++i) w.Add(Member("m" + std::to_string(i)).Min(1).Gated());
  w.Tick();
  REQUIRE(w.Bind("m0", w.Planned("m0")).posted);
  w.Reload(MakePolicy({MakeQueue("other", {"default"})}));
  CHECK(w.Filter("m1").reason != "GangConflict");
  w.Schedule();
  CHECK(w.BoundPods() == 4);
}

TEST_CASE("a Binding under way survives a new policy", "[unit][engine]") {
  FourNodes w;
  w.Start();
  w.Add(MakePod("p").Gpu(8));
  const std::string node = w.Filter("p").node();
  w.SetPosting(Posting::kHangs);
  REQUIRE(w.Bind("p", node).posted);
  w.Reload(MakePolicy({MakeQueue("other", {"default"})}));
  CHECK(w.UsedGpus(node) == 8);
  SECTION("refused") {
    w.engine().BindFinished("uid-p", BindOutcome::kRefused, w.now());
    w.Tick();
    w.SetPosting(Posting::kBinds);
    CHECK(w.Attempt("p"));
  }
  SECTION("bound") {
    w.Change("p", [&](kube::Pod& pod) { pod.node_name = node; });
    w.Tick();
  }
  CHECK(w.UsedGpus() == 8);
}

// --- Passthrough
// ------------------------------------------------------------------------------------

class Passthrough : public FourNodes {
 public:
  Passthrough() : FourNodes(Policy()) { Start(); }
  static config::PolicyConfiguration Policy() {
    auto policy = MakePolicy({MakeQueue("q", {"default"}, 1)});
    policy.mode = config::Mode::kPassthrough;
    return policy;
  }
};

TEST_CASE("passthrough accepts all and binds at once", "[unit][engine]") {
  Passthrough w;
  w.Add(Member("m0"));
  w.Add(MakePod("p").Gpu(8));
  w.Add(MakePod("refused").Gpu(1).Queue("nope"));
  for (const char* name : {"m0", "p", "refused"}) CHECK(w.Filter(name).keep_all);
  CHECK(w.Bind("m0", "n0").posted);
  CHECK(w.Bind("p", "n1").posted);
  CHECK(w.BoundPods() == 2);
  CHECK(w.UsedGpus() == 16);  // it still counts
  CHECK_FALSE(w.pod("p").meta.annotations.contains("berth.dev/plan"));
}

TEST_CASE("passthrough removes our gates", "[unit][engine]") {
  Passthrough w;
  w.Add(Member("m0").Gated());
  w.Add(MakePod("p").Gpu(8).Gated());
  w.Tick();
  CHECK(w.pod("m0").scheduling_gates.empty());
  CHECK(w.pod("p").scheduling_gates.empty());
  CHECK(w.pod("p").nominated_node.empty());
}

TEST_CASE("passthrough removes our gates from refused pods as well", "[unit][engine][bug]") {
  Passthrough w;
  w.Add(MakePod("refused").Gpu(1).Queue("nope").Gated());
  w.Add(MakePod("foreign").Gpu(1).Gated().Gate("foreign"));
  w.Tick();
  CHECK(w.pod("refused").scheduling_gates.empty());
  CHECK(w.pod("foreign").scheduling_gates == std::vector<std::string>{"foreign"});
}

TEST_CASE("into passthrough and back", "[unit][engine]") {
  FourNodes w;
  w.Start();
  w.Add(Member("m0").Gated());
  w.Tick();
  CHECK_FALSE(w.pod("m0").scheduling_gates.empty());
  w.Reload(Passthrough::Policy());
  CHECK(w.pod("m0").scheduling_gates.empty());
  w.Reload({});
  CHECK(w.Filter("m0").reason == "WaitingForMembers");
}

// A gang that runs keeps its plan over an edit of the policy; kube-scheduler then bound others
// there.
TEST_CASE("in passthrough nothing that is planned holds room", "[unit][engine][bug]") {
  FourNodes w;
  w.Add(Member("a").On("n0").Claim("x-1", "n0", "default", 0));
  w.Add(Member("b").On("n1").Claim("x-1", "n1", "default", 1));
  w.Add(Member("c").Claim("x-1", "n3", "default", 2).Nominated("n3"));
  w.Add(Member("d").On("n2").Claim("x-1", "n2", "default", 3));
  w.Start();
  REQUIRE(w.Planned("c") == "n3");
  w.Add(MakeNode("n4").Gpu(8));
  w.Reload(Passthrough::Policy());
  CHECK(w.UsedGpus("n3") == 0);
  w.SetPosting(Posting::kHangs);
  CHECK(w.Bind("c", "n4").posted);
  CHECK(w.store().FindWorkload("default/gang/g")->plan.empty());
  CHECK(w.UsedGpus("n4") == 8);
}

TEST_CASE("a process that starts in passthrough holds no room for what was planned",
          "[unit][engine][bug]") {
  FourNodes w(Passthrough::Policy());
  w.Add(Member("a").On("n0").Claim("x-1", "n0", "q", 0));
  w.Add(Member("b").On("n1").Claim("x-1", "n1", "q", 1));
  w.Add(Member("c").Claim("x-1", "n3", "q", 2).Nominated("n3"));
  w.Add(Member("d").On("n2").Claim("x-1", "n2", "q", 3));
  w.Start();
  CHECK(w.Planned("c").empty());
  CHECK(w.UsedGpus("n3") == 0);
}

// The pod was read after an unknown outcome; the watch is behind that and still tells of the time
// before.
TEST_CASE("old news does not unbind a pod", "[unit][engine][bug]") {
  testing::World w;
  w.Add(testing::MakeNode("n1").Gpu(8));
  w.Add(testing::MakePod("p").Gpu(2));
  w.Start();
  const kube::Pod before = w.pod("p");
  w.Change("p", [](kube::Pod& pod) { pod.node_name = "n1"; });
  w.engine().OnPod(before, w.now());
  CHECK(w.store().FindPod("uid-p")->bound());
  CHECK(w.UsedGpus("n1") == 2);
}

// --- a policy that names other devices than kube-scheduler's configuration

/// Under which `nvidia.com/gpu` is no device.
config::PolicyConfiguration OtherDevices() {
  config::PolicyConfiguration policy;
  policy.devices = {{.name = "amd.com/gpu", .kind = config::DeviceKind::kWhole}};
  return policy;
}

/// kube-scheduler brings the members as it did before.
void Bring(GangWorld& w, int from, int to) {
  for (int i = from; i < to; ++i) {
    const std::string name = "m" + std::to_string(i);
    const std::string node = w.Filter(name).node();
    if (!node.empty()) (void)w.Bind(name, node);
  }
}

TEST_CASE("a policy that drops a device tears no gang", "[unit][engine][bug]") {
  GangWorld w(8);
  SECTION("that is parked at the barrier") {
    w.Gather(8, 8);
    Bring(w, 0, 7);
    REQUIRE(w.BoundPods() == 0);
    w.Reload(OtherDevices());
  }
  SECTION("that was released, and has not come") {
    w.Gather(8, 8);
    w.Reload(OtherDevices());
  }
  SECTION("that waits") {
    for (int i = 0; i < 7; ++i) w.Add(w.Member(i, 8, 8).Gated());
    w.Tick();
    w.Reload(OtherDevices());
    w.Add(w.Member(7, 8, 8).Gated());
    w.Tick();
  }
  SECTION("over a restart") {
    w.Gather(8, 8);
    Bring(w, 0, 7);
    w.Reload(OtherDevices());
    w.Restart();
  }
  Bring(w, 0, 7);
  CHECK(w.BoundPods() == 0);
  Bring(w, 7, 8);
  CHECK(w.BoundPods() == 8);
}

TEST_CASE("a policy that adds a device tears no gang", "[unit][engine][bug]") {
  GangWorld w(8, OtherDevices());
  w.Gather(8, 8);
  w.Reload({});
  Bring(w, 0, 7);
  CHECK(w.BoundPods() == 0);
  Bring(w, 7, 8);
  CHECK(w.BoundPods() == 8);
}

}  // namespace
}  // namespace berth::engine
