// What was decided for workloads and their members, apart from what is observed of them
// (cluster/model.h). The engine is its one writer; it ends with the process, but for what
// recovery.cc reads from the claims of pods.
#pragma once

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
  bool managed = true;  ///< kube-scheduler asks us about it: it comes to the barrier.
  /// Reserved, Released or Arrived: how far it has come. Binding and Bound are in the ledger.
  MemberPhase phase = MemberPhase::kReserved;
  bool answered = false;         ///< Filter answered its node at least once.
  bool nomination_seen = false;  ///< The informer showed our nomination after release.
  std::string condition{};       ///< PodScheduled's message at release: tells a new refusal apart.
  std::string bind_error{};      ///< What the API server said when it last refused the Binding.
  TimePoint held_until = 0;      ///< Reserved until then; 0: there is no pause.
  TimePoint expires = 0;         ///< Of a member that joined a started gang; 0: with the plan.

  bool arrived() const { return phase == MemberPhase::kArrived; }
  /// Others must come before it.
  bool waits_turn() const { return managed && phase == MemberPhase::kReserved && held_until == 0; }
};

/// A placement of a whole workload, charged in the ledger. Inert until its members come to bind.
/// Its id is Workload::plan.
struct Plan {
  std::vector<Assignment> assignments;
  int barrier = 0;         ///< Managed members that must arrive before any is bound.
  bool committed = false;  ///< The minimum arrived: no expiry any more.
  /// Pods that were evicted for it and still fill its room, by UID: overfull until they have ended.
  std::vector<std::string> victims;
  int replans = 0;
  TimePoint made = 0;
  TimePoint expires = 0;  ///< Committed: when what is not bound by then is released once more.

  /// `pod` has no place in it any more, if it had one.
  void Remove(const cluster::PodInfo& pod) {
    std::erase_if(assignments, [&pod](const Assignment& a) { return a.pod == &pod; });
  }
};

/// Of a gang, or of one pod on its own.
struct WorkloadState {
  std::optional<Plan> plan;
  /// Why it has no plan; kStarting: it has, or had, one; kNone: it was not judged since.
  cluster::Verdict verdict;
  int failures = 0;          ///< Plans that dissolved in a row.
  TimePoint hold_until = 0;  ///< No plan before this; 0: no pause.
  TimePoint pending_since = 0;
  /// Of an elastic gang that has its minimum: members that it had when it last grew, until when it
  /// waits for more (0: it does not), and until when at most.
  int gathered = 0;
  TimePoint settled_at = 0;
  TimePoint settled_at_most = 0;
};

/// Of one pod.
struct MemberState {
  /// Of its refusal, what an Event said last.
  cluster::ReasonId told = cluster::ReasonId::kNone;
  bool asked = false;      ///< Refused by filter since its last release: needs a wake-up.
  bool called = false;     ///< kube-scheduler has asked about it, whatever the policy says.
  TimePoint bound_at = 0;  ///< Seen to be bound then; 0: not, or before we looked.
};

/// The states of all workloads and pods that the store knows. References stay valid until the
/// workload, or the pod, is gone.
class States {
 public:
  WorkloadState& operator[](const cluster::Workload& workload) { return workloads_[&workload]; }
  MemberState& operator[](const cluster::PodInfo& pod) { return pods_[&pod]; }
  /// As it is before anything was decided, where nothing was.
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
