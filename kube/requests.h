// The requests that Berth sends to the API server, as values, and what the answers mean. Pure:
// host/requests.h chooses among them, kube/writer.h sends them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kube/http.h"
#include "kube/objects.h"

namespace berth::kube {

/// Identifies one pod exactly. Every write to a pod has its UID as a precondition, so that a
/// recreated pod with the same name is never touched.
struct PodRef {
  std::string ns;
  std::string name;
  std::string uid;
};

/// Identifies one Job exactly, in one state.
struct JobRef {
  JobKind kind = JobKind::kJob;
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
};

/// Annotations to set, or to remove (nullopt).
using AnnotationPatch = std::map<std::string, std::optional<std::string>, std::less<>>;

/// The object that an event is about. `ns` is empty for a Node.
struct ObjectReference {
  std::string api_version = "v1";
  std::string kind = "Pod";
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
};

using MicroTime = std::chrono::sys_time<std::chrono::microseconds>;

/// An Event of events.k8s.io/v1.
struct EventRecord {
  std::string name;  ///< Chosen by the caller, once: a retry must not create a second event.
  ObjectReference regarding;
  bool warning = false;
  std::string action;  ///< What was done or tried, UpperCamelCase; at most 128 bytes.
  std::string reason;  ///< A reason token; at most 128 bytes.
  std::string note;    ///< For people; cut at 1,024 bytes.
  MicroTime time;
};

// --- Requests. nullopt: a name is invalid, and could change the meaning of the path. Bytes of a
// text that are not UTF-8 are dropped.

/// Binds a pod to a node; `annotations` are merged into it in the same transaction.
std::optional<Request> BindRequest(const PodRef& pod, std::string_view node,
                                   const StringMap& annotations);
/// Sets status.nominatedNodeName (an empty `node` clears it) and annotations in one write: the
/// status subresource of a pod takes its metadata too.
std::optional<Request> NominateRequest(const PodRef& pod, std::string_view node,
                                       const AnnotationPatch& annotations);
/// Removes the scheduling gate `gate`, if it is there; other gates stay.
std::optional<Request> RemoveGateRequest(const PodRef& pod, std::string_view gate);
/// Sets annotations of a pod.
std::optional<Request> AnnotateRequest(const PodRef& pod, const AnnotationPatch& annotations);
/// Evicts the pod through the Eviction API (policy/v1): 429 where a PodDisruptionBudget forbids it.
/// With `dry_run` it is only checked.
std::optional<Request> EvictRequest(const PodRef& pod, bool dry_run);
/// Deletes the pod of that UID, with its own grace period. With `dry_run` it is only checked.
std::optional<Request> DeletePodRequest(const PodRef& pod, bool dry_run);
/// Sets annotations and, as kube-scheduler does before it deletes a pod that it preempts, the
/// condition DisruptionTarget, in one write.
std::optional<Request> DisruptRequest(const PodRef& pod, const AnnotationPatch& annotations,
                                      MicroTime now);
std::optional<Request> GetPodRequest(std::string_view ns, std::string_view name);
/// Its metadata alone.
std::optional<Request> GetNeededRequest(std::string_view ns, const NeededObject& object);
std::optional<Request> GetJobRequest(JobKind kind, std::string_view ns, std::string_view name);
/// Jobs that have the label of the JobSet, a few at a time; `from` as in ListJobsRequest().
std::optional<Request> JobsOfSetRequest(std::string_view ns, std::string_view set,
                                        std::string_view from);
/// The metadata of the Jobs of that kind with the label, a few at a time; `from`: where the last
/// answer ended; empty: from the first.
Request ListJobsRequest(JobKind kind, std::string_view label, std::string_view from);
/// Sets spec.suspend of the Job, and the label with it, or resumes it and removes the label. 409 if
/// it has changed since it was read.
std::optional<Request> SuspendJobRequest(const JobRef& job, std::string_view label, bool suspend);
/// An events.k8s.io/v1 event. `instance` names this replica; cut at 128 bytes.
std::optional<Request> CreateEventRequest(const EventRecord& event, std::string_view instance);
/// Says that the event has occurred `count` times, last at `last`.
std::optional<Request> PatchEventRequest(const EventRecord& event, int count, MicroTime last);

// --- Answers.

enum class WriteOutcome : std::uint8_t {
  kDone,
  kConflict,  ///< 409, or another UID: another pod under that name, or its state forbids it.
  kNotFound,
  kRefused,  ///< Certainly not done: another answer, or (status 0) the request was never sent.
  kUnknown,  ///< May have been done: a time-out, a reset or a 5xx after the request was sent.
};

/// Whether a patch was refused because its UID is another pod's (seen on v1.36.3): to the server it
/// looks as if an immutable field was changed. Treat it as a conflict.
bool IsOtherUid(int status, std::string_view message);

/// What a Binding's conflict means, by a later read of the pod: our own first attempt may have
/// succeeded unseen, since libcurl repeats a request on a dead connection. `read` is the read's
/// outcome, `body` its answer.
WriteOutcome AfterConflict(WriteOutcome read, std::string_view body, const PodRef& pod,
                           std::string_view node);

/// `2026-11-21T08:26:00.000001Z`
std::string FormatMicroTime(MicroTime time);

/// The longest prefix of at most `limit` bytes that does not cut a UTF-8 character.
std::string_view TruncateUtf8(std::string_view text, std::size_t limit);

}  // namespace berth::kube
