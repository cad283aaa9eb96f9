#include "kube/backoff.h"

#include <condition_variable>
#include <ctime>
#include <mutex>
#include <random>
#include <utility>

namespace berth::kube {
namespace {

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

double RealRandom() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

Timing Timing::Real() { return {std::chrono::steady_clock::now, RealRandom, RealWait}; }

Backoff::Backoff(BackoffPolicy policy, Timing timing) : wait_{policy}, timing_(std::move(timing)) {}

Duration Backoff::Next() {
  const TimePoint now = timing_.now();
  if (last_ != TimePoint{} && now - last_ > wait_.policy.reset_after) Reset();
  last_ = now;
  return wait_.Next(timing_.random());
}

}  // namespace berth::kube
