#include "sim/experiments/packing.h"

#include <algorithm>

#include "sim/experiments/openb_experiment.h"
#include "sim/experiments/openb_variants.h"
#include "sim/experiments/stock_scorer.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/unit/sim/experiments/openb_lists.h"

namespace berth::sim {
namespace {

OpenbNode Node(std::string name, std::int64_t gpus, std::string model = "T4",
               std::int64_t cores = 64) {
  return {.name = std::move(name),
          .cpu_milli = cores * 1000,
          .memory_mib = 262'144,
          .gpus = gpus,
          .model = std::move(model)};
}

OpenbPod Pod(std::int64_t gpus, std::int64_t milli = 1000, std::int64_t cores = 1) {
  return {.name = "p",
          .cpu_milli = cores * 1000,
          .memory_mib = 1024,
          .gpus = gpus,
          .gpu_milli = gpus == 0 ? 0 : milli};
}

TEST_CASE("every policy takes what fits and refuses what does not", "[packing]") {
  for (const auto policy : PackingPolicies()) {
    CAPTURE(policy);
    PackingCluster cluster({Node("a", 2)}, {Pod(1)},
                           {.policy = std::string(policy), .cpu_policy = {}, .seed = 1});
    const auto half = cluster.Submit(Pod(1, 600));
    CHECK(cluster.TryPlace(half));
    CHECK(cluster.allocated_milli() == 600);
    CHECK_FALSE(cluster.TryPlace(cluster.Submit(Pod(2))));  // one GPU is broken
    CHECK(cluster.TryPlace(cluster.Submit(Pod(1, 400))));
    CHECK(cluster.TryPlace(cluster.Submit(Pod(1, 500))));
    CHECK_FALSE(cluster.TryPlace(cluster.Submit(Pod(1, 700))));
    CHECK(cluster.allocated_milli() == 1500);
    cluster.Remove(half);
    CHECK(cluster.allocated_milli() == 900);
    CHECK_FALSE(cluster.TryPlace(cluster.Submit(Pod(1))));
  }
}

TEST_CASE("what was refused is tried again once room was freed", "[packing]") {
  PackingCluster cluster({Node("a", 1)}, {Pod(1)}, {});
  const auto first = cluster.Submit(Pod(1));
  const auto second = cluster.Submit(Pod(1));
  CHECK(cluster.TryPlace(first));
  CHECK_FALSE(cluster.TryPlace(second));
  CHECK_FALSE(cluster.TryPlace(second));
  cluster.Remove(first);
  CHECK(cluster.TryPlace(second));
}

TEST_CASE("models, CPU and memory decide where a pod fits at all", "[packing]") {
  PackingCluster cluster({Node("a", 2, "T4"), Node("b", 8, "G2")}, {Pod(1)}, {});
  const auto fits = [&](OpenbPod pod, std::vector<std::string> models) {
    pod.models = std::move(models);
    return cluster.FitsEmpty(cluster.Submit(pod));
  };
  CHECK(fits(Pod(4), {}));
  CHECK_FALSE(fits(Pod(4), {"T4"}));
  CHECK(fits(Pod(2), {"P100", "T4"}));
  CHECK_FALSE(fits(Pod(1), {"P100"}));
  CHECK_FALSE(fits(Pod(1, 1000, 65), {}));
  CHECK_FALSE(fits(Pod(9), {}));
  CHECK(fits(Pod(0), {}));
}

TEST_CASE("a gang is placed whole, in one rack where asked, or not at all", "[packing]") {
  const auto nodes = InRacks({Node("a", 8), Node("b", 8), Node("c", 8), Node("d", 8)}, 2);
  CHECK(nodes[1].rack == "rack-0");
  CHECK(nodes[2].rack == "rack-1");
  const auto gang = [&nodes](int members, const std::string& topology) {
    PackingCluster cluster(nodes, {Pod(8)}, {});
    std::vector<PackingCluster::PodId> ids;
    for (int i = 0; i < members; ++i) ids.push_back(cluster.Submit(Pod(8)));
    const bool placed = cluster.TryPlace(ids, topology);
    CHECK(cluster.allocated_milli() == (placed ? members * 8000 : 0));
    return placed;
  };
  CHECK(gang(2, "rack"));
  CHECK_FALSE(gang(3, "rack"));
  CHECK(gang(4, ""));
  CHECK_FALSE(gang(5, ""));
}

TEST_CASE("the fragment of a cluster under the mix of its pods", "[packing]") {
  // WorkloadMix: half of the pods want 1 GPU, half want 2. One free GPU is lost to the latter.
  PackingCluster cluster({Node("a", 2)}, {Pod(1), Pod(2)}, {});
  CHECK(cluster.FragmentMilli() == 0);
  CHECK(cluster.TryPlace(cluster.Submit(Pod(1))));
  CHECK(cluster.FragmentMilli() == 500);
}

TEST_CASE("kube-scheduler's own scoring", "[packing]") {
  // a: half of CPU and memory taken; b: empty. Least: (50 + 50) / 2 + balanced 100 against 200 less
  // what the pod takes; Most the other way round.
  const auto node_of = [](const char* policy) {
    PackingCluster cluster({Node("a", 8), Node("b", 8)}, {Pod(1)}, {.policy = policy, .seed = 3});
    OpenbPod big = Pod(4, 1000, 32);
    big.memory_mib = 131'072;
    CHECK(cluster.TryPlace(cluster.Submit(big)));
    CHECK(cluster.TryPlace(cluster.Submit(Pod(4))));
    return cluster.TryPlace(cluster.Submit(Pod(8)));  // only if one node stayed whole
  };
  CHECK_FALSE(node_of("LeastAllocated"));
  CHECK(node_of("MostAllocated"));
}

TEST_CASE("pods without GPUs can be left to kube-scheduler's scoring", "[packing]") {
  const auto fits_after = [](const char* cpu_policy) {
    PackingCluster cluster({Node("a", 1), Node("b", 1)}, {Pod(1)},
                           {.policy = "Berth", .cpu_policy = cpu_policy});
    for (int i = 0; i < 2; ++i) CHECK(cluster.TryPlace(cluster.Submit(Pod(0, 0, 20))));
    return cluster.TryPlace(cluster.Submit(Pod(1, 1000, 60)));
  };
  CHECK_FALSE(fits_after("LeastAllocated"));  // one on each node
  CHECK(fits_after("MostAllocated"));
}

TEST_CASE("a grid is the same on any number of threads", "[packing]") {
  OpenbGrid grid{.nodes = TestNodes(),
                 .lists = {TestList()},
                 .policies = {"Random", "FGD", "Berth"},
                 .seeds = {42, 43},
                 .options = {}};
  std::vector<std::string> outputs;
  for (const unsigned threads : {1U, 3U}) {
    grid.threads = threads;
    std::string rows;
    for (const auto& row : OpenbRows(RunGrid(grid))) rows += row.dump() + "\n";
    outputs.push_back(rows);
  }
  CHECK(outputs[0] == outputs[1]);
  CHECK(std::ranges::count(outputs[0], '\n') == 6);
}

TEST_CASE("every variant runs, and placed and refused add up", "[packing]") {
  const OpenbList list = TestList();
  const auto nodes = TestNodes();
  for (const auto variant : OpenbVariants()) {
    CAPTURE(variant);
    const auto arrivals = Arrivals(variant, list.pods, CapacityMilli(nodes), 42);
    REQUIRE(arrivals);
    const PackingResult result =
        RunPacking(std::string(variant), nodes, list, {.policy = "Berth", .seed = 42});
    CHECK(result.placed + result.refused == static_cast<std::int64_t>(arrivals->size()));
    REQUIRE(result.unallocated);
    CHECK(*result.unallocated >= 0);
    CHECK(*result.unallocated <= 100);
  }
}

TEST_CASE("variants change the order as they say", "[packing]") {
  const OpenbList list = TestList();
  const std::int64_t capacity = CapacityMilli(TestNodes());
  const auto arrivals = [&](const char* variant) {
    return Arrivals(variant, list.pods, capacity, 42).value();
  };
  const auto timed = arrivals("time-order");
  for (std::size_t i = 1; i < std::min(list.pods.size(), timed.size()); ++i) {
    CHECK(list.pods[timed[i - 1].pod].creation_s <= list.pods[timed[i].pod].creation_s);
  }
  const auto leaving = arrivals("departures");
  CHECK(std::ranges::all_of(leaving, [](const Arrival& a) { return a.service_ms.has_value(); }));
  CHECK(std::ranges::is_sorted(leaving, {}, &Arrival::at_ms));
  const auto gangs = arrivals("gangs");
  CHECK(std::ranges::any_of(gangs, [](const Arrival& a) { return a.members > 1; }));
  CHECK(std::ranges::all_of(gangs, [&](const Arrival& a) {
    return a.members == 1 || (a.members <= 8 && list.pods[a.pod].gpu_milli == 1000);
  }));
  std::vector<OpenbPod> untimed = list.pods;
  for (OpenbPod& pod : untimed) pod.scheduled_s.reset();
  CHECK(Arrivals("departures", untimed, capacity, 42).error() == "this list has no times");
}

TEST_CASE("nodes with more GPUs than the ledger tells apart are refused", "[packing]") {
  const auto read = [&](int gpus) {
    const testing::TempFile file("nodes", "sn,cpu_milli,memory_mib,gpu,model\na,1000,1000," +
                                              std::to_string(gpus) + ",T4\n");
    return ReadPackingNodes(file.path());
  };
  CHECK(read(16).has_value());
  REQUIRE(!read(17).has_value());
  CHECK(read(17).error().message == "node a has too many GPUs");
}

}  // namespace
}  // namespace berth::sim
