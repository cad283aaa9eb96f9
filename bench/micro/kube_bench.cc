// Decoding objects from JSON: the cost of every watch event and of every item of a first list.
#include <benchmark/benchmark.h>
#include <simdjson.h>

#include "bench/micro/world.h"
#include "kube/decode.h"

namespace berth::bench {
namespace {

void DecodePod(benchmark::State& state) {
  const std::string json = PodJson("single");
  simdjson::dom::parser parser;
  for (auto _ : state) {
    auto pod = kube::DecodePod(json, parser);
    if (!pod) state.SkipWithError(pod.error().ToString().c_str());
    benchmark::DoNotOptimize(pod);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(json.size()) * state.iterations());
}
BENCHMARK(DecodePod)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace berth::bench
