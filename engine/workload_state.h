// What the engine decided for workloads and their members, as opposed to what is observed of them
// (cluster/model.h). Only the engine writes it. It is lost with the process, except for what
// recovery.cc reads from the claims of pods.
#pragma once

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/store.h"
#include "engine/actions.h"
#include "engine/evicted_jobs.h"
#include "engine/phases.h"
#include "policy/claims.h"

namespace berth::engine {

using cluster::TimePoint;

/// One member's part of a plan.
struct Assignment {
  const cluster::PodInfo* pod = nullptr;
  cluster::NodeIndex node = cluster::kNoNode;
  int rank = 0;
  /// kube-scheduler asks us about it, so it arrives at the barrier. See Assignments::SetManaged.
  bool managed = true;
  /// How far it has come: Reserved, Released or Arrived. Binding and Bound are in the ledger. See
  /// Assignments::SetPhase.
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

/// The members' parts of a plan, in the order in which they were planned. What is asked for each
/// member is known without a look at the others: a gang of thousands costs in proportion to its
/// size.
class Assignments {
 public:
  Assignments() = default;
  Assignments(const Assignments&) = delete;
  Assignments& operator=(const Assignments&) = delete;
  Assignments(Assignments&&) = default;
  Assignments& operator=(Assignments&&) = default;
  ~Assignments() = default;

  /// REQUIRES: the pod has no place yet. References stay valid until the place is removed.
  Assignment& Add(Assignment place);
  /// Null: the pod has no place.
  Assignment* Find(const cluster::PodInfo& pod);
  const Assignment* Find(const cluster::PodInfo& pod) const;
  void Remove(const cluster::PodInfo& pod);
  template <typename Which>
  void RemoveIf(const Which& which) {
    for (auto at = list_.begin(); at != list_.end();) {
      const Assignment& place = *at++;
      if (which(place)) Remove(*place.pod);
    }
  }
  void SetPhase(Assignment& place, MemberPhase phase);
  void SetManaged(Assignment& place);

  std::size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

  /// How many have come to bind.
  int arrived() const { return arrived_; }
  /// Managed members that are released and have not come yet.
  int on_their_way() const { return on_their_way_; }
  /// Managed members that are not released.
  int reserved() const { return reserved_; }
  /// False: no member has, or had, affinity, anti-affinity or spread.
  bool constrained() const { return constrained_; }

 private:
  void Count(const Assignment& place, int by);

  std::list<Assignment> list_;
  std::unordered_map<const cluster::PodInfo*, std::list<Assignment>::iterator> by_pod_;
  int arrived_ = 0;
  int on_their_way_ = 0;
  int reserved_ = 0;
  bool constrained_ = false;
};

/// How far Berth is with the evictions for a plan. While victims are there, no member is released.
enum class Evicting : std::uint8_t {
  kNo,      ///< No pod is evicted, or kube-scheduler evicts.
  kDryRun,  ///< It is asked whether all evictions would be done.
  kWarned,  ///< The victims know when they are to be evicted, or others have just ended. After
            ///< that time all is judged again.
  kSent,    ///< The evictions are under way or done: the room is the plan's until its members are
            ///< bound, or until it is inherited.
};

/// They are asked for, or announced, and may come to nothing yet: the plan comes after the others,
/// with its places.
constexpr bool IsUnsent(Evicting stage) {
  return stage == Evicting::kDryRun || stage == Evicting::kWarned;
}

/// What a victim is told once its eviction is accepted: the pod may be gone by then.
struct EvictionNotice {
  EmitEvent event;
  std::optional<EvictedJobs::Job> job;  ///< It comes back. None: its gang goes on.
  std::string gang{};         ///< The key of its gang, if that is evicted as a whole; else empty.
  std::string incarnation{};  ///< Of the gang.
};

/// Evictions for one plan, or of one job whose queue is drained, and what has become of them.
struct Evictions {
  /// Names them to the host (EvictPod::id). It is no plan's id: all that a gang does in one
  /// incarnation is one plan.
  std::string id{};
  Evicting stage = Evicting::kNo;
  /// UIDs of pods of whose eviction no answer has come, and keys of objects that are looked for
  /// (KeyOf).
  std::set<std::string> unanswered{};
  std::set<std::string> accepted{};  ///< UIDs of pods whose eviction was accepted, as the answer
                                     ///< said; our watch may show it later.
  std::map<std::string, EvictionNotice> notices{};  ///< By UID, for evictions that were sent.
  /// Gangs of which a member was evicted, so that all of them must be: their incarnations by key.
  std::map<std::string, std::string> begun{};
};

/// A placement of a whole workload, or of members that join a gang that runs, charged in the
/// ledger. It has no effect until its members come to bind. Its id is Workload::plan.
struct Plan {
  Assignments assignments;
  /// It is for members that the minimum of a gang that runs lacks, and others end for them.
  bool joins = false;
  int barrier = 0;  ///< Managed members that must arrive before any is bound.
  /// The minimum arrived, or the gang ran before and its members need not wait any more: it no
  /// longer expires.
  bool started = false;
  /// UIDs of pods that are evicted for it, or end anyway, and still fill its room. The nodes are
  /// overfull until those pods have ended.
  std::vector<std::string> victims;
  Evictions evictions;
  /// Pods that were evicted for plans which then gave their room up for this one.
  std::size_t inherited = 0;
  std::set<std::string> reclaimed;  ///< UIDs of victims in other queues.
  std::set<std::string> surplus;    ///< UIDs of victims whose gangs go on with their minimum.
  /// The queues that the evictions leave below their floors, until the first one is accepted.
  std::vector<policy::Undercut> undercut;
  TimePoint victim_gone_at = 0;  ///< When the last one of the victims so far was gone.
  int replans = 0;
  TimePoint made = 0;
  TimePoint expires = 0;  ///< If started: members not bound by then are released once more.

