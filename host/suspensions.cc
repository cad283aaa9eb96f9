#include "host/suspensions.h"

#include <algorithm>

#include "cluster/plan_claim.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;

constexpr int kMaxTries = 3;
/// Where Jobs cannot be read, that is not tried again for so long.
constexpr Duration kDeniedFor = 300'000;
/// How often pods that do not end are looked at.
constexpr Duration kLookEvery = 30'000;
/// By then, what the process before this one has sent has taken effect, or never will.
constexpr Duration kListAgainAfter = 30'000;

bool IsOurs(const kube::Job& job) {
  return job.meta.labels.contains(std::string(cluster::kSuspendedLabel));
}

/// How many pods it may have that have not ended and do not end.
std::int32_t MostPods(const kube::Job& job) {
  if (!job.completions) return job.parallelism;
  return std::min(job.parallelism, std::max(0, *job.completions - job.succeeded));
}

/// Its own controller is Kubernetes', and nobody above it would resume it.
bool CanBeSuspended(const kube::Job& job) {
  constexpr std::string_view kJobController = "kubernetes.io/job-controller";
  const bool run_by_kubernetes = job.managed_by.empty() || job.managed_by == kJobController;
  const bool free = !job.controller || job.controller->kind == "CronJob";
  const bool kueue = job.meta.labels.contains("kueue.x-k8s.io/queue-name");
  return run_by_kubernetes && free && !kueue && !job.meta.deletion;
}

bool IsGone(const Result& result) {
  return result.outcome == WriteOutcome::kNotFound || result.outcome == WriteOutcome::kConflict;
}

/// The Job that was read; null: it is another one, or there is none.
const kube::Job* JobOf(const Result& result, const kube::JobRef& ref) {
  if (result.outcome != WriteOutcome::kDone || result.jobs.size() != 1) return nullptr;
  return result.jobs.front().meta.uid == ref.uid ? &result.jobs.front() : nullptr;
}

}  // namespace

// --- Orders --------------------------------------------------------------------------------------

Id Suspensions::NewOrder(const std::string& uid) {
  const Id id = out_.NewId();
  orders_.emplace(id, uid);
  return id;
}

void Suspensions::Read(Job& job) {
  out_.Put(ReadJobs{
      .id = NewOrder(job.ref.uid), .ns = job.ref.ns, .name = job.ref.name, .attempt = job.attempt});
}

void Suspensions::Write(Job& job, bool suspend) {
  job.step = suspend ? Step::kSuspending : Step::kResuming;
  out_.Put(SuspendJob{
      .id = NewOrder(job.ref.uid), .job = job.ref, .suspend = suspend, .attempt = job.attempt});
}

void Suspensions::Mark(Job& job) {
  job.step = Step::kMarking;
  for (const engine::EvictPod& eviction : job.evictions) {
    const Id id = NewOrder(job.ref.uid);
    job.marks.insert(id);
    out_.Put(MarkVictim{.id = id,
                        .pod = eviction.pod,
                        .mark = cluster::EncodeEvictionMark(engine::MarkOf(eviction)),
                        .sets_condition = true});
  }
}

bool Suspensions::Wants(Id order, const engine::Engine& engine) const {
  const auto at = jobs_.find(orders_.at(order));
  if (at == jobs_.end()) return true;
  const Job& job = at->second;
  if (job.step != Step::kMarking && job.step != Step::kSuspending) return true;
  return engine.StillEvicts(job.evictions.front().workload, job.evictions.front().plan);
}

// --- Suspending ----------------------------------------------------------------------------------

bool Suspensions::Takes(const engine::OwningJob& job, TimePoint now) const {
  return now >= denied_until_ && !jobs_.contains(job.uid);
}

