// A tree of 1,000 queues: what fair shares cost, and how long the pages that show them hold the
// host's lock without a break.
#include <fmt/format.h>

#include <array>
#include <random>

#include "bench/micro/hold.h"
#include "policy/queue_demand.h"
#include "server/ops/metrics.h"
#include "server/ops/views.h"

namespace berth::bench {
namespace {

constexpr std::array<int, 4> kQueuesAt = {4, 28, 196, 772};  ///< By depth.
constexpr int kTenantNodes = 5000;
constexpr int kTenantsWaiting = 50'000;

std::string QueueName(int depth, int i) { return fmt::format("q{}-{}", depth, i); }

config::PolicyConfiguration MakeTree() {
  config::PolicyConfiguration policy;
  policy.borrowing = true;
  policy.queues.clear();
  std::mt19937 random(1);
  for (int depth = 0; depth < std::ssize(kQueuesAt); ++depth) {
    for (int i = 0; i < kQueuesAt[static_cast<std::size_t>(depth)]; ++i) {
      config::Queue queue{.name = QueueName(depth, i),
                          .weight = 1000 + 1000 * static_cast<std::int64_t>(random() % 3)};
      if (depth > 0) {
        queue.parent = QueueName(depth - 1, i % kQueuesAt[static_cast<std::size_t>(depth) - 1]);
      }
      if (depth == 3) {
        queue.namespaces = std::vector<std::string>{"*"};
        queue.quota["nvidia.com/gpu"] = 1000 * static_cast<std::int64_t>(random() % 30);
        queue.lending_limit["nvidia.com/gpu"] = queue.quota["nvidia.com/gpu"] / 2;
      }
      policy.queues.push_back(std::move(queue));
    }
  }
  return policy;
}

/// 5,000 full nodes and 50,000 pods that wait, of 1 to 8 GPUs. Nothing is judged.
std::unique_ptr<engine::Engine> MakeTenants() {
  auto engine = std::make_unique<engine::Engine>(MakeTree(), engine::Options{});
  for (int i = 0; i < kTenantNodes; ++i) engine->OnNode(MakeNode(i), kNow);
  std::mt19937 random(2);
  for (int i = 0; i < kTenantNodes + kTenantsWaiting; ++i) {
    const bool runs = i < kTenantNodes;
    constexpr std::array<int, 4> kSizes = {1, 2, 4, 8};
    kube::Pod pod = MakePod(fmt::format("p-{}", i), runs ? 8 : kSizes[random() % 4]);
    pod.meta.labels["berth.dev/queue"] = QueueName(3, static_cast<int>(random() % 772));
    if (runs) {
      pod.node_name = NodeName(i);
    } else {
      pod.scheduling_gates = {"berth.dev/admission"};
    }
    engine->OnPod(std::move(pod), kNow);
  }
  engine->Start(kNow);
  return engine;
}

void FairSharesOfTree(benchmark::State& state) {
  const auto engine = MakeTenants();
  policy::QueueDemands demands;
  for (const auto& [key, workload] : engine->store().workloads()) {
    demands.Add(engine->store(), workload);
  }
  policy::FairTree tree = policy::FairTreeOf(engine->store());
  demands.SetJobs(tree);
  std::int64_t shared = 0;
  for (auto _ : state) {
    const auto shares = policy::FairShares(tree);
    shared = 0;
    for (std::size_t i = 0; i < 4; ++i) shared += shares[i][0] / 1000;
  }
  state.counters["shared"] = static_cast<double>(shared);
}
BENCHMARK(FairSharesOfTree)->Unit(benchmark::kMillisecond);

void HoldOfPageOfTree(benchmark::State& state) {
  HoldOf(state, MakeTenants(), [](const server::InParts& read) {
    benchmark::DoNotOptimize(server::QueuesJson(read, "", /*namespaces=*/false));
  });
}
BENCHMARK(HoldOfPageOfTree)->Iterations(5)->UseManualTime()->Unit(benchmark::kMillisecond);

void HoldOfScrapeOfTree(benchmark::State& state) {
  server::Metrics metrics({});
  HoldOf(state, MakeTenants(),
         [&](const server::InParts& read) { server::FeedGauges(read, metrics); });
}
BENCHMARK(HoldOfScrapeOfTree)->Iterations(5)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
