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
      last.status = answer->status;
      last.message =
          answer->Ok() ? std::string() : ParseStatus(answer->body, answer->status).message;
      const auto outcome = attempts.Answered(answer->status, last.message);
      if (answer->Ok()) last.body = std::move(answer->body);
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

WriteResult Writer::SendBinding(std::optional<Request> request, const PodRef& pod,
                                std::string_view node, const WriteOptions& options) {
  const TimePoint deadline = timing_.now() + options.timeout;
  WriteResult result = Send(std::move(request), options);
  if (result.outcome == WriteOutcome::kConflict) {
    const auto left = std::chrono::floor<Duration>(deadline - timing_.now());
    const WriteResult read = Send(GetPodRequest(pod.ns, pod.name),
                                  {.timeout = std::max(left, Duration(0)), .stop = options.stop});
    result.outcome = AfterConflict(read.outcome, read.body, pod, node);
  }
  return result;
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
