// Which pods are evicted for which, as pure functions: the policy behind the verb preempt. Priority
// counts inside one queue, PodDisruptionBudgets are broken only where nothing else is left, and no
// gang loses only a part of its members.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/decide.h"
#include "engine/input_listener.h"
#include "engine/wakeups.h"

namespace berth::engine {

/// Pods that end on one node to make room for another.
struct Eviction {
  cluster::NodeIndex node = cluster::kNoNode;
  std::vector<const cluster::PodInfo*> victims;  ///< Not empty; by descending priority.
  std::int64_t pdb_violations = 0;               ///< Victims that a budget protects.
};

/// Whether kube-scheduler would find no room for `pod`, but victims in the pod's own queue whose
/// eviction admits it.
bool KubeSchedulerPreempts(const View& view, const cluster::PodInfo& pod);

/// Whether the policy lets work of this queue evict others.
bool MayPreempt(const cluster::Store& store, cluster::QueueId queue);

/// Whether the pod may not be evicted: by what it was charged as, or by what it says now.
bool IsSpared(const cluster::PodInfo& pod);

/// Whether a PodDisruptionBudget counts the pod.
bool IsCovered(const cluster::PodInfo& pod, const cluster::Store& store);

/// Whether a PodDisruptionBudget forbids evicting all of `pods` together. Where the policy has them
/// deleted, none does.
bool BreaksBudgets(const std::vector<const cluster::PodInfo*>& pods, const cluster::Store& store);

/// The best of the evictions that kube-scheduler proposes for `pod`: it fits there and its queue
/// has the quota when the victims are gone. Where the proposal names none, or parts of gangs, other
/// victims on that node are found. nullopt: none is any good.
std::optional<Eviction> DecideEviction(const View& view, const cluster::PodInfo& pod,
                                       const VictimMap& candidates);

/// kube-scheduler evicted pods for the lone `pod` and nominated it, and the plan that held their
/// room is gone (a restart, another policy): those pods, while they end and the room is for it.
std::optional<Eviction> DecideResumedEviction(const View& view, const cluster::PodInfo& pod);

/// Whether a workload that was refused might run after an eviction.
struct PreemptorDecision {
  /// How it starts in the room of the victims that Berth evicts.
  std::optional<Reservation> reserve{};
  /// The workload, as far as that depends on it. nullopt: no pod is evicted for it before it is
  /// planned.
  std::optional<Preemptor> preemptor{};
  bool would_preempt = false;  ///< kube-scheduler would find victims that let it run.
  bool by_count = false;       ///< Counting was enough to say no.
  /// Not 0: by then some work may be evicted (OfAgeAt), or pods that should have ended are expected
  /// no more.
  TimePoint again = 0;
  bool unsure = false;  ///< Whatever changes, it may be able to evict: it must not rest.
  bool claims = false;  ///< It may come to have a claim on other queues.
};
/// For a gated single pod that was refused for `reason`. `memo`: preemptors that are known to find
/// no victims; null: none.
PreemptorDecision DecidePreemptor(const View& view, const cluster::Workload& workload,
                                  cluster::ReasonId reason, const Wakeups* memo);

}  // namespace berth::engine