  /// Whether kube-scheduler evicts for it.
  bool by_scheduler() const { return evictions.stage == Evicting::kNo && !victims.empty(); }
};

/// MemberState::victim_of of pods that are evicted because their queue is drained.
inline constexpr std::string_view kDrain = "drain";

/// The state of a gang, or of a single pod.
struct WorkloadState {
  std::optional<Plan> plan;
  /// Why it has no plan; kStarting: it has or had one; kNone: it was not judged since.
  cluster::Verdict verdict;
  int failures = 0;           ///< Consecutive plans that were dissolved.
  TimePoint hold_until = 0;   ///< No plan before this time; 0: no pause.
  int evicted_in_vain = 0;    ///< Consecutive plans that evicted, and kube-scheduler did not take.
  TimePoint evicts_from = 0;  ///< No pod is evicted for it before this time; 0: no limit.
  /// Why: the object that a pod of it needs, and that there is none of; nullopt: kube-scheduler did
  /// not take it when pods had been evicted for it.
  std::optional<kube::NeededObject> lacks{};
  TimePoint evicts_at_most = 0;  ///< It waits for others that end until then, and not longer.
  /// The time of its victims was over when it was planned the last time, and it was not judged
  /// since.
  bool warnings_over = false;
  /// Pods that were evicted for its last plan. That plan ended so that others go instead of pods
  /// that may not be evicted; these count for the next plan.
  std::size_t evicted_before = 0;
  TimePoint pending_since = 0;
  /// For an elastic gang that has its minimum: `gathered` is its number of members when it last
  /// grew, `settled_at` is the time until which it waits for more (0: it does not wait), and
  /// `settled_at_most` is the upper limit of that time.
  int gathered = 0;
  TimePoint settled_at = 0;
  TimePoint settled_at_most = 0;
  /// It starts, or gets members beyond its minimum, no sooner: pods end, and other work comes first
  /// that is entitled to their room. 0: at any time.
  TimePoint starts_from = 0;
  TimePoint starts_at_most = 0;  ///< It waits so until then, and not longer.
  bool gives_claim = false;      ///< It waits because of Engine::GivesClaim.
  /// Where the first of its pods had room when that was looked for last; empty: nowhere.
  std::vector<cluster::NodeIndex> room_seen{};
  /// The Store::free_generation, plus 1, at which it was found that it cannot start; 0: it was not.
  std::uint64_t no_room_since = 0;
  /// Its members are evicted, all of them: none gets a place until the last one begins to end.
  bool evicted = false;
  /// How often Berth has evicted the job before, and the age that orders it if that is older than
  /// its pods (evicted_jobs.h).
  Evicted before{};

  /// Whether there is a time before which it does not start, whatever room there is.
  bool Pauses(TimePoint now) const { return std::max({hold_until, settled_at, starts_from}) > now; }
  /// Whether that is only because it was evicted, and has just come back.
  bool BacksOff(TimePoint now) const {
    return hold_until > now && before.times > 0 && failures == 0 &&
           std::max(settled_at, starts_from) <= now;
  }
};

/// The state of one pod.
struct MemberState {
  /// The reason for its refusal that the last Event reported.
  cluster::ReasonId told = cluster::ReasonId::kNone;
  bool asked = false;   ///< Refused by filter since its last release: needs a wake-up.
  bool called = false;  ///< kube-scheduler has asked about it, whatever the policy says.
  /// The key of the workload for whose plan it is evicted; kDrain: for none; empty: it stays.
  std::string victim_of{};
  bool drained = false;  ///< It is evicted for a drain, or tried dry, and that was not refused.
  TimePoint spared_until = 0;  ///< No victim before that: its eviction was refused.
  TimePoint evict_at = 0;      ///< It was told that it is evicted then; 0: it was not told.
  TimePoint bound_at = 0;  ///< When it was seen to be bound; 0: not yet, or bound before we looked.
  bool succeeded = false;  ///< The store has it as it was before that: it is about to be gone.
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

  /// Sets MemberState::victim_of, and nothing else does. Ends MemberState::drained.
  void SetVictim(const cluster::PodInfo& pod, std::string of);
  /// Sets MemberState::drained.
  void NoteDrained(const cluster::PodInfo& pod);
  /// How often either was set.
  std::uint64_t victim_changes() const { return victim_changes_; }

  /// About `pods` pods will come: makes the tables large enough for them.
  void Expect(std::size_t pods);
  /// `pod` has left `workload`.
  void RemoveMember(const cluster::Workload& workload, const cluster::PodInfo& pod);
  /// See Store::BeginIncarnation.
  void BeginIncarnation(const cluster::Workload& workload);
  void Forget(const cluster::Workload& workload) { workloads_.erase(&workload); }
  void Forget(const cluster::PodInfo& pod) { pods_.erase(&pod); }

 private:
  std::unordered_map<const cluster::Workload*, WorkloadState> workloads_;
  std::unordered_map<const cluster::PodInfo*, MemberState> pods_;
  std::uint64_t victim_changes_ = 0;
};

}  // namespace berth::engine
