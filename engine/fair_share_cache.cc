#include "engine/fair_share_cache.h"

#include <map>

namespace berth::engine {
namespace {

/// What no node could ever hold is no demand.
bool IsPlaceable(const States& states, const cluster::Workload& workload) {
  return states.At(workload).verdict.reason != cluster::ReasonId::kNeverFits;
}

}  // namespace

const policy::FairShareTable& FairShareCache::Now(const cluster::Store& store, const States& states,
                                                  TimePoint now) {
  const Generation generation{store.generation(), store.policy_generation()};
  if (generation_ == generation) return shares_;
  demands_ = {};
  for (const auto& [key, workload] : store.workloads()) {
    demands_.Add(store, workload, IsPlaceable(states, workload));
  }
  shares_ = policy::FairShareTable(store, demands_);
  generation_ = generation;
  ++renewals_;
  const std::size_t workloads = store.workloads().size();
  fresh_until_ = now + (workloads < kFew ? 0 : static_cast<TimePoint>(workloads / 5));
  return shares_;
}

const policy::FairShareTable& FairShareCache::Recent(const cluster::Store& store,
                                                     const States& states, TimePoint now) {
  return now < fresh_until_ ? shares_ : Now(store, states, now);
}

policy::FairShareTable FairShareCache::Without(const cluster::Store& store, const States& states,
                                               TimePoint now,
                                               const policy::QueueDemands::PodSet& given_up) {
  Now(store, states, now);
  std::map<const cluster::Workload*, policy::QueueDemands::PodSet> by_workload;
  for (const cluster::PodInfo* pod : given_up) by_workload[pod->workload].insert(pod);
  policy::QueueDemands demands = demands_;
  for (const auto& [workload, pods] : by_workload) {
    demands.GiveUp(store, *workload, IsPlaceable(states, *workload), pods);
  }
  return {store, demands};
}

}  // namespace berth::engine
