#include "engine/workload_state.h"

#include <utility>

namespace berth::engine {

Assignment& Assignments::Add(Assignment place) {
  Count(place, 1);
  constrained_ |= place.pod->shape->has_pod_constraints;
  const auto at = list_.insert(list_.end(), std::move(place));
  by_pod_.emplace(at->pod, at);
  return *at;
}

Assignment* Assignments::Find(const cluster::PodInfo& pod) {
  return const_cast<Assignment*>(std::as_const(*this).Find(pod));
}

const Assignment* Assignments::Find(const cluster::PodInfo& pod) const {
  const auto at = by_pod_.find(&pod);
  return at == by_pod_.end() ? nullptr : &*at->second;
}

void Assignments::Remove(const cluster::PodInfo& pod) {
  const auto at = by_pod_.find(&pod);
  if (at == by_pod_.end()) return;
  Count(*at->second, -1);
  list_.erase(at->second);
  by_pod_.erase(at);
}

void Assignments::SetPhase(Assignment& place, MemberPhase phase) {
  Count(place, -1);
  place.phase = phase;
  Count(place, 1);
}

void Assignments::SetManaged(Assignment& place) {
  Count(place, -1);
  place.managed = true;
  Count(place, 1);
}

void Assignments::Count(const Assignment& place, int by) {
  if (place.arrived()) arrived_ += by;
  if (!place.managed) return;
  if (place.phase == MemberPhase::kReleased) on_their_way_ += by;
  if (place.phase == MemberPhase::kReserved) reserved_ += by;
}

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

void States::SetVictim(const cluster::PodInfo& pod, std::string of) {
  MemberState& state = pods_[&pod];
  state.victim_of = std::move(of);
  state.drained = false;
  ++victim_changes_;
}

void States::NoteDrained(const cluster::PodInfo& pod) {
  pods_[&pod].drained = true;
  ++victim_changes_;
}

void States::Expect(std::size_t pods) {
  workloads_.reserve(pods);
  pods_.reserve(pods);
}

void States::RemoveMember(const cluster::Workload& workload, const cluster::PodInfo& pod) {
  const auto it = workloads_.find(&workload);
  if (it != workloads_.end() && it->second.plan) it->second.plan->assignments.Remove(pod);
}

void States::BeginIncarnation(const cluster::Workload& workload) {
  const auto it = workloads_.find(&workload);
  if (it == workloads_.end()) return;
  WorkloadState& state = it->second;
  state.failures = 0;
  state.evicted_in_vain = 0;
  state.evicts_from = 0;
  state.hold_until = 0;
  state.gathered = 0;
  state.evicted = false;
  state.evicted_before = 0;
  state.before = {};
}

}  // namespace berth::engine
