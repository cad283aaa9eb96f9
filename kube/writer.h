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

/// Makes the writes. Thread-safe; calls block their callers' threads.
class Writer {
 public:
  /// `client` must outlive it. `instance` names this replica in events, 128 bytes at most.
  Writer(RestClient& client, std::string instance, Timing timing = Timing::Real());

  /// Sends the request; nullopt is refused, since a name is invalid.
  WriteResult Send(std::optional<Request> request, const WriteOptions& options);
  /// The same for a BindRequest(). After a conflict the pod is read: if it is on `node` already,
  /// that is kDone with status 409.
  WriteResult SendBinding(std::optional<Request> request, const PodRef& pod, std::string_view node,
                          const WriteOptions& options);

  /// Creates an events.k8s.io/v1 event; if one of that name exists, that is success.
  WriteResult CreateEvent(const EventRecord& event, const WriteOptions& options);

  /// Reports that an event has occurred `count` times, last at `last`. The server allows no other
  /// change of an event. kNotFound: the event has expired; create it again.
  WriteResult PatchEvent(const EventRecord& event, int count, MicroTime last,
                         const WriteOptions& options);

 private:
  RestClient& client_;
  const std::string instance_;
  const Timing timing_;
};

}  // namespace berth::kube