void Suspensions::Begin(const engine::OwningJob& job, std::vector<engine::EvictPod> evictions) {
  Job& entry = jobs_[job.uid];
  entry.ref = {
      .ns = evictions.front().pod.ns, .name = job.name, .uid = job.uid, .resource_version = {}};
  entry.known = std::max(job.pods, static_cast<int>(evictions.size()));
  for (const engine::EvictPod& eviction : evictions) entry.pods.push_back(eviction.pod.uid);
  entry.evictions = std::move(evictions);
  Read(entry);
}

Suspensions::Ended Suspensions::OneByOne(Jobs::iterator at) {
  Ended ended{.one_by_one = std::move(at->second.evictions)};
  Forget(at);
  return ended;
}

void Suspensions::Forget(Jobs::iterator at) {
  std::erase_if(timers_, [&](const auto& timer) { return timer.second == at->first; });
  jobs_.erase(at);
}

Suspensions::Ended Suspensions::WasRead(Jobs::iterator at, const Result& result, TimePoint now) {
  Job& job = at->second;
  if (result.forbidden) denied_until_ = now + kDeniedFor;
  const kube::Job* read = JobOf(result, job.ref);
  if (read != nullptr && read->suspended && IsOurs(*read)) return Suspended(at, now);
  const bool can =
      read != nullptr && CanBeSuspended(*read) && !read->suspended && MostPods(*read) <= job.known;
  if (!can) return OneByOne(at);
  job.ref.resource_version = read->meta.resource_version;
  if (job.attempt == 1) {
    Mark(job);
  } else {
    Write(job, /*suspend=*/true);
  }
  return {};
}

Suspensions::Ended Suspensions::WasMarked(Jobs::iterator at, Id mark, const Result& result) {
  Job& job = at->second;
  job.marks.erase(mark);
  job.marked &= result.outcome == WriteOutcome::kDone || IsGone(result);
  if (!job.marks.empty()) return {};
  if (!job.marked) return OneByOne(at);
  Write(job, /*suspend=*/true);
  return {};
}

Suspensions::Ended Suspensions::WasSuspended(Jobs::iterator at, const Result& result,
                                             TimePoint now) {
  Job& job = at->second;
  if (result.outcome == WriteOutcome::kConflict && job.attempt < kMaxTries) {
    ++job.attempt;  // its status has changed, say
    job.step = Step::kReading;
    Read(job);
    return {};
  }
  // It may have been done: then its pods end.
  const bool maybe = result.outcome == WriteOutcome::kUnknown;
  if (result.outcome != WriteOutcome::kDone && !maybe) return OneByOne(at);
  return Suspended(at, now);
}

Suspensions::Ended Suspensions::Suspended(Jobs::iterator at, TimePoint now) {
  Job& job = at->second;
  job.step = Step::kEnding;
  job.attempt = 1;
  job.since = now;
  timers_.emplace(now + kLookEvery, at->first);
  return {.accepted = std::exchange(job.evictions, {})};
}

// --- Resuming ------------------------------------------------------------------------------------

void Suspensions::Start() {
  lists_ = 1;
  lists_again_ = true;
  out_.Put(ReadJobs{.id = NewOrder("")});
}

/// What an earlier process has suspended. Whose pods are there still is seen now.
void Suspensions::WereListed(const Result& result, const cluster::Store& store, TimePoint now) {
  if (result.forbidden || result.outcome == WriteOutcome::kNotFound) return;
  if (result.outcome != WriteOutcome::kDone) {
    timers_.emplace(now + RetryDelay(lists_++), "");
    return;
  }
  if (std::exchange(lists_again_, false)) timers_.emplace(now + kListAgainAfter, "");
  std::set<std::string_view> fresh;
  for (const kube::Job& found : result.jobs) {
    const auto [at, is_new] = jobs_.try_emplace(found.meta.uid);
    if (!is_new) continue;
    at->second.ref = {.ns = found.meta.ns,
                      .name = found.meta.name,
                      .uid = found.meta.uid,
                      .resource_version = {}};
    Suspended(at, now);
    fresh.insert(at->first);
  }
  if (fresh.empty()) return;
  for (const auto& [uid, pod] : store.pods()) {
    const auto& owner = pod.object.controller;
    if (owner && fresh.contains(owner->uid)) jobs_.at(owner->uid).pods.push_back(uid);
  }
  Observe(store, now);
}

