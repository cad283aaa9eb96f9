// Waiting between tries: exponential, jittered, and steerable by tests.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>

namespace berth::kube {

using Duration = std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;

/// The machine's clock since boot, suspended time included: who was frozen must find its time over,
/// however it was frozen.
TimePoint BootClock();

/// Time and chance as the API client sees them. Tests put their own in, so that nothing sleeps.
/// The functions must be callable from any thread.
struct Timing {
  std::function<TimePoint()> now;
  std::function<double()> random;  ///< Uniform in [0, 1).
  /// Waits; true when the time is over, false when the stop token ended it.
  std::function<bool(Duration, std::stop_token)> wait;

  /// The steady clock and a randomly seeded generator per thread.
  static Timing Real();
};

/// The shape of a backoff. The defaults are client-go's for reflectors.
struct BackoffPolicy {
  Duration initial{800};
  Duration cap{30'000};  ///< Before jitter.
  double factor = 2.0;
  double jitter = 1.0;  ///< A wait is in [d, d * (1 + jitter)).
  Duration reset_after{120'000};
};

/// A growing wait. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(BackoffPolicy policy = {}, Timing timing = Timing::Real());

  /// The next wait. Starts over when the previous call was more than `reset_after` ago, which is
  /// to say that things have been healthy since.
  Duration Next();

  void Reset() { current_ = policy_.initial; }

 private:
  BackoffPolicy policy_;
  Timing timing_;
  Duration current_;
  TimePoint last_{};
};

}  // namespace berth::kube
