// One pod: filter answers with its node, bind is the commit point.
#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Posting;
using testing::World;
using Names = std::vector<std::string>;

/// Nodes n1, n2 of 8 GPUs.
class TwoNodes : public World {
 public:
  explicit TwoNodes(config::PolicyConfiguration policy = {}) : World(std::move(policy)) {
    Add(MakeNode("n1").Gpu(8));
    Add(MakeNode("n2").Gpu(8));
    Start();
  }
  std::string Other(const std::string& node) { return node == "n1" ? "n2" : "n1"; }
};

TEST_CASE("a pod is answered one node, and bound there", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8));
  const auto answer = w.Filter("p");
  REQUIRE(answer.kept.size() == 1);
  CHECK(answer.reason.empty());
  CHECK(w.UsedGpus(answer.node()) == 8);  // its room is held
  CHECK(w.Filter("p").kept == answer.kept);
  CHECK(w.UsedGpus() == 8);
  const auto bind = w.Bind("p", answer.node());
  CHECK(bind.posted);
  CHECK(w.NodeOf("p") == answer.node());
  CHECK(w.pod("p").meta.annotations.at("berth.dev/plan") ==
        "v1;plan=0-1;node=" + answer.node() + ";queue=default;rank=0;preemptible=true");
  CHECK(w.engine().PlanCounts() == std::pair(0, 0));
  CHECK(w.UsedGpus() == 8);
  // Its own filter call made the plan: there was nothing to write.
  CHECK(w.LogOf("release").empty());
  w.Delete("p");
  w.Tick();
  CHECK(w.UsedGpus() == 0);
}

TEST_CASE("a lone pod that is not bound gives its room back", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8));
  REQUIRE(w.Filter("p").kept.size() == 1);
  w.Advance(59'999);
  CHECK(w.UsedGpus() == 8);
  w.Delete("p");
  w.Add(MakePod("q").Gpu(8));
  REQUIRE(w.Filter("q").kept.size() == 1);
  w.SetPosting(Posting::kRefuses);
  REQUIRE(w.Bind("q", w.Planned("q")).posted);
  CHECK(w.UsedGpus() == 8);  // planned still
  w.SetPosting(Posting::kBinds);
  CHECK(w.Bind("q", w.Planned("q")).posted);
  CHECK(w.NodeOf("q") == w.Planned("q"));
}

TEST_CASE("a refusal is constant, holds nothing, and names the blocker", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("x").Gpu(4).On("n1"));
  w.Add(MakePod("y").Gpu(4).On("n2"));
  const std::vector<std::pair<kube::Pod, std::string>> rows = {
      {MakePod("a").Gpu(8), "Fragmented"},
      {MakePod("b").Gpu(9), "NeverFits"},
      {MakePod("c").Gpu(1).Selector("zone", "x"), "NoMatchingNodes"},
      {MakePod("d").Gpu(1).Cpu("65"), "NeverFits"},
      {MakePod("e").Gpu(1).Queue("nope"), "UnknownQueue"},
      {MakePod("f").Gpu(1).Invalid("request differs from limit"), "InvalidRequest"},
      {MakePod("g").Gpu(1).Gang("g", 0), "InvalidRequest"},
  };
  for (const auto& [pod, reason] : rows) {
    INFO(pod.meta.name);
    w.Add(pod);
    for (int i = 0; i < 3; ++i) {
      const auto answer = w.Filter(pod.meta.name);
      CHECK(answer.kept.empty());
      CHECK(answer.reason == reason);
      CHECK(w.Why(pod.meta.name) == reason);
      w.Advance(500);
    }
    CHECK(w.UsedGpus() == 8);
  }
  // Room that comes wakes the one that asked: nominated, and patched.
  w.Delete("x");
  w.Tick();
  CHECK(w.Planned("a") == "n1");
  CHECK(w.pod("a").nominated_node == "n1");
  CHECK(w.LogOf("release a node=n1").size() == 1);
}

