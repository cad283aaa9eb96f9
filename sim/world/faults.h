// What can go wrong in the simulated world, when it does, and which faults are active.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/world/timeline.h"

namespace berth::sim {

/// What can go wrong. The names of the kinds in reports: Name().
enum class FaultKind : std::uint8_t {
  // Berth's requests to the API server; each is hit at random while the fault lasts.
  kApiThrottled,    ///< 429, without effect.
  kApiError,        ///< 500, without effect.
  kApiErrorAfter,   ///< 500, although the write took effect.
  kApiRequestLost,  ///< No answer, and the request has no effect.
  kApiAnswerLost,   ///< No answer, but the write took effect.
  kApiSlow,         ///< Takes seconds instead of milliseconds.
  // A watch of Berth or of kube-scheduler, of one kind.
  kWatchBreak,      ///< Ends; resumes later from where it was.
  kWatchExpire,     ///< Ends; 410: everything is listed again, deletions are found by absence.
  kWatchSlow,       ///< Falls seconds behind the other kinds.
  kWatchDuplicate,  ///< Delivers events twice.
  // kube-scheduler's calls to Berth.
  kVerbSlow,   ///< Answers come late, some later than httpTimeout.
  kVerbReset,  ///< Connections break: before or after the call was carried out.
  // Processes.
  kBerthCrash,
  kBerthThreads,  ///< Berth's threads are slow: orders are carried out late and out of order.
  kSchedulerRestart,
  // The cluster.
  kNodeCordon,
  kNodeTaint,  ///< The taint of a node that is not ready, NoSchedule; removed later.
  kNodeDelete,
  kDeviceHealth,   ///< Allocatable devices are reduced and later restored.
  kPodDelete,      ///< A member is deleted, bound or not, also while its bind call is parked.
  kKubeletReject,  ///< Pods fail right after they are bound.
  kHiddenRefusal,  ///< kube-scheduler refuses a node for a reason that Berth cannot know.
  kPolicyEdit,
  // What users write.
  kForgeClaim,       ///< berth.dev/plan of an unbound pod is overwritten.
  kForgeNomination,  ///< status.nominatedNodeName is overwritten.
  kForgeGate,        ///< Our gate is removed by another client.
  kForgeMember,      ///< A pod is created that contradicts its gang.
  // Aimed faults: situations that the kinds above produce too rarely by chance. Not in the profile
  // `all`.
  kCrashInGang,   ///< Berth is killed when a gang has some members bound and others not; sometimes
                  ///< one of the others gets a forged claim while it is down.
  kClockJump,     ///< The clock that Berth's next process starts with is off by minutes.
  kWatchOutage,   ///< Berth receives no pod events, for longer than its plans may live.
  kLeaseBlocked,  ///< The leader's requests for its Lease, or the answers, are lost.
  kLeaseStolen,   ///< Another holder is written into the Lease.
  kLeaseDeleted,
  kPassthrough,   ///< The policy makes Berth let everything through.
  kQueuesChange,  ///< A queue is removed, or one more is added.
  kFreeze,        ///< A process of Berth is frozen, at once or when it is about to send a write.
  kStaleList,     ///< Lists come from a cache that is behind.
  kFullQueues,    ///< The queues of Berth's writers have no room.
  kTreeEdit,      ///< Queues get other parents, or one above others another limit.
  kFlavorEdit,    ///< Queues get other amounts of flavors, or nodes other flavors.
  kBerthEnds,     ///< The leader of two replicas is told to end, as in an upgrade.
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kBerthEnds) + 1;
/// As reports of the fault search call it, for example `watch-break`.
std::string_view Name(FaultKind kind);

/// One fault of a day.
struct Fault {
  TimePoint at = 0;
  FaultKind kind = FaultKind::kApiThrottled;
  Duration lasts = 0;
  std::uint64_t choice = 0;  ///< Selects the target: a node, a pod, a stream.
  std::string ToString() const;
};

/// The lasting faults that are active now.
class ActiveFaults {
 public:
  /// `timeline` must outlive it.
  explicit ActiveFaults(const Timeline& timeline) : timeline_(timeline) {}

  /// Begins now, and is active for as long as `fault` says.
  void Begin(const Fault& fault);
  /// Ends all of them.
  void Clear() { active_.clear(); }
  /// Null: no fault of this kind is active.
  const Fault* Find(FaultKind kind) const;
  bool Has(FaultKind kind) const { return Find(kind) != nullptr; }

  /// A fault of this kind has had an effect: an answer was lost, a node became unhealthy.
  void TookEffect(FaultKind kind) { ++effects_[static_cast<std::size_t>(kind)]; }
  /// How often, by kind.
  const std::array<int, kFaultKinds>& effects() const { return effects_; }

 private:
  const Timeline& timeline_;
  std::vector<Fault> active_;
  std::array<int, kFaultKinds> effects_{};
};

}  // namespace berth::sim
