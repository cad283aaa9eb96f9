// How long a page, or a scrape of the metrics, holds the host's lock without a break.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>

#include "bench/micro/world.h"
#include "server/ops/parts.h"

namespace berth::bench {

/// Time: of the longest part.
template <typename Read>
void HoldOf(benchmark::State& state, const std::unique_ptr<engine::Engine>& engine,
            const Read& read) {
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

}  // namespace berth::bench
