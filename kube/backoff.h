// Waiting between attempts: exponential, jittered, and controllable by tests.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <stop_token>

namespace berth::kube {

using Duration = std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;

/// The machine's clock since boot, including suspended time: a process that was frozen must find
/// its time over, however it was frozen.
TimePoint BootClock();

/// Uniform in [0, 1), from a randomly seeded generator per thread.
double RealRandom();

/// Time and randomness as the API client uses them. Tests replace them, so that nothing sleeps. The
/// functions must be callable from any thread.
struct Timing {
  std::function<TimePoint()> now;
  std::function<double()> random;  ///< Uniform in [0, 1).
  /// Waits; true when the time is over, false when the stop token ended it.
  std::function<bool(Duration, std::stop_token)> wait;

  /// The steady clock and RealRandom.
  static Timing Real();
};

/// The parameters of a backoff. The defaults are client-go's for reflectors.
struct BackoffPolicy {
  Duration initial{800};
  Duration cap{30'000};  ///< Before jitter.
  double factor = 2.0;
  double jitter = 1.0;  ///< A wait is in [d, d * (1 + jitter)).
  Duration reset_after{120'000};
};

/// A wait that grows.
struct GrowingWait {
  BackoffPolicy policy;
  Duration current = policy.initial;

  /// The next wait. `random` in [0, 1).
  Duration Next(double random) {
    const Duration base = std::min(current, policy.cap);
    const auto scaled = [&](double factor) {
      return Duration(static_cast<Duration::rep>(static_cast<double>(base.count()) * factor));
    };
    current = std::min(scaled(policy.factor), policy.cap);
    return scaled(1.0 + policy.jitter * random);
  }
};

/// A growing wait that starts over. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(BackoffPolicy policy = {}, Timing timing = Timing::Real());

  /// The next wait. Starts over when the previous call was more than `reset_after` ago, since that
  /// means that things have been healthy since.
  Duration Next();

  void Reset() { wait_.current = wait_.policy.initial; }

 private:
  GrowingWait wait_;
  Timing timing_;
  TimePoint last_{};
};

}  // namespace berth::kube
