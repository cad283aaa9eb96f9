// Everybody else in the cluster: the kubelets that run, refuse and end pods, the job controllers
// that create and replace them, the disruption controller that counts what may go, and the garbage
// collector that clears lost nodes.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "sim/world/environment.h"
#include "sim/world/other_scheduler.h"
#include "sim/world/scenario.h"

namespace berth::sim {

class Controllers {
 public:
  /// The references must outlive it.
  Controllers(Environment& env, const std::vector<Job>& jobs, const std::vector<Budget>& budgets);

  /// All members of jobs that will be created have been; nothing is about to start or end by
  /// itself.
  bool Quiet() const { return due_ == 0 && (other_ == nullptr || other_->Quiet()); }
  /// Nobody creates or replaces anything any more.
  void Stop() { members_.clear(); }

 private:
  void Later(Duration delay, std::function<void()> action);
  void Create(const Job& job, int index);
  void OnPod(const Change& change);
  void OnNode(const Change& change);
  void RemoveMembers(const Job& job);
  void Run(const engine::PodRef& ref, Duration lasts);
  bool Crowded(const kube::Pod& pod) const;
  void CountDisruptions(const std::string& app);
  void SetPhase(const engine::PodRef& ref, kube::PodPhase phase, const std::string& reason);

  Environment& env_;
  const std::vector<Budget>& budgets_;
  Life life_;
  std::unique_ptr<OtherScheduler> other_;                                ///< Null: it has no pods.
  std::unordered_map<std::string, std::pair<const Job*, int>> members_;  ///< By ns/name.
  std::unordered_set<std::string> seen_bound_;                           ///< UIDs.
  std::unordered_set<std::string> seen_ending_;
  std::unordered_set<std::string> finished_;  ///< ns/name of pods that did their work.
  std::unordered_map<const Job*, int> done_;  ///< How many of its pods did their work.
  int due_ = 0;
};

}  // namespace berth::sim
