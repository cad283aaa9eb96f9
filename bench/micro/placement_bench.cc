// policy::Place: the search alone, on an empty cluster and on one that is nearly full.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/micro/world.h"
#include "policy/largest_gang.h"
#include "policy/placement.h"

namespace berth::bench {
namespace {

/// A store with `nodes` nodes, all of them full except the last `free`.
struct Cluster {
  Cluster(int nodes, int free) : store(config::PolicyConfiguration{}) {
    for (int i = 0; i < nodes; ++i) store.UpsertNode(MakeNode(i));
    for (int i = 0; i < nodes - free; ++i) {
      kube::Pod pod = MakePod("resident-" + std::to_string(i), 8);
      pod.node_name = NodeName(i);
      store.UpsertPod(std::move(pod));
    }
    store.Refresh();
  }

  policy::PlacementRequest Request(const std::vector<kube::Pod>& pods) {
    policy::PlacementRequest request;
    for (const kube::Pod& pod : pods) request.pods.push_back(store.UpsertPod(pod));
    request.min = static_cast<int>(pods.size());
    store.Refresh();
    return request;
  }

  cluster::Store store;
  policy::Scorer scorer{store};
};

/// Args: nodes, GPUs. Scores are cached between iterations, as they are between pods.
void PlaceSingle(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  Cluster cluster(nodes, nodes);
  const auto request = cluster.Request({MakePod("single", static_cast<int>(state.range(1)))});
  for (auto _ : state) {
    auto placement = policy::Place(request, policy::Overlay(cluster.store), cluster.scorer);
    benchmark::DoNotOptimize(placement);
  }
}
BENCHMARK(PlaceSingle)->ArgsProduct({{100, 1000, 5000}, {1, 8}})->Unit(benchmark::kMicrosecond);

/// Args: nodes, members of 8 GPUs.
void PlaceGang(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  Cluster cluster(nodes, nodes);
  const auto request = cluster.Request(MakeGang("gang", static_cast<int>(state.range(1)), 8));
  for (auto _ : state) {
    auto placement = policy::Place(request, policy::Overlay(cluster.store), cluster.scorer);
    if (!placement.ok()) state.SkipWithError("not placed");
    benchmark::DoNotOptimize(placement);
  }
}
BENCHMARK(PlaceGang)->Args({5000, 8})->Args({5000, 1024})->Unit(benchmark::kMicrosecond);

/// Blocks of 1,280 nodes, racks of 16.
kube::Node InWideBlock(int i) {
  const config::PolicyConfiguration policy;
  kube::Node node = MakeNode(i);
  node.meta.labels[policy.levels[0].node_label] = "block-" + std::to_string(i / 1280);
  node.meta.labels[policy.levels[1].node_label] = "rack-" + std::to_string(i / 16);
  return node;
}

/// 1,024 members that must share a block and prefer to share a rack, which no rack can hold; every
/// third node is partly used. Args: nodes, GPUs of a member.
void PlaceGangInBlock(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  Cluster cluster(nodes, nodes);
  for (int i = 0; i < nodes; ++i) {
    cluster.store.UpsertNode(InWideBlock(i));
    if (i % 3 != 0 || state.range(1) == 8) continue;
    kube::Pod pod = MakePod("resident-" + std::to_string(i), 1 + i % 7);
    pod.node_name = NodeName(i);
    cluster.store.UpsertPod(std::move(pod));
  }
  auto request = cluster.Request(MakeGang("gang", 1024, static_cast<int>(state.range(1))));
  request.topology_required = "block";
  request.topology_preferred = "rack";
  for (auto _ : state) {
    auto placement = policy::Place(request, policy::Overlay(cluster.store), cluster.scorer);
    if (!placement.ok()) state.SkipWithError("not placed");
    benchmark::DoNotOptimize(placement);
  }
}
BENCHMARK(PlaceGangInBlock)->ArgsProduct({{5000}, {2, 8}})->Unit(benchmark::kMicrosecond);

/// What a scrape of the metrics computes: the largest gang by level and pod size. Args: nodes.
void LargestGangs(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  Cluster cluster(nodes, nodes);
  for (int i = 0; i < nodes; ++i) {
    kube::Pod pod = MakePod("resident-" + std::to_string(i), 1 + i % 7);
    if (i % 3 == 0) pod.node_name = NodeName(i);
    cluster.store.UpsertPod(std::move(pod));
  }
  cluster.store.Refresh();
  for (auto _ : state) {
    policy::SizeCount count;
    for (const auto& [key, workload] : cluster.store.workloads()) {
      count.Add(cluster.store, workload);
    }
    auto gangs = policy::LargestGangs(cluster.store, count.Sizes(cluster.store));
    benchmark::DoNotOptimize(gangs);
  }
}
BENCHMARK(LargestGangs)->Arg(1000)->Arg(5000)->Unit(benchmark::kMicrosecond);

/// A gang of 10 x 8 GPUs when 9 nodes are free. Args: nodes.
void RefuseGang(benchmark::State& state) {
  Cluster cluster(static_cast<int>(state.range(0)), 9);
  const auto request = cluster.Request(MakeGang("gang", 10, 8));
  for (auto _ : state) {
    auto placement = policy::Place(request, policy::Overlay(cluster.store), cluster.scorer);
    if (placement.ok()) state.SkipWithError("placed");
    benchmark::DoNotOptimize(placement);
  }
}
BENCHMARK(RefuseGang)->Arg(500)->Arg(5000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace berth::bench
