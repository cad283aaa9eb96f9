// The longest single call of the engine: during it the host's only lock is held, and every verb
// waits. Sizes are those of a large cluster in an unfavourable state; each benchmark reports the
// longest call of each iteration.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "bench/micro/world.h"
#include "engine/succession.h"

namespace berth::bench {
namespace {

constexpr int kCrowdedNodes = 5000;
constexpr int kWaiting = 50'000;
constexpr int kShapes = 5000;

/// Measures the calls that it gets and keeps the longest, in seconds.
class Longest {
 public:
  template <typename Call>
  void Hold(const Call& call) {
    longest_ = std::max(longest_, Seconds(call));
  }
  /// Measures each pass separately: verbs are answered between passes.
  void HoldPasses(engine::Engine& engine, engine::TimePoint now = kNow) {
    do {
      ++passes_;
      Hold([&engine, now] { engine.Step(now); });
      Hold([&engine] { engine.TakeActions(); });  // as the host does
    } while (engine.unfinished());
  }
  double seconds() const { return longest_; }
  /// Number of passes so far.
  int passes() const { return passes_; }

 private:
  double longest_ = 0;
  int passes_ = 0;
};

/// A gated pod of one of 5,000 shapes that fits nowhere; one in 50 has anti-affinity to pods like
/// itself.
kube::Pod Waiter(int i) {
  kube::Pod pod = MakePod("waiter-" + std::to_string(i), 4, 500 + i % kShapes);
  pod.scheduling_gates = {"berth.dev/admission"};
  if (i % 50 == 0) {
    auto spec = std::make_shared<kube::PodSpec>(*pod.spec);
    kube::PodAffinityTerm& term = spec->required_pod_anti_affinity.emplace_back();
    term.label_selector = {.requirements = {{.key = "app", .values = {"trainer"}}}};
    term.topology_key = "kubernetes.io/hostname";
    pod.spec = std::move(spec);
  }
  return pod;
}

/// Assigns the i-th pod to one of the queues, in turn. With one queue alone a pod needs no label.
kube::Pod InQueue(kube::Pod pod, int i, int queues) {
  if (queues > 1) pod.meta.labels["berth.dev/queue"] = fmt::format("team-{}", i % queues);
  return pod;
}

/// Queues that are promised all GPUs in equal parts, and one more for guests that is promised
/// nothing. With one queue: the default policy.
config::PolicyConfiguration MakeTeams(int queues) {
  config::PolicyConfiguration policy;
  if (queues == 1) return policy;
  policy.borrowing = true;
  policy.queues.clear();
  for (int i = 0; i < queues; ++i) {
    config::Queue queue{.name = fmt::format("team-{}", i)};
    queue.namespaces = std::vector<std::string>{"*"};
    queue.quota["nvidia.com/gpu"] = 1000LL * 8 * kCrowdedNodes / queues;
    policy.queues.push_back(std::move(queue));
  }
  config::Queue guests{.name = "guests"};
  guests.namespaces = std::vector<std::string>{"*"};
  policy.queues.push_back(std::move(guests));
  return policy;
}

/// 5,000 nodes with 3 GPUs free on each, and 50,000 gated single pods that want 4, in that number
/// of queues.
std::unique_ptr<engine::Engine> MakeMultitude(int queues) {
  auto engine = std::make_unique<engine::Engine>(MakeTeams(queues), engine::Options{});
  for (int i = 0; i < kCrowdedNodes; ++i) engine->OnNode(MakeNode(i), kNow);
  engine->Start(kNow);
  for (int i = 0; i < kCrowdedNodes; ++i) {
    kube::Pod pod = InQueue(MakePod(fmt::format("filler-{}", i), 5), i, queues);
    pod.node_name = NodeName(i);
    engine->OnPod(std::move(pod), kNow);
  }
  for (int i = 0; i < kWaiting; ++i) engine->OnPod(InQueue(Waiter(i), i, queues), kNow);
  Settle(*engine);
  engine->TakeActions();
  return engine;
}

/// A pod of one GPU of the queue that is promised nothing.
kube::Pod Guest(const std::string& name, const benchmark::State& state) {
  kube::Pod pod = MakePod(name, 1);
  if (state.range(0) > 1) pod.meta.labels["berth.dev/queue"] = "guests";
  return pod;
}

/// Between two iterations, so that what may be a moment old is computed again.
constexpr engine::TimePoint kPause = 5'000;

/// A pod ends, but the room is not enough for any waiting pod.
void LongestHoldAfterEnd(benchmark::State& state) {
  const auto engine = MakeMultitude(static_cast<int>(state.range(0)));
  kube::Pod pod = Guest("guest", state);
  pod.node_name = NodeName(0);
  engine::TimePoint now = kNow;
  for (auto _ : state) {
    now += kPause;
    engine->OnPod(pod, now);
    Settle(*engine, now);
    now += kPause;
    Longest longest;
    longest.Hold([&] { engine->OnPodDeleted(pod.meta.uid, now); });
    longest.HoldPasses(*engine, now);
    state.SetIterationTime(longest.seconds());
  }
}
BENCHMARK(LongestHoldAfterEnd)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// One more waiting pod arrives, of a new shape.
void LongestHoldAfterArrival(benchmark::State& state) {
  const auto engine = MakeMultitude(static_cast<int>(state.range(0)));
  int i = 0;
  engine::TimePoint now = kNow;
  for (auto _ : state) {
    kube::Pod pod = MakePod("late-" + std::to_string(i), 4, 10'000 + i);
    pod = InQueue(std::move(pod), i++, static_cast<int>(state.range(0)));
    pod.scheduling_gates = {"berth.dev/admission"};
    now += kPause;
    Longest longest;
    longest.Hold([&] { engine->OnPod(std::move(pod), now); });
    longest.HoldPasses(*engine, now);
    state.SetIterationTime(longest.seconds());
  }
}
BENCHMARK(LongestHoldAfterArrival)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(100)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// kube-scheduler asks about a pod that can run, just after another one ended.
void LongestHoldOfFilterAfterEnd(benchmark::State& state) {
  const auto engine = MakeMultitude(static_cast<int>(state.range(0)));
  const Offer offer(kCrowdedNodes);
  kube::Pod guest = Guest("guest", state);
  guest.node_name = NodeName(0);
  int i = 0;
  engine::TimePoint now = kNow;
  for (auto _ : state) {
    now += kPause;
    engine->OnPod(guest, now);
    Settle(*engine, now);
    now += kPause;
    engine->OnPodDeleted(guest.meta.uid, now);
    const kube::Pod pod = Guest("fresh-" + std::to_string(i++), state);
    engine->OnPod(pod, now);
    Longest longest;
    longest.Hold([&] {
      const auto answer = engine->Filter({.uid = pod.meta.uid, .offered = offer.views}, now);
      // Beyond its quota it waits for a moment.
      if (answer.kept.size() != 1 && state.range(0) == 1) state.SkipWithError("not kept");
    });
    longest.HoldPasses(*engine, now);
    engine->OnPodDeleted(pod.meta.uid, now);
    Settle(*engine, now);
    engine->TakeActions();
    state.SetIterationTime(longest.seconds());
  }
}
BENCHMARK(LongestHoldOfFilterAfterEnd)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// An edit of the policy that changes none of the answers.
void LongestHoldOfPolicy(benchmark::State& state) {
  const auto engine = MakeMultitude(static_cast<int>(state.range(0)));
  config::PolicyConfiguration policy = engine->store().policy();
  for (auto _ : state) {
    policy.gang.plan_timeout += std::chrono::milliseconds(1);
    Longest longest;
    longest.Hold([&] { engine->OnPolicy(policy, kNow); });
    longest.HoldPasses(*engine);
    state.SetIterationTime(longest.seconds());
    state.counters["passes"] = longest.passes();
  }
}
BENCHMARK(LongestHoldOfPolicy)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// An edit that changes what pods mean: every pod is read again, a part in each pass.
void LongestHoldOfReading(benchmark::State& state,
                          const std::function<void(config::PolicyConfiguration&, int)>& edit) {
  const auto engine = MakeMultitude(static_cast<int>(state.range(0)));
  config::PolicyConfiguration policy = engine->store().policy();
  int i = 0;
  for (auto _ : state) {
    edit(policy, ++i);
    Longest first;
    first.Hold([&] { engine->OnPolicy(policy, kNow); });
    Longest longest;
    longest.HoldPasses(*engine);
    state.counters["edit_ms"] = 1000 * first.seconds();
    state.counters["passes"] = longest.passes();
    state.SetIterationTime(std::max(first.seconds(), longest.seconds()));
  }
}

/// The new queue comes last: the ids of the others stay.
void LongestHoldOfNewQueue(benchmark::State& state) {
  LongestHoldOfReading(state, [](config::PolicyConfiguration& policy, int i) {
    config::Queue queue = policy.queues.front();
    queue.name = "another-" + std::to_string(i);
    queue.namespaces = {{"another"}};
    policy.queues.push_back(std::move(queue));
  });
}
BENCHMARK(LongestHoldOfNewQueue)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// The new queue comes first, so that every other one has a new id.
void LongestHoldOfFirstQueue(benchmark::State& state) {
  LongestHoldOfReading(state, [](config::PolicyConfiguration& policy, int i) {
    config::Queue queue = policy.queues.front();
    queue.name = "another-" + std::to_string(i);
    queue.namespaces = {{"another"}};
    policy.queues.insert(policy.queues.begin(), std::move(queue));
  });
}
BENCHMARK(LongestHoldOfFirstQueue)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

void LongestHoldOfNewDevice(benchmark::State& state) {
  LongestHoldOfReading(state, [](config::PolicyConfiguration& policy, int i) {
    policy.devices.push_back({.name = "example.com/device-" + std::to_string(i)});
  });
}
BENCHMARK(LongestHoldOfNewDevice)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

void LongestHoldOfNewLevel(benchmark::State& state) {
  LongestHoldOfReading(state, [](config::PolicyConfiguration& policy, int i) {
    policy.levels.front().node_label = "example.com/level-" + std::to_string(i);
  });
}
BENCHMARK(LongestHoldOfNewLevel)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// A leader that resigns forgets its decisions, a part at a time.
void LongestHoldOfResignation(benchmark::State& state) {
  const auto engine = MakeMultitude(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    Longest longest;
    std::optional<engine::Succession> succession;
    longest.Hold([&] { succession.emplace(*engine, engine::Options{.instance = "next"}); });
    int parts = 1;
    for (bool more = true; more; ++parts) longest.Hold([&] { more = succession->GoOn(kNow); });
    std::unique_ptr<engine::Engine> next;
    longest.Hold([&] {
      next = succession->Take();
      next->TakeActions();
    });
    state.SetIterationTime(longest.seconds());
    state.counters["parts"] = parts;
    next.reset();  // the driver does that without the lock
  }
}
BENCHMARK(LongestHoldOfResignation)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// During the round that such an edit begins, kube-scheduler calls filter for new pods.
void LongestHoldOfFilterInRound(benchmark::State& state) {
  const auto engine = MakeMultitude(static_cast<int>(state.range(0)));
  const Offer offer(kCrowdedNodes);
  config::PolicyConfiguration policy = engine->store().policy();
  int i = 0;
  for (auto _ : state) {
    policy.gang.plan_timeout += std::chrono::milliseconds(1);
    engine->OnPolicy(policy, kNow);
    Longest longest;
    do {
      const kube::Pod pod = MakePod("fresh-" + std::to_string(i++), 1);
      engine->OnPod(pod, kNow);
      longest.Hold([&] { engine->Filter({.uid = pod.meta.uid, .offered = offer.views}, kNow); });
      engine->OnPodDeleted(pod.meta.uid, kNow);
      engine->Step(kNow);
    } while (engine->unfinished());
    engine->TakeActions();
    state.SetIterationTime(longest.seconds());
  }
}
BENCHMARK(LongestHoldOfFilterInRound)
    ->Arg(1)
    ->Arg(20)
    ->Iterations(3)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// A node is added to a cluster of `nodes` nodes that are all full while 100 pods wait; then it is
/// removed. Args: nodes.
void LongestHoldOfNodeChange(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(nodes);
  FillNodes(*engine, nodes, 8);
  for (int i = 0; i < 100; ++i) engine->OnPod(Waiter(i), kNow);
  Settle(*engine);
  kube::Node node = MakeNode(nodes);
  node.allocatable["nvidia.com/gpu"] = 2'000;
  for (auto _ : state) {
    Longest longest;
    longest.Hold([&] { engine->OnNode(node, kNow); });
    longest.HoldPasses(*engine);
    longest.Hold([&] { engine->OnNodeDeleted(node.meta.name, kNow); });
    longest.HoldPasses(*engine);
    engine->TakeActions();
    state.SetIterationTime(longest.seconds());
  }
}
BENCHMARK(LongestHoldOfNodeChange)
    ->Arg(5000)
    ->Arg(20'000)
    ->Iterations(30)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// A gang of `members` whole nodes arrives, is planned, makes its bind calls, is bound and is
/// deleted, member by member. Each call of the engine goes through `hold`.
template <typename Hold>
void LifeOfGang(engine::Engine& engine, int members, const Hold& hold) {
  const auto gang = MakeGang("gang", members, 8);
  for (const kube::Pod& pod : gang) hold([&] { engine.OnPod(pod, kNow); });
  hold([&] { engine.Step(kNow); });
  hold([&] { engine.TakeActions(); });
  std::vector<std::string> nodes;
  for (const kube::Pod& pod : gang) {
    nodes.push_back(engine.store().node(engine.PlannedNode(pod.meta.uid)).name);
  }
  for (std::size_t i = 0; i < gang.size(); ++i) {
    const kube::ObjectMeta& meta = gang[i].meta;
    hold([&] {
      engine.Bind({.uid = meta.uid, .ns = meta.ns, .name = meta.name, .node = nodes[i]}, kNow);
    });
  }
  hold([&] { engine.TakeActions(); });
  for (std::size_t i = 0; i < gang.size(); ++i) {
    kube::Pod pod = gang[i];
    pod.node_name = nodes[i];
    hold([&] { engine.OnPod(std::move(pod), kNow); });
  }
  for (const kube::Pod& pod : gang) hold([&] { engine.OnPodDeleted(pod.meta.uid, kNow); });
  hold([&] { engine.Step(kNow); });
  hold([&] { engine.TakeActions(); });
}

/// Args: members.
void LongestHoldOfGang(benchmark::State& state) {
  const auto members = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(members);
  for (auto _ : state) {
    Longest longest;
    LifeOfGang(*engine, members, [&longest](const auto& call) { longest.Hold(call); });
    state.SetIterationTime(longest.seconds());
  }
}
BENCHMARK(LongestHoldOfGang)
    ->Arg(1000)
    ->Arg(8000)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// The total cost of the same.
void WholeLifeOfGang(benchmark::State& state) {
  const auto members = static_cast<int>(state.range(0));
  const auto engine = MakeEngine(members);
  for (auto _ : state) LifeOfGang(*engine, members, [](const auto& call) { call(); });
}
BENCHMARK(WholeLifeOfGang)->Arg(1000)->Arg(8000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
