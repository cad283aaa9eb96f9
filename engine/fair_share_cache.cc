#include "engine/fair_share_cache.h"

namespace berth::engine {

const policy::FairShareTable& FairShareCache::Now(const cluster::Store& store, const States& states,
                                                  TimePoint now) {
  const Generation generation{store.generation(), store.policy_generation()};
  if (generation_ == generation) return shares_;
  policy::QueueDemands demands;
  for (const auto& [key, workload] : store.workloads()) {
    // What no node could ever hold is no demand.
    const bool placeable = states.At(workload).verdict.reason != cluster::ReasonId::kNeverFits;
    demands.Add(store, workload, placeable);
  }
  shares_ = policy::FairShareTable(store, demands);
  generation_ = generation;
  computed_ = true;
  const std::size_t workloads = store.workloads().size();
  fresh_until_ = now + (workloads < kFew ? 0 : static_cast<TimePoint>(workloads / 5));
  return shares_;
}

const policy::FairShareTable& FairShareCache::Recent(const cluster::Store& store,
                                                     const States& states, TimePoint now) {
  return now < fresh_until_ ? shares_ : Now(store, states, now);
}

}  // namespace berth::engine
