// What the engine decided for workloads and their members, as opposed to what is observed of them
// (cluster/model.h). Only the engine writes it. It is lost with the process, except for what
// recovery.cc reads from the claims of pods.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/store.h"
#include "engine/phases.h"

namespace berth::engine {

using cluster::TimePoint;

/// One member's part of a plan.
struct Assignment {
  const cluster::PodInfo* pod = nullptr;
  cluster::NodeIndex node = cluster::kNoNode;
  int rank = 0;
  bool managed = true;  ///< kube-scheduler asks us about it, so it arrives at the barrier.
  /// How far it has come: Reserved, Released or Arrived. Binding and Bound are in the ledger.
  MemberPhase phase = MemberPhase::kReserved;
  bool answered = false;         ///< Filter answered its node at least once.
  bool nomination_seen = false;  ///< The informer showed our nomination after release.
  std::string condition{};       ///< PodScheduled's message at release: identifies a new refusal.
  std::string bind_error{};      ///< What the API server said when it last refused the Binding.
  TimePoint held_until = 0;      ///< It stays Reserved until then; 0: no pause.
  TimePoint expires = 0;         ///< For a member that joined a started gang; 0: with the plan.

  bool arrived() const { return phase == MemberPhase::kArrived; }
  /// Other members must come before it.
  bool waits_turn() const { return managed && phase == MemberPhase::kReserved && held_until == 0; }
};

/// A placement of a whole workload, charged in the ledger. It has no effect until its members come
/// to bind. Its id is Workload::plan.
struct Plan {
  std::vector<Assignment> assignments;
  int barrier = 0;       ///< Managed members that must arrive before any is bound.
  bool started = false;  ///< The minimum arrived; it no longer expires.
  /// UIDs of pods that were evicted for it and still fill its room. The nodes are overfull until
  /// those pods have ended.
  std::vector<std::string> victims;
  int replans = 0;
  TimePoint made = 0;
  TimePoint expires = 0;  ///< If started: members not bound by then are released once more.

  /// How many members have come to bind.
  int Arrived() const {
    return static_cast<int>(
        std::ranges::count_if(assignments, [](const Assignment& a) { return a.arrived(); }));
  }
  /// Removes `pod` from the plan, if it has a place there.
  void Remove(const cluster::PodInfo& pod) {
    std::erase_if(assignments, [&pod](const Assignment& a) { return a.pod == &pod; });
  }
};

/// The state of a gang, or of a single pod.
struct WorkloadState {
  std::optional<Plan> plan;
  /// Why it has no plan; kStarting: it has or had one; kNone: it was not judged since.
  cluster::Verdict verdict;
  int failures = 0;          ///< Consecutive plans that were dissolved.
  TimePoint hold_until = 0;  ///< No plan before this time; 0: no pause.
  TimePoint pending_since = 0;
  /// For an elastic gang that has its minimum: `gathered` is its number of members when it last
  /// grew, `settled_at` is the time until which it waits for more (0: it does not wait), and
  /// `settled_at_most` is the upper limit of that time.
  int gathered = 0;
  TimePoint settled_at = 0;
  TimePoint settled_at_most = 0;
};

/// The state of one pod.
struct MemberState {
  /// The reason for its refusal that the last Event reported.
  cluster::ReasonId told = cluster::ReasonId::kNone;
  bool asked = false;      ///< Refused by filter since its last release: needs a wake-up.
  bool called = false;     ///< kube-scheduler has asked about it, whatever the policy says.
  TimePoint bound_at = 0;  ///< When it was seen to be bound; 0: not yet, or bound before we looked.
};

/// The states of all workloads and pods that the store knows. References stay valid until the
/// workload, or the pod, is gone.
class States {
 public:
  WorkloadState& operator[](const cluster::Workload& workload) { return workloads_[&workload]; }
  MemberState& operator[](const cluster::PodInfo& pod) { return pods_[&pod]; }
  /// The state before any decision, if there is no entry.
  const WorkloadState& At(const cluster::Workload& workload) const;
  const MemberState& At(const cluster::PodInfo& pod) const;

  /// `pod` has left `workload`.
  void RemoveMember(const cluster::Workload& workload, const cluster::PodInfo& pod);
  /// See Store::BeginIncarnation.
  void BeginIncarnation(const cluster::Workload& workload);
  void Forget(const cluster::Workload& workload) { workloads_.erase(&workload); }
  void Forget(const cluster::PodInfo& pod) { pods_.erase(&pod); }

 private:
  std::unordered_map<const cluster::Workload*, WorkloadState> workloads_;
  std::unordered_map<const cluster::PodInfo*, MemberState> pods_;
};

}  // namespace berth::engine
