#include "engine/min_run_time.h"

#include <algorithm>
#include <limits>

namespace berth::engine {

using cluster::Charge;
using cluster::PodInfo;
using cluster::Workload;

namespace {

TimePoint MinRunTime(const View& view, const PodInfo& pod) {
  if (pod.charge == Charge::kNone || pod.charged_queue == cluster::kNoQueue) return 0;
  return view.store.queue(pod.charged_queue).config.min_run_time.count();
}

/// Since when the pod runs; 0: not known.
TimePoint RunsSince(const View& view, const PodInfo& pod) {
  // Its Binding is under way, or may be: kube-scheduler may have bound what is planned here. The
  // API server has the time then, and we shall see it.
  if (!pod.bound()) return view.now / 1000 * 1000;
  const auto& condition = pod.object.pod_scheduled;
  if (condition && condition->status && condition->since != 0) return condition->since;
  return view.states.At(pod).bound_at;
}

}  // namespace

TimePoint OfAgeAt(const View& view, const Workload& workload) {
  TimePoint least = 0;
  for (const PodInfo* pod : workload.members) least = std::max(least, MinRunTime(view, *pod));
  if (least == 0) return 0;
  const bool devices = workload.AsksDevices();
  TimePoint since = std::numeric_limits<TimePoint>::max();
  for (const PodInfo* pod : workload.members) {
    const bool holds = pod->charge != Charge::kNone;
    if (holds && pod->shape->asks_device == devices) since = std::min(since, RunsSince(view, *pod));
  }
  const bool known = since != 0 && since != std::numeric_limits<TimePoint>::max();
  return known ? since + least : 0;
}

bool IsYoung(const View& view, const PodInfo& pod) {
  return pod.workload != nullptr && OfAgeAt(view, *pod.workload) > view.now;
}

TimePoint Earlier(TimePoint a, TimePoint b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

}  // namespace berth::engine
