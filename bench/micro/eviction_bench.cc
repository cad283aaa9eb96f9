// What it costs to decide whom to evict for a gang, or for pods by themselves, on nodes of 8 GPUs
// that are full of single pods of one GPU: of lower priority in its own queue, or of another queue
// that borrowed.
#include <fmt/format.h>

#include "bench/micro/hold.h"

namespace berth::bench {
namespace {

/// `nodes` nodes, each full of 8 pods of priority 0.
std::unique_ptr<engine::Engine> MakeFull(int nodes, const config::PolicyConfiguration& policy) {
  auto engine = std::make_unique<engine::Engine>(policy, engine::Options{});
  for (int i = 0; i < nodes; ++i) engine->OnNode(MakeNode(i), kNow);
  for (int i = 0; i < 8 * nodes; ++i) {
    kube::Pod pod = MakePod(fmt::format("low-{}", i), 1);
    pod.node_name = NodeName(i / 8);
    pod.meta.labels["berth.dev/queue"] = policy.queues.front().name;
    engine->OnPod(std::move(pod), kNow);
  }
  engine->Start(kNow);
  Settle(*engine);
  engine->TakeActions();
  return engine;
}

/// All pods are in the first queue, and half of the cluster is promised to the second one.
config::PolicyConfiguration MakeBorrowing(int nodes) {
  const std::int64_t quota = std::int64_t{nodes} * 8'000 / 2;
  config::PolicyConfiguration policy;
  policy.borrowing = true;
  policy.queues = {{.name = "borrows",
                    .namespaces = std::vector<std::string>{"*"},
                    .quota = {{"nvidia.com/gpu", quota}}},
                   {.name = "lends",
                    .namespaces = std::vector<std::string>{"*"},
                    .quota = {{"nvidia.com/gpu", quota}}}};
  return policy;
}

/// Arguments: nodes; how many of the pods, of 8 GPUs each. From the last of `pods`, which come
/// behind the gate, to the last decision. `queue`: theirs; empty: the only one.
void Decide(benchmark::State& state, const config::PolicyConfiguration& policy,
            const std::string& queue, const std::vector<kube::Pod>& pods) {
  double victims = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const auto engine = MakeFull(static_cast<int>(state.range(0)), policy);
    for (kube::Pod pod : pods) {
      pod.priority = 100;
      if (!queue.empty()) pod.meta.labels["berth.dev/queue"] = queue;
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

std::vector<kube::Pod> GangOf(const benchmark::State& state) {
  return MakeGang("high", static_cast<int>(state.range(1)), 8);
}

/// Each is a decision of its own, made while the evictions for the others are under way.
void DecideReclaimForPods(benchmark::State& state) {
  std::vector<kube::Pod> pods;
  for (int i = 0; i < state.range(1); ++i) pods.push_back(MakePod(fmt::format("claims-{}", i), 8));
  Decide(state, MakeBorrowing(static_cast<int>(state.range(0))), "lends", pods);
}
BENCHMARK(DecideReclaimForPods)
    ->Args({500, 1})
    ->Args({500, 32})
    ->Args({500, 250})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
void DecideEvictions(benchmark::State& state) { Decide(state, {}, "", GangOf(state)); }
void DecideReclaim(benchmark::State& state) {
  Decide(state, MakeBorrowing(static_cast<int>(state.range(0))), "lends", GangOf(state));
}
BENCHMARK(DecideReclaim)
    ->Args({500, 1})
    ->Args({500, 32})
    ->Args({500, 250})
    ->Args({5000, 250})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
/// One member for each GPU, all in one rack of 16 nodes.
void DecideReclaimInRack(benchmark::State& state) {
  auto gang = MakeGang("high", static_cast<int>(state.range(1)), 1);
  for (kube::Pod& pod : gang) pod.meta.annotations["berth.dev/topology-required"] = "rack";
  Decide(state, MakeBorrowing(static_cast<int>(state.range(0))), "lends", gang);
}
BENCHMARK(DecideReclaimInRack)
    ->Args({500, 1})
    ->Args({500, 128})
    ->Args({5000, 128})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(DecideEvictions)
    ->Args({500, 1})
    ->Args({500, 32})
    ->Args({500, 250})
    ->Args({5000, 250})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
