// The ledger: who holds room where, whatever order events come in.
#include "cluster/store.h"

#include <limits>
#include <string>

#include "policy/fit.h"
#include "policy/overlay.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/unit/cluster/store_fixture.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;
using testing::MakePod;

TEST_CASE("what is charged is given back", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertNode(MakeNode("n2").Gpu(8));
  const std::string empty = t.store.LedgerString();
  t.store.UpsertPod(MakePod("p").Gpu(3).Cpu("1500m").Memory("2Gi"));
  t.store.SetCharge(t.pod("p"), t.node("n1"), Charge::kPlanned);
  CHECK(t.Gpus("n1") == 3);
  CHECK(t.QueueGpus(0) == 3);
  CHECK(t.store.node(t.node("n1")).used[kCpu] == 1500);
  CHECK(t.store.node(t.node("n1")).used[kMemory] == 2LL << 30);
  CHECK(t.store.node(t.node("n1")).used[kPods] == 1);
  CHECK(t.store.LedgerString() ==
        "node n1: cpu=1500 memory=2147483648 nvidia.com/gpu=3000 pods=1\n"
        "pod uid-p:n1 1 default cpu=1500 memory=2147483648 pods=1 nvidia.com/gpu=3000\n"
        "queue default: cpu=1500 memory=2147483648 nvidia.com/gpu=3000 pods=1\n");

  SECTION("planned, binding, bound: counted once") {
    t.store.SetCharge(t.pod("p"), t.node("n1"), Charge::kBinding);
    CHECK(t.Gpus("n1") == 3);
    t.store.UpsertPod(MakePod("p").Gpu(3).Cpu("1500m").Memory("2Gi").On("n1"));
    CHECK(t.Gpus("n1") == 3);
    CHECK(t.pod("p").charge == Charge::kBound);
    CHECK(t.store.node(t.node("n1")).pods.size() == 1);
    t.store.DeletePod("uid-p");
    CHECK(t.store.LedgerString() == empty);
  }
  SECTION("moved: counted where it is") {
    t.store.SetCharge(t.pod("p"), t.node("n2"), Charge::kPlanned);
    CHECK(t.Gpus("n1") == 0);
    CHECK(t.Gpus("n2") == 3);
    t.store.Unreserve(t.pod("p"));
    CHECK(t.store.LedgerString() == empty);
  }
  SECTION("bound elsewhere than planned: counted where it is") {
    t.store.UpsertPod(MakePod("p").Gpu(3).Cpu("1500m").Memory("2Gi").On("n2"));
    CHECK(t.Gpus("n1") == 0);
    CHECK(t.Gpus("n2") == 3);
    CHECK(t.QueueGpus(0) == 3);
  }
  SECTION("twice released is once released") {
    t.store.Unreserve(t.pod("p"));
    t.store.Unreserve(t.pod("p"));
    CHECK(t.store.LedgerString() == empty);
  }
}

TEST_CASE("events repeated change nothing", "[unit][cluster]") {
  StoreTest t;
  const auto node = MakeNode("n1").Gpu(8);
  t.store.UpsertNode(node);
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1"));
  t.store.Refresh();
  const std::string before = t.store.LedgerString();
  const auto free = t.store.free_generation();
  t.store.UpsertNode(node);
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1"));
  t.store.DeletePod("uid-unknown");
  t.store.DeleteNode("unknown");
  CHECK(t.store.LedgerString() == before);
  CHECK(t.store.free_generation() == free);  // a heartbeat wakes nobody
}

