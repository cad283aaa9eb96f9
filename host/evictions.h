// Evictions that the engine orders: a dry run is one request; before a real one the victim is
// marked with the workload that gets its room. A request that fails is not repeated here: the
// engine orders it again as long as its plan needs it.
#pragma once

#include <map>
#include <optional>

#include "host/orders.h"

namespace berth::host {

class Evictions {
 public:
  /// The end of an eviction.
  struct Answer {
    engine::EvictPod what;
    bool accepted = false;  ///< It was done, or would be done, or the pod is gone.
  };

  /// `out` must outlive it.
  explicit Evictions(Outbox& out) : out_(out) {}

  void Begin(engine::EvictPod eviction);
  /// Whether this is a write of an eviction.
  bool Has(Id write) const { return writes_.contains(write); }
  /// What the write is for. REQUIRES: Has(write).
  const engine::EvictPod& Of(Id write) const { return writes_.at(write).what; }
  /// nullopt: its next write is ordered. REQUIRES: Has(write).
  std::optional<Answer> Finished(Id write, const Result& result);
  bool empty() const { return writes_.empty(); }
  /// Forgets everything.
  void Clear() { writes_.clear(); }

 private:
  struct Write {
    engine::EvictPod what;
    bool marks = false;  ///< The eviction follows.
  };

  void Send(engine::EvictPod eviction);

  Outbox& out_;
  std::map<Id, Write> writes_;  ///< Under way.
};

}  // namespace berth::host
