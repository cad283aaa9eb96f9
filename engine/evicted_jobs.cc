#include "engine/evicted_jobs.h"

#include <algorithm>
#include <utility>

#include "cluster/plan_claim.h"

namespace berth::engine {
namespace {

using cluster::PodInfo;
using cluster::TimePoint;
using cluster::Workload;

/// The pods of a controller have other names each time, or names that others had before.
std::string KeyOf(const Workload& workload) {
  const auto& controller = workload.members.front()->object.controller;
  return workload.gang || !controller ? workload.key : controller->uid;
}

}  // namespace

EvictedJobs::Job EvictedJobs::JobOf(const Workload& workload, const Evicted& before) {
  Evicted evicted = before;
  if (evicted.times == 0) evicted.since = workload.creation;
  for (const PodInfo* pod : workload.members) {
    const auto claim = pod->bound() ? cluster::ClaimOf(pod->object) : std::nullopt;
    if (!claim || claim->node != pod->object.node_name || claim->evictions == 0) continue;
    evicted.times = std::max(evicted.times, claim->evictions);
    evicted.since = std::min(evicted.since, claim->since);
  }
  ++evicted.times;
  const std::string& uid = workload.members.front()->object.meta.uid;
  return {
      .key = KeyOf(workload), .run = workload.gang ? workload.incarnation : uid, .next = evicted};
}

void EvictedJobs::Note(const Job& job, TimePoint now) {
  ForgetOld(now);
  const auto [from, to] = by_key_.equal_range(job.key);
  const bool known =
      std::any_of(from, to, [&](const auto& entry) { return entry.second->job.run == job.run; });
  if (known) return;
  if (entries_.size() == kMost) Forget(entries_.begin());
  entries_.push_back({.job = job, .until = now + kKept});
  by_key_.emplace(job.key, std::prev(entries_.end()));
}

std::optional<Evicted> EvictedJobs::Take(const Workload& workload, TimePoint now) {
  if (entries_.empty()) return std::nullopt;
  ForgetOld(now);
  const auto found = by_key_.find(KeyOf(workload));
  if (found == by_key_.end()) return std::nullopt;
  const Evicted evicted = found->second->job.next;
  Forget(found->second);
  return evicted;
}

void EvictedJobs::Forget(Entries::iterator entry) {
  const auto [from, to] = by_key_.equal_range(entry->job.key);
  by_key_.erase(std::find_if(from, to, [&](const auto& at) { return at.second == entry; }));
  entries_.erase(entry);
}

void EvictedJobs::ForgetOld(TimePoint now) {
  while (!entries_.empty() && entries_.front().until <= now) Forget(entries_.begin());
}

TimePoint BackOffAfter(int evictions) {
  return std::min<TimePoint>(10'000LL << std::clamp(evictions - 1, 0, 10), 300'000);
}

}  // namespace berth::engine
