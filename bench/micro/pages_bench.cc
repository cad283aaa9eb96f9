// How long a page, or a scrape of the metrics, holds the host's lock without a break.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/micro/world.h"
#include "server/ops/metrics.h"
#include "server/ops/views.h"

namespace berth::bench {
namespace {

constexpr int kPageNodes = 5000;
constexpr int kPageWaiting = 50'000;

/// Time: of the longest part.
template <typename Read>
void HoldOf(benchmark::State& state, const Read& read) {
  const auto engine = MakeCrowd(kPageNodes, /*taken=*/8, kPageWaiting);
  TidyUp();
  for (auto _ : state) {
    double longest = 0;
    int parts = 0;
    read([&](const server::Part& part) {
      for (bool more = true; more; ++parts) {
        longest = std::max(longest, Seconds([&] { more = part(*engine, kNow); }));
      }
    });
    state.SetIterationTime(longest);
    state.counters["parts"] = parts;
  }
}

void HoldOfQueuesPage(benchmark::State& state) {
  HoldOf(state, [](const server::InParts& read) {
    benchmark::DoNotOptimize(server::QueuesJson(read, "", /*namespaces=*/true));
  });
}
BENCHMARK(HoldOfQueuesPage)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

void HoldOfPodsPage(benchmark::State& state) {
  HoldOf(state,
         [](const server::InParts& read) { benchmark::DoNotOptimize(server::PodsJson(read, "")); });
}
BENCHMARK(HoldOfPodsPage)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

void HoldOfNodesPage(benchmark::State& state) {
  HoldOf(state,
         [](const server::InParts& read) { benchmark::DoNotOptimize(server::NodesJson(read)); });
}
BENCHMARK(HoldOfNodesPage)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

void HoldOfScrape(benchmark::State& state) {
  server::Metrics metrics({});
  HoldOf(state, [&](const server::InParts& read) { server::FeedGauges(read, metrics); });
}
BENCHMARK(HoldOfScrape)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
