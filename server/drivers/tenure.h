// Until when this process may act as the leader. One object answers this for every part that acts:
// the verbs before they answer, the API client before it writes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>

#include "kube/backoff.h"

namespace berth::server {

using kube::BootClock;

/// Thread-safe. A new one holds for ever (no leader is elected); the first Begin or End changes
/// that.
class Tenure {
 public:
  using Clock = std::function<kube::TimePoint()>;
  explicit Tenure(Clock clock = BootClock) : clock_(std::move(clock)) {}
  Tenure(const Tenure&) = delete;
  Tenure& operator=(const Tenure&) = delete;

  /// Reads the clock, and takes no lock.
  bool Holds() const { return clock_().time_since_epoch().count() < until_; }
  /// Time left; 0: it does not hold.
  kube::Duration Left() const;

  /// Permission for a write that only a leader may make. While one exists, Idle waits for it.
  class Permit {
   public:
    Permit(Permit&& other) noexcept;
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    ~Permit();

    /// The write must have ended, with all its attempts, within this time...
    kube::Duration timeout{0};
    /// ...and when this is requested.
    std::stop_token stop{};

   private:
    friend Tenure;
    Permit(Tenure& tenure, kube::Duration limit, std::stop_token token)
        : timeout(limit), stop(std::move(token)), tenure_(&tenure) {}
    Tenure* tenure_;
  };
  /// nullopt: not the leader. `most` is the longest time that the write could take.
  std::optional<Permit> Enter(kube::Duration most);
  /// A write has ended without an answer: it may still take effect for a while.
  void NoteUnknown();

  // --- For the owner of the election.
  void Begin(kube::TimePoint until);
  /// Extends what Begin began. False: it had ended before, and stays ended.
  bool Extend(kube::TimePoint until);
  /// Nothing is permitted from here on; writes under way go on.
  void Close();
  /// Close, and what is under way is cut off.
  void End();
  /// Waits until no permit exists. False: one outlived `patience`.
  bool Idle(kube::Duration patience);
  /// Whether a write has ended without an answer within this time.
  bool UnknownSince(kube::Duration ago) const;

 private:
  const Clock clock_;
  std::atomic<kube::TimePoint::rep> until_ = kube::TimePoint::max().time_since_epoch().count();
  mutable std::mutex mutex_;  ///< Guards what follows, and changes of `until_`.
  std::condition_variable idle_;
  std::stop_source stop_;
  std::size_t permits_ = 0;
  std::optional<kube::TimePoint> unknown_at_{};  ///< When the last write ended without an answer.
};

}  // namespace berth::server
