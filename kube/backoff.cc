#include "kube/backoff.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <random>
#include <utility>

namespace berth::kube {
namespace {

double RealRandom() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

bool RealWait(Duration duration, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, duration, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

TimePoint BootClock() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

Timing Timing::Real() { return {std::chrono::steady_clock::now, RealRandom, RealWait}; }

Backoff::Backoff(BackoffPolicy policy, Timing timing)
    : policy_(policy), timing_(std::move(timing)), current_(policy.initial) {}

Duration Backoff::Next() {
  const TimePoint now = timing_.now();
  if (last_ != TimePoint{} && now - last_ > policy_.reset_after) Reset();
  last_ = now;
  const Duration base = std::min(current_, policy_.cap);
  const auto scaled = [&](double factor) {
    return Duration(static_cast<Duration::rep>(static_cast<double>(base.count()) * factor));
  };
  current_ = std::min(scaled(policy_.factor), policy_.cap);
  return scaled(1.0 + policy_.jitter * timing_.random());
}

}  // namespace berth::kube
