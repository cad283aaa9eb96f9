// The writes that Berth makes to the API server. Each is idempotent, has a deadline, and is retried
// a bounded number of times. Nothing here decides anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "kube/api_status.h"
#include "kube/backoff.h"
#include "kube/objects.h"
#include "kube/rest_client.h"

namespace berth::kube {

/// How long a write may take, retries included, and what ends it early. Not a single attempt
/// begins after either.
struct WriteOptions {
  Duration timeout{10'000};
  std::stop_token stop{};
  /// Asked right before every attempt; false: no further one is made. Empty: always.
  std::function<bool()> permitted{};
};

enum class WriteOutcome : std::uint8_t {
  kDone,
  kConflict,  ///< 409, or another UID: another pod under that name, or its state forbids it.
  kNotFound,
  kRefused,  ///< Certainly not done: another answer, or (status 0) the request never left.
  kUnknown,  ///< May have been done: a time-out, a reset or a 5xx after the request went out.
};

struct WriteResult {
  WriteOutcome outcome = WriteOutcome::kUnknown;
  int status = 0;       ///< The last HTTP status; 0: none.
  std::string message;  ///< The server's, or the transport's.
  std::string body;     ///< Of a 2xx answer.
};

enum class BindOutcome : std::uint8_t { kBound, kConflict, kNotFound, kRefused, kUnknown };

/// See WriteOutcome; a pod that was on that node already is kBound, with status 409.
struct BindResult {
  BindOutcome outcome = BindOutcome::kUnknown;
  int status = 0;
  std::string message;
};

/// Which pod exactly. Every write to a pod has its UID as a precondition, so that a recreated pod
/// under the same name is never touched.
struct PodRef {
  std::string ns;
  std::string name;
  std::string uid;
};

/// Annotations to set, or to remove (nullopt).
using AnnotationPatch = std::map<std::string, std::optional<std::string>, std::less<>>;

/// What an event is about. `ns` is empty for a Node.
struct ObjectReference {
  std::string api_version = "v1";
  std::string kind = "Pod";
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
};

using MicroTime = std::chrono::sys_time<std::chrono::microseconds>;

struct EventRecord {
  std::string name;  ///< Chosen by the caller, once: a retry must not make a second event.
  ObjectReference regarding;
  bool warning = false;
  std::string action;  ///< What was done or tried, UpperCamelCase; at most 128 bytes.
  std::string reason;  ///< A reason token; at most 128 bytes.
  std::string note;    ///< For people; cut at 1,024 bytes.
  MicroTime time;
};

/// Makes the writes. Thread-safe; calls block their callers' threads.
class Writer {
 public:
  /// `client` must outlive it. `instance` names this replica in events, 128 bytes at most.
  Writer(RestClient& client, std::string instance, Timing timing = Timing::Real());

  /// Binds a pod to a node; `annotations` are merged into it in the same transaction. After a
  /// conflict the pod is read: if it is on `node` already, it is bound.
  BindResult PostBinding(const PodRef& pod, const std::string& node, const StringMap& annotations,
                         const WriteOptions& options);

  /// Sets status.nominatedNodeName (an empty `node` clears it) and annotations in one write: the
  /// status subresource of a pod takes its metadata too.
  WriteResult Nominate(const PodRef& pod, const std::string& node,
                       const AnnotationPatch& annotations, const WriteOptions& options);

  /// Removes the scheduling gate `gate`, if it is there; other gates stay.
  WriteResult RemoveGate(const PodRef& pod, const std::string& gate, const WriteOptions& options);

  /// Reads a pod from the API server itself, not from a cache: its JSON is in `body`.
  WriteResult GetPod(const std::string& ns, const std::string& name, const WriteOptions& options);

  /// Creates an events.k8s.io/v1 event; one of that name that exists is success.
  WriteResult CreateEvent(const EventRecord& event, const WriteOptions& options);

  /// Says that an event has occurred `count` times, last at `last`. The server lets nothing else of
  /// an event be changed. kNotFound: it has expired; create it anew.
  WriteResult PatchEvent(const EventRecord& event, int count, MicroTime last,
                         const WriteOptions& options);

 private:
  WriteResult Send(Request request, const WriteOptions& options);
  /// `request.path` is what follows the pod's own.
  WriteResult PatchPod(Request request, const PodRef& pod, const WriteOptions& options);

  RestClient& client_;
  const std::string instance_;
  const Timing timing_;
};

/// `2026-11-21T08:26:00.000001Z`
std::string FormatMicroTime(MicroTime time);

/// The longest prefix of at most `limit` bytes that does not cut a UTF-8 character.
std::string_view TruncateUtf8(std::string_view text, std::size_t limit);

}  // namespace berth::kube
