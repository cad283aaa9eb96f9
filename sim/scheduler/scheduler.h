// A model of kube-scheduler v1.36, as far as an extender can observe it: its cache, the serial
// scheduling cycle, asynchronous binds and preemption. Its queue is in scheduler_queue.h.
//
// Modelled plugins: NodeUnschedulable, TaintToleration, NodeAffinity with selectors,
// NodeResourcesFit with nominated pods counted, required InterPodAffinity, PodTopologySpread with
// DoNotSchedule, NodeResourcesBalancedAllocation, DefaultPreemption with budgets, and their
// QueueingHints. Of volumes and of claims of devices: that they exist. Not modelled: host ports,
// and any preferred (not required) term. Checked against the real one: docs/simulator.md.
#pragma once

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/scheduler/scheduler_queue.h"
#include "sim/scheduler/stock_score.h"
#include "sim/world/environment.h"
#include "sim/world/extender.h"
#include "sim/world/watch.h"

namespace berth::sim {

/// The configuration of kube-scheduler, as far as it is modelled.
struct SchedulerOptions {
  QueueOptions queue{};
  StockStrategy strategy = StockStrategy::kLeastAllocated;
  std::vector<std::string> managed_resources{"nvidia.com/gpu"};
  /// The devices that MostAllocated scores in addition to CPU and memory.
  std::vector<std::string> scored_devices{"nvidia.com/gpu"};
  std::int64_t extender_weight = 15;
  /// percentageOfNodesToScore; 0: adaptive, max(5, 50 - nodes/125).
  int percentage = 100;
  /// Minimum size of a sample (100 upstream; tests of small worlds use less).
  std::size_t min_feasible = 100;
  /// From then on all nodes are examined: see docs/fault-search.md on samples and the queue.
  TimePoint samples_end = std::numeric_limits<TimePoint>::max();
  /// Whether a failed attempt clears status.nominatedNodeName.
  bool clears_nomination = true;
  bool preempts = true;
  /// Chance in percent, below 100, that an attempt, and each such call, is preceded by a call of
  /// filter for a placement that never happens.
  int trial_percent = 0;
  TimePoint trials_end = 0;  ///< No such calls from then on.
};

/// The pod's CPU request, or NodeResourcesFit's default if it has none.
std::int64_t AskedCpu(const kube::Pod& pod);
std::int64_t AskedMemory(const kube::Pod& pod);

/// One process of kube-scheduler.
class Scheduler {
 public:
  /// It sees what is in `env.api`. `writes` must outlive every event in `env`, the other references
  /// must outlive the scheduler.
  Scheduler(Environment& env, SchedulerOptions options, Extender& extender,
            SchedulerWrites& writes);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  WatchStream& stream(Kind kind) {
    if (kind == Kind::kBudget) return *budgets_watch_;
    return kind == Kind::kNode ? *nodes_watch_ : *pods_watch_;
  }
  /// A claim that pods wait for was created (ApiServer::SetMissing).
  void OnClaimAdded();
  /// No pod is being tried, and none will be before something happens, or has waited for so long
  /// that it is tried in any case. Calls of bind may be parked.
  bool Idle() const;

  /// Called at the end of a scheduling cycle. `node` is empty if the pod fits nowhere; `equals`
  /// nodes had the best score, and one of them was drawn.
  std::function<void(const kube::Pod& pod, const std::string& node, std::int64_t equals)>
      on_attempt;
  /// Called when a preemption was accepted; set by the checker.
  std::function<void(const kube::Pod& preemptor, const std::string& node,
                     const std::vector<const kube::Pod*>& victims)>
      on_preemption;

 private:
  struct Refusal {
    Rejector by;
    std::string_view reason;   ///< Lives as long as the scheduler.
    bool evicts_help = false;  ///< The pod might fit if some of the pods on the node were gone.
  };
  /// Amounts by resource, see IdOf; ids beyond the end count as 0.
  using Amounts = std::vector<std::int64_t>;
  struct NodeState {
    std::shared_ptr<const kube::Node> node;  ///< Null: pods are bound there, but there is no Node
                                             ///< object yet.
    Amounts allocatable;
    Amounts requested;
    /// Use of CPU and memory, with NodeResourcesFit's defaults where a pod has no request.
    std::int64_t cpu = 0;
    std::int64_t memory = 0;
    std::map<std::string, const kube::Pod*> held;  ///< Pods that occupy room here, by UID.
  };
  struct Held {  ///< A pod that occupies room: assigned to its node, or assumed to be soon.
    std::shared_ptr<const kube::Pod> pod;
    std::string node;
    bool assumed = false;
  };
  using Victims = std::vector<const kube::Pod*>;
  struct Eviction {
    Victims victims{};
    std::int64_t violations = 0;  ///< Victims whose eviction a PodDisruptionBudget forbids.
  };
  /// One pod's requests, looked up once for all nodes.
  struct Asked {
    const kube::Pod& pod;
    std::vector<std::pair<std::size_t, std::int64_t>> requests;  ///< Resource id and amount, above
                                                                 ///< 0.
  };
  /// One scheduling cycle.
  struct Cycle {
    std::shared_ptr<const kube::Pod> pod;
    std::map<std::string_view, int> reasons{};
    std::string extender_reason{};             ///< The text that `reasons` refers to.
    std::vector<std::string> unschedulable{};  ///< Nodes that the pod might fit after evictions.
    Rejectors rejectors = 0;
  };

