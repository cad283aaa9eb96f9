// Virtual time: one queue of (time, sequence, event). What is due at the same time happens in the
// order in which it was asked for, so that a run is a function of its inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace berth::sim {

using engine::TimePoint;        ///< Milliseconds since the Unix epoch.
using Duration = std::int64_t;  ///< Milliseconds.
using Event = std::function<void()>;

/// Held by whoever may end before the events that it asked for: a process of the simulated world.
class Life {
 public:
  /// An event that does not happen once this life is over.
  template <typename Call>
  auto Guard(Call call) const {
    return [alive = std::weak_ptr<const bool>(token_), call = std::move(call)](auto&&... args) {
      if (!alive.expired()) call(std::forward<decltype(args)>(args)...);
    };
  }
  std::weak_ptr<const bool> alive() const { return token_; }
  /// Ends all that was guarded so far and begins anew.
  void Renew() { token_ = std::make_shared<const bool>(true); }

 private:
  std::shared_ptr<const bool> token_ = std::make_shared<const bool>(true);
};

class Timeline {
 public:
  explicit Timeline(TimePoint start) : now_(start) {}

  TimePoint now() const { return now_; }
  /// Events that have happened.
  std::uint64_t steps() const { return steps_; }
  bool empty() const { return heap_.empty(); }
  /// REQUIRES: !empty().
  TimePoint next() const { return heap_.front().when; }

  /// A time that has passed counts as now.
  void At(TimePoint when, Event event) {
    heap_.push_back({std::max(when, now_), sequence_++, std::move(event)});
    std::ranges::push_heap(heap_, std::ranges::greater{}, &Entry::key);
  }
  void After(Duration delay, Event event) { At(now_ + delay, std::move(event)); }

  /// Lets the next event happen. REQUIRES: !empty().
  void Step() {
    std::ranges::pop_heap(heap_, std::ranges::greater{}, &Entry::key);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
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

  TimePoint now_;
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace berth::sim
