// The ledger: who holds room where, whatever order events come in.
#include "cluster/store.h"

#include <limits>
#include <string>

#include "policy/fit.h"
#include "policy/overlay.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

class StoreTest {
 public:
  explicit StoreTest(config::PolicyConfiguration policy = {}) : store(std::move(policy)) {}

  std::int64_t Gpus(const std::string& node) {
    const NodeIndex index = store.FindNode(node);
    return index == kNoNode ? 0 : store.node(index).used[store.device_ids().front()] / 1000;
  }
  std::int64_t QueueGpus(std::size_t queue) {
    return store.queue(store.queues()[queue]).used[store.device_ids().front()] / 1000;
  }
  const PodInfo& pod(const std::string& name) { return *store.FindPod("uid-" + name); }
  NodeIndex node(const std::string& name) { return store.FindNode(name); }

  Store store;
};

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
TEST_CASE("a status update has nobody judged again", "[unit][cluster][bug]") {
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

// --- Policies
// -------------------------------------------------------------------------------------

TEST_CASE("a new policy keeps every charge", "[unit][cluster]") {
  StoreTest t(MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"})}));
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("bound").Gpu(1).Queue("b").On("n1"));
  t.store.UpsertPod(MakePod("binding").Gpu(2).Queue("b"));
  t.store.UpsertPod(MakePod("planned").Gpu(3).Queue("b"));
  t.store.Refresh();
  t.store.SetCharge(t.pod("binding"), t.node("n1"), Charge::kBinding);
  t.store.SetCharge(t.pod("planned"), t.node("n1"), Charge::kPlanned);
  t.store.SetPlan(*t.pod("planned").workload, "p-1");
  CHECK(t.QueueGpus(1) == 6);

  SECTION("queues in another order") {
    t.store.SetPolicy(MakePolicy({MakeQueue("b", {"default"}), MakeQueue("a", {"default"})}));
    CHECK(t.Gpus("n1") == 6);
    CHECK(t.QueueGpus(0) == 6);
    CHECK(t.QueueGpus(1) == 0);
    CHECK(t.pod("binding").charge == Charge::kBinding);
    CHECK(t.pod("planned").charge == Charge::kPlanned);
    CHECK(t.pod("bound").charge == Charge::kBound);
  }
  SECTION("a queue that is gone charges nobody; its bound pods keep their room") {
    t.store.SetPolicy(MakePolicy({MakeQueue("a", {"default"})}));
    CHECK(t.Gpus("n1") == 6);
    CHECK(t.QueueGpus(0) == 0);
    CHECK(t.pod("bound").queue == kNoQueue);
  }
}

TEST_CASE("an edit of amounts alone reads no pod again", "[unit][cluster]") {
  StoreTest t(MakePolicy({MakeQueue("a", {"default"}, 8), MakeQueue("b", {"default"})}));
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("bound").Gpu(2).Queue("a").On("n1"));
  t.store.Refresh();
  const std::string before = t.store.LedgerString();
  const auto* shape = t.pod("bound").shape.get();

  SECTION("caps, times and weights") {
    auto policy = MakePolicy({MakeQueue("a", {"default"}, 4), MakeQueue("b", {"default"})});
    policy.gang.plan_timeout += std::chrono::milliseconds(1);
    CHECK_FALSE(t.store.SetPolicy(policy));
    CHECK(t.store.LedgerString() == before);
    CHECK(t.pod("bound").shape.get() == shape);
    CHECK(t.store.queue(0).caps.front().second == 4'000);
    CHECK(t.store.policy() == policy);
  }
  SECTION("but another order of queues, or another namespace") {
    const auto a = MakeQueue("a", {"default"}, 8);
    CHECK(t.store.SetPolicy(MakePolicy({MakeQueue("b", {"default"}), a})));
    CHECK(t.store.SetPolicy(MakePolicy({MakeQueue("b", {"other"}), a})));
  }
  SECTION("but a device") {
    auto policy = t.store.policy();
    policy.devices.push_back({.name = "amd.com/gpu"});
    CHECK(t.store.SetPolicy(policy));
  }
  SECTION("but the first quota of a resource: non-preemptible work is charged for it by itself") {
    auto policy = t.store.policy();
    policy.queues[1].quota["nvidia.com/gpu"] = 1'000;
    CHECK(t.store.SetPolicy(policy));
    policy.queues[0].quota["nvidia.com/gpu"] = 2'000;
    CHECK_FALSE(t.store.SetPolicy(policy));
  }
  SECTION("but a flavor, a class, or what a queue admits") {
    auto policy = t.store.policy();
    policy.flavors = {{.name = "h100"}};
    CHECK(t.store.SetPolicy(policy));
    policy.classes = {{.name = "training"}};
    CHECK(t.store.SetPolicy(policy));
    policy.queues[0].non_preemptible = false;
    CHECK(t.store.SetPolicy(policy));
    policy.queues[0].priority_classes.emplace();
    CHECK(t.store.SetPolicy(policy));
    policy.queues[0].classes.emplace();
    CHECK(t.store.SetPolicy(policy));
    policy.queues[0].quotas = {{.flavor = "h100", .limit = {{"nvidia.com/gpu", 1'000}}}};
    CHECK(t.store.SetPolicy(policy));
    policy.queues[0].quotas[0].limit["nvidia.com/gpu"] = 2'000;
    CHECK_FALSE(t.store.SetPolicy(policy));
  }
  SECTION("but a quota of what a pod asked for when nobody knew it") {
    t.store.UpsertPod(MakePod("asks").Gpu(1).Request("example.com/thing", "1"));
    auto policy = t.store.policy();
    policy.queues[1].limit["example.com/other"] = 1'000;
    CHECK_FALSE(t.store.SetPolicy(policy));
    policy.queues[1].limit["example.com/thing"] = 1'000;
    CHECK(t.store.SetPolicy(policy));
    t.store.UpsertNode(MakeNode("n2").Gpu(8).Allocatable("example.com/thing", 1'000));
    CHECK(t.store.DemandOn(*t.pod("asks").shape, t.store.node(t.node("n2"))).size() == 3);
  }
}

TEST_CASE("while its queue is gone a bound pod counts as it would after a restart",
          "[unit][cluster][bug]") {
  const auto both = MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"})});
  StoreTest t(both);
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).On("n1").Claim("x", "n1", "a"));
  t.store.UpsertPod(MakePod("ends").Gpu(1).On("n1").Claim("y", "n1", "a").Terminating());
  CHECK(t.QueueGpus(0) == 3);
  t.store.SetPolicy(MakePolicy({MakeQueue("b", {"default"})}));
  CHECK(t.QueueGpus(0) == 3);
  t.store.SetPolicy(MakePolicy({MakeQueue("b", {"other"})}));
  CHECK(t.QueueGpus(0) == 0);  // no queue admits its namespace
  t.store.SetPolicy(both);
  CHECK(t.QueueGpus(0) == 3);
  CHECK(t.QueueGpus(1) == 0);
}

// In passthrough a Binding carries no annotation: what an earlier plan left there may be true by
// chance.
TEST_CASE("a pod is charged from its Binding on as it would be after a restart",
          "[unit][cluster][bug]") {
  const auto both = MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"})});
  StoreTest t(both);
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).Claim("x", "n1", "b"));
  t.store.SetCharge(t.pod("p"), t.node("n1"), Charge::kBinding);
  REQUIRE(t.QueueGpus(0) == 2);
  t.store.UpsertPod(MakePod("p").Gpu(2).Claim("x", "n1", "b").On("n1"));
  CHECK(t.QueueGpus(0) == 0);
  CHECK(t.QueueGpus(1) == 2);
}

// The pod's queue was an index into the old queues.
TEST_CASE("a pod that ends while its Binding is under way survives a new policy",
          "[unit][cluster][bug]") {
  StoreTest t(MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"})}));
  t.store.UpsertNode(MakeNode("n1").Gpu(8));
  t.store.UpsertPod(MakePod("p").Gpu(2).Queue("b"));
  t.store.SetCharge(t.pod("p"), t.node("n1"), Charge::kBinding);
  t.store.UpsertPod(MakePod("p").Gpu(2).Queue("b").Terminating());
  REQUIRE(t.pod("p").charge == Charge::kBinding);
  t.store.SetPolicy(MakePolicy({MakeQueue("x", {"default"}), MakeQueue("a", {"default"})}));
  CHECK(t.Gpus("n1") == 2);
  CHECK(t.QueueGpus(1) == 0);  // it never was in `a`
  CHECK(t.QueueGpus(0) == 0);
}

// --- Reading in parts

/// Ours and others', waiting and running, in a gang and alone, and members that have ended.
void AddPods(Store& store) {
  for (const char* node : {"n1", "n2"}) store.UpsertNode(MakeNode(node).Gpu(8));
  for (const char* name : {"a", "b", "c", "d"}) {
    const std::string id(name);
    store.UpsertPod(MakePod("wait-" + id).Gpu(1).Queue("a"));
    store.UpsertPod(MakePod("runs-" + id).Gpu(1).On("n1").Claim("x", "n1", id == "a" ? "a" : "b"));
    store.UpsertPod(MakePod("other-" + id).Scheduler("other").On("n2"));
    store.UpsertPod(MakePod("gang-" + id).Gpu(1).Gang("g", 4).Queue("b"));
    store.UpsertPod(MakePod("ended-" + id)
                        .Gpu(1)
                        .Gang("e", 4)
                        .Queue("b")
                        .On("n2")
                        .Phase(kube::PodPhase::kSucceeded));
  }
}

/// What the policy decides about each pod.
std::string Meaning(Store& store) {
  store.Refresh();
  std::map<std::string, std::string> lines;
  for (const auto& [uid, pod] : store.pods()) {
    lines[uid] = (pod.queue == kNoQueue ? "-" : store.queue(pod.queue).config.name) + ' ' +
                 std::string(Token(pod.refusal.reason)) + ' ' +
                 (pod.workload == nullptr ? "-" : pod.workload->key) +
                 (pod.shape->asks_device ? " device" : "");
  }
  for (const auto& [id, ended] : store.ended()) lines[id.second] = "ended of " + id.first;
  std::string text = store.LedgerString();
  for (const auto& [uid, line] : lines) text += uid + ": " + line + '\n';
  return text;
}

TEST_CASE("pods that are read in parts mean what they mean when read at once", "[unit][cluster]") {
  const auto first = MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"})});
  auto edited = first;
  SECTION("a queue is gone") { edited.queues.erase(edited.queues.begin()); }
  SECTION("another one stands before it") {
    edited.queues.insert(edited.queues.begin(), MakeQueue("c", {"default"}));
  }
  SECTION("a queue admits other namespaces") { edited.queues[1].namespaces = {{"other"}}; }
  SECTION("another device") { edited.devices = {{.name = "x.io/npu"}}; }
  SECTION("another scheduler") { edited.scheduler_names = {"other"}; }
  SECTION("another level") { edited.levels = {{.name = "rack", .node_label = "example.com/rack"}}; }

  StoreTest at_once(first);
  StoreTest in_parts(first);
  AddPods(at_once.store);
  AddPods(in_parts.store);
  int part = 0;
  const auto meanwhile = [&](Store& store) {
    if (part % 5 == 1)
      store.DeletePod("uid-wait-" + std::string(1, static_cast<char>('a' + part / 5)));
    if (part % 5 == 2)
      store.DeletePod("uid-runs-" + std::string(1, static_cast<char>('a' + part / 5)));
    if (part == 3) store.UpsertPod(MakePod("late").Gpu(1).Queue("b"));
    if (part == 4) store.UpsertPod(MakePod("gang-c").Gpu(2).Gang("g", 4).Queue("b"));
    if (part == 7)
      store.UpsertPod(MakePod("gang-d").Gpu(1).Gang("g", 4).Phase(kube::PodPhase::kFailed));
    if (part == 8) store.DeletePod("uid-ended-b");
  };
  REQUIRE(in_parts.store.BeginPolicy(edited));
  REQUIRE(in_parts.store.reading());
  for (; in_parts.store.reading(); ++part) {
    in_parts.store.ReadMore(1);
    meanwhile(in_parts.store);
  }
  REQUIRE(part > 10);
  const int parts = part;
  at_once.store.SetPolicy(edited);
  for (part = 0; part < parts; ++part) meanwhile(at_once.store);
  CHECK(Meaning(in_parts.store) == Meaning(at_once.store));
}

TEST_CASE("an edit while pods are read begins again; a queue that is back is itself",
          "[unit][cluster]") {
  const auto both = MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"})});
  StoreTest t(both);
  AddPods(t.store);
  const std::string before = Meaning(t.store);
  REQUIRE(t.store.BeginPolicy(MakePolicy({MakeQueue("b", {"default"})})));
  for (int i = 0; i < 5; ++i) t.store.ReadMore(1);
  REQUIRE(t.store.BeginPolicy(both));
  while (t.store.reading()) t.store.ReadMore(1);
  CHECK(Meaning(t.store) == before);
}

TEST_CASE("the id of a queue that is gone is used again", "[unit][cluster]") {
  StoreTest t(MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"})}));
  AddPods(t.store);
  for (int i = 0; i < 10; ++i) {
    const auto name = "new-" + std::to_string(i);
    t.store.SetPolicy(MakePolicy({MakeQueue(name, {"default"}), MakeQueue("b", {"default"})}));
    const QueueId id = t.store.FindQueue(name);
    CHECK(t.store.queues() == std::vector{id, t.store.FindQueue("b")});
    CHECK(id <= 2);  // the queue before it is gone when all pods are read
    CHECK(t.store.queue(id).config.name == name);
  }
  CHECK(t.store.FindQueue("a") == kNoQueue);
}

TEST_CASE("a device that the policy adds is counted from then on", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("n1").Gpu(8).Allocatable("x.io/npu", 4000));
  t.store.UpsertPod(MakePod("p").Request("x.io/npu", "2"));
  CHECK(t.pod("p").workload == nullptr);
  config::PolicyConfiguration policy;
  policy.devices = {{.name = "x.io/npu"}};
  t.store.SetPolicy(policy);
  REQUIRE(t.pod("p").workload != nullptr);
  CHECK(t.pod("p").shape->asks_device);
  CHECK(t.pod("p").shape->device_amount == 2000);
}

TEST_CASE("a new set of scheduler names takes pods in and out", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertPod(MakePod("p").Gpu(1).Scheduler("mine"));
  CHECK(t.pod("p").workload == nullptr);
  config::PolicyConfiguration policy;
  policy.scheduler_names = {"mine"};
  t.store.SetPolicy(policy);
  CHECK(t.pod("p").workload != nullptr);
  t.store.SetPolicy({});
  CHECK(t.pod("p").workload == nullptr);
  CHECK(t.store.workloads().empty());
}

// --- Order and domains
// ----------------------------------------------------------------------------

TEST_CASE("nodes have one hashed order, however they came", "[unit][cluster]") {
  StoreTest forward;
  StoreTest backward;
  for (int i = 0; i < 20; ++i) {
    forward.store.UpsertNode(MakeNode("n" + std::to_string(i)));
    backward.store.UpsertNode(MakeNode("n" + std::to_string(19 - i)));
  }
  forward.store.Refresh();
  backward.store.Refresh();
  std::set<int> ranks;
  bool shuffled = false;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i);
    const int rank = forward.store.rank(forward.node(name));
    CHECK(rank == backward.store.rank(backward.node(name)));
    shuffled |= rank != i;
    ranks.insert(rank);
  }
  CHECK(ranks.size() == 20);
  CHECK(*ranks.rbegin() == 19);
  CHECK(shuffled);
}

TEST_CASE("domains: same label and same wider domains", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("a").Block("b1").Rack("r1"));
  t.store.UpsertNode(MakeNode("b").Block("b1").Rack("r1"));
  t.store.UpsertNode(MakeNode("c").Block("b2").Rack("r1"));  // another r1
  t.store.UpsertNode(MakeNode("d").Block("b2"));             // no rack
  t.store.Refresh();
  std::map<std::string, std::size_t> sizes;
  for (const Domain& domain : t.store.domains()) {
    if (domain.level < 2) sizes[domain.name] = domain.nodes.size();
  }
  CHECK(sizes ==
        std::map<std::string, std::size_t>{{"b1", 2}, {"b1/r1", 2}, {"b2", 2}, {"b2/r1", 1}});
  CHECK(t.store.node(t.node("d")).domains[1] == kNoDomain);
  CHECK(t.store.node(t.node("a")).domains[1] == t.store.node(t.node("b")).domains[1]);
  t.store.DeleteNode("c");
  t.store.Refresh();
  CHECK(std::ranges::none_of(t.store.domains(), [](const Domain& d) { return d.name == "b2/r1"; }));
}

TEST_CASE("domains: a gap in the labels joins nobody", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("whole").Block("b1").Rack("r1"));
  t.store.UpsertNode(MakeNode("no-block").Rack("r1"));
  t.store.UpsertNode(MakeNode("empty-block").Block("").Rack("r1"));
  t.store.UpsertNode(
      MakeNode("no-host").Block("b1").Rack("r1").Label("kubernetes.io/hostname", ""));
  t.store.Refresh();
  const auto domains = [&t](const char* name) { return t.store.node(t.node(name)).domains; };
  CHECK(domains("no-block")[0] == kNoDomain);
  CHECK(domains("no-block")[1] != kNoDomain);
  CHECK(domains("no-block")[1] != domains("whole")[1]);
  CHECK(domains("no-block")[1] == domains("empty-block")[1]);  // as far as is known, the same
  CHECK(domains("no-host")[1] == domains("whole")[1]);
  CHECK(domains("no-host")[2] == kNoDomain);
}

