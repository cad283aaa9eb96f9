#include "host/releases.h"

#include <vector>

namespace berth::host {
namespace {

using kube::WriteOutcome;

constexpr int kMaxTries = 5;
/// How long the removal of a gate waits for the watch to show the nomination.
constexpr Duration kNominationLag = 20;

/// Nothing is left to release.
bool IsNotFound(const Result& result) { return result.outcome == WriteOutcome::kNotFound; }

/// kube-scheduler has bound the pod in the meantime.
bool IsBound(const Result& result) {
  return result.message.find("already bound") != std::string::npos;
}

/// The API server applies a patch to the pod in its watch cache. If that copy lacks the nomination,
/// etcd refuses the result, and decoding, field management, admission and validation are repeated.
/// Our own watch is fed from the same cache.
bool ShowsNomination(const cluster::Store& store, const engine::ReleaseMember& release) {
  const cluster::PodInfo* pod = store.FindPod(release.pod.uid);
  return pod == nullptr || pod->object.nominated_node == release.node;
}

}  // namespace

void Releases::Begin(engine::ReleaseMember release) {
  const std::string uid = release.pod.uid;
  const auto [at, fresh] = by_pod_.try_emplace(uid);
  Release& entry = at->second;
  if (entry.write != 0) {
    entry.next = std::move(release);
    return;
  }
  StopWaiting(entry);
  entry = Release{.what = std::move(release)};
  Try(entry);
}

void Releases::Try(Release& release) {
  const engine::ReleaseMember& what = release.what;
  if (what.node.empty() && !what.withdraw) return RemoveGateOf(release);
  release.step = Step::kNominating;
  out_.Put(Nominate{.id = NewWrite(release),
                    .pod = what.pod,
                    .node = what.node,
                    .annotation = what.annotation,
                    .attempt = release.attempt});
}

void Releases::RemoveGateOf(Release& release) {
  release.step = Step::kRemovingGate;
  out_.Put(
      RemoveGate{.id = NewWrite(release), .pod = release.what.pod, .attempt = release.attempt});
}

Id Releases::NewWrite(const Release& release) {
  const Id id = out_.NewId();
  writes_.emplace(id, release.what.pod.uid);
  by_pod_.at(release.what.pod.uid).write = id;
  return id;
}

bool Releases::Finished(Id write, const Result& result, const cluster::Store& store,
                        TimePoint now) {
  const auto whose = writes_.extract(write);
  if (whose.empty()) return false;
  const auto at = by_pod_.find(whose.mapped());
  Release& release = at->second;
  release.write = 0;
  if (release.next) {
    release = Release{.what = *std::exchange(release.next, std::nullopt)};
    Try(release);
  } else if (IsNotFound(result) || (release.step == Step::kNominating && IsBound(result))) {
    by_pod_.erase(at);
  } else if (result.outcome != WriteOutcome::kDone) {
    Failed(at, result.tried, now);
  } else if (release.step == Step::kNominating && release.what.remove_gate) {
    Nominated(release, store, now);
  } else {
    by_pod_.erase(at);
  }
  return true;
}

void Releases::Nominated(Release& release, const cluster::Store& store, TimePoint now) {
  if (ShowsNomination(store, release.what)) return RemoveGateOf(release);
  Wait(release, Step::kNominated, now + kNominationLag);
  nominated_.insert(release.what.pod.uid);
}

void Releases::Failed(ByPod::iterator at, bool tried, TimePoint now) {
  Release& release = at->second;
  if (!tried) return Wait(release, Step::kFailed, now + RetryDelay(1));
  // A place belongs to the plan, which expires. The removal of a gate or of a nomination alone is
  // not ordered again.
  if (release.attempt >= kMaxTries && !release.what.node.empty()) {
    by_pod_.erase(at);
    return;
  }
  Wait(release, Step::kFailed, now + RetryDelay(release.attempt++));
}

void Releases::Observe(const cluster::Store& store) {
  std::vector<std::string> shown;
  for (const std::string& uid : nominated_) {
    if (ShowsNomination(store, by_pod_.at(uid).what)) shown.push_back(uid);
  }
  for (const std::string& uid : shown) {
    Release& release = by_pod_.at(uid);
    StopWaiting(release);
    RemoveGateOf(release);
  }
}

void Releases::Advance(TimePoint now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Release& release = by_pod_.at(timers_.begin()->second);
    const Step step = release.step;
    StopWaiting(release);
    if (step == Step::kNominated) {
      RemoveGateOf(release);
    } else {
      Try(release);
    }
  }
}

std::optional<TimePoint> Releases::due() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first;
}

void Releases::Wait(Release& release, Step step, TimePoint until) {
  release.step = step;
  release.until = until;
  timers_.emplace(until, release.what.pod.uid);
}

void Releases::StopWaiting(Release& release) {
  timers_.erase({release.until, release.what.pod.uid});
  nominated_.erase(release.what.pod.uid);
}

void Releases::Clear() {
  by_pod_.clear();
  writes_.clear();
  timers_.clear();
  nominated_.clear();
}

}  // namespace berth::host
