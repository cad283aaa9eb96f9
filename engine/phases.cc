#include "engine/phases.h"

#include <algorithm>
#include <array>

#include "engine/workload_state.h"

namespace berth::engine {
namespace {

constexpr std::array<PhaseRow, 7> kPhaseTable{{
    {"Gathering", "fewer members exist than the minimum needs", "Pending, when enough exist",
     "the pods"},
    {"Pending", "enough members exist, and they hold nothing; its verdict says what it waits for",
     "Reserved, with a plan; Starting, with a plan that waits for nobody; Gathering, when a member "
     "goes",
     "the pods"},
    {"Reserved", "a plan holds room for its members, until it expires",
     "Starting, when the minimum has come to bind; Running, a lone pod, when it is bound; Pending "
     "or Gathering, when the plan dissolves",
     "nothing: a plan ends with the process that made it"},
    {"Starting", "the gang has started: whose call is parked is bound, the others keep their room",
     "Running, when the minimum is bound; Reserved, Pending or Gathering, as a new incarnation, "
     "when no member runs",
     "a bound member, and the claims of others under its plan"},
    {"Running", "at least the minimum is bound or has succeeded",
     "Starting, when it falls below the minimum; Evicting, for work of higher priority; Reserved, "
     "Pending or Gathering, as a new incarnation, when no member runs",
     "the bound members"},
    {"Evicting",
     "all its members are evicted for other work, not its surplus alone; until the last one begins "
     "to end, no member gets "
     "a place",
     "Pending or Gathering, as a new incarnation, when all end; Running, when the evictions are "
     "given up",
     "a member that ends with the annotation `berth.dev/evicted-for`, not as surplus"},
    {"Delegated", "kube-scheduler starts it whole (`spec.schedulingGroup`)",
     "none: it is released when its queue has the quota", "the pods"},
}};

constexpr std::array<PhaseRow, 7> kMemberPhaseTable{{
    {"Waiting", "it has no place in a plan",
     "Reserved; Binding, where Berth does not plan (passthrough, Delegated)", "the pod"},
    {"Reserved",
     "room is held for it; it is not released: its turn, the end of a pause or that of pods which "
     "are evicted for it comes first, or, where kube-scheduler never asks about it, the start of "
     "its gang",
     "Released; Waiting, when its place is given up",
     "nothing: a member whose claim is honoured comes back as Released"},
    {"Released", "nominated, and its gate removed: kube-scheduler tries it on its node",
     "Arrived; Reserved, when its node refuses it; Bound, where kube-scheduler never asks about "
     "it; Waiting, when its place is given up",
     "its claim, if a bound member carries the same plan and the room is free"},
    {"Arrived",
     "it has come to bind, and its call is parked until the minimum has; its arrival is counted",
     "Binding; Released, on another node or with a new incarnation; Reserved, when its node "
     "refuses it; Waiting, when its place is given up",
     "nothing"},
    {"Binding", "its Binding is posted, and the outcome not known",
     "Bound; Arrived or Waiting, when it did not take effect", "nothing: it is seen, or not"},
    {"Bound", "the API server has its node", "Leaving", "the pod"},
    {"Leaving", "it is being deleted: no member any more", "none", "the pod"},
}};

}  // namespace

std::span<const PhaseRow> PhaseTable() { return kPhaseTable; }
std::span<const PhaseRow> MemberPhaseTable() { return kMemberPhaseTable; }

Phase PhaseOf(const cluster::Workload& workload, const WorkloadState& state) {
  if (workload.in_tree) return Phase::kDelegated;
  if (state.evicted) return Phase::kEvicting;
  if (workload.started) {  // a Binding under way may still fail
    const auto bound = std::ranges::count_if(workload.members, &cluster::PodInfo::bound);
    return bound + workload.finished < workload.min_member ? Phase::kStarting : Phase::kRunning;
  }
  if (state.plan) return Phase::kReserved;
  const int exist = static_cast<int>(workload.members.size()) + workload.finished;
  return exist < workload.min_member ? Phase::kGathering : Phase::kPending;
}

MemberPhase MemberPhaseOf(const cluster::PodInfo& pod, const Assignment* assignment) {
  if (pod.terminating()) return MemberPhase::kLeaving;
  if (pod.bound()) return MemberPhase::kBound;
  if (pod.charge == cluster::Charge::kBinding) return MemberPhase::kBinding;
  return assignment == nullptr ? MemberPhase::kWaiting : assignment->phase;
}

}  // namespace berth::engine
