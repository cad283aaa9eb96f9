#include "kube/requests.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "kube/api_status.h"
#include "kube/json_text.h"
#include "kube/time.h"

namespace berth::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kNameLimit = 128;
constexpr std::size_t kNoteLimit = 1024;
constexpr const char* kMergePatch = "application/merge-patch+json";
constexpr const char* kStrategicPatch = "application/strategic-merge-patch+json";

/// Whether `name` is safe as one segment of a path. The pod names in extender requests come from
/// outside.
bool IsName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.size() <= 253;
}

std::string PodPath(std::string_view ns, std::string_view name) {
  return "/api/v1/namespaces/" + EscapeSegment(ns) + "/pods/" + EscapeSegment(name);
}

/// A request about one pod; `below` is the part after its path.
std::optional<Request> PodRequest(std::string_view ns, std::string_view name, const char* method,
                                  const char* below = "") {
  if (!IsName(ns) || !IsName(name)) return std::nullopt;
  Request request;
  request.method = method;
  request.path = PodPath(ns, name) + below;
  return request;
}

/// A patch of a pod, with fieldValidation=Ignore: otherwise the server would decode the whole pod a
/// second time to warn of unknown fields; nobody reads those warnings, and our patches have no such
/// fields.
std::optional<Request> PatchPodRequest(const PodRef& pod, const char* below, const char* type,
                                       const json& patch) {
  auto request = PodRequest(pod.ns, pod.name, "PATCH", below);
  if (!request) return std::nullopt;
  request->query = {{"fieldValidation", "Ignore"}};
  request->content_type = type;
  request->body = JsonText(patch);
  return request;
}

/// The group with its version, and the resource in it.
std::pair<std::string_view, std::string_view> ResourceOf(JobKind kind) {
  if (kind == JobKind::kJobSet) return {"jobset.x-k8s.io/v1alpha2", "jobsets"};
  return {"batch/v1", "jobs"};
}

std::string EventNamespace(const EventRecord& event) {
  return event.regarding.ns.empty() ? "default" : event.regarding.ns;
}

std::string EventsPath(const EventRecord& event) {
  return "/apis/events.k8s.io/v1/namespaces/" + EscapeSegment(EventNamespace(event)) + "/events";
}

bool HasNames(const EventRecord& event) {
  return IsName(EventNamespace(event)) && IsName(event.name);
}

/// True if the pod in `body` is exactly this pod, and on this node.
bool IsBoundTo(std::string_view body, const PodRef& pod, std::string_view node) {
  const json object = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* pointer) {
    const json::json_pointer at(pointer);
    return object.contains(at) && object.at(at).is_string() ? object.at(at).get<std::string>()
                                                            : std::string();
  };
  return text("/metadata/uid") == pod.uid && text("/spec/nodeName") == node;
}

/// Null removes one.
void SetAnnotations(json& patch, const AnnotationPatch& annotations) {
  for (const auto& [key, value] : annotations) {
    patch["metadata"]["annotations"][key] = value ? json(*value) : json();
  }
}

}  // namespace

// --- Requests ------------------------------------------------------------------------------------

std::optional<Request> BindRequest(const PodRef& pod, std::string_view node,
                                   const StringMap& annotations) {
  auto request = PodRequest(pod.ns, pod.name, "POST", "/binding");
  if (!request) return std::nullopt;
  request->body = JsonText({{"apiVersion", "v1"},
                            {"kind", "Binding"},
                            {"metadata",
                             {{"name", pod.name},
                              {"namespace", pod.ns},
                              {"uid", pod.uid},
                              {"annotations", annotations}}},
                            {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}});
  return request;
}

std::optional<Request> NominateRequest(const PodRef& pod, std::string_view node,
                                       const AnnotationPatch& annotations) {
  json patch = {{"metadata", {{"uid", pod.uid}}},
                {"status", {{"nominatedNodeName", node.empty() ? json() : json(node)}}}};
  SetAnnotations(patch, annotations);
  return PatchPodRequest(pod, "/status", kMergePatch, patch);
}

std::optional<Request> RemoveGateRequest(const PodRef& pod, std::string_view gate) {
  // By name, not by index as a JSON patch would: another controller may remove its own meanwhile.
  const json patch = {
      {"metadata", {{"uid", pod.uid}}},
      {"spec", {{"schedulingGates", json::array({{{"$patch", "delete"}, {"name", gate}}})}}}};
  return PatchPodRequest(pod, "", kStrategicPatch, patch);
}

std::optional<Request> AnnotateRequest(const PodRef& pod, const AnnotationPatch& annotations) {
  json patch = {{"metadata", {{"uid", pod.uid}}}};
  SetAnnotations(patch, annotations);
  return PatchPodRequest(pod, "", kMergePatch, patch);
}

std::optional<Request> EvictRequest(const PodRef& pod, bool dry_run) {
  auto request = PodRequest(pod.ns, pod.name, "POST", "/eviction");
  if (!request) return std::nullopt;
  json options = {{"preconditions", {{"uid", pod.uid}}}};
  if (dry_run) options["dryRun"] = json::array({"All"});
  request->body = JsonText({{"apiVersion", "policy/v1"},
                            {"kind", "Eviction"},
                            {"metadata", {{"name", pod.name}, {"namespace", pod.ns}}},
                            {"deleteOptions", std::move(options)}});
  return request;
}

