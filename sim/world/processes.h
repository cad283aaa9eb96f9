// The processes of a simulated world: kube-scheduler, Berth, the wire between them, and the checker
// that looks on.
#pragma once

#include <memory>

#include "sim/world/checker.h"
#include "sim/world/scheduler.h"

namespace berth::sim {

class Processes {
 public:
  /// Starts nothing yet. `env` must outlive it.
  Processes(Environment& env, SchedulerOptions scheduler, Duration http_timeout);
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void StartBerth();
  /// kill -9. Without effect where it is down.
  void KillBerth();
  /// Starts it, or kills it and starts it anew.
  void StartScheduler();

  /// Every event up to `end`, checked one by one. False: an invariant is broken, and time stands
  /// where it broke.
  bool RunUntil(TimePoint end);

  BerthHost* berth() { return berth_.get(); }  ///< Null: down.
  const BerthHost* berth() const { return berth_.get(); }
  Scheduler& scheduler() { return *scheduler_; }
  Checker& checker() { return checker_; }
  const Checker& checker() const { return checker_; }
  const VerbWire& wire() const { return wire_; }

 private:
  Environment& env_;
  const SchedulerOptions options_;
  VerbWire wire_;
  Checker checker_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<BerthHost> berth_;
  int berths_ = 0;
};

}  // namespace berth::sim
