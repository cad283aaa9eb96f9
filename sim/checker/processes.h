// The processes of a simulated world: kube-scheduler, Berth, the connections between them, and the
// checker that observes them.
#pragma once

#include <functional>
#include <memory>

#include "sim/checker/checker.h"
#include "sim/scheduler/scheduler.h"
#include "sim/world/replica.h"
#include "sim/world/verb_wire.h"

namespace berth::sim {

/// Starts and kills the processes, and runs the events of their world.
class Processes {
 public:
  /// Starts nothing yet. More than one of Berth's `replicas` elect a leader. `env` must outlive it.
  Processes(Environment& env, SchedulerOptions scheduler, Duration http_timeout, int replicas = 1);
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Starts all replicas that are down.
  void StartBerth();
  /// kill -9; with several replicas it hits the leader. No effect on a process that is down.
  void KillBerth();
  /// The leader of several replicas ends in good order, and another one takes over. `gone` is
  /// called when the process has ended. False: there is no such leader.
  bool StopBerth(std::function<void()> gone);
  /// Starts it; if it runs, kills it first.
  void StartScheduler();

  /// Runs every event up to `end` and checks after each. False: an invariant is broken; time stops
  /// there.
  bool RunUntil(TimePoint end);

  /// The process that decides. Null: it is down, or there is no leader.
  HostDriver* berth() const;
  /// Mostly the process that decides, sometimes a follower. Null: the chosen one is down.
  HostDriver* AnyBerth(std::uint64_t choice) const;
  LeaseObject& lease() { return lease_; }
  Scheduler& scheduler() { return *scheduler_; }
  Checker& checker() { return checker_; }
  const Checker& checker() const { return checker_; }
  const VerbWire& wire() const { return wire_; }

 private:
  void StartReplica(std::unique_ptr<Replica>& slot);
  void Watch(HostDriver& host);
  void CheckLeaders();

  Environment& env_;
  const SchedulerOptions options_;
  VerbWire wire_;
  Checker checker_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<HostDriver> berth_;  ///< If there is only one replica.
  LeaseObject lease_;
  std::vector<std::unique_ptr<Replica>> replicas_;  ///< If there are several.
  int berths_ = 0;
};

}  // namespace berth::sim
