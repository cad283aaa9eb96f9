// Recorded Kubernetes pods as jobs.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cluster/dialects.h"
#include "cluster/plan_claim.h"
#include "config/manifests.h"
#include "kube/decode.h"
#include "kube/time.h"
#include "sim/trace/recording.h"

namespace berth::sim {
namespace {

using nlohmann::json;

/// The text at `pointer`; empty: there is none.
std::string TextAt(const json& object, const char* pointer) {
  const json::json_pointer at(pointer);
  if (!object.contains(at) || !object[at].is_string()) return {};
  return object[at].get<std::string>();
}

/// From status.startTime to the last container's end; or as berth.dev/expected-duration says.
std::optional<Duration> ServiceOf(const json& pod) {
  const auto start = kube::ParseTime(TextAt(pod, "/status/startTime"));
  std::optional<kube::Millis> end;
  const json::json_pointer statuses("/status/containerStatuses");
  if (start && pod.contains(statuses) && pod[statuses].is_array()) {
    for (const json& status : pod[statuses]) {
      const auto finished = kube::ParseTime(TextAt(status, "/state/terminated/finishedAt"));
      if (!finished) {
        end.reset();
        break;
      }
      end = std::max(end.value_or(*finished), *finished);
    }
  }
  if (end) return std::max<Duration>(1, *end - *start);
  const auto expected =
      kube::ParseDuration(TextAt(pod, "/metadata/annotations/berth.dev~1expected-duration"));
  if (!expected || expected->count() <= 0) return std::nullopt;
  return std::max<Duration>(
      1, std::chrono::duration_cast<std::chrono::milliseconds>(*expected).count());
}

/// As its controller created it.
kube::Pod AsCreated(kube::Pod pod) {
  pod.meta.uid.clear();
  pod.meta.deletion.reset();
  pod.meta.annotations.erase(std::string(cluster::kPlanAnnotation));
  pod.node_name.clear();
  pod.nominated_node.clear();
  pod.scheduling_gates.clear();
  pod.phase = kube::PodPhase::kPending;
  pod.pod_scheduled.reset();
  pod.status_reason.clear();
  return pod;
}

}  // namespace

std::expected<Recording, TraceError> ReadRecordedPods(const std::string& text,
                                                      const std::string& file) {
  const auto manifests = config::ReadManifests(text);
  if (!manifests) return std::unexpected(TraceError{file, 0, manifests.error()});
  Recording recording;
  std::map<std::string, std::size_t> jobs;  // name to index
  simdjson::dom::parser parser;
  for (const config::Manifest& manifest : *manifests) {
    if (manifest.kind != "Pod") continue;
    auto pod = kube::DecodePod(manifest.json, parser);
    if (!pod) {
      return std::unexpected(
          TraceError{file, 0, "Pod " + manifest.name + ": " + pod.error().ToString()});
    }
    const json raw = json::parse(manifest.json, nullptr, /*allow_exceptions=*/false);
    const auto service = ServiceOf(raw);
    if (!service) {
      recording.left_out.push_back(pod->meta.ns + "/" + pod->meta.name +
                                   ": has not ended, and names no berth.dev/expected-duration");
      continue;
    }
    const std::string gang = cluster::ReadClaims(*pod, config::Dialects()).gang.name;
    const std::string name = pod->meta.ns + "/" + (gang.empty() ? pod->meta.name : "gang/" + gang);
    const auto [at, fresh] = jobs.emplace(name, recording.jobs.size());
    if (fresh) {
      recording.jobs.push_back(
          {.name = name, .arrival = pod->meta.creation, .service = *service, .pods = {}});
    }
    RecordedJob& job = recording.jobs[at->second];
    job.arrival = std::min(job.arrival, pod->meta.creation);
    job.service = std::max(job.service, *service);
    job.pods.push_back(AsCreated(*std::move(pod)));
  }
  return recording;
}

}  // namespace berth::sim
