// Which jobs of the demo were evicted for which others, and what Berth told both: from its Events
// and from what it wrote on the pods.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/actions.h"
#include "server/demo/demo_jobs.h"

namespace berth::server {

/// An Event of Berth on a pod.
struct ToldEvent {
  std::string pod;  ///< NAMESPACE/NAME; empty: there is none.
  std::string reason;
  std::string note;
};

/// A job that was evicted, and the one that got its room.
struct JobEviction {
  std::int64_t at_ms = 0;  ///< When the first of its pods was gone, since the demo's start.
  DemoJob victim;
  DemoJob beneficiary;
  std::string mark{};  ///< The victims' annotation berth.dev/evicted-for.
  ToldEvent to_victim{};
  ToldEvent to_beneficiary{};
  /// Inside a queue, or between queues: as Berth says.
  bool preempted() const { return to_victim.reason == "Preempted"; }
  bool reclaimed() const { return to_victim.reason == "Reclaimed"; }
};

/// Not thread-safe.
class EvictionLog {
 public:
  /// The first of the victim's pods is gone.
  void OnEvicted(std::int64_t at_ms, DemoJob victim, DemoJob beneficiary, std::string mark);
  /// Takes every Event, in order; keeps those that tell of evictions.
  void OnEvent(const engine::EmitEvent& event);

  /// In order, with what both sides were told last. One per victim; if it was evicted again, one
  /// for each time.
  std::vector<JobEviction> Evictions() const;

 private:
  using ByPod = std::map<std::string, ToldEvent>;  ///< By UID.
  static ToldEvent ToldTo(const DemoJob& job, const ByPod& told);

  std::vector<JobEviction> evictions_;
  ByPod victims_;
  ByPod beneficiaries_;  ///< Who got room may be evicted later.
};

}  // namespace berth::server
