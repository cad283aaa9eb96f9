// Recorded Kubernetes pods as jobs.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cluster/dialects.h"
#include "cluster/plan_claim.h"
#include "config/manifests.h"
#include "config/scalars.h"
#include "kube/decode.h"
#include "kube/time.h"
#include "sim/trace/recording.h"

namespace berth::sim {
namespace {

using nlohmann::json;

/// The text at `pointer`; empty if there is none.
std::string TextAt(const json& object, const char* pointer) {
  const json::json_pointer at(pointer);
  if (!object.contains(at) || !object[at].is_string()) return {};
  return object[at].get<std::string>();
}

struct RecordedPod {
  kube::Pod pod;
  Duration service = 0;
  std::optional<kube::Millis> end{};  ///< Absent: the pod only says how long it runs.
};

/// From status.startTime to the end of the last container; or as berth.dev/expected-duration says.
/// False: the pod has neither.
bool ReadService(const json& raw, RecordedPod& recorded) {
  const auto start = kube::ParseTime(TextAt(raw, "/status/startTime"));
  const json::json_pointer statuses("/status/containerStatuses");
  if (start && raw.contains(statuses) && raw[statuses].is_array()) {
    for (const json& status : raw[statuses]) {
      const auto finished = kube::ParseTime(TextAt(status, "/state/terminated/finishedAt"));
      if (!finished) {
        recorded.end.reset();
        break;
      }
      recorded.end = std::max(recorded.end.value_or(*finished), *finished);
    }
  }
  if (recorded.end) {
    recorded.service = std::max<Duration>(1, *recorded.end - *start);
    return true;
  }
  const auto expected =
      kube::ParseDuration(TextAt(raw, "/metadata/annotations/berth.dev~1expected-duration"));
  if (!expected || expected->count() <= 0) return false;
  recorded.service = std::max<Duration>(
      1, std::chrono::duration_cast<std::chrono::milliseconds>(*expected).count());
  return true;
}

/// The pod as its controller created it.
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

/// The runs of gangs with one name.
struct GangRuns {
  std::size_t count = 0;
  std::size_t job = 0;              ///< Job of the latest run.
  std::optional<kube::Millis> end;  ///< End of its last member; absent: a member has not ended.
};

/// True if the latest run is complete, or was over when this pod was created.
bool BeginsRun(const GangRuns& runs, const RecordedJob& latest, const RecordedPod& recorded,
               const cluster::GangClaim& claim) {
  // Without a size, the claim has only the minimum of the gang, and there may be more members.
  const bool sized = recorded.pod.meta.annotations.contains("berth.dev/gang-size");
  return (sized && claim.size > 0 && std::cmp_greater_equal(latest.pods.size(), claim.size)) ||
         (runs.end && recorded.pod.meta.creation > *runs.end);
}

/// Names the gang by Berth's annotations, whatever API named it before. Two runs that did not
/// overlap in the recording may overlap in the replay, so each gets a name of its own.
void NameGang(kube::Pod& pod, const cluster::GangClaim& claim, const std::string& name) {
  pod.meta.labels["berth.dev/gang"] = name;
  if (claim.size == 0) return;
  pod.meta.annotations.try_emplace("berth.dev/gang-size", std::to_string(claim.size));
  pod.meta.annotations.try_emplace("berth.dev/gang-min-member", std::to_string(claim.min_member));
}

/// `pods` by rising creation.
std::vector<RecordedJob> Join(std::vector<RecordedPod> pods) {
  std::vector<RecordedJob> jobs;
  std::map<std::string, GangRuns> gangs;  // by namespace and name
  std::set<std::size_t> unsized;          // jobs
  for (RecordedPod& recorded : pods) {
    const kube::ObjectMeta& meta = recorded.pod.meta;
    const cluster::PodClaims claims = cluster::ReadClaims(recorded.pod, {});
    const cluster::GangClaim& claim = claims.gang;
    const auto begin = [&](std::string name) {
      jobs.push_back({.name = std::move(name),
                      .arrival = meta.creation,
                      .service = recorded.service,
                      .pods = {}});
    };
    if (claim.name.empty()) {
      begin(meta.ns + "/" + meta.name);
      jobs.back().pods.push_back(AsCreated(std::move(recorded.pod)));
      continue;
    }
    GangRuns& runs = gangs[meta.ns + "/" + claim.name];
    if (runs.count == 0 || BeginsRun(runs, jobs[runs.job], recorded, claim)) {
      runs = {.count = runs.count + 1, .job = jobs.size(), .end = recorded.end};
      begin(meta.ns + "/gang/" + claim.name);
      if (runs.count > 1) jobs.back().name += fmt::format(" (run {})", runs.count);
    }
    if (runs.end && (!recorded.end || *recorded.end > *runs.end)) runs.end = recorded.end;
    RecordedJob& job = jobs[runs.job];
    job.service = std::max(job.service, recorded.service);
    if (runs.count > 1) {
      NameGang(recorded.pod, claim, fmt::format("{}.run-{}", claim.name, runs.count));
    } else if (!claims.waits_for.empty()) {
      NameGang(recorded.pod, claim, claim.name);
    }
    // The gang's group object, which has the size, is not among the pods: assume that it needs all
    // pods that ran.
    if (!claims.waits_for.empty()) unsized.insert(runs.job);
    job.pods.push_back(AsCreated(std::move(recorded.pod)));
  }
  for (const std::size_t job : unsized) {
    for (kube::Pod& pod : jobs[job].pods) {
      pod.meta.annotations.try_emplace("berth.dev/gang-size",
                                       std::to_string(jobs[job].pods.size()));
    }
  }
  return jobs;
}

}  // namespace

std::expected<Recording, InputError> ReadRecordedPods(const std::string& text,
                                                      const std::string& file) {
  const auto manifests = config::ReadManifests(text);
  if (!manifests) return std::unexpected(InputError{file, 0, manifests.error()});
  Recording recording;
  std::vector<RecordedPod> pods;
  std::set<std::string> names;
  simdjson::dom::parser parser;
  for (const config::Manifest& manifest : *manifests) {
    if (manifest.kind != "Pod") continue;
    auto pod = kube::DecodePod(manifest.json, parser);
    if (!pod) {
      return std::unexpected(
          InputError{file, 0, "Pod " + manifest.name + ": " + pod.error().ToString()});
    }
    const std::string name = pod->meta.ns + "/" + pod->meta.name;
    if (!names.insert(name).second) {
      return std::unexpected(InputError{file, 0, "Pod " + name + " is there twice"});
    }
    // Not a label value that Kubernetes accepts; and it would become part of the CSV's header.
    const auto queue = pod->meta.labels.find("berth.dev/queue");
    if (queue != pod->meta.labels.end() && !queue->second.empty() &&
        !config::IsQualifiedName(queue->second)) {
      recording.left_out.push_back(name + ": its queue " + config::Quote(queue->second) +
                                   " is no name");
      continue;
    }
    RecordedPod recorded{.pod = *std::move(pod)};
    if (ReadService(json::parse(manifest.json, nullptr, /*allow_exceptions=*/false), recorded)) {
      pods.push_back(std::move(recorded));
    } else {
      recording.left_out.push_back(name +
                                   ": has not ended, and names no berth.dev/expected-duration");
    }
  }
  std::ranges::stable_sort(pods, {},
                           [](const RecordedPod& recorded) { return recorded.pod.meta.creation; });
  recording.jobs = Join(std::move(pods));
  return recording;
}

}  // namespace berth::sim