std::optional<Request> DeletePodRequest(const PodRef& pod, bool dry_run) {
  auto request = PodRequest(pod.ns, pod.name, "DELETE");
  if (!request) return std::nullopt;
  json options = {
      {"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"preconditions", {{"uid", pod.uid}}}};
  if (dry_run) options["dryRun"] = json::array({"All"});
  request->body = JsonText(options);
  return request;
}

std::optional<Request> DisruptRequest(const PodRef& pod, const AnnotationPatch& annotations,
                                      MicroTime now) {
  const auto time = std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch();
  json patch = {{"metadata", {{"uid", pod.uid}}},
                {"status",
                 {{"conditions",
                   json::array({{{"type", "DisruptionTarget"},
                                 {"status", "True"},
                                 {"reason", "PreemptionByBerth"},
                                 {"message", "Berth evicts this pod to make room for other work."},
                                 {"lastTransitionTime", FormatTime(time.count())}}})}}}};
  SetAnnotations(patch, annotations);
  return PatchPodRequest(pod, "/status", kStrategicPatch, patch);
}

std::optional<Request> GetPodRequest(std::string_view ns, std::string_view name) {
  return PodRequest(ns, name, "GET");
}

std::optional<Request> GetNeededRequest(std::string_view ns, const NeededObject& object) {
  if (!IsName(ns) || !IsName(object.name)) return std::nullopt;
  Request request;
  const NeededResource& resource = ResourceOf(object.kind);
  request.path = fmt::format("{}/namespaces/{}/{}/{}", resource.group, EscapeSegment(ns),
                             resource.plural, EscapeSegment(object.name));
  request.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
  return request;
}

std::optional<Request> GetJobRequest(JobKind kind, std::string_view ns, std::string_view name) {
  if (!IsName(ns) || !IsName(name)) return std::nullopt;
  const auto [group, resource] = ResourceOf(kind);
  Request request;
  request.path = fmt::format("/apis/{}/namespaces/{}/{}/{}", group, EscapeSegment(ns), resource,
                             EscapeSegment(name));
  return request;
}

std::optional<Request> JobsOfSetRequest(std::string_view ns, std::string_view set,
                                        std::string_view from) {
  constexpr const char* kAtATime = "20";
  if (!IsName(ns) || !IsName(set)) return std::nullopt;
  Request request;
  request.path = fmt::format("/apis/batch/v1/namespaces/{}/jobs", EscapeSegment(ns));
  request.query = {{"labelSelector", fmt::format("{}={}", kJobSetLabel, set)}, {"limit", kAtATime}};
  if (!from.empty()) request.query.emplace_back("continue", from);
  return request;
}

Request ListJobsRequest(JobKind kind, std::string_view label, std::string_view from) {
  // Users may make Jobs as large as the API server permits, and its JSON of them larger still.
  constexpr const char* kAtATime = "10";
  Request request;
  const auto [group, resource] = ResourceOf(kind);
  request.path = fmt::format("/apis/{}/{}", group, resource);
  request.query = {{"labelSelector", std::string(label)}, {"limit", kAtATime}};
  if (!from.empty()) request.query.emplace_back("continue", from);
  request.accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  return request;
}

std::optional<Request> SuspendJobRequest(const JobRef& job, std::string_view label, bool suspend) {
  auto request = GetJobRequest(job.kind, job.ns, job.name);
  if (!request) return std::nullopt;
  request->method = "PATCH";
  request->query = {{"fieldValidation", "Ignore"}};
  request->content_type = kMergePatch;
  const json value = suspend ? json("true") : json();
  request->body = JsonText({{"metadata",
                             {{"uid", job.uid},
                              {"resourceVersion", job.resource_version},
                              {"labels", {{label, value}}}}},
                            {"spec", {{"suspend", suspend}}}});
  return request;
}

std::optional<Request> CreateEventRequest(const EventRecord& event, std::string_view instance) {
  if (!HasNames(event)) return std::nullopt;
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
                     {"reportingInstance", TruncateUtf8(instance, kNameLimit)},
                     {"action", TruncateUtf8(event.action, kNameLimit)},
                     {"reason", TruncateUtf8(event.reason, kNameLimit)},
                     {"note", TruncateUtf8(event.note, kNoteLimit)},
                     {"type", event.warning ? "Warning" : "Normal"},
                     {"regarding", std::move(regarding)}};
  Request request;
  request.method = "POST";
  request.path = EventsPath(event);
  request.body = JsonText(body);
  return request;
}

std::optional<Request> PatchEventRequest(const EventRecord& event, int count, MicroTime last) {
  if (!HasNames(event)) return std::nullopt;
  Request request;
  request.method = "PATCH";
  request.path = EventsPath(event) + "/" + EscapeSegment(event.name);
  request.content_type = kMergePatch;
  request.body =
      JsonText({{"series", {{"count", count}, {"lastObservedTime", FormatMicroTime(last)}}}});
  return request;
}

// --- Answers -------------------------------------------------------------------------------------

bool IsOtherUid(int status, std::string_view message) {
  return status == 422 && message.find("metadata.uid") != message.npos;
}

WriteOutcome AfterConflict(WriteOutcome read, std::string_view body, const PodRef& pod,
                           std::string_view node) {
  if (read == WriteOutcome::kNotFound) return read;
  if (read != WriteOutcome::kDone) return WriteOutcome::kUnknown;
  return IsBoundTo(body, pod, node) ? WriteOutcome::kDone : WriteOutcome::kConflict;
}

// --- Text ----------------------------------------------------------------------------------------

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