TEST_CASE("pods that Berth does not plan", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("web").Cpu("1"));
  CHECK(w.Filter("web").keep_all);
  CHECK(w.Bind("web", "n1").posted);
  CHECK(w.NodeOf("web") == "n1");
  w.Add(MakePod("alien").Gpu(1).Scheduler("volcano"));
  CHECK(w.Filter("alien").keep_all);
  w.Add(MakePod("ending").Gpu(1).Terminating());
  CHECK(w.Filter("ending").kept.empty());
  CHECK(w.Filter("ending").reason == "NotReady");
  CHECK_FALSE(w.Bind("ending", "n1").error.empty());
}

TEST_CASE("a bound pod is answered its own node", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(1).On("n1"));
  CHECK(w.Filter("p").kept == Names{"n1"});
  CHECK(w.Filter("p", {"n2"}).kept.empty());
  CHECK(w.Bind("p", "n1").bound);
  CHECK_FALSE(w.Bind("p", "n2").error.empty());
}

TEST_CASE("bind refuses what cannot be bound", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(1));
  const std::string node = w.Filter("p").node();
  const auto bind = [&w](std::string_view uid, std::string_view ns, std::string_view name,
                         std::string_view to) {
    return w.engine().Bind({.uid = uid, .ns = ns, .name = name, .node = to}, w.now());
  };
  for (const auto& answer :
       {bind("uid-x", "default", "p", node), bind("uid-p", "default", "q", node),
        bind("uid-p", "other", "p", node), bind("uid-p", "default", "p", "n9"),
        bind("uid-p", "default", "p", w.Other(node))}) {
    CHECK_FALSE(answer.parked);
    CHECK(answer.now.resolution == ResolveBind::Resolution::kError);
    CHECK(answer.now.error.starts_with("berth: "));
  }
  CHECK(w.Planned("p") == node);
  w.Add(MakePod("never-filtered").Gpu(1));
  CHECK_FALSE(w.Bind("never-filtered", "n1").error.empty());
}

// --- Bind outcomes
// --------------------------------------------------------------------------------

TEST_CASE("bind twice is bind once", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8));
  const std::string node = w.Filter("p").node();
  w.SetPosting(Posting::kHangs);
  REQUIRE(w.Bind("p", node).posted);
  const auto second = w.Bind("p", node);
  REQUIRE(second.parked);  // the first call's Binding is under way
  CHECK_FALSE(w.Bind("p", w.Other(node)).error.empty());
  SECTION("it succeeds") {
    w.engine().BindFinished("uid-p", BindOutcome::kBound, w.now());
    w.Tick();
    CHECK(w.resolved().at(second.ticket).resolution == ResolveBind::Resolution::kBound);
  }
  SECTION("it fails") {
    w.engine().BindFinished("uid-p", BindOutcome::kRefused, w.now());
    w.Tick();
    CHECK(w.resolved().at(second.ticket).resolution == ResolveBind::Resolution::kError);
    CHECK(w.Planned("p") == node);
  }
  SECTION("the watch is first") {
    w.Change("p", [&](kube::Pod& pod) { pod.node_name = node; });
    w.Tick();
    CHECK(w.resolved().at(second.ticket).resolution == ResolveBind::Resolution::kBound);
  }
  SECTION("nobody says") {
    w.Advance(20'000);
    CHECK(w.resolved().at(second.ticket).resolution == ResolveBind::Resolution::kError);
  }
  CHECK(w.UsedGpus() == 8);
  CHECK(w.engine().parked_binds() == 0);
}

TEST_CASE("an unknown outcome stays charged until it is settled", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8));
  const std::string node = w.Filter("p").node();
  SECTION("it was bound") {
    w.SetPosting(Posting::kLosesAnswer);
    REQUIRE(w.Bind("p", node).posted);
    CHECK(w.LogOf("settle p").size() == 1);
    CHECK(w.NodeOf("p") == node);
    CHECK(w.store().FindPod("uid-p")->charge == cluster::Charge::kBound);
  }
  SECTION("it was not: planned again, and bound at the next call") {
    w.SetPosting(Posting::kLosesRequest);
    REQUIRE(w.Bind("p", node).posted);
    CHECK(w.store().FindPod("uid-p")->charge == cluster::Charge::kPlanned);
    w.SetPosting(Posting::kBinds);
    CHECK(w.Bind("p", node).posted);
    CHECK(w.NodeOf("p") == node);
  }
  SECTION("nobody knows: it outlives its plan") {
    w.SetPosting(Posting::kHangs);
    REQUIRE(w.Bind("p", node).posted);
    w.Advance(600'000);
    CHECK(w.UsedGpus(node) == 8);
    CHECK(w.store().FindPod("uid-p")->charge == cluster::Charge::kBinding);
  }
  CHECK(w.UsedGpus() == 8);
}

