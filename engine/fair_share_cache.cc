#include "engine/fair_share_cache.h"

#include <algorithm>
#include <limits>
#include <map>

#include "policy/rank_order.h"
#include "policy/shortage.h"

namespace berth::engine {

using cluster::ReasonId;
using cluster::Workload;

/// Whether its verdict says if some nodes could ever hold it. A gang that has just become complete
/// is not judged yet, and what it was told before is not about that. That it never fits holds until
/// nodes change: work that is judged before it may have a claim.
bool FairShareCache::IsJudged(const Workload& workload) const {
  const ReasonId reason = states_->At(workload).verdict.reason;
  if (reason == ReasonId::kNone) return false;
  if (reason == ReasonId::kNeverFits) {
    const auto known = known_.find(&workload);
    return known != known_.end() && known->second.judged_at == store_->object_changes().end();
  }
  return reason != ReasonId::kWaitingForMembers ||
         std::ssize(workload.Unplaced()) < std::max(1, workload.Missing());
}

/// What no node could ever hold is no demand: as it was judged last, or, where it was not judged
/// yet, as it will be. After a start all work is in line, and the first in line may have claims.
bool FairShareCache::IsPlaceable(const Workload& workload, policy::EmptyRoom& room) const {
  if (IsJudged(workload) || workload.queue == cluster::kNoQueue) {
    return states_->At(workload).verdict.reason != ReasonId::kNeverFits;
  }
  const int missing = workload.Missing();
  if (missing <= 0) return true;
  std::vector<const cluster::PodInfo*> pods = policy::RankOrder(workload.Unplaced());
  if (std::ssize(pods) > missing) pods.resize(static_cast<std::size_t>(missing));
  return !room.NeverFits(pods);
}

bool FairShareCache::IsPlaceable(const Workload& workload) const {
  policy::EmptyRoom room(*store_, *fit_);
  return IsPlaceable(workload, room);
}

void FairShareCache::Read(const Workload& workload) {
  Known& known = known_[&workload];
  demands_.Add(known.jobs, -1);
  known.placeable = IsPlaceable(workload);
  known.jobs = policy::JobsOf(*store_, workload, known.placeable);
  demands_.Add(known.jobs);
  const bool never = states_->At(workload).verdict.reason == ReasonId::kNeverFits;
  if (workload.Missing() == 0 || (IsJudged(workload) && !never)) {
    unjudged_.erase(&workload);
  } else {
    unjudged_.insert(&workload);
  }
}

/// What was known of a workload is taken off when it is read again: nothing of the old policy
/// stays.
void FairShareCache::ReadSome(std::size_t most) {
  if (HasRead()) return;
  const std::uint64_t policy = store_->policy_generation();
  if (std::exchange(reading_under_, policy) != policy) {
    read_upto_.clear();
    store_->TakeDemandNews();  // all are read
  }
  const auto& workloads = store_->workloads();
  auto next = workloads.upper_bound(read_upto_);
  for (; next != workloads.end() && most > 0; ++next, --most) {
    Read(next->second);
    read_upto_ = next->first;
  }
  if (next == workloads.end()) read_under_ = policy;
}

void FairShareCache::ReadChanged() {
  for (const Workload* workload : store_->TakeDemandNews()) Read(*workload);
  for (const Workload* workload : std::exchange(judged_, {})) Read(*workload);
  if (nodes_seen_ == store_->object_changes().end()) return;
  policy::EmptyRoom room(*store_, *fit_);
  std::vector<const Workload*> changed;
  for (const Workload* workload : unjudged_) {
    // What never fits adds nothing, whatever else the nodes have become.
    const bool placeable = IsPlaceable(*workload, room);
    if (placeable || known_.at(workload).placeable) changed.push_back(workload);
  }
  for (const Workload* workload : changed) Read(*workload);
}

policy::FairTree FairShareCache::TreeBy(const policy::QueueDemands& demands) const {
  policy::FairTree tree = demands.TreeOf(*store_);
  for (policy::FairQueue& queue : tree.queues) queue.used.clear();  // shares do not depend on it
  return tree;
}

const policy::FairShareTable& FairShareCache::Now(TimePoint now) {
  const Generation generation{store_->generation(), store_->policy_generation()};
  if (IsOfNow()) return shares_;
  const bool edited = generation_.second != generation.second;
  ReadSome(std::numeric_limits<std::size_t>::max());
  ReadChanged();
  nodes_seen_ = store_->object_changes().end();
  generation_ = generation;
  if (store_->reading()) {  // What changes meanwhile is not noted.
    generation_ = {};
    read_under_ = reading_under_ = kNoPolicy;
  }
  policy::FairTree tree = TreeBy(demands_);
  if (!edited && tree == tree_) return shares_;
  tree_ = std::move(tree);
  shares_ = policy::FairShareTable(*store_, tree_);
  ++renewals_;
  const std::size_t workloads = store_->workloads().size();
  fresh_until_ = now + (workloads < kFew ? 0 : static_cast<TimePoint>(workloads / 50));
  return shares_;
}

const policy::FairShareTable& FairShareCache::Recent(TimePoint now) {
  const bool edited = generation_.second != store_->policy_generation();
  return now < fresh_until_ && !edited ? shares_ : Now(now);
}

bool FairShareCache::IsOfNow() const {
  return generation_ == Generation{store_->generation(), store_->policy_generation()};
}

policy::FairShareTable FairShareCache::Without(TimePoint now,
                                               const policy::QueueDemands::PodSet& given_up) {
  Now(now);
  std::map<const Workload*, policy::QueueDemands::PodSet> by_workload;
  for (const cluster::PodInfo* pod : given_up) by_workload[pod->workload].insert(pod);
  policy::QueueDemands demands = demands_;
  for (const auto& [workload, pods] : by_workload) {
    demands.GiveUp(*store_, *workload, IsPlaceable(*workload), pods);
  }
  return {*store_, demands.TreeOf(*store_)};
}

bool FairShareCache::Holds() const {
  if (!IsOfNow()) return true;
  policy::QueueDemands demands;
  for (const auto& [key, workload] : store_->workloads()) {
    demands.Add(*store_, workload, IsPlaceable(workload));
  }
  return TreeBy(demands) == tree_;
}

void FairShareCache::OnVerdict(const Workload& workload) {
  const auto known = known_.find(&workload);
  if (known == known_.end()) return;
  known->second.judged_at = store_->object_changes().end();
  if (states_->At(workload).verdict.reason != ReasonId::kNeverFits) unjudged_.erase(&workload);
  if (known->second.placeable == IsPlaceable(workload)) return;
  judged_.insert(&workload);
  generation_.first = 0;
}

void FairShareCache::Forget(const Workload& workload) {
  const auto known = known_.find(&workload);
  if (known == known_.end()) return;
  demands_.Add(known->second.jobs, -1);
  known_.erase(known);
  unjudged_.erase(&workload);
  judged_.erase(&workload);
}

}  // namespace berth::engine
