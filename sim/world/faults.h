// What can go wrong in the simulated world, when it does, and which of it is going on now.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/random.h"
#include "sim/world/timeline.h"

namespace berth::sim {

enum class FaultKind : std::uint8_t {
  // Berth's requests to the API server, each by chance while the fault lasts.
  kApiThrottled,    ///< 429, nothing done.
  kApiError,        ///< 500, nothing done.
  kApiErrorAfter,   ///< 500 although the write took effect.
  kApiRequestLost,  ///< No answer, nothing done.
  kApiAnswerLost,   ///< No answer, the write took effect.
  kApiSlow,         ///< Seconds instead of milliseconds.
  // Watches: of Berth or of kube-scheduler, one kind.
  kWatchBreak,      ///< Ends; resumes later where it was.
  kWatchExpire,     ///< Ends; 410: all is listed anew, deletions are found by absence.
  kWatchSlow,       ///< Falls seconds behind the other kinds.
  kWatchDuplicate,  ///< Says things twice.
  // kube-scheduler's calls to Berth.
  kVerbSlow,   ///< Answers come late, some later than httpTimeout.
  kVerbReset,  ///< Connections break: before or after the call was carried out.
  // Processes.
  kBerthCrash,
  kBerthThreads,  ///< Berth's threads are slow: actions are carried out late and out of order.
  kSchedulerRestart,
  // The cluster.
  kNodeCordon,
  kNodeTaint,  ///< Not ready: NoSchedule and back.
  kNodeDelete,
  kDeviceHealth,   ///< Allocatable devices go down and come back.
  kPodDelete,      ///< Somebody deletes a member, bound or not: at the barrier too.
  kKubeletReject,  ///< Pods fail right after they were bound.
  kHiddenRefusal,  ///< kube-scheduler refuses a node for what Berth cannot know.
  kPolicyEdit,
  // What users write.
  kForgeClaim,       ///< berth.dev/plan of an unbound pod is overwritten.
  kForgeNomination,  ///< status.nominatedNodeName is overwritten.
  kForgeGate,        ///< Our gate is removed by somebody else.
  kForgeMember,      ///< A pod that contradicts its gang.
  // Aimed: what the kinds above hit too seldom by chance. Not in the profile `all`.
  kCrashInGang,   ///< Berth dies when a gang has some members bound and others not; now and then
                  ///< one of the others forges a claim while it is down.
  kClockJump,     ///< The clock that Berth's next process starts with is minutes off.
  kWatchOutage,   ///< Berth hears nothing of pods, for longer than its plans may live.
  kLeaseBlocked,  ///< The leader's calls about its Lease are lost, or their answers.
  kLeaseStolen,   ///< Somebody writes another holder into the Lease.
  kLeaseDeleted,
  kPassthrough,   ///< The policy says that Berth lets everything through.
  kQueuesChange,  ///< A queue is gone, or one more is there.
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kQueuesChange) + 1;
std::string_view Name(FaultKind kind);

struct Fault {
  TimePoint at = 0;
  FaultKind kind = FaultKind::kApiThrottled;
  Duration lasts = 0;
  std::uint64_t choice = 0;  ///< Picks what it hits: a node, a pod, a stream.
  std::string ToString() const;
};

/// A named group of faults; see docs/fault-search.md.
struct Profile {
  std::string_view name;
  std::vector<FaultKind> kinds;
  int replicas = 1;      ///< Of Berth.
  bool budgets = false;  ///< PodDisruptionBudgets, and much that wants to evict.
  bool mixed = false;    ///< See mixed.h.
  /// A pass judges a workload or a few, as it does in a cluster that is a thousand times as large.
  bool short_passes = false;
};
const std::vector<Profile>& Profiles();
const Profile* FindProfile(std::string_view name);

/// Faults of this profile by time, each in one of the waves: within `width` of its start.
std::vector<Fault> DrawFaults(const Profile& profile, const std::vector<TimePoint>& waves,
                              Duration width, Random& random);

/// What is going on now of the faults that last.
class Weather {
 public:
  explicit Weather(const Timeline& timeline) : timeline_(timeline) {}

  void Begin(const Fault& fault);
  /// All ends now.
  void Clear() { going_on_.clear(); }
  /// Null: not now.
  const Fault* Now(FaultKind kind) const;
  bool Is(FaultKind kind) const { return Now(kind) != nullptr; }

  /// A fault of this kind has changed something: an answer was lost, a node fell ill.
  void Struck(FaultKind kind) { ++struck_[static_cast<std::size_t>(kind)]; }
  /// How often, by kind.
  const std::array<int, kFaultKinds>& struck() const { return struck_; }

 private:
  const Timeline& timeline_;
  std::vector<Fault> going_on_;
  std::array<int, kFaultKinds> struck_{};
};

}  // namespace berth::sim
