// The clock of one process. It is off by the machine's clock skew when the process started. On days
// on which clocks drift it then runs up to one in twenty faster or slower than the world's time.
#pragma once

#include "sim/world/environment.h"

namespace berth::sim {

/// Made when its process starts.
class ProcessClock {
 public:
  /// `env` must outlive it.
  explicit ProcessClock(Environment& env)
      : env_(env),
        start_(env.now()),
        skew_(env.clock_skew),
        drift_(env.clocks_drift ? env.network.Between(-kMostDrift, kMostDrift) : 0) {
    if (skew_ != 0) env_.faults.TookEffect(FaultKind::kClockJump);
  }

  TimePoint now() const {
    const Duration since = env_.now() - start_;
    return start_ + skew_ + since + since * drift_ / 1'000;
  }
  /// How long it takes in the world's time until this clock has advanced by `wait`.
  Duration Takes(Duration wait) const {
    return drift_ == 0 ? wait : wait * 1'000 / (1'000 + drift_) + 1;
  }

 private:
  static constexpr Duration kMostDrift = 50;  ///< Milliseconds per second.

  Environment& env_;
  const TimePoint start_;
  const Duration skew_;
  const Duration drift_;
};

}  // namespace berth::sim
