// The other components of the cluster: the kubelets that run, refuse and end pods, the job
// controllers that create and replace them, the disruption controller that counts how many pods may
// be evicted, and the garbage collector that removes the pods of lost nodes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "sim/faults/day.h"
#include "sim/faults/other_scheduler.h"
#include "sim/world/environment.h"

namespace berth::sim {

/// Creates, runs and ends the pods of one day.
class Controllers {
 public:
  /// The references must outlive it.
  Controllers(Environment& env, const std::vector<Job>& jobs, const std::vector<Budget>& budgets);

  /// All members of jobs that are to be created exist, and no pod is about to start or end by
  /// itself.
  bool Quiet() const { return due_ == 0 && (other_ == nullptr || other_->Quiet()); }
  /// From now on no pod is created or replaced.
  void Stop() { members_.clear(); }

 private:
  void Later(Duration delay, std::function<void()> action);
  void Create(const Job& job, int index);
  void OnPod(const Change& change);
  void OnNode(const Change& change);
  void OnJob(const kube::Job& object);
  bool IsSuspended(const Job& job) const;
  void HasSucceeded(kube::JobKind kind, const std::string& key);
  void RemoveMembers(const Job& job);
  void Run(const engine::PodRef& ref, Duration lasts);
  bool Crowded(const kube::Pod& pod) const;
  void CountDisruptions(const std::string& app);
  void SetPhase(const engine::PodRef& ref, kube::PodPhase phase, const std::string& reason);

  Environment& env_;
  const std::vector<Budget>& budgets_;
  Life life_;
  std::unique_ptr<OtherScheduler> other_;                                ///< Null: no pods of
                                                                         ///< another scheduler.
  std::unordered_map<std::string, std::pair<const Job*, int>> members_;  ///< By ns/name.
  std::unordered_set<std::string> seen_bound_;                           ///< UIDs.
  std::unordered_set<std::string> seen_ending_;
  std::unordered_set<std::string> finished_;  ///< ns/name of pods that have succeeded.
  std::map<std::string, const Job*> by_uid_;  ///< Jobs that have an object.
  std::unordered_map<const Job*, int> done_;  ///< How many of a job's pods have succeeded.
  int due_ = 0;
};

}  // namespace berth::sim
