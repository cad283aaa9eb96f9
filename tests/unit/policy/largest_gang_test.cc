// The largest gang that could start now, by level and pod size.
#include "policy/largest_gang.h"

#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

constexpr int kBlock = 0;
constexpr int kRack = 1;
constexpr int kHost = 2;

/// By level, then devices.
using Table = std::map<int, std::map<std::int64_t, std::int64_t>>;

Table Look(Planning& t) {
  t.store.Refresh();
  Table table;
  for (const LargestGang& gang : LargestGangs(t.store, t.PodSizes())) {
    table[gang.level][gang.devices] = gang.pods;
  }
  return table;
}

TEST_CASE("the best domain of each level counts", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("a").Gpu(8).Block("b1").Rack("r1"));
  t.Node(MakeNode("b").Gpu(8).Block("b1").Rack("r1"));
  t.Node(MakeNode("c").Gpu(8).Block("b1").Rack("r2"));
  t.Node(MakeNode("d").Gpu(8).Block("b2").Rack("r1"));  // not b1's r1
  t.Pod(MakePod("p").Gpu(3).On("a"));
  const Table table = Look(t);
  CHECK(table.at(kWholeCluster) ==
        std::map<std::int64_t, std::int64_t>{{1, 29}, {2, 14}, {3, 7}, {4, 7}, {8, 3}});
  CHECK(table.at(kBlock) ==
        std::map<std::int64_t, std::int64_t>{{1, 21}, {2, 10}, {3, 5}, {4, 5}, {8, 2}});
  CHECK(table.at(kRack).at(8) == 1);
  CHECK(table.at(kRack).at(4) == 3);
  CHECK(table.at(kHost).at(2) == 4);
}

// A scrape may come between a new policy and the next pass of the planner.
TEST_CASE("a policy with fewer levels is in force at once", "[unit][policy][bug]") {
  Planning t;
  t.Node(MakeNode("a").Gpu(8).Block("b1").Rack("r1"));
  t.store.Refresh();
  config::PolicyConfiguration policy = t.store.policy();
  policy.levels.erase(policy.levels.begin(), policy.levels.begin() + 2);
  t.store.SetPolicy(policy);
  const auto gangs = LargestGangs(t.store, t.PodSizes());
  REQUIRE(gangs.size() == 8);  // four sizes: anywhere, and by host
  CHECK(gangs.back().level == 0);
  CHECK(gangs.back().pods == 1);
}

TEST_CASE("what keeps pods of that size away keeps them away here", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("free").Gpu(8));
  t.Node(MakeNode("cordoned").Gpu(8).Cordoned());
  t.Node(MakeNode("ill").Gpu(8).NotReady());
  t.Node(MakeNode("tainted").Gpu(8).Taint("team"));
  t.Node(MakeNode("for-gpus").Gpu(8).Taint(testing::kGpu));
  t.Node(MakeNode("small").Gpu(8).Cpu(4));
  t.Node(MakeNode("full").Gpu(8).Pods(2));
  CHECK(Look(t).at(kWholeCluster).at(1) == 8 + 8 + 8 + 2);
  // Now it is known what such a pod asks for.
  t.Pod(MakePod("x").Gpu(1).Cpu("2").Tolerate("team"));
  CHECK(Look(t).at(kWholeCluster).at(1) == 8 + 8 + 2 + 2);
}

TEST_CASE("the sizes are those that are here", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n").Gpu(8));
  const auto sizes = [&t] {
    std::vector<std::int64_t> result;
    t.store.Refresh();
    for (const PodSize& size : t.PodSizes()) result.push_back(size.devices);
    return result;
  };
  CHECK(sizes() == std::vector<std::int64_t>{1, 2, 4, 8});
  for (const int gpus : {3, 5, 6, 7, 16, 16}) {
    const std::string name = std::to_string(gpus) + "-" + std::to_string(t.store.pods().size());
    t.Pod(MakePod(name).Gpu(gpus));
  }
  t.Pod(MakePod("none").Cpu("1"));
  // 16 is most frequent; of the others the smaller ones.
  CHECK(sizes() == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 8, 16});
}

TEST_CASE("sizes are counted in parts, between which pods come and go", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n").Gpu(8));
  t.Pod(MakePod("a").Gpu(3).Cpu("2"));
  t.Pod(MakePod("b").Gpu(5));
  t.store.Refresh();
  SizeCount count;
  count.Add(t.store, t.store.workloads().begin()->second);
  t.store.DeletePod("uid-a");
  t.Pod(MakePod("c").Gpu(8));
  t.store.Refresh();
  for (const auto& [key, workload] : t.store.workloads()) count.Add(t.store, workload);
  std::vector<std::int64_t> sizes;
  for (const PodSize& size : count.Sizes(t.store)) {
    sizes.push_back(size.devices);
    if (size.devices == 3) CHECK(size.shape->spec->requests.at("cpu") == 2'000);
  }
  CHECK(sizes == std::vector<std::int64_t>{1, 2, 3, 4, 5, 8});
}

TEST_CASE("the most frequent shape represents its size", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n").Gpu(8).Cpu(16));
  t.Pod(MakePod("a").Gpu(1).Cpu("8"));
  CHECK(Look(t).at(kWholeCluster).at(1) == 2);
  t.Pod(MakePod("b").Gpu(1).Cpu("4"));
  t.Pod(MakePod("c").Gpu(1).Cpu("4"));
  CHECK(Look(t).at(kWholeCluster).at(1) == 4);
}

TEST_CASE("a cluster without devices has no gangs", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n"));
  CHECK(Look(t).at(kRack).at(1) == 0);
  config::PolicyConfiguration policy;
  policy.devices = {{.name = "rdma/hca", .kind = config::DeviceKind::kHandles}};
  Planning handles(policy);
  CHECK(Look(handles).empty());
}

}  // namespace
}  // namespace berth::policy
