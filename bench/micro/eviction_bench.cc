// What it costs to decide whom to evict for a gang, on nodes of 8 GPUs that are full of single pods
// of one GPU and lower priority.
#include <fmt/format.h>

#include "bench/micro/hold.h"

namespace berth::bench {
namespace {

/// `nodes` nodes, each full of 8 pods of priority 0.
std::unique_ptr<engine::Engine> MakeFull(int nodes) {
  auto engine = std::make_unique<engine::Engine>(config::PolicyConfiguration{}, engine::Options{});
  for (int i = 0; i < nodes; ++i) engine->OnNode(MakeNode(i), kNow);
  for (int i = 0; i < 8 * nodes; ++i) {
    kube::Pod pod = MakePod(fmt::format("low-{}", i), 1);
    pod.node_name = NodeName(i / 8);
    engine->OnPod(std::move(pod), kNow);
  }
  engine->Start(kNow);
  Settle(*engine);
  engine->TakeActions();
  return engine;
}

/// Arguments: nodes; members of the gang, of 8 GPUs each. From its last member to the decision.
void DecideEvictions(benchmark::State& state) {
  const auto members = static_cast<int>(state.range(1));
  double victims = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const auto engine = MakeFull(static_cast<int>(state.range(0)));
    for (kube::Pod& pod : MakeGang("high", members, 8)) {
      pod.priority = 100;
      pod.scheduling_gates = {"berth.dev/admission"};
      engine->OnPod(std::move(pod), kNow);
    }
    state.ResumeTiming();
    Settle(*engine);
    state.PauseTiming();
    for (const engine::Action& action : engine->TakeActions()) {
      victims += std::holds_alternative<engine::EvictPod>(action) ? 1 : 0;
    }
    state.ResumeTiming();
  }
  state.counters["victims"] = benchmark::Counter(victims, benchmark::Counter::kAvgIterations);
}
BENCHMARK(DecideEvictions)
    ->Args({500, 1})
    ->Args({500, 32})
    ->Args({500, 250})
    ->Args({5000, 250})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
