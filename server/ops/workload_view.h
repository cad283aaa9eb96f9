// A workload in the terms that people read, the same on every page: phases, reasons, queues.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace berth::server {

/// Every phase that a gang or pod can be in; docs/reasons.md says what each means.
inline constexpr std::array<std::string_view, 7> kPhases{
    "Gathering", "Pending", "Starting", "Started", "Refused", "Bound", "Unmanaged"};

/// The reason of a pod that kube-scheduler has not asked Berth about yet: it has no verdict, so
/// this is none of cluster::Token.
inline constexpr std::string_view kArriving = "Arriving";
/// The queue name shown for workloads without a queue.
inline constexpr std::string_view kNoQueueName = "(none)";

/// The phase as one of kPhases: fewer, coarser words than those of engine::PhaseOf, which
/// docs/architecture.md explains. `Starting` is a workload with a plan (Reserved there).
std::string_view ShownPhaseOf(const engine::Engine& engine, const cluster::Workload& workload);

/// Whether it has a pod without a node, refused ones included.
bool Waits(const cluster::Workload& workload);

/// The reason's token, and its sentence.
std::string ReasonOf(const engine::Engine& engine, const cluster::Workload& workload);
std::string MessageOf(const engine::Engine& engine, const cluster::Workload& workload);

/// The number of refused pods by the token of their reason. A pod that waits for its PodGroup is
/// not refused.
std::map<std::string, int> RefusalsOf(const cluster::Workload& workload);

/// The queue's name; without a queue, the policy's queue that the workload asked for; else
/// kNoQueueName.
std::string QueueOf(const cluster::Store& store, const cluster::Workload& workload);
std::string QueueOf(const cluster::Store& store, const cluster::PodInfo& pod);

/// Milliseconds since it was created.
cluster::TimePoint WaitOf(const cluster::Workload& workload, cluster::TimePoint now);

}  // namespace berth::server