// Every heartbeat of a kubelet, and every condition that kube-scheduler writes, is an update.
TEST_CASE("after a status update no workload is judged again", "[unit][cluster][bug]") {
  StoreTest t;
  t.store.UpsertPod(MakePod("p").Gpu(2).Gang("g", 2));
  t.store.Refresh();
  (void)t.store.TakeChanged(10);
  const auto shape = t.pod("p").shape;
  kube::Pod again = MakePod("p").Gpu(2).Gang("g", 2);  // a spec of its own, as the decoder makes
  again.pod_scheduled =
      kube::PodScheduled{.status = false, .reason = "Unschedulable", .message = {}};
  t.store.UpsertPod(again);
  CHECK(t.store.TakeChanged(10).empty());
  CHECK(t.pod("p").object.pod_scheduled.has_value());
  CHECK(t.pod("p").object.spec == shape->spec);  // one copy, still
  again.invalid_request = "something";
  t.store.UpsertPod(again);
  CHECK(t.store.TakeChanged(10).size() == 1);
}

TEST_CASE("a pod may be bound before its node is seen", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertPod(MakePod("p").Gpu(2).On("ghost"));
  REQUIRE(t.node("ghost") != kNoNode);
  CHECK_FALSE(t.store.node(t.node("ghost")).present);
  CHECK(t.Gpus("ghost") == 2);
  t.store.Refresh();
  CHECK(t.store.present_nodes() == 0);
  t.store.UpsertNode(MakeNode("ghost").Gpu(8));
  CHECK(t.store.node(t.node("ghost")).free(t.store.device_ids().front()) == 6000);
}

TEST_CASE("a node that goes keeps its pods, and may come back", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1"));
  t.store.DeleteNode("n1");
  CHECK_FALSE(t.store.node(t.node("n1")).present);
  CHECK(t.Gpus("n1") == 2);
  CHECK(t.QueueGpus(0) == 2);
  t.store.UpsertNode(MakeNode("n1").Gpu(4));
  CHECK(t.store.node(t.node("n1")).free(t.store.device_ids().front()) == 2000);
  t.store.DeletePod("uid-p");
  CHECK(t.Gpus("n1") == 0);
}

// Fewer domains may make a DoNotSchedule spread satisfiable: somebody may fit now.
TEST_CASE("a node that goes may make room by the rules of spread", "[unit][cluster][bug]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  const auto free = t.store.free_generation();
  t.store.DeleteNode("n1");
  CHECK(t.store.free_generation() != free);
}

