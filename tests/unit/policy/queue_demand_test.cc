// What counts as demand of a queue, and what is shared out. Numbers are GPUs.
#include "policy/queue_demand.h"

#include <catch2/catch.hpp>

#include "tests/support/builders.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::Planning;

struct DemandTest : Planning {
  DemandTest() : DemandTest(MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"lab"})})) {}
  explicit DemandTest(const config::PolicyConfiguration& policy) : Planning(policy) {
    Node(MakeNode("n").Gpu(64));
  }
  FairTree Tree(bool placeable = true) {
    store.Refresh();
    QueueDemands demands;
    for (const auto& [key, workload] : store.workloads()) demands.Add(store, workload, placeable);
    return demands.TreeOf(store);
  }
  /// Sizes of the jobs of queue `a`.
  std::vector<std::int64_t> Jobs(bool placeable = true) {
    std::vector<std::int64_t> sizes;
    const FairTree tree = Tree(placeable);
    for (const JobSize& job : tree.queues[0].jobs) {
      sizes.insert(sizes.end(), static_cast<std::size_t>(job.count), job.devices.at(0) / 1000);
    }
    return sizes;
  }
  void Gang(const std::string& name, int gpus, int size, int min, int live, int bound) {
    for (int i = 0; i < live; ++i) {
      auto pod = MakePod(name + std::to_string(i)).Gpu(gpus).Gang(name, size).Min(min);
      Pod(i < bound ? pod.On("n") : pod.Gated());
    }
  }
};

using Sizes = std::vector<std::int64_t>;

TEST_CASE("a job is a pod by itself, or the minimum of a gang", "[unit][policy]") {
  DemandTest t;
  t.Pod(MakePod("runs").Gpu(3).On("n"));
  t.Pod(MakePod("waits").Gpu(2));
  t.Pod(MakePod("gated").Gpu(2).Gated());
  t.Pod(MakePod("no devices").Cpu("1"));
  t.Pod(MakePod("elsewhere").Gpu(5).Ns("lab"));
  CHECK(t.Jobs() == Sizes{2, 2, 3});
  t.Gang("pending", 2, 4, 3, 4, 0);  // its surplus that waits is no demand
  CHECK(t.Jobs() == Sizes{2, 2, 3, 6});
  t.Gang("incomplete", 2, 4, 4, 3, 0);
  CHECK(t.Jobs() == Sizes{2, 2, 3, 6});
}

TEST_CASE("a whole-node pod that waits counts with a node", "[unit][policy][bug]") {
  DemandTest t;
  t.Pod(MakePod("w").Gpu(1).WholeNode());
  CHECK(t.Jobs() == Sizes{64});
  t.Node(MakeNode("small").Gpu(8));
  CHECK(t.Jobs() == Sizes{8});
  t.Pod(MakePod("large").Gpu(9).WholeNode());  // no small node has as much
  CHECK(t.Jobs() == Sizes{8, 64});
  t.Node(MakeNode("small").Gpu(8).Cordoned());
  CHECK(t.Jobs() == Sizes{64, 64});
  t.Pod(MakePod("none").Gpu(65).WholeNode());  // none at all
  CHECK(t.Jobs() == Sizes{64, 64, 65});
}

TEST_CASE("what a gang holds counts, and what its minimum lacks", "[unit][policy]") {
  DemandTest t;
  t.Gang("whole", 2, 4, 4, 4, 4);
  CHECK(t.Jobs() == Sizes{8});
  t.Gang("elastic", 3, 4, 2, 4, 4);  // its surplus pod by pod
  CHECK(t.Jobs() == Sizes{3, 3, 6, 8});
}

TEST_CASE("members that give their places up count like waiting members", "[unit][policy]") {
  DemandTest t;
  t.Gang("g", 2, 4, 2, 4, 4);
  t.Gang("h", 3, 2, 2, 2, 2);
  const auto without = [&](const std::vector<std::string>& names) {
    t.store.Refresh();
    QueueDemands demands = QueueDemands::Of(t.store, t.scorer.fit());
    QueueDemands::PodSet given_up;
    for (const std::string& name : names) given_up.insert(t.store.FindPod("uid-" + name));
    const cluster::Workload& workload = *(*given_up.begin())->workload;
    EmptyRoom room(t.store, t.scorer.fit());
    demands.Add(JobsOf(t.store, workload, room), -1);
    demands.Add(JobsOf(t.store, workload, room, given_up));
    const FairTree tree = demands.TreeOf(t.store);
    Sizes sizes;
    for (const JobSize& job : tree.queues[0].jobs) {
      sizes.insert(sizes.end(), static_cast<std::size_t>(job.count), job.devices.at(0) / 1000);
    }
    return sizes;
  };
  CHECK(t.Jobs() == Sizes{2, 2, 4, 6});
  CHECK(without({"g3"}) == Sizes{2, 4, 6});
  CHECK(without({"g2", "g3"}) == Sizes{4, 6});
  CHECK(without({"g1", "g2", "g3"}) == Sizes{4, 6});  // its minimum is demand all the same
  CHECK(without({"h1"}) == Sizes{2, 2, 4, 6});
}

TEST_CASE("a gang below its minimum wants the rest of it", "[unit][policy]") {
  DemandTest t;
  t.Gang("broken", 2, 4, 4, 4, 3);
  CHECK(t.Jobs() == Sizes{8});
  DemandTest lacks;
  lacks.Gang("broken", 2, 4, 4, 3, 3);
  CHECK(lacks.Jobs() == Sizes{6});
}