/// Pods that do not end although they should have are not waited for, as elsewhere.
bool Suspensions::HasEnded(Job& job, const cluster::Store& store, TimePoint now) const {
  const Duration stuck_after = store.policy().eviction.stuck_after.count();
  while (!job.pods.empty()) {
    const cluster::PodInfo* pod = store.FindPod(job.pods.back());
    const TimePoint end = pod == nullptr       ? 0
                          : pod->terminating() ? *pod->object.meta.deletion
                                               : job.since;
    if (pod != nullptr && end + stuck_after >= now) return false;
    job.pods.pop_back();
  }
  return true;
}

void Suspensions::Observe(const cluster::Store& store, TimePoint now) {
  for (auto& [uid, job] : jobs_) {
    if (job.step != Step::kEnding || !HasEnded(job, store, now)) continue;
    job.step = Step::kLooking;
    Read(job);
  }
}

void Suspensions::WasLookedAt(Jobs::iterator at, const Result& result, TimePoint now) {
  Job& job = at->second;
  const bool gone = result.outcome == WriteOutcome::kNotFound;
  if (!gone && result.outcome != WriteOutcome::kDone) return Rest(job, now);
  const kube::Job* read = JobOf(result, job.ref);
  // Whoever removes the label takes it over.
  if (read == nullptr || !IsOurs(*read)) {
    Forget(at);
    return;
  }
  job.ref.resource_version = read->meta.resource_version;
  Write(job, /*suspend=*/false);
}

void Suspensions::WasResumed(Jobs::iterator at, const Result& result, TimePoint now) {
  if (IsSettled(result)) {
    Forget(at);
    return;
  }
  Rest(at->second, now);
}

void Suspensions::Rest(Job& job, TimePoint now) {
  job.step = Step::kResting;
  timers_.emplace(now + RetryDelay(job.attempt++), job.ref.uid);
}

// --- Progress ------------------------------------------------------------------------------------

Suspensions::Ended Suspensions::Finished(Id order, const Result& result,
                                         const cluster::Store& store, TimePoint now) {
  const std::string uid = orders_.extract(order).mapped();
  if (uid.empty()) {
    WereListed(result, store, now);
    return {};
  }
  const auto at = jobs_.find(uid);
  if (at == jobs_.end()) return {};
  Ended ended;
  switch (at->second.step) {
    case Step::kReading:
      return WasRead(at, result, now);
    case Step::kMarking:
      return WasMarked(at, order, result);
    case Step::kSuspending:
      ended = WasSuspended(at, result, now);
      Observe(store, now);
      return ended;
    case Step::kLooking:
      WasLookedAt(at, result, now);
      return {};
    case Step::kResuming:
      WasResumed(at, result, now);
      return {};
    case Step::kEnding:
    case Step::kResting:
      return {};
  }
  return {};
}

void Suspensions::Advance(const cluster::Store& store, TimePoint now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const std::string uid = timers_.extract(timers_.begin()).value().second;
    if (uid.empty()) {
      out_.Put(ReadJobs{.id = NewOrder(""), .attempt = lists_});
    } else if (Job& job = jobs_.at(uid); job.step == Step::kEnding) {
      timers_.emplace(now + kLookEvery, uid);
    } else if (job.step == Step::kResting) {
      job.step = Step::kLooking;
      Read(job);
    }
  }
  Observe(store, now);
}

std::optional<TimePoint> Suspensions::due() const {
  return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first);
}

void Suspensions::Clear() {
  jobs_.clear();
  orders_.clear();
  timers_.clear();
  denied_until_ = 0;
}

}  // namespace berth::host
