// The clusters that the micro-benchmarks run on: like those of the Go benchmarks, built in memory.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "kube/objects.h"

namespace berth::bench {

inline constexpr engine::TimePoint kNow = 1'800'000'000'000;

/// gpu-worker-00042: as long as names in clusters are.
std::string NodeName(int i);

/// 8 GPUs, 128 cores; racks of 16 nodes, blocks of 16 racks.
kube::Node MakeNode(int i);

/// One container, ungated, of the default scheduler. Pods of one `gpus` share their spec.
kube::Pod MakePod(const std::string& name, int gpus);

/// The members of a gang of `size`.
std::vector<kube::Pod> MakeGang(const std::string& name, int size, int gpus);

/// An engine with `nodes` empty nodes, started, its first pass done.
engine::Engine MakeEngine(int nodes);

/// The JSON of a pod of the usual size, as the API server writes it.
std::string PodJson(const std::string& name);

}  // namespace berth::bench
