#include "engine/min_run_time.h"

#include <algorithm>
#include <limits>

#include "kube/time.h"

namespace berth::engine {

using cluster::Charge;
using cluster::PodInfo;
using cluster::Workload;

namespace {

constexpr std::string_view kCheckpointAnnotation = "berth.dev/checkpoint-time";

std::string_view ClassOf(const PodInfo& pod) {
  return pod.claims != nullptr ? std::string_view(pod.claims->workload_class) : std::string_view();
}

TimePoint MinRunTime(const cluster::Store& store, const PodInfo& pod) {
  if (pod.charge == Charge::kNone || pod.charged_queue == cluster::kNoQueue) return 0;
  return MinRunTimeIn(store.policy(), store.queue(pod.charged_queue).config, ClassOf(pod)).count();
}

/// Since when the pod runs; 0: not known.
TimePoint RunsSince(const States& states, const PodInfo& pod, TimePoint now) {
  // Its Binding is under way, or may be: kube-scheduler may have bound what is planned here. The
  // API server has the time then, and we shall see it.
  if (!pod.bound()) return now / 1000 * 1000;
  const auto& condition = pod.object.pod_scheduled;
  if (condition && condition->status && condition->since != 0) return condition->since;
  return states.At(pod).bound_at;
}

/// The same of the workload.
TimePoint RunsSince(const States& states, const Workload& workload, TimePoint now) {
  const bool devices = workload.AsksDevices();
  TimePoint since = std::numeric_limits<TimePoint>::max();
  for (const PodInfo* pod : workload.members) {
    const bool holds = pod->charge != Charge::kNone;
    if (!holds || pod->shape->asks_device != devices) continue;
    since = std::min(since, RunsSince(states, *pod, now));
  }
  return since == std::numeric_limits<TimePoint>::max() ? 0 : since;
}

}  // namespace

std::chrono::milliseconds MinRunTimeIn(const config::PolicyConfiguration& policy,
                                       const config::Queue& queue,
                                       std::string_view workload_class) {
  const bool admitted =
      !queue.classes || std::ranges::find(*queue.classes, workload_class) != queue.classes->end();
  if (workload_class.empty() || !admitted) return queue.min_run_time;
  const auto found =
      std::ranges::find(policy.classes, workload_class, &config::WorkloadClass::name);
  if (found == policy.classes.end()) return queue.min_run_time;
  return std::max(queue.min_run_time, found->min_run_time);
}

std::chrono::milliseconds MinRunTimeIn(const config::PolicyConfiguration& policy,
                                       const config::Queue& queue, const Workload& workload) {
  std::chrono::milliseconds longest = queue.min_run_time;
  for (const PodInfo* pod : workload.members) {
    if (pod->charge == Charge::kNone) continue;
    longest = std::max(longest, MinRunTimeIn(policy, queue, ClassOf(*pod)));
  }
  return longest;
}

TimePoint OfAgeAt(const View& view, const Workload& workload) {
  return OfAgeAt(view.store, view.states, workload, view.now);
}

TimePoint OfAgeAt(const cluster::Store& store, const States& states, const Workload& workload,
                  TimePoint now) {
  TimePoint least = 0;
  for (const PodInfo* pod : workload.members) least = std::max(least, MinRunTime(store, *pod));
  if (least == 0) return 0;
  const TimePoint since = RunsSince(states, workload, now);
  return since != 0 ? since + least : 0;
}

TimePoint RunsSince(const View& view, const Workload& workload) {
  return RunsSince(view.states, workload, view.now);
}

TimePoint LostSince(const View& view, const Workload& workload) {
  TimePoint since = RunsSince(view, workload);
  for (const PodInfo* pod : workload.members) {
    const auto& notes = pod->object.meta.annotations;
    const auto note = notes.find(kCheckpointAnnotation);
    if (note == notes.end()) continue;
    since = std::max(since, kube::ParseTime(note->second).value_or(0));
  }
  return std::min(since, view.now);
}

bool IsYoung(const View& view, const PodInfo& pod) {
  return pod.workload != nullptr && OfAgeAt(view, *pod.workload) > view.now;
}

TimePoint Earlier(TimePoint a, TimePoint b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

}  // namespace berth::engine
