// What an edit of the policy changes of the ledger and of what pods mean, read at once and in
// parts.
#include <map>
#include <string>

#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/unit/cluster/store_fixture.h"

namespace berth::cluster {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

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

}  // namespace
}  // namespace berth::cluster
