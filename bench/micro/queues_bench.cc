// A tree of 1,000 queues, four deep: what fair shares cost, how long the pages that show them hold
// the host's lock without a break, and what it costs to judge 50,000 workloads that wait in it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <random>
#include <ranges>
#include <utility>

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

/// `lenders`: how many of the 772 queues at the bottom have a lendingLimit.
config::PolicyConfiguration MakeTree(int lenders = kQueuesAt.back()) {
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
        const bool lends = (i + 1) * lenders / kQueuesAt.back() > i * lenders / kQueuesAt.back();
        if (lends) queue.lending_limit["nvidia.com/gpu"] = queue.quota["nvidia.com/gpu"] / 2;
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
  const policy::FairTree tree = demands.TreeOf(engine->store());
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

/// Promises each queue that has others below it what those are promised together.
void PromiseAbove(config::PolicyConfiguration& policy) {
  std::map<std::string, std::int64_t> below;
  for (config::Queue& queue : policy.queues | std::views::reverse) {  // children first
    std::int64_t& quota = queue.quota["nvidia.com/gpu"];
    quota += below[queue.name];
    if (!queue.parent.empty()) below[queue.parent] += quota;
  }
}

/// A gated pod of one of 200 shapes, of 1 to 8 GPUs, in one of the queues at the bottom.
kube::Pod TenantPod(const std::string& name, std::mt19937& random) {
  const auto gpus = 1 << (random() % 4);
  kube::Pod pod = MakePod(name, gpus, 500 + static_cast<int>(random() % 50));
  pod.meta.labels["berth.dev/queue"] = QueueName(3, static_cast<int>(random() % 772));
  pod.scheduling_gates = {"berth.dev/admission"};
  return pod;
}

/// 5,000 nodes, full with a pod of 8 GPUs each, and 50,000 pods that were judged and wait.
std::unique_ptr<engine::Engine> MakeSettledTenants(int lenders) {
  config::PolicyConfiguration policy = MakeTree(lenders);
  PromiseAbove(policy);
  auto engine = std::make_unique<engine::Engine>(policy, engine::Options{});
  for (int i = 0; i < kTenantNodes; ++i) engine->OnNode(MakeNode(i), kNow);
  std::mt19937 random(2);
  for (int i = 0; i < kTenantNodes; ++i) {
    kube::Pod pod = MakePod(fmt::format("r-{}", i), 8);
    pod.meta.labels["berth.dev/queue"] = QueueName(3, static_cast<int>(random() % 772));
    pod.node_name = NodeName(i);
    engine->OnPod(std::move(pod), kNow);
  }
  for (int i = 0; i < kTenantsWaiting; ++i) {
    kube::Pod pod = TenantPod(fmt::format("p-{}", i), random);
    pod.meta.creation += i % 1000;
    engine->OnPod(std::move(pod), kNow);
  }
  engine->Start(kNow);
  Settle(*engine);
  engine->TakeActions();
  return engine;
}

/// Seconds of this process's processor time: other processes change them least.
template <typename What>
double CpuSeconds(const What& what) {
  const std::clock_t start = std::clock();
  what();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// What an event costs, and the passes after it.
class Cost {
 public:
  template <typename Call>
  void Count(const Call& call) {
    const double seconds = CpuSeconds(call);
    total_ += seconds;
    longest_ = std::max(longest_, seconds);
  }
  void CountPasses(engine::Engine& engine) {
    do {
      ++passes_;
      Count([&] {
        engine.Step(kNow);
        for (const engine::Action& action : engine.TakeActions()) {
          const auto* decision = std::get_if<engine::Decision>(&action);
          started_ += decision != nullptr && decision->kind == "plan" ? 1 : 0;
        }
      });
    } while (engine.unfinished());
  }
  /// After each iteration.
  void Report(benchmark::State& state) {
    state.SetIterationTime(std::exchange(total_, 0));
    state.counters["longest_ms"] = 1000 * longest_;
    state.counters["started"] = benchmark::Counter(started_, benchmark::Counter::kAvgIterations);
    state.counters["passes"] =
        benchmark::Counter(static_cast<double>(passes_), benchmark::Counter::kAvgIterations);
  }

 private:
  double total_ = 0;    ///< Of the iteration.
  double longest_ = 0;  ///< Single call, of all iterations.
  int passes_ = 0;
  int started_ = 0;
};

/// All that wait are judged again, after an edit of the policy that changes no answer. Args: queues
/// that have a lendingLimit.
void FullPassOfTree(benchmark::State& state) {
  const auto engine = MakeSettledTenants(static_cast<int>(state.range(0)));
  config::PolicyConfiguration policy = engine->store().policy();
  Cost cost;
  for (auto _ : state) {
    policy.gang.plan_timeout += std::chrono::milliseconds(1);
    cost.Count([&] { engine->OnPolicy(policy, kNow); });
    cost.CountPasses(*engine);
    cost.Report(state);
  }
}
BENCHMARK(FullPassOfTree)
    ->Arg(0)
    ->Arg(100)
    ->Arg(772)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// A pod of 8 GPUs ends, and the room goes to who comes next. Args as above.
void PassOfTreeAfterEnd(benchmark::State& state) {
  const auto engine = MakeSettledTenants(static_cast<int>(state.range(0)));
  int i = 0;
  Cost cost;
  for (auto _ : state) {
    cost.Count([&] { engine->OnPodDeleted(fmt::format("uid-r-{}", i++), kNow); });
    cost.CountPasses(*engine);
    cost.Report(state);
  }
}
BENCHMARK(PassOfTreeAfterEnd)
    ->Arg(0)
    ->Arg(100)
    ->Arg(772)
    ->Iterations(2)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// One more pod comes, of a shape that waits already. Args as above.
void PassOfTreeAfterArrival(benchmark::State& state) {
  const auto engine = MakeSettledTenants(static_cast<int>(state.range(0)));
  std::mt19937 random(3);
  int i = 0;
  Cost cost;
  for (auto _ : state) {
    kube::Pod pod = TenantPod(fmt::format("late-{}", i++), random);
    const std::string uid = pod.meta.uid;
    cost.Count([&] { engine->OnPod(std::move(pod), kNow); });
    cost.CountPasses(*engine);
    engine->OnPodDeleted(uid, kNow);
    Settle(*engine);
    engine->TakeActions();
    cost.Report(state);
  }
}
BENCHMARK(PassOfTreeAfterArrival)
    ->Arg(0)
    ->Arg(100)
    ->Arg(772)
    ->Iterations(100)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
