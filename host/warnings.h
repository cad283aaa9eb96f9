// Tells pods when they are to be evicted, or that they are not (eviction.warning): one annotation,
// with the time or without any. What has failed is tried again with a growing delay until it is
// done or the pod is gone. At most one write to a pod is under way, and newer news of a pod
// replaces older.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "host/orders.h"

namespace berth::host {

/// Orders the annotation of each pod that is told of its eviction.
class Warnings {
 public:
  /// `out` must outlive it.
  explicit Warnings(Outbox& out) : out_(out) {}

  /// Replaces older news of the pod, once a write of it has ended.
  void Begin(engine::WarnVictim warning);
  /// Whether this is a write under way; it must still be made.
  bool Has(Id write) const { return writes_.contains(write); }
  /// REQUIRES: Has(write).
  void Finished(Id write, const Result& result, TimePoint now);
  /// Does what is due.
  void Advance(TimePoint now);
  /// When to call Advance; nullopt: nothing waits for a time.
  std::optional<TimePoint> due() const;
  bool empty() const { return by_pod_.empty(); }
  /// Forgets everything.
  void Clear();

 private:
  struct Warning {
    engine::WarnVictim what;
    int attempt = 1;
    bool under_way = false;
    TimePoint until = 0;                       ///< It waits until then; 0: it does not wait.
    std::optional<engine::WarnVictim> next{};  ///< Begins when the write has ended.
  };

  void Try(Warning& warning);
  void StopWaiting(Warning& warning);

  Outbox& out_;
  std::map<std::string, Warning> by_pod_;  ///< By UID.
  std::map<Id, std::string> writes_;       ///< The writes under way, and the UIDs of their pods.
  std::set<std::pair<TimePoint, std::string>> timers_;  ///< The pods that wait for a time.
};

}  // namespace berth::host
