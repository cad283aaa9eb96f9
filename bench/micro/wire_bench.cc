// The verb codec: the cost of a filter call before and after the engine.
#include <benchmark/benchmark.h>

#include "bench/micro/world.h"
#include "server/verbs/wire.h"

namespace berth::bench {
namespace {

/// The body of a filter call, padded. Args of all: nodes offered.
std::string FilterBody(const Offer& offer) {
  std::string body = R"({"Pod":)" + PodJson("single") + R"(,"Nodes":null,"NodeNames":[)";
  for (std::size_t i = 0; i < offer.names.size(); ++i) {
    if (i > 0) body += ',';
    body += '"' + offer.names[i] + '"';
  }
  return body + "]}";
}

void DecodeFilter(benchmark::State& state) {
  std::string body = FilterBody(Offer(static_cast<int>(state.range(0))));
  const std::size_t size = body.size();
  body.append(server::kBodyPadding, '\0');
  server::Decoder decoder;
  for (auto _ : state) {
    auto args = decoder.DecodeExtenderArgs({.data = body.data(), .size = size});
    if (!args) state.SkipWithError(args.error().c_str());
    benchmark::DoNotOptimize(args);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(size) * state.iterations());
}
BENCHMARK(DecodeFilter)->Arg(100)->Arg(1000)->Arg(5000)->Unit(benchmark::kMicrosecond);

/// One node is kept, and all others failed for one reason.
void EncodeFilterKept(benchmark::State& state) {
  const Offer offer(static_cast<int>(state.range(0)));
  const server::FilterResult result{.kept = {offer.views[offer.views.size() / 2]},
                                    .reason = "berth: another node is planned",
                                    .error = {}};
  std::string out;
  for (auto _ : state) {
    out.clear();
    server::EncodeFilterResult(offer.views, result, out);
    benchmark::DoNotOptimize(out);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(out.size()) * state.iterations());
}
BENCHMARK(EncodeFilterKept)->Arg(100)->Arg(1000)->Arg(5000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace berth::bench
