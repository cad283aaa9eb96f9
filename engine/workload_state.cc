#include "engine/workload_state.h"

namespace berth::engine {

const WorkloadState& States::At(const cluster::Workload& workload) const {
  static const WorkloadState kNothing;
  const auto it = workloads_.find(&workload);
  return it == workloads_.end() ? kNothing : it->second;
}

const MemberState& States::At(const cluster::PodInfo& pod) const {
  static const MemberState kNothing;
  const auto it = pods_.find(&pod);
  return it == pods_.end() ? kNothing : it->second;
}

void States::RemoveMember(const cluster::Workload& workload, const cluster::PodInfo& pod) {
  const auto it = workloads_.find(&workload);
  if (it != workloads_.end() && it->second.plan) it->second.plan->Remove(pod);
}

void States::BeginIncarnation(const cluster::Workload& workload) {
  const auto it = workloads_.find(&workload);
  if (it == workloads_.end()) return;
  WorkloadState& state = it->second;
  state.failures = 0;
  state.hold_until = 0;
  state.gathered = 0;
}

}  // namespace berth::engine
