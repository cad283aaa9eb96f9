// Virtual time for code that waits: a wait ends at once and advances the clock.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kube/backoff.h"

namespace berth::testing {

/// Provides a kube::Timing that never sleeps. Thread-safe; copies of the Timing keep it alive.
class FakeTiming {
 public:
  kube::Timing Get() const {
    auto state = state_;
    return {.now =
                [state] {
                  std::lock_guard lock(state->mutex);
                  return state->now;
                },
            .random =
                [state] {
                  std::lock_guard lock(state->mutex);
                  return state->random;
                },
            .wait =
                [state](kube::Duration duration, std::stop_token stop) {
                  std::lock_guard lock(state->mutex);
                  state->now += duration;
                  state->waits.push_back(duration);
                  return !stop.stop_requested();
                }};
  }

  void Advance(kube::Duration duration) {
    std::lock_guard lock(state_->mutex);
    state_->now += duration;
  }
  void SetRandom(double value) {
    std::lock_guard lock(state_->mutex);
    state_->random = value;
  }
  std::vector<kube::Duration> Waits() const {
    std::lock_guard lock(state_->mutex);
    return state_->waits;
  }

 private:
  struct State {
    std::mutex mutex;
    kube::TimePoint now{std::chrono::hours(1)};
    double random = 0.0;
    std::vector<kube::Duration> waits;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace berth::testing
