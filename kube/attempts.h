// One write to or read from the API server over all its attempts: how long each may take, what an
// answer means, how long to wait before the next attempt. No I/O and no clock: kube/writer.h drives
// it with threads, sim/world/api_client.h in virtual time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kube/backoff.h"
#include "kube/requests.h"

namespace berth::kube {

inline constexpr int kMaxAttempts = 10;  ///< Of one write or read.
/// For one attempt: a hanging connection must leave time for another within the usual deadlines.
inline constexpr Duration kAttemptTimeout{5'000};
/// The wait between attempts.
inline constexpr BackoffPolicy kRetry{.initial = Duration(100),
                                      .cap = Duration(3'000),
                                      .factor = 2.0,
                                      .jitter = 1.0,
                                      .reset_after = Duration(3'600'000)};

/// What came of a write or read, after all attempts.
struct WriteResult {
  WriteOutcome outcome = WriteOutcome::kUnknown;
  int status = 0;         ///< The last HTTP status; 0: none.
  std::string message{};  ///< From the server or the transport.
  std::string body{};     ///< Of a 2xx answer.
};

/// Call in turn: Next, the attempt, Answered or Lost, Pause. Call GivenUp once one of these says
/// that there is no further attempt.
class Attempts {
 public:
  /// All attempts together may take `timeout`.
  Attempts(const Request& request, Duration timeout, TimePoint now)
      : is_read_(request.method == "GET"),
        patches_(request.method == "PATCH"),
        deadline_(now + timeout) {}

  /// How long the next attempt may take; it must not be sent later than that from now. nullopt:
  /// there is no further attempt.
  std::optional<Duration> Next(TimePoint now);
  /// The server answered with this HTTP status, and this message if it is an error. nullopt: retry.
  std::optional<WriteOutcome> Answered(int status, std::string_view message);
  /// No answer came. `maybe_sent`: the server may have acted nevertheless.
  void Lost(bool maybe_sent) { maybe_done_ |= maybe_sent; }
  /// How long to wait before the next attempt, at least `retry_after`. `random` in [0, 1). nullopt:
  /// that would exceed the deadline.
  std::optional<Duration> Pause(TimePoint now, double random, Duration retry_after = Duration(0));
  /// The outcome if there is no further attempt.
  WriteOutcome GivenUp() const;

 private:
  bool is_read_;
  bool patches_;
  TimePoint deadline_;
  int made_ = 0;
  GrowingWait wait_{kRetry};
  bool maybe_done_ = false;
};

}  // namespace berth::kube
