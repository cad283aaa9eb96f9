#include "kube/writer.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace berth::kube {
namespace {

using nlohmann::json;

constexpr int kMaxAttempts = 10;
/// A hanging connection must leave time for another attempt within the usual deadlines.
constexpr Duration kAttemptTimeout{5'000};
constexpr BackoffPolicy kRetry{.initial = Duration(100),
                               .cap = Duration(3'000),
                               .factor = 2.0,
                               .jitter = 1.0,
                               .reset_after = Duration(3'600'000)};
constexpr std::size_t kNameLimit = 128;
constexpr std::size_t kNoteLimit = 1024;

/// Bytes that are not UTF-8 are dropped: the text only gets shorter.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::ignore);
}

/// A name as one segment of a path. What an extender request calls a pod comes from outside.
bool IsName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.size() <= 253;
}

std::string PodPath(const std::string& ns, const std::string& name) {
  return "/api/v1/namespaces/" + EscapeSegment(ns) + "/pods/" + EscapeSegment(name);
}

WriteResult InvalidName() {
  return {.outcome = WriteOutcome::kRefused, .status = 0, .message = "invalid name", .body = {}};
}

/// How the server says that a patch's UID is another pod's (seen on v1.36.3): an immutable field.
bool IsOtherUid(const WriteResult& result) {
  return result.status == 422 && result.message.find("metadata.uid") != std::string::npos;
}

/// Empty optional: try again.
std::optional<WriteOutcome> OutcomeOf(int status) {
  if (status >= 200 && status < 300) return WriteOutcome::kDone;
  if (status == 404) return WriteOutcome::kNotFound;
  if (status == 409) return WriteOutcome::kConflict;
  if (status == 429 || status >= 500) return std::nullopt;
  return WriteOutcome::kRefused;
}

/// True when the pod in `body` is that very one, and on that node.
bool IsBoundTo(const std::string& body, const PodRef& pod, const std::string& node) {
  const json object = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* pointer) {
    const json::json_pointer at(pointer);
    return object.contains(at) && object.at(at).is_string() ? object.at(at).get<std::string>()
                                                            : std::string();
  };
  return text("/metadata/uid") == pod.uid && text("/spec/nodeName") == node;
}

std::string EventNamespace(const EventRecord& event) {
  return event.regarding.ns.empty() ? "default" : event.regarding.ns;
}

std::string EventsPath(const EventRecord& event) {
  return "/apis/events.k8s.io/v1/namespaces/" + EscapeSegment(EventNamespace(event)) + "/events";
}

}  // namespace

Writer::Writer(RestClient& client, std::string instance, Timing timing)
    : client_(client), instance_(std::move(instance)), timing_(std::move(timing)) {}

WriteResult Writer::Send(Request request, const WriteOptions& options) {
  const TimePoint deadline = timing_.now() + options.timeout;
  Backoff backoff(kRetry, timing_);
  const bool is_read = request.method == "GET";
  bool maybe_done = false;
  WriteResult last{
      .outcome = WriteOutcome::kRefused, .status = 0, .message = "timed out", .body = {}};
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto left = std::chrono::floor<Duration>(deadline - timing_.now());
    if (left.count() <= 0 || options.stop.stop_requested()) break;
    if (options.permitted && !options.permitted()) {
      last.message = "not permitted any more";
      break;
    }
    request.timeout = std::min(left, kAttemptTimeout);
    auto answer = client_.Do(request, options.stop);
    Duration wait = backoff.Next();
    if (answer) {
      last.status = answer->status;
      if (const auto outcome = OutcomeOf(answer->status)) {
        last.outcome = *outcome;
        // Refused now, but an earlier try may have got through.
        if (*outcome == WriteOutcome::kRefused && maybe_done && !is_read) {
          last.outcome = WriteOutcome::kUnknown;
        }
        const bool done = *outcome == WriteOutcome::kDone;
        last.message = done ? std::string() : ParseStatus(answer->body, answer->status).message;
        if (done) last.body = std::move(answer->body);
        return last;
      }
      last.message = ParseStatus(answer->body, answer->status).message;
      // 429 is an answer before any work; a 5xx may come after it.
      maybe_done = maybe_done || answer->status != 429;
      if (answer->retry_after) wait = std::max(wait, *answer->retry_after);
    } else {
      last.message = answer.error().message;
      maybe_done = maybe_done || answer.error().maybe_sent;
      if (answer.error().failure == TransportFailure::kCancelled) break;
    }
    // A wait that outlasts the deadline is pointless: answer now.
    if (timing_.now() + wait >= deadline || !timing_.wait(wait, options.stop)) break;
  }
  last.outcome = maybe_done && !is_read ? WriteOutcome::kUnknown : WriteOutcome::kRefused;
  return last;
}

