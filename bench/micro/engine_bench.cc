// The engine without HTTP and JSON: filter, passes, and the cost of an event.
#include <benchmark/benchmark.h>

#include "bench/micro/world.h"

namespace berth::bench {
namespace {

/// Filter of a single pod that is planned during the call; each call has another pod. Args: nodes.
void FilterSingle(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(nodes);
  const Offer offer(nodes);
  int i = 0;
  for (auto _ : state) {
    const kube::Pod pod = MakePod("single-" + std::to_string(i++), 1);
    engine->OnPod(pod, kNow);
    state.SetIterationTime(Seconds([&] {
      const auto answer = engine->Filter({.uid = pod.meta.uid, .offered = offer.views}, kNow);
      if (answer.kept.size() != 1) state.SkipWithError("not kept");
    }));
    engine->TakeActions();
  }
}
BENCHMARK(FilterSingle)
    ->Arg(1000)
    ->Arg(5000)
    ->Iterations(4000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Filter of a pod whose neighbours decide, in a cluster where `pods` pods without devices run on
/// every node; before each call one of them ends, and another one is bound. Args: nodes, pods.
void FilterAmongNeighbours(benchmark::State& state, void (*constrain)(kube::PodSpec&)) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto pods = static_cast<int>(state.range(1));
  const auto engine = MakeEngine(nodes);
  const Offer offer(nodes);
  const auto neighbour = [](int node, int i) {
    kube::Pod pod = MakePod("web-" + std::to_string(node) + '-' + std::to_string(i), 0, 100);
    pod.meta.labels["app"] = "web";
    pod.node_name = NodeName(node);
    return pod;
  };
  for (int node = 0; node < nodes; ++node) {
    for (int i = 0; i < pods; ++i) engine->OnPod(neighbour(node, i), kNow);
  }
  Settle(*engine);
  kube::Pod like = MakePod("like", 1);
  auto spec = std::make_shared<kube::PodSpec>(*like.spec);
  constrain(*spec);
  int turn = 0;
  for (auto _ : state) {
    const int node = turn % nodes;
    engine->OnPodDeleted(neighbour(node, 0).meta.uid, kNow);
    engine->OnPod(neighbour(node, 0), kNow);
    kube::Pod pod = MakePod("asks-" + std::to_string(turn++), 1);
    pod.meta.labels["app"] = "trainer";
    pod.spec = spec;
    engine->OnPod(pod, kNow);
    state.SetIterationTime(Seconds([&] {
      const auto answer = engine->Filter({.uid = pod.meta.uid, .offered = offer.views}, kNow);
      if (answer.kept.size() != 1) state.SkipWithError("not kept");
    }));
    engine->OnPodDeleted(pod.meta.uid, kNow);
    engine->TakeActions();
  }
}
kube::LabelSelector Labelled(const char* app) {
  return {.requirements = {{.key = "app", .values = {app}}}};
}
void ApartByBlock(kube::PodSpec& spec) {
  kube::PodAffinityTerm& term = spec.required_pod_anti_affinity.emplace_back();
  term.label_selector = Labelled("trainer");
  term.topology_key = "cloud.provider.com/topology-block";
}
void SpreadOverBlocks(kube::PodSpec& spec) {
  kube::TopologySpreadConstraint& constraint = spec.topology_spread.emplace_back();
  constraint.label_selector = Labelled("trainer");
  constraint.topology_key = "cloud.provider.com/topology-block";
}
BENCHMARK_CAPTURE(FilterAmongNeighbours, apart, &ApartByBlock)
    ->Args({5000, 28})
    ->Iterations(200)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(FilterAmongNeighbours, spread, &SpreadOverBlocks)
    ->Args({5000, 28})
    ->Iterations(200)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Filter of a single pod that no informer has delivered yet; each call has another pod. Args:
/// nodes.
void FilterUnknown(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(nodes);
  const Offer offer(nodes);
  int i = 0;
  for (auto _ : state) {
    const kube::Pod pod = MakePod("unknown-" + std::to_string(i++), 1);
    state.SetIterationTime(Seconds([&] {
      const auto answer = engine->Filter(
          {.uid = pod.meta.uid, .offered = offer.views, .request_pod = [&pod] { return &pod; }},
          kNow);
      if (answer.kept.size() != 1) state.SkipWithError("not kept");
    }));
    engine->TakeActions();
  }
}
BENCHMARK(FilterUnknown)
    ->Arg(1000)
    ->Arg(5000)
    ->Iterations(4000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Filter of a member whose gang already has its plan. Args: nodes, members.
void FilterPlannedMember(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(nodes);
  const Offer offer(nodes);
  const auto gang = MakeGang("gang", static_cast<int>(state.range(1)), 8);
  for (const kube::Pod& pod : gang) engine->OnPod(pod, kNow);
  Settle(*engine);
  std::size_t i = 0;
  for (auto _ : state) {
    const auto answer =
        engine->Filter({.uid = gang[i++ % gang.size()].meta.uid, .offered = offer.views}, kNow);
    if (answer.kept.size() != 1) state.SkipWithError("not kept");
  }
}
BENCHMARK(FilterPlannedMember)->Args({5000, 1024})->Unit(benchmark::kMicrosecond);

/// The first filter of a gang that has no plan yet. Args: nodes, members.
void FilterFirstOf(benchmark::State& state, bool new_shape) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(nodes);
  const Offer offer(nodes);
  int cpu = 500;
  for (auto _ : state) {
    if (new_shape) ++cpu;
    const auto gang = MakeGang("gang", static_cast<int>(state.range(1)), 8, cpu);
    for (const kube::Pod& pod : gang) engine->OnPod(pod, kNow);
    state.SetIterationTime(Seconds([&] {
      const auto answer =
          engine->Filter({.uid = gang.front().meta.uid, .offered = offer.views}, kNow);
      if (answer.kept.size() != 1) state.SkipWithError("not kept");
    }));
    for (const kube::Pod& pod : gang) engine->OnPodDeleted(pod.meta.uid, kNow);
    Settle(*engine);
    engine->TakeActions();
  }
}
void FilterFirstOfGang(benchmark::State& state) { FilterFirstOf(state, false); }
BENCHMARK(FilterFirstOfGang)
    ->Args({5000, 8})
    ->Args({5000, 1024})
    ->Iterations(30)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// The same with a shape that was never seen: no results are cached for it.
void FilterFirstOfNewGang(benchmark::State& state) { FilterFirstOf(state, true); }
BENCHMARK(FilterFirstOfNewGang)
    ->Args({5000, 8})
    ->Args({5000, 1024})
    ->Iterations(30)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Filter of a single pod of a new shape when no two nodes have the same room: the worst case for
/// the cache. Args: nodes.
void FilterNewSingleOnUnequalNodes(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(nodes);
  for (int i = 0; i < nodes; ++i) {
    kube::Pod pod = MakePod("resident-" + std::to_string(i), i % 8, 1000 + i);
    pod.node_name = NodeName(i);
    engine->OnPod(std::move(pod), kNow);
  }
  Settle(*engine);
  const Offer offer(nodes);
  int i = 0;
  for (auto _ : state) {
    const kube::Pod pod = MakePod("single-" + std::to_string(i), 1, 10'000 + i);
    ++i;
    engine->OnPod(pod, kNow);
    state.SetIterationTime(Seconds([&] {
      const auto answer = engine->Filter({.uid = pod.meta.uid, .offered = offer.views}, kNow);
      if (answer.kept.size() != 1) state.SkipWithError("not kept");
    }));
    engine->TakeActions();
  }
}
BENCHMARK(FilterNewSingleOnUnequalNodes)
    ->Arg(5000)
    ->Iterations(300)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Has an affinity that no pod satisfies, or a spread constraint that the nodes with room cannot
/// meet.
kube::Pod NeverRuns(const std::string& name, bool near) {
  kube::Pod pod = MakePod(name, 1);
  auto spec = std::make_shared<kube::PodSpec>(*pod.spec);
  const std::string rack = "cloud.provider.com/topology-rack";
  const kube::LabelSelector trainers{
      .requirements = {{.key = near ? "nobody" : "app", .values = {"trainer"}}}};
  if (near) {
    kube::PodAffinityTerm& term = spec->required_pod_affinity.emplace_back();
    term.label_selector = trainers;
    term.topology_key = rack;
  } else {
    kube::TopologySpreadConstraint& spread = spec->topology_spread.emplace_back();
    spread.topology_key = rack;
    spread.label_selector = trainers;
    spread.min_domains = 10'000;
  }
  pod.spec = std::move(spec);
  return pod;
}

/// Filter of a single pod after a pod has ended, so that all waiting pods are judged again: four of
/// them have constraints on their neighbours and never run. Args: nodes; two pods run on each.
void FilterBesideNeighbourly(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(nodes);
  const auto resident = [](int i) { return MakePod("resident-" + std::to_string(i), 1); };
  for (int i = 0; i < 2 * nodes; ++i) {
    kube::Pod pod = resident(i);
    pod.node_name = NodeName(i / 2);
    engine->OnPod(std::move(pod), kNow);
  }
  const Offer offer(nodes);
  for (int i = 0; i < 4; ++i) {
    const kube::Pod pod = NeverRuns("never-" + std::to_string(i), i % 2 == 0);
    engine->OnPod(pod, kNow);
    engine->Filter({.uid = pod.meta.uid, .offered = offer.views}, kNow);
  }
  int i = 0;
  for (auto _ : state) {
    const kube::Pod pod = MakePod("single-" + std::to_string(i), 1);
    engine->OnPodDeleted(resident(i++).meta.uid, kNow);
    engine->OnPod(pod, kNow);
    // The others come first, and may use up the pass that the call runs: then it is refused once.
    state.SetIterationTime(Seconds([&] {
      engine->Filter({.uid = pod.meta.uid, .offered = offer.views}, kNow);
      Settle(*engine);
    }));
    if (engine->PlannedNode(pod.meta.uid) == cluster::kNoNode) state.SkipWithError("not planned");
    engine->TakeActions();
  }
}
BENCHMARK(FilterBesideNeighbourly)
    ->Arg(600)
    ->Arg(5000)
    ->Iterations(200)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// Bind calls arrive for all members of a gang, one after another. Time per gang. Args: members.
void BarrierOfGang(benchmark::State& state) {
  const auto engine = MakeEngine(5000);
  for (auto _ : state) {
    const auto gang = MakeGang("gang", static_cast<int>(state.range(0)), 8);
    for (const kube::Pod& pod : gang) engine->OnPod(pod, kNow);
    Settle(*engine);
    engine->TakeActions();
    std::vector<std::string> nodes;
    nodes.reserve(gang.size());
    for (const kube::Pod& pod : gang) {
      nodes.push_back(engine->store().node(engine->PlannedNode(pod.meta.uid)).name);
    }
    state.SetIterationTime(Seconds([&] {
      for (std::size_t i = 0; i < gang.size(); ++i) {
        engine->Bind({.uid = gang[i].meta.uid,
                      .ns = gang[i].meta.ns,
                      .name = gang[i].meta.name,
                      .node = nodes[i]},
                     kNow);
      }
    }));
    engine->TakeActions();
    // The events that the watch then delivers.
    for (std::size_t i = 0; i < gang.size(); ++i) {
      kube::Pod pod = gang[i];
      pod.node_name = nodes[i];
      engine->OnPod(std::move(pod), kNow);
    }
    for (const kube::Pod& pod : gang) engine->OnPodDeleted(pod.meta.uid, kNow);
    Settle(*engine);
    engine->TakeActions();
  }
}
BENCHMARK(BarrierOfGang)
    ->Arg(64)
    ->Arg(1024)
    ->Iterations(10)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// The pass after a pod ended and made room, when all workloads must still wait. Args: waiting.
void PassOverWaiting(benchmark::State& state) {
  const auto engine = MakeCrowd(500, /*taken=*/5, static_cast<int>(state.range(0)));
  kube::Pod pod = MakePod("guest", 1);
  pod.node_name = NodeName(0);
  for (auto _ : state) {
    engine->OnPod(pod, kNow);
    Settle(*engine);
    engine->OnPodDeleted(pod.meta.uid, kNow);
    state.SetIterationTime(Seconds([&] { Settle(*engine); }));
    engine->TakeActions();
  }
}
BENCHMARK(PassOverWaiting)->Arg(100)->Arg(5000)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// The pass after one more workload arrived. Args: waiting.
void PassAfterArrival(benchmark::State& state) {
  const auto engine = MakeCrowd(500, /*taken=*/5, static_cast<int>(state.range(0)));
  int i = 0;
  for (auto _ : state) {
    kube::Pod pod = MakePod("late-" + std::to_string(i++), 4);
    pod.scheduling_gates = {"berth.dev/admission"};
    const std::string uid = pod.meta.uid;
    engine->OnPod(std::move(pod), kNow);
    state.SetIterationTime(Seconds([&] { Settle(*engine); }));
    engine->OnPodDeleted(uid, kNow);
    engine->TakeActions();
  }
}
BENCHMARK(PassAfterArrival)->Arg(100)->Arg(5000)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// 5,000 nodes with 28 bound pods each.
std::unique_ptr<engine::Engine> MakeBusy() {
  auto engine = MakeEngine(5000);
  for (int i = 0; i < 140'000; ++i) {
    kube::Pod pod = MakePod("resident-" + std::to_string(i), i < 40'000 ? 1 : 0);
    pod.node_name = NodeName(i % 5000);
    engine->OnPod(std::move(pod), kNow);
  }
  Settle(*engine);
  engine->TakeActions();
  return engine;
}

/// A watch event that a pod without devices is bound, in a cluster of 140,000 pods.
void EventPodBound(benchmark::State& state) {
  const auto engine = MakeBusy();
  int i = 0;
  for (auto _ : state) {
    kube::Pod pod = MakePod("fresh-" + std::to_string(i), 0);
    pod.node_name = NodeName(i++ % 5000);
    state.SetIterationTime(Seconds([&] {
      engine->OnPod(std::move(pod), kNow);
      Settle(*engine);
    }));
  }
}
BENCHMARK(EventPodBound)->Iterations(20'000)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// A bound pod's status changes in fields that scheduling does not read.
void EventPodStatus(benchmark::State& state) {
  const auto engine = MakeBusy();
  int i = 0;
  for (auto _ : state) {
    const int k = i++ % 140'000;
    kube::Pod pod = MakePod("resident-" + std::to_string(k), k < 40'000 ? 1 : 0);
    pod.node_name = NodeName(k % 5000);
    pod.phase = kube::PodPhase::kRunning;
    state.SetIterationTime(Seconds([&] {
      engine->OnPod(std::move(pod), kNow);
      Settle(*engine);
    }));
  }
}
BENCHMARK(EventPodStatus)->Iterations(20'000)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// A node's heartbeat.
void EventNodeHeartbeat(benchmark::State& state) {
  const auto engine = MakeBusy();
  int i = 0;
  for (auto _ : state) {
    kube::Node node = MakeNode(i++ % 5000);
    state.SetIterationTime(Seconds([&] {
      engine->OnNode(std::move(node), kNow);
      Settle(*engine);
    }));
  }
}
BENCHMARK(EventNodeHeartbeat)->Iterations(20'000)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace berth::bench