TEST_CASE("a whole-node pod is never charged less than at binding", "[unit][cluster][bug]") {
  StoreTest t;
  const auto bound = [](const std::string& claim) {
    return MakePod("p").Gpu(1).WholeNode().On("n1").Annotation("berth.dev/plan", claim);
  };
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  SECTION("bound before our eyes") {
    t.store.UpsertPod(MakePod("p").Gpu(1).WholeNode());
    t.store.SetCharge(t.pod("p"), t.node("n1"), Charge::kBinding);
    t.store.UpsertNode(MakeNode("n1").Gpu(0));
    CHECK(t.Gpus("n1") == 8);
    CHECK(t.store.WholeNodeCharge(t.pod("p")).at("nvidia.com/gpu") == 8'000);
    t.store.UpsertPod(bound("v1;plan=a-1;node=n1;queue=default;rank=0;charge=nvidia.com/gpu:8000"));
    CHECK(t.Gpus("n1") == 8);
  }
  SECTION("bound before we looked") {
    t.store.UpsertNode(MakeNode("n1").Gpu(0));
    t.store.UpsertPod(bound("v1;plan=a-1;node=n1;queue=default;rank=0;charge=nvidia.com/gpu:8000"));
    CHECK(t.Gpus("n1") == 8);
    CHECK(t.QueueGpus(0) == 8);
  }
  SECTION("a claim of another node says nothing of this one") {
    t.store.UpsertNode(MakeNode("n1").Gpu(0));
    t.store.UpsertPod(bound("v1;plan=a-1;node=n2;queue=default;rank=0;charge=nvidia.com/gpu:8000"));
    CHECK(t.Gpus("n1") == 1);
  }
  SECTION("more, when the node has more") {
    t.store.UpsertPod(bound("v1;plan=a-1;node=n1;queue=default;rank=0;charge=nvidia.com/gpu:4000"));
    CHECK(t.Gpus("n1") == 8);
  }
  t.store.DeletePod("uid-p");
  CHECK(t.Gpus("n1") == 0);
  CHECK(t.QueueGpus(0) == 0);
}

TEST_CASE("a whole-node pod is charged its node as it is now", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertPod(MakePod("p").Gpu(1).WholeNode().On("n1"));
  CHECK(t.Gpus("n1") == 1);  // nothing is known of the node yet
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  CHECK(t.Gpus("n1") == 8);
  CHECK(t.QueueGpus(0) == 8);
  t.store.UpsertNode(MakeNode("n1").Gpu(4));
  CHECK(t.Gpus("n1") == 4);
  CHECK(t.QueueGpus(0) == 4);
  t.store.DeletePod("uid-p");
  CHECK(t.Gpus("n1") == 0);
  CHECK(t.QueueGpus(0) == 0);
}

// I7: a process that starts now knows nothing of the node that is gone.
TEST_CASE("a whole-node pod is charged what it asks for when its node goes",
          "[unit][cluster][bug]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(1).WholeNode().On("n1"));
  t.store.DeleteNode("n1");
  CHECK(t.Gpus("n1") == 1);
  CHECK(t.QueueGpus(0) == 1);
}

// A tenant makes up resource names for ever: they cost no more than a table's worth of memory, and
// nobody gets room for them.
TEST_CASE("names that pods make up are bounded", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  for (int i = 0; i < 5'000; ++i) {
    t.store.UpsertPod(MakePod("p").Gpu(1).Request("example.com/r" + std::to_string(i), "1"));
    t.store.DeletePod("uid-p");
  }
  CHECK(t.store.resources().size() < 10);
  // Nor does a node get wider by what a pod takes of nothing.
  t.store.UpsertPod(MakePod("b").Gpu(1).Request("example.com/z", "1").On("n1"));
  CHECK(t.store.node(t.node("n1")).used.size() < 10);
  t.store.UpsertPod(MakePod("p").Gpu(1).Request("a.com/x", "1").Request("a.com/y", "1"));
  CHECK(policy::Capacity(*t.pod("p").shape, policy::Overlay(t.store), t.node("n1"), 1) == 0);
  // What nodes have is known all the same.
  t.store.UpsertNode(MakeNode("n2").Gpu(8).Allocatable("late.com/x", 2'000));
  t.store.UpsertPod(MakePod("q").Gpu(1).Request("late.com/x", "1"));
  CHECK(policy::Capacity(*t.pod("q").shape, policy::Overlay(t.store), t.node("n2"), 1) == 1);
}

// An autoscaled cluster meets new names for ever.
TEST_CASE("the slot of a node that is gone is used again", "[unit][cluster]") {
  StoreTest t;
  for (int day = 0; day < 100; ++day) {
    const std::string name = "spot-" + std::to_string(day);
    t.store.UpsertNode(MakeNode(name).Gpu(8));
    t.store.UpsertPod(MakePod("p").Gpu(2).On(name));
    CHECK(t.Gpus(name) == 2);
    t.store.DeletePod("uid-p");
    t.store.DeleteNode(name);
  }
  CHECK(t.store.nodes().size() == 1);
  CHECK(t.node("spot-98") == kNoNode);
  t.store.UpsertNode(MakeNode("n1").Gpu(4));
  t.store.Refresh();
  CHECK(t.store.node(t.node("n1")).name == "n1");
  CHECK(t.store.present_nodes() == 1);
}

TEST_CASE("the slot of a node that is gone is kept while something refers to it",
          "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1"));
  t.store.DeleteNode("n1");
  t.store.UpsertNode(MakeNode("n2").Gpu(8));
  CHECK(t.Gpus("n1") == 2);
  CHECK(t.Gpus("n2") == 0);

  SECTION("the pod goes") {
    t.store.DeletePod("uid-p");
    t.store.UpsertNode(MakeNode("n3").Gpu(8));
    CHECK(t.store.nodes().size() == 2);
    CHECK(t.node("n1") == kNoNode);
  }
  SECTION("the node comes back first") {
    t.store.UpsertNode(MakeNode("n1").Gpu(8));
    t.store.DeletePod("uid-p");
    t.store.UpsertNode(MakeNode("n3").Gpu(8));
    CHECK(t.store.nodes().size() == 3);
    CHECK(t.Gpus("n1") == 0);
  }
  SECTION("the node comes back, the pod gone before") {
    t.store.DeletePod("uid-p");
    t.store.UpsertNode(MakeNode("n1").Gpu(8));
    t.store.UpsertNode(MakeNode("n3").Gpu(8));
    CHECK(t.node("n1") != t.node("n3"));
    CHECK(t.store.nodes().size() == 3);
  }
}

TEST_CASE("terminating pods hold their room until they are gone", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1"));
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1").Terminating());
  CHECK(t.Gpus("n1") == 2);
  CHECK(t.QueueGpus(0) == 2);
  CHECK(t.pod("p").workload == nullptr);  // no longer a member of anything
  t.store.DeletePod("uid-p");
  CHECK(t.Gpus("n1") == 0);
  CHECK(t.QueueGpus(0) == 0);
}

// I7: seen for the first time while it ends, it is charged as if we had known it all along.
TEST_CASE("a terminating pod is charged to its queue after a restart too", "[unit][cluster][bug]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1").Terminating());
  CHECK(t.Gpus("n1") == 2);
  CHECK(t.QueueGpus(0) == 2);
}

