// Evictions that the engine orders, and what is asked before them. A dry run, and the question
// whether an object exists, are one request each; before a real eviction the victim is marked with
// the workload that gets its room. A request that is refused is not repeated here: the engine
// orders it again as long as its plan needs it. One whose outcome is not known is tried a few
// times.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "host/orders.h"

namespace berth::host {

/// Orders the writes of evictions, one after the other for each pod.
class Evictions {
 public:
  /// The end of an eviction.
  struct Answer {
    engine::EvictPod what;
    /// It was done, or would be done, or the pod is gone. Of a question (EvictPod::pod.uid is the
    /// key of an object): false only if the object certainly does not exist.
    bool accepted = false;
  };

  /// `out` must outlive it.
  explicit Evictions(Outbox& out) : out_(out) {}

  /// Orders the first write of the eviction; Finished answers when the last one has ended.
  void Begin(engine::EvictPod eviction);
  /// The same for the question whether an object exists.
  void Begin(engine::FindNeeded question);
  /// Whether this is a request of an eviction.
  bool Has(Id write) const { return writes_.contains(write); }
  /// Whether the write is still to be done. REQUIRES: Has(write).
  bool Wants(Id write, const engine::Engine& engine) const;
  /// nullopt: its next write is ordered, or the engine waits for no answer. REQUIRES: Has(write).
  std::optional<Answer> Finished(Id write, const Result& result);
  bool empty() const { return writes_.empty(); }
  /// Forgets everything.
  void Clear() { writes_.clear(); }

 private:
  struct Write {
    engine::EvictPod what;
    bool marks = false;  ///< The eviction follows.
    int tries = 1;
    bool unsure = false;  ///< An earlier try of the eviction itself may have been carried out.
    std::optional<kube::NeededObject> object{};  ///< Of a question.
  };

  void Mark(engine::EvictPod eviction, int tries);
  void Send(engine::EvictPod eviction, int tries, bool unsure);
  void Find(engine::EvictPod question, kube::NeededObject object, int tries);

  Outbox& out_;
  std::map<Id, Write> writes_;  ///< Under way.
};

}  // namespace berth::host
