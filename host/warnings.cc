#include "host/warnings.h"

#include "cluster/plan_claim.h"

namespace berth::host {

void Warnings::Begin(engine::WarnVictim warning) {
  Warning& entry = by_pod_[warning.pod.uid];
  if (entry.under_way) {
    entry.next = std::move(warning);
    return;
  }
  StopWaiting(entry);
  entry = Warning{.what = std::move(warning)};
  Try(entry);
}

void Warnings::Try(Warning& warning) {
  const Id id = out_.NewId();
  out_.Put(MarkVictim{.id = id,
                      .pod = warning.what.pod,
                      .annotation = cluster::kEvictionTimeAnnotation,
                      .mark = warning.what.time,
                      .attempt = warning.attempt});
  writes_.emplace(id, warning.what.pod.uid);
  warning.under_way = true;
}

void Warnings::Finished(Id write, const Result& result, TimePoint now) {
  const auto at = by_pod_.find(writes_.extract(write).mapped());
  Warning& warning = at->second;
  warning.under_way = false;
  if (warning.next) {
    warning = Warning{.what = *std::exchange(warning.next, std::nullopt)};
    Try(warning);
  } else if (result.outcome == kube::WriteOutcome::kDone || IsGone(result)) {
    by_pod_.erase(at);
  } else {
    warning.until = now + RetryDelay(result.tried ? warning.attempt++ : 1);
    timers_.emplace(warning.until, at->first);
  }
}

void Warnings::Advance(TimePoint now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Warning& warning = by_pod_.at(timers_.begin()->second);
    StopWaiting(warning);
    Try(warning);
  }
}

std::optional<TimePoint> Warnings::due() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first;
}

void Warnings::StopWaiting(Warning& warning) {
  timers_.erase({std::exchange(warning.until, 0), warning.what.pod.uid});
}

void Warnings::Clear() {
  by_pod_.clear();
  writes_.clear();
  timers_.clear();
}

}  // namespace berth::host