TEST_CASE("a planned pod that is being deleted gives its room back", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2));
  t.store.SetCharge(t.pod("p"), t.node("n1"), Charge::kPlanned);
  t.store.UpsertPod(MakePod("p").Gpu(2).Terminating());
  CHECK(t.Gpus("n1") == 0);
}

TEST_CASE("an ended pod is a deleted pod", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  for (const auto phase : {kube::PodPhase::kSucceeded, kube::PodPhase::kFailed}) {
    t.store.UpsertPod(MakePod("p").Gpu(2).On("n1"));
    CHECK(t.Gpus("n1") == 2);
    CHECK(t.store.UpsertPod(MakePod("p").Gpu(2).On("n1").Phase(phase)) == nullptr);
    CHECK(t.Gpus("n1") == 0);
    CHECK(t.store.FindPod("uid-p") == nullptr);
    CHECK(t.store.workloads().empty());
  }
}

TEST_CASE("a pod recreated under its name replaces the old one", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Uid("old").Gpu(2).On("n1"));
  t.store.UpsertPod(MakePod("p").Uid("new").Gpu(3));
  CHECK(t.store.FindPod("old") == nullptr);
  CHECK(t.store.FindPod("default", "p") == t.store.FindPod("new"));
  CHECK(t.Gpus("n1") == 0);
  t.store.DeletePod("old");  // the late news of the old one
  CHECK(t.store.FindPod("default", "p") == t.store.FindPod("new"));
}

// Nobody told of the old one's end: only the name says that it is gone.
TEST_CASE("a pod recreated under its name and ended already", "[unit][cluster][bug]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Uid("old").Gpu(2).On("n1"));
  t.store.UpsertPod(MakePod("p").Uid("new").Gpu(2).On("n1").Phase(kube::PodPhase::kSucceeded));
  CHECK(t.store.FindPod("old") == nullptr);
  CHECK(t.Gpus("n1") == 0);
}

// --- Pods that are not ours
// -----------------------------------------------------------------------

TEST_CASE("others' pods occupy room once bound, in no queue", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).Scheduler("volcano"));
  CHECK(t.Gpus("n1") == 0);
  CHECK(t.pod("p").workload == nullptr);
  t.store.UpsertPod(MakePod("p").Gpu(2).Scheduler("volcano").On("n1"));
  CHECK(t.Gpus("n1") == 2);
  CHECK(t.QueueGpus(0) == 0);
}

