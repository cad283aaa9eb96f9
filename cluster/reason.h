// Why a pod waits: one closed list of tokens, the same in answers, events, metrics, logs and `why`
// (CONTRACT "Why pending").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::cluster {

enum class ReasonId : std::uint8_t {
  kNone,
  kWaitingForMembers,
  kStarting,
  kNeverFits,
  kExceedsLimit,
  kWaitingForQuota,
  kInsufficientDevices,
  kInsufficientCpuOrMemory,
  kNoMatchingNodes,
  kFragmented,
  kTopologyUnsatisfied,
  kSearchExhausted,
  kBehindReservation,
  kWaitingForVictims,
  kRefusedByScheduler,
  kCoolingDown,
  kRecovering,
  kSuspended,
  kQueueHeld,
  kUnknownQueue,
  kQueueNotAllowed,
  kGangConflict,
  kInvalidRequest,
  kNodesNotOffered,
  kNotReady,
};

inline constexpr int kReasonCount = static_cast<int>(ReasonId::kNotReady) + 1;

/// The token, e.g. `WaitingForMembers`; empty for kNone.
std::string_view Token(ReasonId reason);

/// The text of a filter answer. Constant per reason, because otherwise the pod would re-queue
/// itself for ever. Starts with `berth: `.
std::string_view RefusalText(ReasonId reason);

/// A reason with its numbers. `want` and `have` are in the reason's own unit: members for
/// kWaitingForMembers, thousandths of a device for shortages and quota.
struct Verdict {
  ReasonId reason = ReasonId::kNone;
  std::int64_t want = 0;
  std::int64_t have = 0;
  /// The resource, queue or level that the reason is about; may be empty. For reasons that are
  /// about none of these (kWaitingForMembers, kStarting, kNeverFits, kWaitingForVictims,
  /// kRefusedByScheduler, kCoolingDown, and refusals of a pod): the whole sentence, if it is not
  /// the usual one.
  std::string subject{};
  /// For quota: the queue on the path whose cap decides; empty: the workload's own.
  std::string queue{};
  /// For quota: the user who has as many jobs as the workload's own queue allows. `want` is how
  /// many it allows, `have` how many hold devices. Empty: it is about a resource.
  std::string user{};
  /// Nor would it fit if all nodes were empty: it waits for other nodes or another policy.
  bool never = false;

  bool operator==(const Verdict&) const = default;
};

/// One sentence for people, with the numbers.
std::string Sentence(const Verdict& verdict);

}  // namespace berth::cluster
