// The writes that Berth makes to the API server. Each is idempotent, has a deadline, and is retried
// a bounded number of times. Nothing here decides anything; kube/requests.h has the requests and
// the meaning of the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "kube/attempts.h"
#include "kube/backoff.h"
#include "kube/objects.h"
#include "kube/requests.h"
#include "kube/rest_client.h"

namespace berth::kube {

/// How long a write may take, including retries, and what ends it early. No attempt begins after
/// either.
struct WriteOptions {
  Duration timeout{10'000};
  std::stop_token stop{};
  /// Asked right before every attempt; false: no further attempt is made. Empty: always permitted.
  std::function<bool()> permitted{};
};

/// What came of a write or read, after all attempts.
struct WriteResult {
  WriteOutcome outcome = WriteOutcome::kUnknown;
  int status = 0;       ///< The last HTTP status; 0: none.
  std::string message;  ///< From the server or the transport.
  std::string body;     ///< Of a 2xx answer.
};

/// Makes the writes. Thread-safe; calls block their callers' threads.
class Writer {
 public:
  /// `client` must outlive it. `instance` names this replica in events, 128 bytes at most.
  Writer(RestClient& client, std::string instance, Timing timing = Timing::Real());

  /// BindRequest(). After a conflict the pod is read: if it is on `node` already, that is kDone
  /// with status 409.
  WriteResult PostBinding(const PodRef& pod, const std::string& node, const StringMap& annotations,
                          const WriteOptions& options);

  /// NominateRequest().
  WriteResult Nominate(const PodRef& pod, const std::string& node,
                       const AnnotationPatch& annotations, const WriteOptions& options);

  /// RemoveGateRequest().
  WriteResult RemoveGate(const PodRef& pod, const std::string& gate, const WriteOptions& options);

  /// AnnotateRequest().
  WriteResult Annotate(const PodRef& pod, const AnnotationPatch& annotations,
                       const WriteOptions& options);

  /// EvictRequest(), or DeletePodRequest().
  WriteResult Evict(const PodRef& pod, bool dry_run, bool by_delete, const WriteOptions& options);

  /// DisruptRequest().
  WriteResult Disrupt(const PodRef& pod, const AnnotationPatch& annotations, MicroTime now,
                      const WriteOptions& options);

  /// Reads a pod from the API server, not from a cache: its JSON is in `body`.
  WriteResult GetPod(const std::string& ns, const std::string& name, const WriteOptions& options);

  /// Whether there is the object: kNotFound if the API server says so, or if nothing can have that
  /// name. A kind that it does not serve is refused.
  WriteResult GetNeeded(const std::string& ns, const NeededObject& object,
                        const WriteOptions& options);

  /// Read a Job, the Jobs of a JobSet (JobsOfSetRequest()) or metadata of Jobs (ListJobsRequest()):
  /// their JSON is in `body`.
  WriteResult GetJob(JobKind kind, const std::string& ns, const std::string& name,
                     const WriteOptions& options);
  WriteResult JobsOfSet(const std::string& ns, const std::string& set, std::string_view from,
                        const WriteOptions& options);
  WriteResult ListJobs(JobKind kind, std::string_view label, std::string_view from,
                       const WriteOptions& options);

  /// SuspendJobRequest().
  WriteResult SuspendJob(const JobRef& job, std::string_view label, bool suspend,
                         const WriteOptions& options);

  /// Creates an events.k8s.io/v1 event; if one of that name exists, that is success.
  WriteResult CreateEvent(const EventRecord& event, const WriteOptions& options);

  /// Reports that an event has occurred `count` times, last at `last`. The server allows no other
  /// change of an event. kNotFound: the event has expired; create it again.
  WriteResult PatchEvent(const EventRecord& event, int count, MicroTime last,
                         const WriteOptions& options);

 private:
  /// nullopt: refused, since a name is invalid.
  WriteResult Send(std::optional<Request> request, const WriteOptions& options);
  WriteResult Patch(std::optional<Request> request, const WriteOptions& options);

  RestClient& client_;
  const std::string instance_;
  const Timing timing_;
};

}  // namespace berth::kube
