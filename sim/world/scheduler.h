// A model of kube-scheduler v1.36 as far as an extender can tell it from the real one: its cache,
// the serial scheduling cycle, asynchronous binds, preemption. Queue: scheduler_queue.h.
//
// Modelled plugins: NodeUnschedulable, NodeAffinity with selectors, TaintToleration,
// NodeResourcesFit with nominated pods counted, LeastAllocated, DefaultPreemption. Not modelled:
// volumes, host ports, pod affinity, spread, PodDisruptionBudgets.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/world/scheduler_queue.h"
#include "sim/world/verb_wire.h"
#include "sim/world/watch.h"

namespace berth::sim {

struct SchedulerOptions {
  QueueOptions queue{};
  std::vector<std::string> managed_resources{"nvidia.com/gpu"};
  std::int64_t extender_weight = 15;
  /// percentageOfNodesToScore; 0: adaptive, max(5, 50 - nodes/125).
  int percentage = 100;
  /// No sample is smaller (100 upstream; tests of small worlds sample less).
  std::size_t min_feasible = 100;
  /// Whether a failed attempt clears status.nominatedNodeName.
  bool clears_nomination = true;
  bool preempts = true;
};

class Scheduler {
 public:
  /// The references must outlive it.
  Scheduler(Environment& env, SchedulerOptions options, VerbWire& wire);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  WatchStream& stream(Kind kind) { return kind == Kind::kNode ? *nodes_watch_ : *pods_watch_; }
  /// Nothing is being tried, assumed or on its way.
  bool Idle() const;

  /// Checks a preemption that was accepted; set by the checker.
  std::function<void(const kube::Pod& preemptor, const std::string& node,
                     const std::vector<const kube::Pod*>& victims)>
      on_preemption;

 private:
  enum class Fit : std::uint8_t { kYes, kUnschedulable, kUnresolvable };
  struct NodeState {
    std::shared_ptr<const kube::Node> node;  ///< Null: pods are there, no Node object yet.
    kube::ResourceList requested;
    std::int64_t pods = 0;
  };
  struct Held {  ///< A pod that occupies room: assigned, or assumed to be soon.
    std::shared_ptr<const kube::Pod> pod;
    std::string node;
    bool assumed = false;
  };
  /// One scheduling cycle.
  struct Cycle {
    std::shared_ptr<const kube::Pod> pod;
    std::map<std::string, int> reasons{};
    std::vector<std::string> unschedulable{};  ///< Nodes that evictions could help.
    bool by_extender = false;
  };

  void OnPod(const std::shared_ptr<const kube::Pod>& pod);
  void OnPodGone(const std::string& uid);
  void OnNode(const Change& change);
  void Hold(const std::shared_ptr<const kube::Pod>& pod, const std::string& node, bool assumed);
  bool Drop(const std::string& uid);
  void Account(const kube::Pod& pod, const std::string& node, std::int64_t sign);

  void Kick();
  void Try();
  void TryNominated(const std::shared_ptr<Cycle>& cycle);
  void Scan(const std::shared_ptr<Cycle>& cycle);
  void AskExtender(const std::shared_ptr<Cycle>& cycle, const std::vector<std::string>& feasible);
  void Choose(const std::shared_ptr<Cycle>& cycle, const std::vector<std::string>& feasible,
              const std::map<std::string, std::int64_t>& extender_scores);
  void Assume(const std::shared_ptr<Cycle>& cycle, const std::string& node);
  void BindFailed(const std::shared_ptr<const kube::Pod>& pod, const std::string& error);
  void NoFit(const std::shared_ptr<Cycle>& cycle);
  void Fail(const kube::Pod& pod, bool error, bool by_extender, const std::string& message,
            const std::string& nominate);
  void EndCycle();

  Fit Fits(const kube::Pod& pod, const NodeState& state, const std::set<std::string>& without,
           std::string& why) const;
  bool Managed(const kube::Pod& pod) const;
  std::size_t SampleSize() const;
  std::int64_t LeastAllocated(const kube::Pod& pod, const NodeState& state) const;

  // scheduler_preemption.cc
  void Preempt(const std::shared_ptr<Cycle>& cycle, const std::string& message);
  std::vector<const kube::Pod*> DryRun(const kube::Pod& pod, const std::string& node) const;
  std::string PickVictims(const engine::VictimMap& candidates) const;
  void Evict(const kube::Pod& preemptor, const std::string& node,
             const std::vector<std::string>& uids);

  Environment& env_;
  const SchedulerOptions options_;
  VerbWire& wire_;
  Life life_;
  SchedulingQueue queue_;
  std::map<std::string, NodeState> nodes_;
  std::map<std::string, Held> held_;  ///< By UID.
  std::size_t next_start_ = 0;        ///< nextStartNodeIndex.
  int unsynced_ = 2;
  bool busy_ = false;
  TimePoint kicked_ = -1;
  std::uint64_t kick_turn_ = 0;
  int binding_ = 0;
  std::unique_ptr<WatchStream> nodes_watch_;
  std::unique_ptr<WatchStream> pods_watch_;
};

}  // namespace berth::sim
