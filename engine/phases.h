// The phases of a workload and of its members: one table each, in the order in which a workload or
// member passes through them. docs/architecture.md shows the same tables (a test compares them).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cluster/model.h"

namespace berth::engine {

struct Assignment;
struct WorkloadState;

enum class Phase : std::uint8_t {
  kGathering,
  kPending,
  kReserved,
  kStarting,
  kRunning,
  kEvicting,
  kDelegated,
};

enum class MemberPhase : std::uint8_t {
  kWaiting,
  kReserved,
  kReleased,
  kArrived,
  kBinding,
  kBound,
  kLeaving,
};

/// The description of one phase.
struct PhaseRow {
  std::string_view name;
  std::string_view means;
  std::string_view leaves_to;     ///< The next phases, each with its cause.
  std::string_view rebuilt_from;  ///< The source for the next process, or leader.
};

/// Indexed by Phase and by MemberPhase.
std::span<const PhaseRow> PhaseTable();
std::span<const PhaseRow> MemberPhaseTable();

Phase PhaseOf(const cluster::Workload& workload, const WorkloadState& state);
/// `assignment`: the pod's place in the plan of its workload; null: it has none.
MemberPhase MemberPhaseOf(const cluster::PodInfo& pod, const Assignment* assignment);

}  // namespace berth::engine
