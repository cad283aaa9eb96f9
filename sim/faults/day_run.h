// One run: a day from its first event to an empty cluster, with every invariant checked on the way.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checker/processes.h"
#include "sim/faults/controllers.h"
#include "sim/faults/day.h"

namespace berth::sim {

/// What a run found, and what happened in it.
struct RunResult {
  std::string violation;  ///< Empty: none.
  TimePoint at = 0;       ///< When the run ended.
  std::uint64_t steps = 0;
  std::uint64_t hash = 0;  ///< Hash of everything that happened.
  int bound = 0;           ///< Bindings that took effect.
  int crashes = 0;
  std::uint64_t filters = 0;
  std::uint64_t trials = 0;  ///< How many of them were for placements that never happen.
  int gangs = 0;             ///< Gangs that began to run under Berth's rules; one can begin again.
  int evictions = 0;         ///< Answers of preempt that let at least one pod be evicted.
  int evicted = 0;           ///< Pods that Berth evicted by itself.
  int surplus = 0;           ///< Of these, the surplus of gangs that went on.
  int for_running = 0;       ///< Of these, for members that a running gang lacked.
  int terms = 0;             ///< How often a replica has begun to decide.
  std::array<int, kFaultKinds> effects{};  ///< How often a fault of each kind had an effect.
  std::vector<std::string> last_events;
};

/// Runs one day, once.
class DayRun {
 public:
  /// `day` must outlive it. Keeps the last `log_lines` lines for the report of a failure.
  DayRun(const Day& day, std::size_t log_lines);
  DayRun(const DayRun&) = delete;
  DayRun& operator=(const DayRun&) = delete;

  /// Runs to the end, or to the first violation.
  RunResult Run();

 private:
  void Settle();
  bool AtRest() const;
  void Empty();
  void Inject(const Fault& fault);
  bool Apply(const Fault& fault);
  bool WatchOutage(const Fault& fault);
  void FreezeBerth(const Fault& fault);
  bool HitStream(const Fault& fault);
  bool HitNode(const Fault& fault);
  bool HitPod(const Fault& fault);
  void ForgeClaim(const kube::Pod& pod, std::uint64_t choice, const std::string& node);
  void ForgeMember(const kube::Pod& pod, std::uint64_t choice);
  void EditPolicy(const Fault& fault);
  void ChangeQueues(const Fault& fault);
  void PutPolicy(config::PolicyConfiguration policy, Duration lasts);
  void Calm();
  void AfterBinding(const kube::Pod& bound);
  bool CrashBerth(Duration down);
  bool EndBerth(Duration down);
  Checker& checker() { return processes_.checker(); }
  const Checker& checker() const { return processes_.checker(); }
  const kube::Pod* Pick(std::uint64_t choice, bool unbound) const;

  const Day& day_;
  Environment env_;
  Processes processes_;
  Controllers controllers_;
  Life life_;
  int crashes_ = 0;
  TimePoint last_aimed_ = -1;  ///< Start of the kCrashInGang that last had an effect.
  bool calm_ = false;
};

}  // namespace berth::sim
