// Releases planned members to their nodes: first the nomination with the plan is written, then,
// once our own watch has shown it, the gate is removed. A failed release is retried with a growing
// delay: a few times, and then the plan expires; without a plan, until it is done. At most one
// write to a pod is under way, and a newer release of a pod replaces an older one.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "cluster/store.h"
#include "host/orders.h"

namespace berth::host {

/// Orders the nomination and the removal of the gate of each released member.
class Releases {
 public:
  /// `out` must outlive it.
  explicit Releases(Outbox& out) : out_(out) {}

  /// Replaces an older release of the pod.
  void Begin(engine::ReleaseMember release);
  /// False: this write is not a current write of Releases.
  bool Finished(Id write, const Result& result, const cluster::Store& store, TimePoint now);
  /// The store has changed: our watch may have shown nominations.
  void Observe(const cluster::Store& store);
  /// Does what is due.
  void Advance(TimePoint now);
  /// When to call Advance; nullopt: nothing waits for a time.
  std::optional<TimePoint> due() const;
  /// Whether this write must still be made.
  bool Wants(Id write) const { return writes_.contains(write); }
  bool empty() const { return by_pod_.empty(); }
  /// Forgets everything. Outcomes of writes under way are ignored from here on.
  void Clear();

 private:
  enum class Step : std::uint8_t {
    kNominating,
    kNominated,  ///< Waits until our watch shows the nomination, or for `until`.
    kRemovingGate,
    kFailed,  ///< Retried from the start at `until`.
  };
  struct Release {
    engine::ReleaseMember what;
    Step step = Step::kNominating;
    int attempt = 1;
    Id write = 0;  ///< The write under way; 0: none.
    TimePoint until = 0;
    std::optional<engine::ReleaseMember> next{};  ///< Begins when the write has ended.
  };
  using ByPod = std::unordered_map<std::string, Release>;

  void Try(Release& release);
  void RemoveGateOf(Release& release);
  void Nominated(Release& release, const cluster::Store& store, TimePoint now);
  void Failed(ByPod::iterator at, bool tried, TimePoint now);
  void Wait(Release& release, Step step, TimePoint until);
  void StopWaiting(Release& release);
  Id NewWrite(const Release& release);

  Outbox& out_;
  ByPod by_pod_;  ///< By UID. Do not iterate: the order depends on the library.
  std::unordered_map<Id, std::string> writes_;          ///< The writes under way, and the UIDs of
                                                        ///< their pods.
  std::set<std::pair<TimePoint, std::string>> timers_;  ///< The pods that wait for a time.
  std::set<std::string> nominated_;                     ///< The pods in kNominated.
};

}  // namespace berth::host
