// Which single pods kube-scheduler may evict for a single pod, as pure functions: priority counts
// inside one queue, and no PodDisruptionBudget is broken. This is for victims that no queue is
// charged for, such as pods without devices, alone or together with others: Berth's own plan
// (eviction.h), which comes first, does not take them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/decide.h"
#include "engine/input_listener.h"

namespace berth::engine {

/// Pods that end on one node to make room for another.
struct Eviction {
  cluster::NodeIndex node = cluster::kNoNode;
  std::vector<const cluster::PodInfo*> victims;  ///< Not empty; by descending priority.
};

/// Whether kube-scheduler would find no room for the single pod, but victims on one node, none of
/// them of a gang, whose eviction admits it. The victims have lower priority, and are charged to
/// its own queue or to none; `outside_queues`: at least one of them is of no queue.
bool KubeSchedulerPreempts(const View& view, const cluster::PodInfo& pod, bool outside_queues);

/// Whether the victim has lower priority, is in the preemptor's queue or in none, and may be
/// evicted.
bool MayGo(const cluster::PodInfo& victim, const cluster::PodInfo& preemptor);

/// Whether the policy lets work of this queue evict others.
bool MayPreempt(const cluster::Store& store, cluster::QueueId queue);

/// Whether the pod may not be evicted: by what it was charged as, or by what it says now.
bool IsSpared(const cluster::PodInfo& pod);

/// Whether a PodDisruptionBudget counts the pod.
bool IsCovered(const cluster::PodInfo& pod, const cluster::Store& store);

/// The Job of the pod, with the JobSet by the label that the JobSet controller gives to pods;
/// nullopt: it has none. OwningJob::pods is 1.
std::optional<OwningJob> OwnerOf(const cluster::PodInfo& pod);

/// The Jobs and JobSets of pods that are evicted together.
class JobsToSuspend {
 public:
  /// `store` must outlive it, and not change.
  explicit JobsToSuspend(const cluster::Store& store) : store_(&store) {}
  /// That of a pod that is evicted, whole with its gang; nullopt: it has none, or a budget covers
  /// it, which only an eviction asks.
  std::optional<OwningJob> Of(const cluster::PodInfo& pod);

 private:
  const cluster::Store* store_;
  std::set<const cluster::Workload*> counted_;
  /// How many members of a gang are of a Job or JobSet, by OwningJob::Key.
  std::map<std::pair<const cluster::Workload*, std::string>, int> members_;
};

/// How many of the pods PodDisruptionBudgets forbid to evict after the pods before them.
std::int64_t CountBroken(const std::vector<const cluster::PodInfo*>& victims,
                         const cluster::Store& store);

/// Whether a PodDisruptionBudget forbids evicting all of `pods` together. Where the policy has them
/// deleted, none does.
bool BreaksBudgets(const std::vector<const cluster::PodInfo*>& pods, const cluster::Store& store);

/// Whether the Eviction API would not evict all of `pods`: BreaksBudgets, or one of them has
/// several PodDisruptionBudgets, which that API does not support, however much they permit. Where
/// the policy has them deleted, it is not asked.
bool EvictionApiRefuses(const std::vector<const cluster::PodInfo*>& pods,
                        const cluster::Store& store);

/// Of the nodes that kube-scheduler offers, the one where the least harm is done: single pods end,
/// at least one of no queue unless `pod` has a place already; then `pod` fits there, and its queue
/// has the quota. nullopt: there is none.
std::optional<Eviction> DecideEviction(const View& view, const cluster::PodInfo& pod,
                                       const VictimMap& candidates);

/// kube-scheduler evicted pods for the lone `pod` and nominated it, and the plan that held their
/// room is gone (a restart, another policy): returns these pods, while they end and the room is for
/// it.
std::optional<Eviction> DecideResumedEviction(const View& view, const cluster::PodInfo& pod);

}  // namespace berth::engine
