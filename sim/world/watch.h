// One consumer's watch of one kind in virtual time: what to list and to watch is decided by the
// reflector's own kube::ListWatch, and here are the API server's answers and the network. Each
// stream delays its events independently, so that kinds and consumers get out of step. It can
// break, fall behind, expire and repeat events; it never skips or reorders events of its kind.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "kube/known_keys.h"
#include "kube/list_watch.h"
#include "sim/world/environment.h"
#include "sim/world/watch_bytes.h"

namespace berth::sim {

/// One watch of one kind of objects, by one process.
class WatchStream {
 public:
  struct Sink {
    std::function<void(const Change&)> upsert;
    std::function<void(const std::string& key, const Change& last)> remove;
    std::function<void()> synced;  ///< Called after the first list; may be empty.
    bool ended = false;            ///< Pods: whether those that have ended are sent as well.
    bool stale = false;            ///< Whether FaultKind::kStaleList concerns it.
  };

  /// `env` must outlive it, and so must `freezer`, which belongs to the process that watches; null:
  /// none.
  WatchStream(Environment& env, Kind kind, Sink sink, const Freezer* freezer = nullptr);
  WatchStream(const WatchStream&) = delete;
  WatchStream& operator=(const WatchStream&) = delete;

  /// The connection ends, events under way are lost, and no new one is to be had for `outage`. If
  /// `expired`, the server then no longer has the version that was seen last.
  void Break(Duration outage, bool expired);
  /// Events take `delay` longer until `until`.
  void SlowDown(Duration delay, TimePoint until);
  /// Every event is delivered twice until `until`.
  void Duplicate(TimePoint until) { duplicate_until_ = until; }

  /// Everything in the server's journal before this position has been delivered.
  std::size_t seen() const { return delivered_; }
  /// Parts of the journal before this position may have been delivered: a list that is under way
  /// has delivered some objects, and others not yet.
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
  void ConnectAfter(Duration outage);
  void Connect();
  bool Has(const std::string& version) const;
  void StreamAll();
  std::size_t ListedAt() const;
  void Pull();
  void Queue(What what, Change change);
  void Arm();
  void Deliver();
  void DeliverNext();
  void EndList();
  void Take(What what, const Change& change);

  Environment& env_;
  const Kind kind_;
  const Sink sink_;
  const std::unique_ptr<WatchBytes> bytes_;  ///< Null: objects pass as values.
  Life life_;                                ///< Guards events of this object.
  Life connection_;                          ///< Guards what is under way on the current
                                             ///< connection.
  kube::ListWatch state_{/*use_watch_list=*/true, /*page_limit=*/0};
  kube::Backoff backoff_;
  bool connected_ = false;
  bool expired_ = false;  ///< The server has dropped the version that was seen last.
  bool synced_ = false;
  bool armed_ = false;
  std::size_t queued_ = 0;     ///< Position in the server's journal.
  std::size_t delivered_ = 0;  ///< Position that a resumed watch starts from.
  std::size_t listed_ = 0;     ///< Position at which the last list was read.
  TimePoint last_due_ = 0;
  Duration slow_by_ = 0;
  TimePoint slow_until_ = 0;
  TimePoint duplicate_until_ = 0;
  std::deque<Item> pending_;
  kube::KnownKeys known_;
};

}  // namespace berth::sim
