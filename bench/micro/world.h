// The clusters of the micro-benchmarks: like those of the Go benchmarks, built in memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "kube/objects.h"

namespace berth::bench {

inline constexpr engine::TimePoint kNow = 1'800'000'000'000;

/// For example gpu-worker-00042: as long as names in real clusters.
std::string NodeName(int i);

/// 8 GPUs, 128 cores; racks of 16 nodes, blocks of 16 racks.
kube::Node MakeNode(int i);

/// A pod with one container and no gate, for the default scheduler.
kube::Pod MakePod(const std::string& name, int gpus, int cpu_milli = 500);

/// The members of a gang of `size`.
std::vector<kube::Pod> MakeGang(const std::string& name, int size, int gpus, int cpu_milli = 500);

/// An engine with `nodes` empty nodes, started.
std::unique_ptr<engine::Engine> MakeEngine(int nodes);

/// Runs as many passes as it takes to judge everything that is pending.
void Settle(engine::Engine& engine, engine::TimePoint now = kNow);

/// Binds a pod of `gpus` GPUs on each of the first `nodes` nodes.
void FillNodes(engine::Engine& engine, int nodes, int gpus);

/// `nodes` nodes of 8 GPUs, of which `taken` are in use on each, and `waiting` gated single pods
/// that want 4.
std::unique_ptr<engine::Engine> MakeCrowd(int nodes, int taken, int waiting);

/// Names of `nodes` nodes, and views of them for queries.
struct Offer {
  explicit Offer(int nodes);
  std::vector<std::string> names;
  std::vector<std::string_view> views;
};

/// The JSON of a pod of typical size, as kube-scheduler sends it.
std::string PodJson(const std::string& name);

/// Processor time of this thread so far, in seconds.
double ThreadSeconds();

/// Seconds of processor time that `what` takes, for benchmarks with untimed work between
/// iterations: what else runs on the machine would make the longest of many calls meaningless.
template <typename What>
double Seconds(const What& what) {
  const double start = ThreadSeconds();
  what();
  return ThreadSeconds() - start;
}

}  // namespace berth::bench
