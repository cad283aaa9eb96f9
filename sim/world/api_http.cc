#include "sim/world/api_http.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/world/object_json.h"

namespace berth::sim {
namespace {

using nlohmann::json;

/// Thrown only inside this file, and caught in Serve().
struct Unknown {
  std::string what;
};

/// Checks that each member of the object is known.
const json& Known(const json& object, std::initializer_list<std::string_view> keys,
                  const char* what) {
  if (!object.is_object()) throw Unknown{std::string(what) + " is not an object"};
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(keys, key) == keys.end()) throw Unknown{what + ("." + key)};
  }
  return object;
}

std::string Text(const json& object, const char* key) { return object.at(key).get<std::string>(); }

void Expect(const json& object, const char* key, const std::string& value) {
  if (Text(object, key) != value) throw Unknown{std::string(key) + " is not " + value};
}

std::string Unescaped(std::string_view segment) {
  std::string text;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] != '%') {
      text += segment[i];
      continue;
    }
    const std::string_view digits = segment.substr(i + 1, 2);
    unsigned char byte = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), byte, 16);
    if (error != std::errc() || digits.size() != 2) throw Unknown{"escape in a path"};
    text += static_cast<char>(byte);
    i += 2;
  }
  return text;
}

/// The path `/api/v1/namespaces/NS/pods/NAME[/SUBRESOURCE]`.
struct PodPath {
  engine::PodRef pod;
  std::string subresource;
};

std::vector<std::string> PartsOf(std::string_view path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at + 1), path.size());
    parts.push_back(Unescaped(path.substr(at + 1, end - at - 1)));
    at = end;
  }
  return parts;
}

PodPath ParsePath(std::string_view path) {
  const std::vector<std::string> parts = PartsOf(path);
  const bool is_pod = (parts.size() == 6 || parts.size() == 7) && parts[0] == "api" &&
                      parts[1] == "v1" && parts[2] == "namespaces" && parts[4] == "pods";
  if (!is_pod) throw Unknown{"path " + std::string(path)};
  return {.pod = {.ns = parts[3], .name = parts[5], .uid = {}},
          .subresource = parts.size() == 7 ? parts[6] : std::string()};
}

/// A null value removes the annotation, as in a merge patch.
kube::AnnotationPatch Annotations(const json& metadata) {
  kube::AnnotationPatch patch;
  const auto annotations = metadata.find("annotations");
  if (annotations == metadata.end()) return patch;
  for (const auto& [key, value] : annotations->items()) {
    patch.emplace(key, value.is_null() ? std::nullopt : std::optional(value.get<std::string>()));
  }
  return patch;
}

/// The metadata of a patch: the pod's UID, and annotations.
const json& MetadataOf(const json& body) {
  return Known(body.at("metadata"), {"uid", "annotations"}, "patch.metadata");
}

/// Which pod these DeleteOptions are for.
std::string UidOf(const json& options) {
  return Text(Known(options.at("preconditions"), {"uid"}, "preconditions"), "uid");
}

/// Whether they only ask.
bool IsDryRun(const json& options) {
  const auto dry_run = options.find("dryRun");
  if (dry_run == options.end()) return false;
  if (*dry_run != json::array({"All"})) throw Unknown{"dryRun"};
  return true;
}

Reply ApplyBinding(ApiServer& api, engine::PodRef pod, const json& body) {
  Known(body, {"apiVersion", "kind", "metadata", "target"}, "Binding");
  Expect(body, "apiVersion", "v1");
  Expect(body, "kind", "Binding");
  const json& metadata =
      Known(body.at("metadata"), {"name", "namespace", "uid", "annotations"}, "Binding.metadata");
  Expect(metadata, "name", pod.name);
  Expect(metadata, "namespace", pod.ns);
  pod.uid = Text(metadata, "uid");
  const json& target = Known(body.at("target"), {"apiVersion", "kind", "name"}, "Binding.target");
  Expect(target, "kind", "Node");
  std::map<std::string, std::string> annotations;
  for (const auto& [key, value] : Annotations(metadata)) annotations.emplace(key, value.value());
  return api.Bind(pod, Text(target, "name"), annotations);
}

/// A merge patch of the status subresource.
Reply ApplyStatus(ApiServer& api, engine::PodRef pod, const json& body) {
  Known(body, {"metadata", "status"}, "patch");
  const json& metadata = MetadataOf(body);
  pod.uid = Text(metadata, "uid");
  const json& node =
      Known(body.at("status"), {"nominatedNodeName"}, "patch.status").at("nominatedNodeName");
  return api.Nominate(pod, node.is_null() ? std::string() : node.get<std::string>(),
                      Annotations(metadata));
}

/// A merge patch of the pod itself.
Reply ApplyAnnotations(ApiServer& api, engine::PodRef pod, const json& body) {
  Known(body, {"metadata"}, "patch");
  const json& metadata = MetadataOf(body);
  pod.uid = Text(metadata, "uid");
  return api.Annotate(pod, Annotations(metadata));
}