// The Binding may yet succeed on its node.
TEST_CASE("filter does not move a pod whose Binding is under way", "[unit][engine][bug]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8));
  const std::string node = w.Filter("p").node();
  w.SetPosting(Posting::kHangs);
  REQUIRE(w.Bind("p", node).posted);
  CHECK(w.Filter("p", {w.Other(node)}).kept.empty());
  CHECK(w.UsedGpus(node) == 8);
  CHECK(w.store().FindPod("uid-p")->charge == cluster::Charge::kBinding);
}

// --- Pods that the informer has not shown yet
// -------------------------------------------------------

TEST_CASE("an unknown pod is answered, and nothing is held", "[unit][engine]") {
  TwoNodes w;
  const std::string ledger = w.store().LedgerString();
  w.SetWatchDelay(1000);
  w.Add(MakePod("p").Gpu(8));
  const auto answer = w.Filter("p");
  REQUIRE(answer.kept.size() == 1);
  CHECK(w.Filter("p", {"n2"}).kept == Names{"n2"});
  CHECK(w.Filter("p", {"n1"}).kept == Names{"n1"});
  CHECK(w.store().LedgerString() == ledger);
  CHECK(w.store().FindPod("uid-p") == nullptr);
  CHECK(w.Bind("p", "n1").error == "berth: no such pod (deleted, or not seen yet)");
  SECTION("bind adopts the last live answer") {
    w.Advance(1000);
    CHECK(w.Bind("p", "n2").posted == false);
    w.Filter("p", {"n1"});
    CHECK(w.Bind("p", "n1").posted);
  }
  SECTION("adopted without another filter call") {
    w.Advance(1000);
    CHECK(w.Bind("p", "n1").posted);
    w.Advance(1000);
    CHECK(w.NodeOf("p") == "n1");
    CHECK(w.UsedGpus("n1") == 8);
  }
  SECTION("not if the room is gone") {
    w.Add(MakePod("q").Gpu(1).On("n1"));
    w.Advance(1000);
    CHECK_FALSE(w.Bind("p", "n1").error.empty());
    CHECK(w.UsedGpus("n1") == 1);
  }
  SECTION("not for ever") {
    w.Advance(15'001);
    CHECK_FALSE(w.Bind("p", "n1").error.empty());
  }
}

TEST_CASE("unknown pods are judged by the same rules", "[unit][engine]") {
  TwoNodes w(testing::MakePolicy({testing::MakeQueue("q", {"default"})}));
  w.SetWatchDelay(1'000'000);
  const std::vector<std::pair<kube::Pod, std::string>> rows = {
      {MakePod("a").Gpu(9), "NeverFits"},
      {MakePod("b").Gpu(1).Queue("nope"), "UnknownQueue"},
      {MakePod("c").Gpu(1).Ns("unlisted"), "QueueNotAllowed"},
      {MakePod("d").Gpu(1).Gang("g", 2), "WaitingForMembers"},
      {MakePod("e").Gpu(1).Invalid("x"), "InvalidRequest"},
      {MakePod("f").Gpu(1).Selector("zone", "x"), "NoMatchingNodes"},
      {MakePod("h").Gpu(1).Phase(kube::PodPhase::kSucceeded), "NotReady"},
  };
  for (const auto& [pod, reason] : rows) {
    INFO(pod.meta.name);
    w.Add(pod);
    CHECK(w.Filter(pod.meta.name).kept.empty());
    CHECK(w.Filter(pod.meta.name).reason == reason);
  }
  w.Add(MakePod("web").Cpu("1"));
  CHECK(w.Filter("web").keep_all);
  CHECK(w.Filter("nobody-at-all").reason == "NotReady");
}

// --- The planned node is not offered
// ----------------------------------------------------------------

TEST_CASE("a sample without the planned node: another one, and the planned node is not avoided",
          "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8));
  const std::string first = w.Filter("p").node();
  CHECK(w.Filter("p", {w.Other(first)}).kept == Names{w.Other(first)});
  CHECK(w.UsedGpus(first) == 0);
  CHECK(w.Filter("p", {first}).kept == Names{first});
  CHECK(w.Filter("p", {}).kept.empty());
}

TEST_CASE("a nominated node that is not offered was refused", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8).Gated());
  w.Tick();
  const std::string first = w.Planned("p");
  REQUIRE(w.pod("p").nominated_node == first);
  CHECK(w.pod("p").scheduling_gates.empty());
  // A list of one that is not the nomination is no probe.
  CHECK(w.Filter("p", {w.Other(first)}).kept == Names{w.Other(first)});
  // The refusal is remembered: it does not go back.
  CHECK(w.Filter("p", {first, "n3"}).kept.empty());
  CHECK(w.UsedGpus() == 0);
}

