#include "host/suspensions.h"

#include <algorithm>

#include "cluster/plan_claim.h"
#include "engine/victims.h"

namespace berth::host {
namespace {

using kube::JobKind;
using kube::WriteOutcome;

constexpr int kMaxTries = 3;
/// How long nothing is suspended after the API server has denied the right to.
constexpr Duration kDeniedFor = 300'000;
/// A Job's controller counts pods that have succeeded within about a second.
constexpr Duration kCountedAfter = 1'000;
constexpr int kMaxWaits = 3;
/// How often pods that do not end are looked at.
constexpr Duration kLookEvery = 30'000;
/// All suspended Jobs are listed at the start and once more after this time: what the previous
/// process sent has taken effect by then, or never will.
constexpr Duration kListAgainAfter = 30'000;
/// How often all suspended Jobs are listed, to find Jobs that were missed.
constexpr Duration kListEvery = 300'000;
/// A JobSet with more Jobs than these hold is not suspended: to read them takes too long.
constexpr int kMaxParts = 100;

bool IsOurs(const kube::Job& job) {
  return job.meta.labels.contains(std::string(cluster::kSuspendedLabel));
}

/// The key of the list of all that Berth has suspended, in place of the key of a Job.
std::string ListKey(JobKind kind) { return kind == JobKind::kJobSet ? "jobsets" : "jobs"; }

std::optional<JobKind> ListedBy(std::string_view key) {
  for (const JobKind kind : {JobKind::kJob, JobKind::kJobSet}) {
    if (key == ListKey(kind)) return kind;  // no key of a Job: it has a slash
  }
  return std::nullopt;
}

JobKind KindOf(const engine::EvictPod& eviction) {
  return eviction.job->set.empty() ? JobKind::kJob : JobKind::kJobSet;
}

/// Its usual controller runs it, and no owner or queue controller would resume it.
bool CanBeSuspended(const kube::Job& job, JobKind kind) {
  const std::string_view usual = kind == JobKind::kJobSet ? "jobset.sigs.k8s.io/jobset-controller"
                                                          : "kubernetes.io/job-controller";
  const bool run_as_usual = job.managed_by.empty() || job.managed_by == usual;
  const bool free = !job.controller || job.controller->kind == "CronJob";
  const bool kueue = job.meta.labels.contains("kueue.x-k8s.io/queue-name");
  return run_as_usual && free && !kueue && !job.meta.deletion && !job.finished;
}

/// The Job that was read; null: it is another one, or there is none.
const kube::Job* JobOf(const Result& result, const kube::JobRef& ref) {
  const std::vector<kube::Job>& jobs = result.jobs.jobs;
  if (result.outcome != WriteOutcome::kDone || jobs.size() != 1) return nullptr;
  return ref.uid.empty() || jobs.front().meta.uid == ref.uid ? &jobs.front() : nullptr;
}

/// How many members of their gang have succeeded.
int SucceededOf(const std::vector<engine::EvictPod>& evictions, const cluster::Store& store) {
  const cluster::PodInfo* pod = store.FindPod(evictions.front().pod.uid);
  return pod == nullptr || pod->workload == nullptr ? 0 : pod->workload->finished;
}

}  // namespace

// --- Orders --------------------------------------------------------------------------------------

Id Suspensions::NewOrder(const std::string& key) {
  const Id id = out_.NewId();
  orders_.emplace(id, key);
  return id;
}

void Suspensions::List(JobKind kind, std::string from) {
  out_.Put(ReadJobs{.id = NewOrder(ListKey(kind)),
                    .kind = kind,
                    .from = std::move(from),
                    .attempt = this->kind(kind).lists_failed + 1});
}

void Suspensions::Read(Job& job) {
  out_.Put(ReadJobs{.id = NewOrder(KeyOf(job.ref)),
                    .kind = job.ref.kind,
                    .ns = job.ref.ns,
                    .name = job.ref.name,
                    .attempt = job.attempt});
}

/// The next part of the list of its Jobs.
void Suspensions::Count(Job& set, std::string from) {
  set.step = Step::kCounting;
  ++set.parts;
  out_.Put(ReadJobs{.id = NewOrder(KeyOf(set.ref)),
                    .ns = set.ref.ns,
                    .of_set = set.ref.name,
                    .from = std::move(from),
                    .attempt = set.attempt});
}

void Suspensions::Write(Job& job, bool suspend) {
  job.step = suspend ? Step::kSuspending : Step::kResuming;
  job.sent = true;
  out_.Put(SuspendJob{
      .id = NewOrder(KeyOf(job.ref)), .job = job.ref, .suspend = suspend, .attempt = job.attempt});
}

void Suspensions::Mark(Job& job) {
  job.step = Step::kMarking;
  for (const engine::EvictPod& eviction : job.evictions) {
    const Id id = NewOrder(KeyOf(job.ref));
    job.marks.insert(id);
    out_.Put(MarkOrder(id, eviction, /*sets_condition=*/true));
  }
}

bool Suspensions::Wants(Id order, const engine::Engine& engine) const {
  const auto at = jobs_.find(orders_.at(order));
  if (at == jobs_.end()) return true;
  const Job& job = at->second;
  const bool begins =
      job.step == Step::kCounting || job.step == Step::kMarking || job.step == Step::kSuspending;
  if (!begins) return true;
  return engine.StillEvicts(job.evictions.front().workload, job.evictions.front().id);
}

void Suspensions::Forget(Jobs::iterator at) {
  std::erase_if(timers_, [&](const auto& timer) { return timer.second == at->first; });
  jobs_.erase(at);
}

// --- Suspending ----------------------------------------------------------------------------------

bool Suspensions::Takes(const engine::EvictPod& eviction, TimePoint now) const {
  const Kind& kind = kinds_.at(static_cast<std::size_t>(KindOf(eviction)));
  return now >= kind.denied_until && !jobs_.contains(KeyOf(eviction));
}

void Suspensions::Begin(std::vector<engine::EvictPod> evictions) {
  const engine::EvictPod& first = evictions.front();
  Job& job = jobs_[KeyOf(first)];
  const bool is_set = KindOf(first) == JobKind::kJobSet;
  job.ref = {.kind = KindOf(first),
             .ns = first.pod.ns,
             .name = is_set ? first.job->set : first.job->name,
             .uid = is_set ? std::string() : first.job->uid,
             .resource_version = {}};
  job.known = std::max(first.job->pods, static_cast<int>(evictions.size()));
  for (const engine::EvictPod& eviction : evictions) job.pods.push_back(eviction.pod.uid);
  job.evictions = std::move(evictions);
  Read(job);
}

/// Where it is suspended, or a write may still do that, it is looked at once these pods have ended.
Suspensions::Ended Suspensions::OneByOne(Jobs::iterator at, TimePoint now) {
  Ended ended{.one_by_one = std::exchange(at->second.evictions, {})};
  if (at->second.suspended || at->second.unsure) {
    Suspended(at, now);
  } else {
    Forget(at);
  }
  return ended;
}

/// It is, or may be: that is looked at once its pods have ended.
Suspensions::Ended Suspensions::Suspended(Jobs::iterator at, TimePoint now) {
  Job& job = at->second;
  job.step = Step::kEnding;
  job.attempt = 1;
  job.since = now;
  timers_.emplace(now + kLookEvery, at->first);
  return {.accepted = std::exchange(job.evictions, {})};
}

/// Not if its pods have ended meanwhile: then it would end others, which have come since.
Suspensions::Ended Suspensions::Suspend(Jobs::iterator at, const cluster::Store& store,
                                        TimePoint now) {
  Job& job = at->second;
  const bool runs = std::ranges::any_of(job.pods, [&](const std::string& uid) {
    const cluster::PodInfo* pod = store.FindPod(uid);
    return pod != nullptr && !pod->terminating();
  });
  if (runs) {
    Write(job, /*suspend=*/true);
    return {};
  }
  if (job.unsure) return Suspended(at, now);
  Ended ended{.accepted = std::move(job.evictions)};
  Forget(at);
  return ended;
}

Suspensions::Ended Suspensions::WasRead(Jobs::iterator at, const Result& result,
                                        const cluster::Store& store, TimePoint now) {
  Job& job = at->second;
  if (result.forbidden) kind(job.ref.kind).denied_until = now + kDeniedFor;
  const bool known =
      result.outcome == WriteOutcome::kDone || result.outcome == WriteOutcome::kNotFound;
  if (job.sent && !known) {
    job.unsure = true;
    return OneByOne(at, now);
  }
  const kube::Job* read = JobOf(result, job.ref);
  if (read != nullptr) job.ref.uid = read->meta.uid;
  const bool ours = read != nullptr && read->suspended && IsOurs(*read);
  if (ours && job.sent) return Suspended(at, now);
  if (read == nullptr || !CanBeSuspended(*read, job.ref.kind)) return OneByOne(at, now);
  const bool again = job.attempt <= kMaxTries;
  if (!ours && (read->suspended || !again)) return OneByOne(at, now);
  job.ref.resource_version = read->meta.resource_version;
  job.suspended = ours;
  job.most_pods = read->most_pods;
  if (job.ref.kind == JobKind::kJob) return Proceed(at, store, now);
  job.most_pods = 0;
  job.of_set.clear();
  job.parts = 0;
  Count(job, "");
  return {};
}

Suspensions::Ended Suspensions::WasCounted(Jobs::iterator at, const Result& result,
                                           const cluster::Store& store, TimePoint now) {
  Job& set = at->second;
  if (result.forbidden) kind(set.ref.kind).denied_until = now + kDeniedFor;
  if (result.outcome != WriteOutcome::kDone) return OneByOne(at, now);
  for (const kube::Job& job : result.jobs.jobs) {
    if (!job.controller || job.controller->uid != set.ref.uid) continue;
    set.of_set.insert(job.meta.uid);
    if (!job.finished && !job.suspended) set.most_pods += job.most_pods;
  }
  if (!result.jobs.next.empty()) {
    if (set.parts == kMaxParts) return OneByOne(at, now);
    Count(set, result.jobs.next);
    return {};
  }
  const bool all = std::ranges::all_of(set.evictions, [&](const engine::EvictPod& eviction) {
    return set.of_set.contains(eviction.job->uid);
  });
  return all ? Proceed(at, store, now) : OneByOne(at, now);
}

/// The Job can be suspended, if no other pods would end with it.
Suspensions::Ended Suspensions::Proceed(Jobs::iterator at, const cluster::Store& store,
                                        TimePoint now) {
  Job& job = at->second;
  if (job.suspended) return Suspended(at, now);
  if (const std::int64_t others = job.most_pods - job.known; others > 0) {
    // They may be members that have succeeded a moment ago.
    const bool counted = others > SucceededOf(job.evictions, store) || job.waits == kMaxWaits;
    if (counted || job.sent) return OneByOne(at, now);
    ++job.waits;
    job.step = Step::kWaiting;
    timers_.emplace(now + kCountedAfter, at->first);
    return {};
  }
  if (job.sent) return Suspend(at, store, now);
  Mark(job);
  return {};
}

Suspensions::Ended Suspensions::WasMarked(Jobs::iterator at, Id mark, const Result& result,
                                          const cluster::Store& store, TimePoint now) {
  Job& job = at->second;
  job.marks.erase(mark);
  job.marked &= result.outcome == WriteOutcome::kDone || IsGone(result);
  if (!job.marks.empty()) return {};
  return job.marked ? Suspend(at, store, now) : OneByOne(at, now);
}

Suspensions::Ended Suspensions::WasSuspended(Jobs::iterator at, const Result& result,
                                             TimePoint now) {
  Job& job = at->second;
  if (result.forbidden) kind(job.ref.kind).denied_until = now + kDeniedFor;
  switch (result.outcome) {
    case WriteOutcome::kDone:
      return Suspended(at, now);
    case WriteOutcome::kUnknown:   // a webhook may have failed, too
    case WriteOutcome::kConflict:  // its status has changed, say; or an earlier attempt was done
      job.unsure |= result.outcome == WriteOutcome::kUnknown;
      ++job.attempt;
      job.step = Step::kReading;
      Read(job);
      return {};
    case WriteOutcome::kNotFound:
    case WriteOutcome::kRefused:
      return OneByOne(at, now);
  }
  return OneByOne(at, now);
}

// --- Resuming ------------------------------------------------------------------------------------

void Suspensions::Start() {
  List(JobKind::kJob, "");
  List(JobKind::kJobSet, "");
}

/// What earlier processes have suspended, or what this one has lost sight of. Whose pods are there
/// still is seen now.
void Suspensions::WereListed(JobKind kind, const Result& result, const cluster::Store& store,
                             TimePoint now) {
  if (result.outcome == WriteOutcome::kNotFound) {  // the cluster does not have that kind
    if (kind == JobKind::kJobSet) timers_.emplace(now + kListEvery, ListKey(kind));
    return;
  }
  Kind& known = this->kind(kind);
  if (result.outcome != WriteOutcome::kDone) {
    const Duration wait = result.forbidden ? kDeniedFor : RetryDelay(++known.lists_failed);
    timers_.emplace(now + wait, ListKey(kind));
    return;
  }
  known.lists_failed = 0;
  std::set<std::string> fresh;
  for (const kube::Job& found : result.jobs.jobs) {
    const kube::JobRef ref{.kind = kind,
                           .ns = found.meta.ns,
                           .name = found.meta.name,
                           .uid = found.meta.uid,
                           .resource_version = {}};
    const auto [at, is_new] = jobs_.try_emplace(KeyOf(ref));
    if (!is_new) continue;
    at->second.ref = ref;
    Suspended(at, now);
    fresh.insert(at->first);
  }
  if (!fresh.empty()) {
    for (const auto& [uid, pod] : store.pods()) {
      const auto owner = engine::OwnerOf(pod);
      if (!owner) continue;
      const std::string key = pod.object.meta.ns + '/' + owner->Key();
      if (fresh.contains(key)) jobs_.at(key).pods.push_back(uid);
    }
    Observe(store, now);
  }
  if (!result.jobs.next.empty()) return List(kind, result.jobs.next);
  const Duration wait = std::exchange(known.listed, true) ? kListEvery : kListAgainAfter;
  timers_.emplace(now + wait, ListKey(kind));
}

/// Pods that do not end although they should have are not waited for, as elsewhere.
bool Suspensions::HasEnded(Job& job, const cluster::Store& store, TimePoint now) {
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
  // The user or controller that removes the label takes it over.
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
  timers_.emplace(now + RetryDelay(job.attempt++), KeyOf(job.ref));
}

// --- Progress ------------------------------------------------------------------------------------

Suspensions::Ended Suspensions::Finished(Id order, const Result& result,
                                         const cluster::Store& store, TimePoint now) {
  const std::string key = orders_.extract(order).mapped();
  if (const auto kind = ListedBy(key)) {
    WereListed(*kind, result, store, now);
    return {};
  }
  const auto at = jobs_.find(key);
  if (at == jobs_.end()) return {};
  Ended ended;
  switch (at->second.step) {
    case Step::kReading:
      ended = WasRead(at, result, store, now);
      break;
    case Step::kCounting:
      ended = WasCounted(at, result, store, now);
      break;
    case Step::kMarking:
      ended = WasMarked(at, order, result, store, now);
      break;
    case Step::kSuspending:
      ended = WasSuspended(at, result, now);
      break;
    case Step::kLooking:
      WasLookedAt(at, result, now);
      break;
    case Step::kResuming:
      WasResumed(at, result, now);
      break;
    case Step::kWaiting:
    case Step::kEnding:
    case Step::kResting:
      break;
  }
  Observe(store, now);
  return ended;
}

void Suspensions::Advance(const cluster::Store& store, TimePoint now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const std::string key = timers_.extract(timers_.begin()).value().second;
    if (const auto kind = ListedBy(key)) {
      List(*kind, "");
    } else if (Job& job = jobs_.at(key); job.step == Step::kEnding) {
      timers_.emplace(now + kLookEvery, key);
    } else if (job.step == Step::kWaiting) {
      job.step = Step::kReading;
      Read(job);
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
  kinds_ = {};
}

}  // namespace berth::host
