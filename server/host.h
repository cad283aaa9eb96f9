// Runs the engine in real time: one lock around it, the verbs on the HTTP threads, a planner
// thread, and a few writers that carry out its actions. Holds no scheduling logic of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "engine/engine.h"
#include "server/api.h"
#include "server/decision_log.h"
#include "server/logging.h"
#include "server/metrics.h"
#include "server/verbs.h"
#include "server/work_queue.h"

namespace berth::server {

/// Milliseconds since the epoch.
using Clock = std::function<engine::TimePoint()>;
engine::TimePoint SystemClock();
/// What the machine's clock says now, and steady from here on: a clock that is set later neither
/// ends nor prolongs a plan, a hold-off or a barrier.
Clock SteadyClock();

class Host final : public VerbHandler {
 public:
  /// The references must outlive it.
  Host(config::PolicyConfiguration policy, engine::Options options, Api& api, Metrics& metrics,
       Logger& logger, DecisionLog& decisions, Clock clock = SteadyClock());
  ~Host() override;

  /// Runs `change` on the engine, then whatever it wants done.
  void Apply(const std::function<void(engine::Engine&, engine::TimePoint)>& change);
  /// Every first list is in: begin to decide.
  void Start();
  bool ready() const;
  /// Fails standing binds at once and answers no verb any more.
  void Stop();

  /// Reads under the lock: keep it short.
  template <typename Read>
  auto Look(Read read) const {
    const std::scoped_lock lock(mutex_);
    return read(engine_, clock_());
  }

  /// Feeds the gauges; call before a scrape.
  void UpdateMetrics();

  std::expected<FilterResult, Unavailable> Filter(const ExtenderArgs& args) override;
  std::expected<std::vector<HostPriority>, Unavailable> Prioritize(
      const ExtenderArgs& args) override;
  std::expected<std::string, Unavailable> Bind(const BindArgs& args) override;
  std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> Preempt(
      const PreemptionArgs& args) override;

 private:
  struct Waiter {
    std::mutex mutex;
    std::condition_variable resolved;
    std::optional<engine::ResolveBind> resolution;
  };

  void Plan(const std::stop_token& stop);
  std::vector<engine::Action> Collect(engine::TimePoint now);
  void AwaitPod(std::unique_lock<std::mutex>& lock, std::string_view uid);
  /// REQUIRES: no lock held.
  void Carry(std::vector<engine::Action> actions);
  void Do(engine::ReleaseMember release);
  void Do(const engine::ResolveBind& resolution);
  void Do(engine::SettleBind settle);
  void Do(engine::EmitEvent event);
  void Do(const engine::Decision& decision);
  std::string Post(const engine::PodRef& pod, const std::string& node,
                   const engine::ResolveBind& word);
  std::string FinishBind(const engine::PodRef& pod, const std::string& node,
                         const engine::ResolveBind& word);
  void Settle(const engine::PodRef& pod, int attempt);
  engine::ResolveBind Await(Waiter& waiter, engine::TicketId ticket, const BindArgs& args);

  Api& api_;
  Metrics& metrics_;
  Logger& logger_;
  DecisionLog& decisions_;
  const Clock clock_;

  mutable std::mutex mutex_;  ///< Guards the engine and the next three.
  engine::Engine engine_;
  bool ready_ = false;
  bool stopped_ = false;
  std::unordered_map<engine::TicketId, std::shared_ptr<Waiter>> waiters_;
  std::condition_variable_any changed_;
  std::uint64_t changes_ = 0;
  std::map<std::string, std::uint64_t> bind_counts_;  ///< Already counted in the metric.

  WorkQueue releases_;
  WorkQueue events_;
  std::jthread planner_;
};

}  // namespace berth::server