TEST_CASE("domains: labels that run in a circle are no tree, and harm nobody", "[unit][cluster]") {
  StoreTest t;
  t.store.UpsertNode(MakeNode("a").Block("x").Rack("y"));
  t.store.UpsertNode(MakeNode("b").Block("y").Rack("x"));
  t.store.UpsertNode(MakeNode("c").Block("x").Rack("x"));
  t.store.Refresh();
  std::map<std::string, int> levels;
  for (const Domain& domain : t.store.domains()) {
    if (domain.level < 2) levels[domain.name] = domain.level;
    CHECK(domain.nodes.size() == (domain.name == "x" ? 2 : 1));
  }
  CHECK(levels ==
        std::map<std::string, int>{{"x", 0}, {"y", 0}, {"x/y", 1}, {"y/x", 1}, {"x/x", 1}});
}

// Cloned machines that kept their host name.
TEST_CASE("domains: two nodes of one host name are two hosts", "[unit][cluster][bug]") {
  StoreTest t;
  for (const char* name : {"a", "b"}) {
    t.store.UpsertNode(MakeNode(name).Block("b").Rack("r").Label("kubernetes.io/hostname", "same"));
  }
  t.store.Refresh();
  CHECK(t.store.node(t.node("a")).domains[1] == t.store.node(t.node("b")).domains[1]);
  CHECK(t.store.node(t.node("a")).domains[2] != t.store.node(t.node("b")).domains[2]);
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
