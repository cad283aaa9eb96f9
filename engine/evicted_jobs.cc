#include "engine/evicted_jobs.h"

#include <algorithm>
#include <utility>

#include "cluster/plan_claim.h"

namespace berth::engine {
namespace {

using cluster::PodInfo;
using cluster::TimePoint;
using cluster::Workload;

/// Of two views of one job, what is known by either.
Evicted Both(const Evicted& a, const Evicted& b) {
  return {.times = std::max(a.times, b.times), .since = std::min(a.since, b.since)};
}

}  // namespace

const std::string& EvictedJobs::KeyOf(const PodInfo& pod, const Workload& workload) {
  const auto& controller = pod.object.controller;
  return workload.gang || !controller ? workload.key : controller->uid;
}

EvictedJobs::Job EvictedJobs::JobOf(const PodInfo& victim, const Evicted& before) {
  const Workload& workload = *victim.workload;
  Evicted next = before.times > 0 ? before : Evicted{.since = workload.creation};
  const auto claim = cluster::BoundClaimOf(victim.object);
  if (claim && claim->evictions > 0) {
    next = Both(next, {.times = claim->evictions, .since = claim->since});
  }
  ++next.times;
  return {.key = KeyOf(victim, workload),
          .run = workload.gang ? workload.incarnation : victim.object.meta.uid,
          .next = next};
}

void EvictedJobs::Note(const Job& job, TimePoint now) {
  ForgetOld(now);
  if (const auto known = by_key_.find(job.key); known != by_key_.end()) {
    if (const auto run = known->second.find(job.run); run != known->second.end()) {
      Evicted& next = run->second->job.next;
      next = Both(next, job.next);
      return;
    }
  }
  if (entries_.size() == kMost) Forget(entries_.begin());
  entries_.push_back({.job = job, .until = now + kKept});
  by_key_[job.key].emplace(job.run, std::prev(entries_.end()));
}

std::optional<Evicted> EvictedJobs::Take(const Workload& workload, TimePoint now) {
  if (entries_.empty()) return std::nullopt;
  ForgetOld(now);
  const auto found = by_key_.find(KeyOf(*workload.members.front(), workload));
  if (found == by_key_.end()) return std::nullopt;
  const Entries::iterator entry = found->second.begin()->second;
  const Evicted evicted = entry->job.next;
  Forget(entry);
  return evicted;
}

void EvictedJobs::Forget(Entries::iterator entry) {
  const auto runs = by_key_.find(entry->job.key);
  runs->second.erase(entry->job.run);
  if (runs->second.empty()) by_key_.erase(runs);
  entries_.erase(entry);
}

void EvictedJobs::ForgetOld(TimePoint now) {
  while (!entries_.empty() && entries_.front().until <= now) Forget(entries_.begin());
}

TimePoint BackOffAfter(int evictions) {
  return std::min<TimePoint>(10'000LL << std::clamp(evictions - 1, 0, 10), 300'000);
}

}  // namespace berth::engine
