#include "kube/writer.h"

#include <algorithm>
#include <utility>

#include "kube/api_status.h"

namespace berth::kube {

Writer::Writer(RestClient& client, std::string instance, Timing timing)
    : client_(client), instance_(std::move(instance)), timing_(std::move(timing)) {}

WriteResult Writer::Send(std::optional<Request> request, const WriteOptions& options) {
  WriteResult last{
      .outcome = WriteOutcome::kRefused, .status = 0, .message = "timed out", .body = {}};
  if (!request) {
    last.message = "invalid name";
    return last;
  }
  Attempts attempts(*request, options.timeout, timing_.now());
  while (!options.stop.stop_requested()) {
    const auto timeout = attempts.Next(timing_.now());
    if (!timeout) break;
    request->timeout = *timeout;
    request->not_after = BootClock() + *timeout;  // before we ask `permitted`
    if (options.permitted && !options.permitted()) {
      last.message = "not permitted any more";
      break;
    }
    auto answer = client_.Do(*request, options.stop);
    Duration retry_after(0);
    if (answer) {
      const auto outcome = attempts.Answered(answer->status);
      const bool done = outcome == WriteOutcome::kDone;
      last.status = answer->status;
      last.message = done ? std::string() : ParseStatus(answer->body, answer->status).message;
      if (done) last.body = std::move(answer->body);
      if (outcome) {
        last.outcome = *outcome;
        return last;
      }
      retry_after = answer->retry_after.value_or(retry_after);
    } else {
      last.message = answer.error().message;
      attempts.Lost(answer.error().maybe_sent);
      if (answer.error().failure == TransportFailure::kCancelled) break;
    }
    const auto wait = attempts.Pause(timing_.now(), timing_.random(), retry_after);
    if (!wait || !timing_.wait(*wait, options.stop)) break;
  }
  last.outcome = attempts.GivenUp();
  return last;
}

WriteResult Writer::PostBinding(const PodRef& pod, const std::string& node,
                                const StringMap& annotations, const WriteOptions& options) {
  const TimePoint deadline = timing_.now() + options.timeout;
  WriteResult result = Send(BindRequest(pod, node, annotations), options);
  if (result.outcome == WriteOutcome::kConflict) {
    const auto left = std::chrono::floor<Duration>(deadline - timing_.now());
    const WriteResult read =
        GetPod(pod.ns, pod.name, {.timeout = std::max(left, Duration(0)), .stop = options.stop});
    result.outcome = AfterConflict(read.outcome, read.body, pod, node);
  }
  return result;
}

WriteResult Writer::Patch(std::optional<Request> request, const WriteOptions& options) {
  WriteResult result = Send(std::move(request), options);
  if (IsOtherUid(result.status, result.message)) result.outcome = WriteOutcome::kConflict;
  return result;
}

WriteResult Writer::Nominate(const PodRef& pod, const std::string& node,
                             const AnnotationPatch& annotations, const WriteOptions& options) {
  return Patch(NominateRequest(pod, node, annotations), options);
}

WriteResult Writer::RemoveGate(const PodRef& pod, const std::string& gate,
                               const WriteOptions& options) {
  return Patch(RemoveGateRequest(pod, gate), options);
}

WriteResult Writer::Annotate(const PodRef& pod, const AnnotationPatch& annotations,
                             const WriteOptions& options) {
  return Patch(AnnotateRequest(pod, annotations), options);
}

WriteResult Writer::Evict(const PodRef& pod, bool dry_run, bool by_delete,
                          const WriteOptions& options) {
  return Send(by_delete ? DeletePodRequest(pod, dry_run) : EvictRequest(pod, dry_run), options);
}

WriteResult Writer::Disrupt(const PodRef& pod, const AnnotationPatch& annotations, MicroTime now,
                            const WriteOptions& options) {
  return Patch(DisruptRequest(pod, annotations, now), options);
}

WriteResult Writer::GetPod(const std::string& ns, const std::string& name,
                           const WriteOptions& options) {
  return Send(GetPodRequest(ns, name), options);
}

WriteResult Writer::GetNeeded(const std::string& ns, const NeededObject& object,
                              const WriteOptions& options) {
  auto request = GetNeededRequest(ns, object);
  // kube-apiserver accepts pods that name claims by what can be no claim's name.
  if (!request)
    return {.outcome = WriteOutcome::kNotFound, .status = 0, .message = "invalid name", .body = {}};
  WriteResult result = Send(std::move(request), options);
  // The answer about a path that is not served names no object.
  const bool is_named = result.message.find('"' + object.name + '"') != std::string::npos;
  if (result.outcome == WriteOutcome::kNotFound && !is_named) {
    result.outcome = WriteOutcome::kRefused;
  }
  return result;
}

WriteResult Writer::GetJob(JobKind kind, const std::string& ns, const std::string& name,
                           const WriteOptions& options) {
  return Send(GetJobRequest(kind, ns, name), options);
}

WriteResult Writer::JobsOfSet(const std::string& ns, const std::string& set, std::string_view from,
                              const WriteOptions& options) {
  return Send(JobsOfSetRequest(ns, set, from), options);
}

WriteResult Writer::ListJobs(JobKind kind, std::string_view label, std::string_view from,
                             const WriteOptions& options) {
  return Send(ListJobsRequest(kind, label, from), options);
}

WriteResult Writer::SuspendJob(const JobRef& job, std::string_view label, bool suspend,
                               const WriteOptions& options) {
  return Patch(SuspendJobRequest(job, label, suspend), options);
}

WriteResult Writer::CreateEvent(const EventRecord& event, const WriteOptions& options) {
  WriteResult result = Send(CreateEventRequest(event, instance_), options);
  if (result.outcome == WriteOutcome::kConflict) result.outcome = WriteOutcome::kDone;
  return result;
}

WriteResult Writer::PatchEvent(const EventRecord& event, int count, MicroTime last,
                               const WriteOptions& options) {
  return Send(PatchEventRequest(event, count, last), options);
}

}  // namespace berth::kube