// Seed 205630 of profile all: after a restart the pod may be read before its node.
TEST_CASE("so is one that is nominated to a node that comes later", "[unit][cluster][bug]") {
  StoreTest t;
  kube::Pod pod = MakePod("other").Gpu(2).Scheduler("other");
  pod.nominated_node = "n1";
  t.store.UpsertPod(pod);
  CHECK(t.Gpus("n1") == 0);
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  CHECK(t.Gpus("n1") == 2);
  t.store.DeletePod("uid-other");
  CHECK(t.Gpus("n1") == 0);
  t.store.UpsertPod(MakePod("gone").Gpu(2).Scheduler("other"));
  t.store.DeletePod("uid-gone");
  t.store.UpsertNode(MakeNode("n2").Gpu(8));
}

TEST_CASE("a nominated pod of others is counted where it was promised", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertNode(MakeNode("n2").Gpu(8));
  const auto pod = [] { return MakePod("p").Gpu(2).Scheduler("other"); };
  t.store.UpsertPod(pod().Nominated("n1"));
  CHECK(t.Gpus("n1") == 2);
  t.store.UpsertPod(pod().Nominated("n2"));
  CHECK(t.Gpus("n1") == 0);
  CHECK(t.Gpus("n2") == 2);
  t.store.UpsertPod(pod());
  CHECK(t.Gpus("n2") == 0);
  t.store.UpsertPod(pod().Nominated("never-heard-of"));
  CHECK(t.Gpus("n1") + t.Gpus("n2") == 0);
  t.store.UpsertPod(pod().Nominated("n1"));
  t.store.UpsertPod(pod().On("n2"));
  CHECK(t.Gpus("n1") == 0);
  CHECK(t.Gpus("n2") == 2);
}

// As above, where nothing but the status changed: the spec is the very same object.
TEST_CASE("a nomination alone is a change", "[unit][cluster][bug]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  kube::Pod pod = MakePod("p").Gpu(2).Scheduler("other");
  t.store.UpsertPod(pod);
  pod.nominated_node = "n1";
  t.store.UpsertPod(pod);
  CHECK(t.Gpus("n1") == 2);
  pod.nominated_node.clear();
  t.store.UpsertPod(pod);
  CHECK(t.Gpus("n1") == 0);
}

// A user may create pods with nodeName set and any request: the sum must not wrap around.
TEST_CASE("absurd requests do not make room", "[unit][cluster][bug]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  for (const char* name : {"p", "q"}) {
    t.store.UpsertPod(MakePod(name).Gpu(1).Memory("9223372036854775807").On("n1"));
  }
  CHECK(t.store.node(t.node("n1")).used[kMemory] > 0);
  const policy::Overlay overlay(t.store);
  CHECK(overlay.Free(t.node("n1"), kMemory) <= 0);
}

/// The ledger when every event came, against that of a process that sees the last state alone.
void CheckSameAfterRestart(const std::vector<kube::Pod>& states) {
  const auto policy = testing::MakePolicy({testing::MakeQueue("a", {"default"})});
  Store seen(policy);
  for (const kube::Pod& state : states) {
    seen.UpsertPod(state);
    seen.Refresh();
  }
  Store restarted(policy);
  restarted.UpsertPod(states.back());
  CHECK(seen.LedgerString() == restarted.LedgerString());
}

TEST_CASE("a pod that is ending is charged to the same queue after a restart", "[unit][cluster]") {
  SECTION("with devices") {
    CheckSameAfterRestart(
        {MakePod("p").Gpu(1).On("n1"), MakePod("p").Gpu(1).On("n1").Terminating()});
  }
  SECTION("a member without devices") {
    auto member = [] { return MakePod("p").Cpu("2").Gang("g", 2); };
    CheckSameAfterRestart({member().On("n1"), member().On("n1").Terminating()});
  }
  SECTION("a pod that only had our gate is nobody's once it runs") {
    CheckSameAfterRestart({MakePod("p").Cpu("2").Gated(), MakePod("p").Cpu("2").On("n1")});
  }
}

}  // namespace
}  // namespace berth::cluster