TEST_CASE("what cannot start is no demand", "[unit][policy]") {
  DemandTest t;
  t.Pod(MakePod("waits").Gpu(2));
  t.Pod(MakePod("suspended").Gpu(4).Gated().Gate("example.com/other"));
  t.Pod(MakePod("runs").Gpu(3).On("n"));
  CHECK(t.Jobs() == Sizes{2, 3});
  CHECK(t.Jobs(/*placeable=*/false) == Sizes{3});

  auto policy = MakePolicy({MakeQueue("a", {"default"})});
  policy.queues[0].hold = config::Hold::kHold;
  DemandTest held(policy);
  held.Pod(MakePod("waits").Gpu(2));
  held.Pod(MakePod("runs").Gpu(3).On("n"));
  CHECK(held.Jobs() == Sizes{3});
}

TEST_CASE("non-preemptible jobs are demand up to the quota", "[unit][policy]") {
  const auto non_preemptible = [](const char* name, int gpus) {
    return MakePod(name).Gpu(gpus).Label("berth.dev/preemptible", "false");
  };
  DemandTest t(MakePolicy({MakeQueue("a", {"default"}, -1, 6)}));
  t.Pod(MakePod("other").Gpu(9));
  t.Pod(non_preemptible("runs", 2).On("n"));
  CHECK(t.Jobs() == Sizes{2, 9});
  t.Pod(non_preemptible("waits", 4));
  CHECK(t.Jobs() == Sizes{2, 4, 9});
  t.Pod(non_preemptible("small", 1));  // 1 + 2 leave 3 of 6
  CHECK(t.Jobs() == Sizes{1, 2, 9});
  DemandTest free(MakePolicy({MakeQueue("a", {"default"})}));
  free.Pod(non_preemptible("waits", 4));
  CHECK(free.Jobs() == Sizes{4});
}

TEST_CASE("what is shared out", "[unit][policy]") {
  DemandTest t;  // one node of 64
  t.Node(MakeNode("cordoned").Gpu(8).Cordoned());
  t.Node(MakeNode("lost").Gpu(8).NotReady());
  CHECK(t.Tree().pool == DeviceAmounts{64'000});
  CHECK(t.Tree().total == DeviceAmounts{80'000});
  t.Pod(MakePod("a1").Gpu(4).On("n"));
  t.Pod(MakePod("a2").Gpu(2).On("cordoned"));
  CHECK(t.Tree().pool == DeviceAmounts{66'000});
  t.Pod(MakePod("alien").Gpu(8).Scheduler("other").On("n"));
  t.Pod(MakePod("alien2").Gpu(1).Scheduler("other").On("lost"));
  CHECK(t.Tree().pool == DeviceAmounts{58'000});
}

TEST_CASE("the tree has what the policy says of the queues", "[unit][policy]") {
  auto policy = MakePolicy({MakeQueue("x", {"default"}, -1, 6), MakeQueue("a", {"lab"}, 12, 8)});
  policy.borrowing = true;
  policy.queues[0].parent = "a";
  policy.queues[0].weight = 2500;
  policy.queues[0].priority = 7;
  policy.queues[1].parent = "no queue";
  policy.queues[1].lending_limit["nvidia.com/gpu"] = 3000;
  DemandTest t(policy);
  t.Pod(MakePod("runs").Gpu(3).On("n"));
  t.Pod(MakePod("above").Ns("lab").Gpu(1).On("n"));
  const FairTree tree = t.Tree();
  REQUIRE(tree.queues.size() == 2);
  CHECK(tree.borrowing);
  const FairQueue& x = tree.queues[0];
  CHECK((x.name == "x" && x.parent == 1 && x.weight == 2500 && x.priority == 7));
  CHECK((x.quota == DeviceAmounts{6000} && x.limit == DeviceAmounts{kNoLimit}));
  CHECK((x.used == DeviceAmounts{3000} && x.kept == DeviceAmounts{0}));
  const FairQueue& a = tree.queues[1];
  CHECK((a.name == "a" && a.parent == -1 && a.limit == DeviceAmounts{12'000}));
  CHECK((a.used == DeviceAmounts{4000} && a.kept == DeviceAmounts{5000}));
  CHECK(tree.pool == DeviceAmounts{64'000});
}

TEST_CASE("of a user's jobs as many are demand as the cap leaves", "[unit][policy]") {
  auto policy = MakePolicy({MakeQueue("a", {"default"})});
  policy.queues[0].max_jobs_per_user = 3;
  DemandTest t(policy);
  const auto of = [](const char* user, const char* name, int gpus) {
    return MakePod(name).Gpu(gpus).Label("berth.dev/user", user);
  };
  t.Pod(of("ann", "runs", 5).On("n"));
  t.Pod(of("ann", "w1", 4));
  t.Pod(of("ann", "w2", 3));
  t.Pod(of("ann", "w3", 2));
  t.Pod(of("bob", "b1", 7));
  // One of ann's three runs: the two smallest of those that wait.
  CHECK(t.Jobs() == Sizes{2, 3, 5, 7});
  policy.queues[0].max_jobs_per_user = 4;
  t.store.SetPolicy(policy);
  CHECK(t.Jobs() == Sizes{2, 3, 4, 5, 7});
  policy.queues[0].max_jobs_per_user = 1;
  t.store.SetPolicy(policy);
  CHECK(t.Jobs() == Sizes{5, 7});
}

}  // namespace
}  // namespace berth::policy
