#include "engine/fair_share_cache.h"

#include <algorithm>
#include <map>

#include "policy/rank_order.h"
#include "policy/shortage.h"

namespace berth::engine {

using cluster::ReasonId;

/// What no node could ever hold is no demand: as it was judged last, or, where it was not judged
/// yet, as it will be. After a start all work is in line, and the first in line may have claims.
bool FairShareCache::IsPlaceable(const cluster::Workload& workload) const {
  const ReasonId reason = states_->At(workload).verdict.reason;
  if (reason != ReasonId::kNone || workload.queue == cluster::kNoQueue) {
    return reason != ReasonId::kNeverFits;
  }
  const int missing = workload.Missing();
  if (missing <= 0) return true;
  std::vector<const cluster::PodInfo*> pods = policy::RankOrder(workload.Unplaced());
  if (std::ssize(pods) > missing) pods.resize(static_cast<std::size_t>(missing));
  return !policy::NeverFits(pods, *store_, *fit_);
}

const policy::FairShareTable& FairShareCache::Now(TimePoint now) {
  const Generation generation{store_->generation(), store_->policy_generation()};
  if (generation_ == generation) return shares_;
  demands_ = {};
  for (const auto& [key, workload] : store_->workloads()) {
    demands_.Add(*store_, workload, IsPlaceable(workload));
  }
  shares_ = policy::FairShareTable(*store_, demands_);
  generation_ = generation;
  ++renewals_;
  const std::size_t workloads = store_->workloads().size();
  fresh_until_ = now + (workloads < kFew ? 0 : static_cast<TimePoint>(workloads / 5));
  return shares_;
}

const policy::FairShareTable& FairShareCache::Recent(TimePoint now) {
  return now < fresh_until_ ? shares_ : Now(now);
}

policy::FairShareTable FairShareCache::Without(TimePoint now,
                                               const policy::QueueDemands::PodSet& given_up) {
  Now(now);
  std::map<const cluster::Workload*, policy::QueueDemands::PodSet> by_workload;
  for (const cluster::PodInfo* pod : given_up) by_workload[pod->workload].insert(pod);
  policy::QueueDemands demands = demands_;
  for (const auto& [workload, pods] : by_workload) {
    demands.GiveUp(*store_, *workload, IsPlaceable(*workload), pods);
  }
  return {*store_, demands};
}

}  // namespace berth::engine
