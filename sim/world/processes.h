// The processes of a simulated world: kube-scheduler, Berth, the wire between them, and the checker
// that looks on.
#pragma once

#include <memory>

#include "sim/world/checker.h"
#include "sim/world/replica.h"
#include "sim/world/scheduler.h"

namespace berth::sim {

class Processes {
 public:
  /// Starts nothing yet. With more than one of Berth's `replicas` they elect who leads. `env` must
  /// outlive it.
  Processes(Environment& env, SchedulerOptions scheduler, Duration http_timeout, int replicas = 1);
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// All replicas that are down.
  void StartBerth();
  /// kill -9, of the leader where there are several. Without effect where it is down.
  void KillBerth();
  /// Starts it, or kills it and starts it anew.
  void StartScheduler();

  /// Every event up to `end`, checked one by one. False: an invariant is broken, and time stands
  /// where it broke.
  bool RunUntil(TimePoint end);

  /// The one that decides. Null: it is down, or nobody leads.
  BerthHost* berth() const;
  LeaseObject& lease() { return lease_; }
  Scheduler& scheduler() { return *scheduler_; }
  Checker& checker() { return checker_; }
  const Checker& checker() const { return checker_; }
  const VerbWire& wire() const { return wire_; }

 private:
  void StartReplica(std::unique_ptr<Replica>& slot);
  void Watch(BerthHost& host);
  void CheckLeaders();

  Environment& env_;
  const SchedulerOptions options_;
  VerbWire wire_;
  Checker checker_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<BerthHost> berth_;  ///< The only one.
  LeaseObject lease_;
  std::vector<std::unique_ptr<Replica>> replicas_;  ///< Else.
  int berths_ = 0;
};

}  // namespace berth::sim
