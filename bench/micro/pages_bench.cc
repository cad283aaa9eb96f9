// How long a page, or a scrape of the metrics, holds the host's lock without a break.
#include "bench/micro/hold.h"
#include "server/ops/metrics.h"
#include "server/ops/views.h"

namespace berth::bench {
namespace {

constexpr int kPageNodes = 5000;
constexpr int kPageWaiting = 50'000;

std::unique_ptr<engine::Engine> MakeFull() {
  return MakeCrowd(kPageNodes, /*taken=*/8, kPageWaiting);
}

void HoldOfQueuesPage(benchmark::State& state) {
  HoldOf(state, MakeFull(), [](const server::InParts& read) {
    benchmark::DoNotOptimize(server::QueuesJson(read, "", /*namespaces=*/true));
  });
}
BENCHMARK(HoldOfQueuesPage)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

void HoldOfPodsPage(benchmark::State& state) {
  HoldOf(state, MakeFull(),
         [](const server::InParts& read) { benchmark::DoNotOptimize(server::PodsJson(read, "")); });
}
BENCHMARK(HoldOfPodsPage)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

void HoldOfNodesPage(benchmark::State& state) {
  HoldOf(state, MakeFull(),
         [](const server::InParts& read) { benchmark::DoNotOptimize(server::NodesJson(read)); });
}
BENCHMARK(HoldOfNodesPage)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

void HoldOfScrape(benchmark::State& state) {
  server::Metrics metrics({});
  HoldOf(state, MakeFull(),
         [&](const server::InParts& read) { server::FeedGauges(read, metrics); });
}
BENCHMARK(HoldOfScrape)->Iterations(3)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
