// One consumer's watch of one kind, as a reflector keeps it: a list, then events in order, each
// after a delay of its own stream, so that kinds and consumers run out of step. It can break, fall
// behind, expire and repeat itself; it never skips or reorders events of its kind.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "sim/world/environment.h"
#include "sim/world/watch_bytes.h"

namespace berth::sim {

class WatchStream {
 public:
  struct Sink {
    std::function<void(const Change&)> upsert;
    std::function<void(const std::string& key, const Change& last)> remove;
    std::function<void()> synced;  ///< After the first list; may be empty.
    bool ended = false;            ///< Pods: those that have ended are sent as well.
  };

  /// `env` must outlive it.
  WatchStream(Environment& env, Kind kind, Sink sink);
  WatchStream(const WatchStream&) = delete;
  WatchStream& operator=(const WatchStream&) = delete;

  /// The connection ends, what is under way is lost; a new one follows after `outage`: from the
  /// last event seen, or with a list where `expired`.
  void Break(Duration outage, bool expired);
  /// Events take `delay` longer until then.
  void SlowDown(Duration delay, TimePoint until);
  /// Every event comes twice until then.
  void Duplicate(TimePoint until) { duplicate_until_ = until; }

  /// All that is in the server's journal before this position has been delivered.
  std::size_t seen() const { return delivered_; }
  /// Something of what is in the journal before this position may have been: a list that is under
  /// way has brought some objects, and others not yet.
  std::size_t told() const { return std::max(delivered_, listed_); }
  /// Nothing is on its way.
  bool settled() const { return connected_ && pending_.empty(); }

 private:
  enum class What : std::uint8_t { kEvent, kListed, kListEnd };
  struct Item {
    TimePoint due;
    What what;
    Change change;
  };

  bool Selected(const Change& change) const;
  void Connect(bool list);
  void Pull();
  void Queue(What what, Change change);
  void Arm();
  void Deliver();
  void EndList();
  void Take(What what, const Change& change);

  Environment& env_;
  const Kind kind_;
  const Sink sink_;
  const std::unique_ptr<WatchBytes> bytes_;  ///< Null: objects pass as values.
  Life life_;                                ///< Of this object.
  Life connection_;                          ///< Of what is under way.
  bool connected_ = false;
  bool synced_ = false;
  bool armed_ = false;
  std::size_t queued_ = 0;     ///< Position in the server's journal.
  std::size_t delivered_ = 0;  ///< What a resumed watch starts from.
  std::size_t listed_ = 0;     ///< Where the last list was read.
  TimePoint last_due_ = 0;
  Duration slow_by_ = 0;
  TimePoint slow_until_ = 0;
  TimePoint duplicate_until_ = 0;
  std::deque<Item> pending_;
  std::unordered_set<std::string> known_;
  std::unordered_set<std::string> seen_;
};

}  // namespace berth::sim
