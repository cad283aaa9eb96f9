// The clusters that the micro-benchmarks run on: like those of the Go benchmarks, built in memory.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "kube/objects.h"

namespace berth::bench {

inline constexpr engine::TimePoint kNow = 1'800'000'000'000;

/// gpu-worker-00042: as long as names in clusters are.
std::string NodeName(int i);

/// 8 GPUs, 128 cores; racks of 16 nodes, blocks of 16 racks.
kube::Node MakeNode(int i);

/// One container, ungated, of the default scheduler.
kube::Pod MakePod(const std::string& name, int gpus, int cpu_milli = 500);

/// The members of a gang of `size`.
std::vector<kube::Pod> MakeGang(const std::string& name, int size, int gpus, int cpu_milli = 500);

/// An engine with `nodes` empty nodes, started.
std::unique_ptr<engine::Engine> MakeEngine(int nodes);

/// Judges all that is to be judged, in as many passes as that takes.
void Settle(engine::Engine& engine);

/// Names of `nodes` nodes, and views of them for queries.
struct Offer {
  explicit Offer(int nodes);
  std::vector<std::string> names;
  std::vector<std::string_view> views;
};

/// The JSON of a pod of the usual size, as kube-scheduler sends it.
std::string PodJson(const std::string& name);

/// Seconds that `what` takes, for benchmarks whose iterations need untimed work between them.
template <typename What>
double Seconds(const What& what) {
  const auto start = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace berth::bench
