// Runs the model of kube-scheduler (sim/scheduler/) in real time: its events happen when the clock
// of the machine reaches them, on one thread that everything of the model belongs to. What it sees
// are the objects of an EmbeddedCluster; what it writes goes there, and comes back as any other
// change does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/demo/demo_audit.h"
#include "server/demo/http_extender.h"
#include "server/drivers/embedded_cluster.h"
#include "sim/scheduler/scheduler.h"

namespace berth::server {

class SchedulerDriver final : sim::SchedulerWrites {
 public:
  /// The scheduler's time passes `speed` times as fast as that of the machine: its backoffs take
  /// seconds, which is too long where jobs of hours run for seconds. The references must outlive
  /// it.
  SchedulerDriver(EmbeddedCluster& cluster, kube::RestClient& verbs, Auditor& auditor, int speed);
  ~SchedulerDriver() override { Stop(); }

  /// The watch; see EmbeddedCluster::Watch. Takes what is told before Start(), too.
  void OnPod(const kube::Pod& pod, bool gone);
  /// Once.
  void Start();
  /// Ends the thread and the calls under way; idempotent.
  void Stop();

  /// No pod is being tried, and none will be before something happens. Calls of bind may be parked.
  bool Idle() const;
  const HttpExtender& extender() const { return extender_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Writes, on the scheduler's thread.
  sim::Reply DeletePod(const engine::PodRef& ref) override;
  sim::Reply Bind(const engine::PodRef& ref, const std::string& node,
                  const std::map<std::string, std::string>& annotations) override;
  sim::Reply Patch(const engine::PodRef& ref,
                   const std::function<bool(kube::Pod&)>& change) override;

  void Post(sim::Event event);
  void Run(const std::stop_token& stop);
  sim::TimePoint now() const;
  Clock::time_point TimeOf(sim::TimePoint when) const;

  EmbeddedCluster& cluster_;
  const int speed_;
  const sim::TimePoint epoch_;  ///< The scheduler's time at `start_`.
  Clock::time_point start_;

  // Of the thread.
  sim::Environment env_;
  HttpExtender extender_;
  sim::Scheduler scheduler_;

  mutable std::mutex mutex_;  ///< Guards the next two.
  std::vector<sim::Event> posted_;
  bool idle_ = false;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace berth::server