Reply ApplyEviction(ApiServer& api, engine::PodRef pod, const json& body) {
  Known(body, {"apiVersion", "kind", "metadata", "deleteOptions"}, "Eviction");
  Expect(body, "apiVersion", "policy/v1");
  Expect(body, "kind", "Eviction");
  const json& metadata = Known(body.at("metadata"), {"name", "namespace"}, "Eviction.metadata");
  Expect(metadata, "name", pod.name);
  Expect(metadata, "namespace", pod.ns);
  const json& options =
      Known(body.at("deleteOptions"), {"preconditions", "dryRun"}, "Eviction.deleteOptions");
  pod.uid = UidOf(options);
  return api.EvictPod(pod, IsDryRun(options));
}

Reply ApplyDelete(ApiServer& api, engine::PodRef pod, const json& body) {
  Known(body, {"apiVersion", "kind", "preconditions", "dryRun"}, "DeleteOptions");
  Expect(body, "apiVersion", "v1");
  Expect(body, "kind", "DeleteOptions");
  pod.uid = UidOf(body);
  return api.EvictByDelete(pod, IsDryRun(body));
}

/// A strategic merge patch of the status subresource. The model keeps no conditions.
Reply ApplyCondition(ApiServer& api, engine::PodRef pod, const json& body) {
  Known(body, {"metadata", "status"}, "patch");
  const json& metadata = MetadataOf(body);
  pod.uid = Text(metadata, "uid");
  const json& conditions =
      Known(body.at("status"), {"conditions"}, "patch.status").at("conditions");
  if (!conditions.is_array() || conditions.size() != 1) throw Unknown{"patch of conditions"};
  Expect(conditions.front(), "type", "DisruptionTarget");
  return api.Annotate(pod, Annotations(metadata));
}

/// A strategic merge patch: schedulingGates is a list that is merged by name.
Reply ApplySpec(ApiServer& api, engine::PodRef pod, const json& body) {
  Known(body, {"metadata", "spec"}, "patch");
  pod.uid = Text(Known(body.at("metadata"), {"uid"}, "patch.metadata"), "uid");
  const json& gates =
      Known(body.at("spec"), {"schedulingGates"}, "patch.spec").at("schedulingGates");
  if (!gates.is_array() || gates.size() != 1) throw Unknown{"patch of several gates"};
  const json& gate = Known(gates.front(), {"$patch", "name"}, "patch.spec.schedulingGates[]");
  Expect(gate, "$patch", "delete");
  return api.RemoveGate(pod, Text(gate, "name"));
}

/// The label selector of a list, and where it goes on.
std::pair<std::string, std::string> ReadListQuery(const kube::Request& request) {
  const auto& query = request.query;
  const bool known = (query.size() == 2 || query.size() == 3) &&
                     query[0].first == "labelSelector" && query[1].first == "limit" &&
                     (query.size() == 2 || query[2].first == "continue");
  if (!known) throw Unknown{"query"};
  return {query[0].second, query.size() == 3 ? query[2].second : ""};
}

/// The paths `/apis/GROUP/VERSION/RESOURCE`, `/apis/GROUP/VERSION/namespaces/NS/RESOURCE` and
/// `/apis/GROUP/VERSION/namespaces/NS/RESOURCE/NAME`.
Reply ApplyToJobs(ApiServer& api, kube::JobKind kind, const kube::Request& request) {
  const std::vector<std::string> parts = PartsOf(request.path);
  const char* resource = kind == kube::JobKind::kJobSet ? "jobsets" : "jobs";
  if (request.method == "GET" && parts.size() == 4 && parts[3] == resource) {
    const auto [selector, from] = ReadListQuery(request);
    return api.ListJobs(kind, selector, from);
  }
  if (request.method == "GET" && parts.size() == 6 && parts[5] == "jobs") {
    const auto [selector, from] = ReadListQuery(request);
    const std::string label = std::string(kube::kJobSetLabel) + '=';
    if (!selector.starts_with(label)) throw Unknown{"selector " + selector};
    return api.ListJobsOfSet(parts[4], selector.substr(label.size()), from);
  }
  if (parts.size() != 7 || parts[3] != "namespaces" || parts[5] != resource) {
    throw Unknown{"path " + request.path};
  }
  if (request.method == "GET") return api.ReadJob(kind, parts[4], parts[6]);
  if (request.method != "PATCH" || request.content_type != "application/merge-patch+json") {
    throw Unknown{request.method + " " + request.content_type};
  }
  const json body = json::parse(request.body);
  Known(body, {"metadata", "spec"}, "patch");
  const json& metadata =
      Known(body.at("metadata"), {"uid", "resourceVersion", "labels"}, "patch.metadata");
  const json& labels = metadata.at("labels");
  if (labels.size() != 1) throw Unknown{"patch of several labels"};
  const bool suspend = Known(body.at("spec"), {"suspend"}, "patch.spec").at("suspend").get<bool>();
  if (suspend == labels.front().is_null()) throw Unknown{"label of a suspended Job"};
  return api.SuspendJob({.kind = kind,
                         .ns = parts[4],
                         .name = parts[6],
                         .uid = Text(metadata, "uid"),
                         .resource_version = Text(metadata, "resourceVersion")},
                        labels.begin().key(), suspend);
}