BindResult Writer::PostBinding(const PodRef& pod, const std::string& node,
                               const StringMap& annotations, const WriteOptions& options) {
  if (!IsName(pod.ns) || !IsName(pod.name)) {
    return {.outcome = BindOutcome::kRefused, .status = 0, .message = "invalid name"};
  }
  const json binding = {
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata",
       {{"name", pod.name}, {"namespace", pod.ns}, {"uid", pod.uid}, {"annotations", annotations}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  Request request;
  request.method = "POST";
  request.path = PodPath(pod.ns, pod.name) + "/binding";
  request.body = Dump(binding);
  const TimePoint deadline = timing_.now() + options.timeout;
  const WriteResult result = Send(std::move(request), options);
  BindResult bound{
      .outcome = BindOutcome::kBound, .status = result.status, .message = result.message};
  switch (result.outcome) {
    case WriteOutcome::kDone:
      return bound;
    case WriteOutcome::kNotFound:
      bound.outcome = BindOutcome::kNotFound;
      return bound;
    case WriteOutcome::kRefused:
      bound.outcome = BindOutcome::kRefused;
      return bound;
    case WriteOutcome::kUnknown:
      bound.outcome = BindOutcome::kUnknown;
      return bound;
    case WriteOutcome::kConflict:
      break;
  }
  // Our own first try may have gone through unseen: curl repeats a request on a dead connection.
  const auto left = std::chrono::floor<Duration>(deadline - timing_.now());
  const WriteResult read =
      GetPod(pod.ns, pod.name, {.timeout = std::max(left, Duration(0)), .stop = options.stop});
  if (read.outcome == WriteOutcome::kNotFound) {
    bound.outcome = BindOutcome::kNotFound;
  } else if (read.outcome != WriteOutcome::kDone) {
    bound.outcome = BindOutcome::kUnknown;
  } else if (!IsBoundTo(read.body, pod, node)) {
    bound.outcome = BindOutcome::kConflict;
  }
  return bound;
}

WriteResult Writer::PatchPod(Request request, const PodRef& pod, const WriteOptions& options) {
  if (!IsName(pod.ns) || !IsName(pod.name)) return InvalidName();
  request.method = "PATCH";
  request.path = PodPath(pod.ns, pod.name) + request.path;
  WriteResult result = Send(std::move(request), options);
  if (IsOtherUid(result)) result.outcome = WriteOutcome::kConflict;
  return result;
}

WriteResult Writer::Nominate(const PodRef& pod, const std::string& node,
                             const AnnotationPatch& annotations, const WriteOptions& options) {
  json patch = {{"metadata", {{"uid", pod.uid}}},
                {"status", {{"nominatedNodeName", node.empty() ? json() : json(node)}}}};
  for (const auto& [key, value] : annotations) {
    patch["metadata"]["annotations"][key] = value ? json(*value) : json();
  }
  Request request;
  request.path = "/status";
  request.content_type = "application/merge-patch+json";
  request.body = Dump(patch);
  return PatchPod(std::move(request), pod, options);
}

WriteResult Writer::RemoveGate(const PodRef& pod, const std::string& gate,
                               const WriteOptions& options) {
  // By name, not by index as a JSON patch would: another controller may remove its own meanwhile.
  const json patch = {
      {"metadata", {{"uid", pod.uid}}},
      {"spec", {{"schedulingGates", json::array({{{"$patch", "delete"}, {"name", gate}}})}}}};
  Request request;
  request.content_type = "application/strategic-merge-patch+json";
  request.body = Dump(patch);
  return PatchPod(std::move(request), pod, options);
}

WriteResult Writer::GetPod(const std::string& ns, const std::string& name,
                           const WriteOptions& options) {
  if (!IsName(ns) || !IsName(name)) return InvalidName();
  Request request;
  request.path = PodPath(ns, name);
  return Send(std::move(request), options);
}

WriteResult Writer::CreateEvent(const EventRecord& event, const WriteOptions& options) {
  if (!IsName(EventNamespace(event)) || !IsName(event.name)) return InvalidName();
  json regarding = {{"apiVersion", event.regarding.api_version},
                    {"kind", event.regarding.kind},
                    {"name", event.regarding.name},
                    {"uid", event.regarding.uid}};
  if (!event.regarding.ns.empty()) regarding["namespace"] = event.regarding.ns;
  if (!event.regarding.resource_version.empty()) {
    regarding["resourceVersion"] = event.regarding.resource_version;
  }
  const json body = {{"apiVersion", "events.k8s.io/v1"},
                     {"kind", "Event"},
                     {"metadata", {{"name", event.name}, {"namespace", EventNamespace(event)}}},
                     {"eventTime", FormatMicroTime(event.time)},
                     {"reportingController", "berth.dev/berth"},
                     {"reportingInstance", std::string(TruncateUtf8(instance_, kNameLimit))},
                     {"action", std::string(TruncateUtf8(event.action, kNameLimit))},
                     {"reason", std::string(TruncateUtf8(event.reason, kNameLimit))},
                     {"note", std::string(TruncateUtf8(event.note, kNoteLimit))},
                     {"type", event.warning ? "Warning" : "Normal"},
                     {"regarding", std::move(regarding)}};
  Request request;
  request.method = "POST";
  request.path = EventsPath(event);
  request.body = Dump(body);
  WriteResult result = Send(std::move(request), options);
  if (result.outcome == WriteOutcome::kConflict) result.outcome = WriteOutcome::kDone;
  return result;
}

WriteResult Writer::PatchEvent(const EventRecord& event, int count, MicroTime last,
                               const WriteOptions& options) {
  if (!IsName(EventNamespace(event)) || !IsName(event.name)) return InvalidName();
  Request request;
  request.method = "PATCH";
  request.path = EventsPath(event) + "/" + EscapeSegment(event.name);
  request.content_type = "application/merge-patch+json";
  request.body =
      Dump({{"series", {{"count", count}, {"lastObservedTime", FormatMicroTime(last)}}}});
  return Send(std::move(request), options);
}

std::string FormatMicroTime(MicroTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  char text[64];
  std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

std::string_view TruncateUtf8(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace berth::kube