// kube-scheduler began an attempt before the room was there, and asks only now: it does not offer
// the node that the plan names, and it does not know the nomination.
TEST_CASE("a call that is older than the plan refuses no node", "[unit][engine][bug]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8).Gated());
  w.Tick();
  const std::string node = w.Planned("p");
  w.Change("p", [](kube::Pod& pod) { pod.nominated_node.clear(); });  // our watch lags as well
  CHECK(w.Filter("p", {"n9"}).reason == "NodesNotOffered");
  CHECK(w.Planned("p") == node);
  SECTION("once it is answered it knows") {
    CHECK(w.Filter("p", {node}).kept == Names{node});
    CHECK(w.Filter("p", {"n9"}).kept.empty());
    CHECK(w.UsedGpus() == 0);
  }
  SECTION("after a while it does not begin so late") {
    w.Advance(2'000);
    CHECK(w.Filter("p", {"n9"}).kept.empty());
    CHECK(w.UsedGpus() == 0);
  }
}

// Its outcome clears the nomination, and says what the last one before the plan said.
TEST_CASE("the outcome of an attempt that is older than the plan is no refusal",
          "[unit][engine][bug]") {
  TwoNodes w;
  const kube::PodScheduled full{
      .status = false, .reason = "Unschedulable", .message = "0/2 nodes are available"};
  w.Add(MakePod("a").Gpu(8).On("n1"));
  w.Add(MakePod("b").Gpu(8).On("n2"));
  w.Add(MakePod("p").Gpu(8));
  CHECK(w.Filter("p").kept.empty());
  w.Change("p", [&](kube::Pod& pod) { pod.pod_scheduled = full; });
  w.Delete("a");
  w.Tick();
  REQUIRE(w.Planned("p") == "n1");
  w.Change("p", [](kube::Pod& pod) { pod.nominated_node.clear(); });
  w.Tick();
  CHECK(w.Planned("p") == "n1");
  CHECK(w.LogOf("release p").size() == 2);  // it is nominated again
}

TEST_CASE("a probe changes nothing", "[unit][engine]") {
  TwoNodes w;
  w.Add(MakePod("p").Gpu(8).Gated());
  w.Tick();
  const std::string first = w.Planned("p");
  w.Change("p", [&](kube::Pod& pod) { pod.nominated_node = w.Other(first); });
  const std::string ledger = w.store().LedgerString();
  CHECK(w.Filter("p", {w.Other(first)}).reason == "NodesNotOffered");
  CHECK(w.store().LedgerString() == ledger);
  CHECK(w.Planned("p") == first);
  CHECK(w.Filter("p", {first}).kept == Names{first});  // kept if planned
}

TEST_CASE("more nodes than one, where the policy says so", "[unit][engine]") {
  config::PolicyConfiguration policy;
  policy.placement.max_nodes_returned = 2;
  TwoNodes w(policy);
  w.Add(MakeNode("n3").Gpu(8));
  w.Add(MakePod("p").Gpu(8));
  const auto answer = w.Filter("p");
  REQUIRE(answer.kept.size() == 2);
  CHECK(w.UsedGpus(answer.kept[0]) == 8);
  CHECK(w.Bind("p", answer.kept[1]).posted);  // kube-scheduler chose the other one
  CHECK(w.UsedGpus(answer.kept[0]) == 0);
  CHECK(w.UsedGpus(answer.kept[1]) == 8);
}

}  // namespace
}  // namespace berth::engine