/// What the request asks for by GetNeededRequest(): its namespace and the object; nullopt: it is
/// another request.
std::optional<std::pair<std::string, kube::NeededObject>> NeededIn(const kube::Request& request) {
  if (request.method != "GET") return std::nullopt;
  for (const kube::NeededKind kind :
       {kube::NeededKind::kVolumeClaim, kube::NeededKind::kDeviceClaim,
        kube::NeededKind::kDeviceClaimTemplate}) {
    const kube::NeededResource& resource = kube::ResourceOf(kind);
    if (!request.path.starts_with(std::string(resource.group) + "/namespaces/")) continue;
    const std::vector<std::string> parts = PartsOf(request.path.substr(resource.group.size()));
    if (parts.size() != 4 || parts[2] != resource.plural) continue;
    return std::pair(parts[1], kube::NeededObject{.kind = kind, .name = parts[3]});
  }
  return std::nullopt;
}

/// Of what a request about Jobs or JobSets is; nullopt: it is about neither. Such a request is
/// answered with a Job or a list.
std::optional<kube::JobKind> JobKindOf(const kube::Request& request) {
  if (request.path.starts_with("/apis/batch/v1/")) return kube::JobKind::kJob;
  if (request.path.starts_with("/apis/jobset.x-k8s.io/v1alpha2/")) return kube::JobKind::kJobSet;
  return std::nullopt;
}

Reply Apply(ApiServer& api, const kube::Request& request) {
  if (const auto needed = NeededIn(request)) return api.FindNeeded(needed->first, needed->second);
  if (const auto kind = JobKindOf(request)) return ApplyToJobs(api, *kind, request);
  const auto [pod, subresource] = ParsePath(request.path);
  for (const auto& [key, value] : request.query) {
    const bool known = request.method == "PATCH" && key == "fieldValidation" && value == "Ignore";
    if (!known) throw Unknown{"query"};
  }
  if (request.method == "GET" && subresource.empty()) return api.ReadPod(pod);
  const std::string route = request.method + " " + subresource + " " + request.content_type;
  using Applier = Reply (*)(ApiServer&, engine::PodRef, const json&);
  static const std::map<std::string, Applier, std::less<>> kRoutes{
      {"POST binding application/json", ApplyBinding},
      {"POST eviction application/json", ApplyEviction},
      {"DELETE  application/json", ApplyDelete},
      {"PATCH status application/merge-patch+json", ApplyStatus},
      {"PATCH status application/strategic-merge-patch+json", ApplyCondition},
      {"PATCH  application/merge-patch+json", ApplyAnnotations},
      {"PATCH  application/strategic-merge-patch+json", ApplySpec}};
  const auto applier = kRoutes.find(route);
  if (applier == kRoutes.end()) throw Unknown{route};
  return applier->second(api, pod, json::parse(request.body));
}

/// One Job, or a list.
json JobsJson(kube::JobKind kind, const std::string& path, const kube::JobList& list) {
  if (PartsOf(path).size() == 7) return JobJson(kind, list.jobs.front());
  json items = json::array();
  for (const kube::Job& job : list.jobs) items.push_back(JobJson(kind, job));
  return {{"apiVersion", "meta.k8s.io/v1"},
          {"kind", "PartialObjectMetadataList"},
          {"metadata", {{"continue", list.next}}},
          {"items", items.empty() ? json() : std::move(items)}};  // as kube-apiserver 1.36
}

}  // namespace

kube::Response StatusResponse(int status, const std::string& message) {
  return {.status = status,
          .body = Bytes({{"kind", "Status"},
                         {"apiVersion", "v1"},
                         {"status", status / 100 == 2 ? "Success" : "Failure"},
                         {"message", message},
                         {"code", status}}),
          .retry_after = {}};
}

kube::Response Serve(ApiServer& api, const kube::Request& request, std::string& unknown) {
  try {
    const Reply reply = Apply(api, request);
    if (const auto kind = JobKindOf(request); kind && reply.ok()) {
      return {.status = reply.status,
              .body = Bytes(JobsJson(*kind, request.path, reply.jobs)),
              .retry_after = {}};
    }
    if (const auto needed = NeededIn(request); needed && reply.ok()) {
      return {.status = reply.status,
              .body = Bytes(
                  {{"kind", "PartialObjectMetadata"},
                   {"apiVersion", "meta.k8s.io/v1"},
                   {"metadata", {{"name", needed->second.name}, {"namespace", needed->first}}}}),
              .retry_after = {}};
    }
    if (!reply.ok() || reply.pod == nullptr) return StatusResponse(reply.status, reply.message);
    if (request.method == "POST") return StatusResponse(201, "");
    return {.status = reply.status, .body = Bytes(PodJson(*reply.pod)), .retry_after = {}};
  } catch (const Unknown& error) {
    unknown = error.what;
  } catch (const json::exception& error) {
    unknown = error.what();
  }
  unknown = request.method + " " + request.path + ": not known to the model: " + unknown;
  return StatusResponse(400, unknown);
}

}  // namespace berth::sim
