// Virtual time: one queue of (time, sequence, event). Events that are due at the same time happen
// in the order in which they were scheduled, so that a run is a function of its inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace berth::sim {

using engine::TimePoint;        ///< Milliseconds since the Unix epoch.
using Duration = std::int64_t;  ///< Milliseconds.
using Event = std::function<void()>;

/// When simulated days begin.
inline constexpr TimePoint kEpoch = 1'800'000'000'000;

/// The clock of a simulated world, and the events to come.
class Timeline {
 public:
  explicit Timeline(TimePoint start) : now_(start) {}

  TimePoint now() const { return now_; }
  /// Events that have happened.
  std::uint64_t steps() const { return steps_; }
  bool empty() const { return heap_.empty() && present_.empty(); }
  /// REQUIRES: !empty().
  TimePoint next() const { return present_.empty() ? heap_.front().when : now_; }

  /// A time in the past counts as now.
  void At(TimePoint when, Event event) {
    if (when <= now_) return present_.push_back({now_, sequence_++, std::move(event)});
    heap_.push_back({when, sequence_++, std::move(event)});
    std::ranges::push_heap(heap_, std::ranges::greater{}, &Entry::key);
  }
  void After(Duration delay, Event event) { At(now_ + delay, std::move(event)); }

  /// Runs the next event. REQUIRES: !empty().
  void Step() {
    const Entry entry = Pop();
    now_ = entry.when;
    ++steps_;
    entry.event();
  }

 private:
  struct Entry {
    TimePoint when;
    std::uint64_t sequence;
    Event event;
    std::pair<TimePoint, std::uint64_t> key() const { return {when, sequence}; }
  };

  /// What was scheduled earlier for the present comes first.
  Entry Pop() {
    if (!present_.empty() && (heap_.empty() || present_.front().key() < heap_.front().key())) {
      Entry entry = std::move(present_.front());
      present_.pop_front();
      return entry;
    }
    std::ranges::pop_heap(heap_, std::ranges::greater{}, &Entry::key);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    return entry;
  }

  TimePoint now_;
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<Entry> heap_;
  std::deque<Entry> present_;  ///< Events that were scheduled for now_, in order.
};

/// Whether a process is frozen, and until when: for example stopped by a debugger, or its machine
/// suspended.
class Freezer {
 public:
  /// `timeline` must outlive it.
  explicit Freezer(Timeline& timeline) : timeline_(timeline) {}

  void Freeze(Duration time) { until_ = std::max(until_, timeline_.now() + time); }
  bool frozen() const { return timeline_.now() < until_; }
  /// The process is awake from then on; 0: it has never been frozen.
  TimePoint until() const { return until_; }
  Timeline& timeline() const { return timeline_; }

 private:
  Timeline& timeline_;
  TimePoint until_ = 0;
};

/// Held by an object that may end before the events that it scheduled: a process of the simulated
/// world.
class Life {
 public:
  /// `freezer` must outlive it; null: the process is never frozen.
  explicit Life(const Freezer* freezer = nullptr) : freezer_(freezer) {}

  /// Wraps `call` in an event that does nothing once this life is over, and is delayed while it is
  /// frozen.
  template <typename Call>
  auto Guard(Call call) const {
    return [alive = std::weak_ptr<const bool>(token_), freezer = freezer_,
            call = std::move(call)](const auto&... args) { Run(alive, freezer, call, args...); };
  }
  std::weak_ptr<const bool> alive() const { return token_; }
  /// Ends everything that was guarded so far and starts a new life.
  void Renew() { token_ = std::make_shared<const bool>(true); }

 private:
  template <typename Call, typename... Args>
  static void Run(const std::weak_ptr<const bool>& alive, const Freezer* freezer, const Call& call,
                  const Args&... args) {
    if (alive.expired()) return;
    if (freezer == nullptr || !freezer->frozen()) return call(args...);
    freezer->timeline().At(freezer->until(),
                           [alive, freezer, call, args...] { Run(alive, freezer, call, args...); });
  }

  const Freezer* freezer_;
  std::shared_ptr<const bool> token_ = std::make_shared<const bool>(true);
};

}  // namespace berth::sim