  void OnPod(const std::shared_ptr<const kube::Pod>& pod);
  void OnPodGone(const std::string& uid, const Change& last);
  void Release(const kube::Pod& nominated);
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
  void Assume(const std::shared_ptr<Cycle>& cycle, const std::string& node,
              std::int64_t equals = 1);
  void BindFailed(const std::shared_ptr<const kube::Pod>& pod, const std::string& error);
  void NoFit(const std::shared_ptr<Cycle>& cycle);
  void Fail(const kube::Pod& pod, Rejectors rejectors, const std::string& message,
            std::optional<std::string> nominate = std::string());
  void EndCycle();

  std::size_t IdOf(const std::string& resource);
  Asked AskedBy(const kube::Pod& pod);
  std::int64_t RequestedOn(const NodeState& state, const std::string& resource) const;
  /// Which plugin refuses the node, computed as if the pods `without`, which the node holds, were
  /// gone. nullopt: the pod fits.
  std::optional<Refusal> Refuse(const Asked& asked, const NodeState& state,
                                const Victims& without = {}) const;
  std::optional<Refusal> RefuseByRoom(const Asked& asked, const NodeState& state,
                                      const Victims& without) const;
  // scheduler_neighbours.cc
  std::optional<Refusal> RefuseByNeighbours(const Asked& asked, const NodeState& state,
                                            const Victims& without) const;
  std::optional<Refusal> RefuseAmong(
      const Asked& asked, const kube::Node& node,
      const std::vector<std::pair<const kube::Pod*, const kube::Node*>>& neighbours) const;
  bool Managed(const kube::Pod& pod) const;
  std::size_t SampleSize() const;

  // scheduler_score.cc
  std::vector<std::int64_t> Scores(const kube::Pod& pod,
                                   const std::vector<const NodeState*>& nodes) const;
  std::int64_t ResourceScore(const kube::Pod& pod, const NodeState& state) const;

  // scheduler_trials.cc
  void Begin(const std::shared_ptr<Cycle>& cycle);
  std::vector<std::string> SomeNodes();

  // scheduler_preemption.cc
  void Preempt(const std::shared_ptr<Cycle>& cycle, const std::string& message);
  engine::VictimMap Candidates(const Cycle& cycle);
  std::vector<bool> Violates(const Victims& pods) const;
  Eviction DryRun(const Asked& asked, const NodeState& state) const;
  std::string PickVictims(const engine::VictimMap& candidates) const;
  void Evict(const kube::Pod& preemptor, const std::string& node,
             const std::vector<std::string>& uids);

  Environment& env_;
  const SchedulerOptions options_;
  Extender& extender_;
  SchedulerWrites& writes_;
  Life life_;
  SchedulingQueue queue_;
  struct Resource {
    std::string name;
    std::string insufficient;
  };
  std::deque<Resource> resources_;  ///< A deque, because refusals point to its elements.
  std::map<std::string, NodeState> nodes_;
  std::unordered_map<std::string, Held> held_;  ///< By UID.
  std::int64_t repellers_ = 0;                  ///< How many of the pods in `held_` have required
                                                ///< anti-affinity.
  std::map<std::int32_t, std::int64_t> priorities_;  ///< How many of the pods in `held_` have each.
  std::size_t next_start_ = 0;                       ///< nextStartNodeIndex.
  std::map<std::string, std::shared_ptr<const kube::PodDisruptionBudget>> budgets_;  ///< By UID.
  int unsynced_ = 2;
  bool busy_ = false;
  TimePoint kicked_ = -1;
  std::uint64_t kick_turn_ = 0;
  std::unique_ptr<WatchStream> nodes_watch_;
  std::unique_ptr<WatchStream> pods_watch_;
  std::unique_ptr<WatchStream> budgets_watch_;  ///< Null: there are none.
};

}  // namespace berth::sim
