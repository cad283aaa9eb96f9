#include "engine/fair_share_cache.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "engine/evicted_jobs.h"

namespace berth::engine {

using cluster::Workload;

namespace {

/// Whether the workload of that key is there, and was demand when it was read last.
bool IsDemand(const std::unordered_map<const Workload*, std::vector<policy::QueueJob>>& known,
              const cluster::Store& store, const std::string& key) {
  const Workload* workload = store.FindWorkload(key);
  const auto it = workload == nullptr ? known.end() : known.find(workload);
  return it != known.end() && !it->second.empty();
}

}  // namespace

void FairShareCache::Expect(std::size_t pods) {
  known_.reserve(pods);
  room_.Expect(pods);
}

void FairShareCache::Read(const Workload& workload) {
  store_->DropDemandNews(workload);
  std::vector<policy::QueueJob>& jobs = known_[&workload];
  const bool was_demand = !jobs.empty();
  demands_.Add(jobs, -1);
  room_.Forget(workload);
  jobs = policy::JobsOf(*store_, workload, room_);
  demands_.Add(jobs);
  const bool is_demand = !jobs.empty();
  if (away_.empty() || workload.members.empty()) return;
  const std::string& job = EvictedJobs::KeyOf(*workload.members.front(), workload);
  if (const auto own = away_.find({job, workload.key}); own != away_.end()) {
    // The members of a gang leave one by one: until the last one has, or if it goes on, what is
    // left of it is its demand.
    if (was_demand != is_demand) demands_.Add(own->second.jobs, was_demand ? 1 : -1);
    if (is_demand && !workload.started) Erase(own);
  } else if (is_demand && !was_demand && !workload.gang) {
    const auto other = away_.lower_bound({job, {}});
    if (other != away_.end() && other->first.first == job) EndAway(other);
  }
}

void FairShareCache::KeepAway(const Workload& workload, const std::string& job, TimePoint until) {
  if (!HasRead() || !IsDemand(known_, *store_, workload.key)) return;
  if (away_.size() >= EvictedJobs::kMost) return;
  // It is demand itself until it is read again, or forgotten.
  const auto [away, is_new] =
      away_.try_emplace({job, workload.key}, AwayJob{.jobs = known_.at(&workload), .until = until});
  away_until_ = std::min(away_until_.value_or(away->second.until), away->second.until);
}

void FairShareCache::EndAway(AwayJobs::iterator job) {
  if (!IsDemand(known_, *store_, job->first.second)) demands_.Add(job->second.jobs, -1);
  Erase(job);
}

void FairShareCache::Erase(AwayJobs::iterator job) {
  const bool was_first = job->second.until == away_until_;
  away_.erase(job);
  if (!was_first) return;
  const auto first =
      std::ranges::min_element(away_, {}, [](const auto& away) { return away.second.until; });
  away_until_ = first == away_.end() ? std::nullopt : std::optional(first->second.until);
}

bool FairShareCache::EndAway(TimePoint now) {
  if (!away_until_ || *away_until_ > now) return false;
  for (auto job = away_.begin(); job != away_.end();) {
    const auto next = std::next(job);
    if (job->second.until <= now) EndAway(job);
    job = next;
  }
  generation_ = {};
  return true;
}

std::vector<policy::QueueJob> FairShareCache::Away() const {
  std::vector<policy::QueueJob> all;
  for (const auto& [key, away] : away_) {
    if (IsDemand(known_, *store_, key.second)) continue;
    all.insert(all.end(), away.jobs.begin(), away.jobs.end());
  }
  return all;
}

/// What was known of a workload, and is news of it, is dropped when it is read again: nothing of
/// the old policy stays, and no call drops that of all.
void FairShareCache::ReadSome(std::size_t most) {
  if (HasRead()) return;
  const std::uint64_t policy = store_->policy_generation();
  if (std::exchange(reading_under_, policy) != policy) {
    read_upto_.clear();
    room_.Expire();
    // Queues and devices have other numbers now.
    while (!away_.empty()) EndAway(away_.begin());
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
  for (const Workload* workload : room_.TakeChanged()) Read(*workload);
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
  generation_ = generation;
  if (store_->reading()) {  // What changes meanwhile is not noted.
    generation_ = {};
    read_under_ = reading_under_ = kNoPolicy;
  }
  const std::size_t workloads = store_->workloads().size();
  fresh_until_ = now + (workloads < kFew ? 0 : static_cast<TimePoint>(workloads / 50));
  policy::FairTree tree = TreeBy(demands_);
  if (!edited && tree == tree_) return shares_;
  tree_ = std::move(tree);
  shares_ = policy::FairShareTable(*store_, tree_);
  ++renewals_;
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
  policy::EmptyRoom room(*store_, *fit_);
  for (const auto& [workload, pods] : by_workload) {
    if (const auto known = known_.find(workload); known != known_.end()) {
      demands.Add(known->second, -1);
    }
    demands.Add(policy::JobsOf(*store_, *workload, room, pods));
  }
  return {*store_, demands.TreeOf(*store_)};
}

bool FairShareCache::Holds() const {
  if (!IsOfNow()) return true;
  policy::QueueDemands demands = policy::QueueDemands::Of(*store_, *fit_);
  demands.Add(Away());
  return TreeBy(demands) == tree_;
}

void FairShareCache::Forget(const Workload& workload) {
  const auto known = known_.find(&workload);
  if (known == known_.end()) return;
  const bool was_demand = !known->second.empty();
  demands_.Add(known->second, -1);
  known_.erase(known);
  room_.Forget(workload);
  if (!was_demand) return;
  for (const auto& [key, away] : away_) {
    if (key.second == workload.key) demands_.Add(away.jobs);
  }
}

}  // namespace berth::engine
