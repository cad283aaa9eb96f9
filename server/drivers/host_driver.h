// Runs host::Host in real time: one lock around it, the verbs on the HTTP threads, a planner
// thread, and a few writers that carry out its orders. Contains no logic of its own: the host
// decides what happens, in which order, and what is retried.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "host/host.h"
#include "server/drivers/api.h"
#include "server/drivers/decision_log.h"
#include "server/drivers/work_queue.h"
#include "server/logging.h"
#include "server/ops/metrics.h"
#include "server/ops/parts.h"
#include "server/verbs/verbs.h"

namespace berth::server {

/// Milliseconds since the epoch.
using Clock = std::function<engine::TimePoint()>;
engine::TimePoint SystemClock();
/// Starts with the machine's clock and is steady from then on: setting the clock later neither ends
/// nor prolongs a plan, a hold-off or a barrier.
Clock SteadyClock();

/// Thread-safe, except for Start, Resign and Stop, which only one thread may call at a time.
class HostDriver final : public VerbHandler {
 public:
  /// Whether this process may act as the leader at this moment. Called often, from any thread.
  using Leads = host::Host::Leads;

  /// The references must outlive it.
  HostDriver(
      config::PolicyConfiguration policy, engine::Options options, Api& api, Metrics& metrics,
      Logger& logger, DecisionLog& decisions, Clock clock = SteadyClock(),
      Leads leads = [] { return true; });
  ~HostDriver() override;

  /// Runs `change` on the engine, then does what follows from it.
  void Apply(const host::Host::Change& change);
  /// Begins to decide, unless Stop was called. REQUIRES: all first lists have been delivered, and
  /// no write of an earlier term is under way.
  void Start();
  /// Follows again: fails parked binds at once, and forgets plans, holds and everything under way.
  /// The known cluster state is kept, so that Start begins as a new process would. Takes long in a
  /// large cluster; the lock is held for a part at a time.
  void Resign();
  /// Fails parked binds at once and answers no verb any more.
  void Stop();
  /// `broken` is called instead of ending the process; for tests. Set it first.
  void OnBroken(std::function<void()> broken) { broken_ = std::move(broken); }
  /// Milliseconds since the planner thread last held the lock, which it does at least once a
  /// second. More than a few thousand: something keeps the lock, or the thread hangs.
  std::int64_t SilentMs() const { return clock_() - beat_; }
  /// Whether verbs are answered: the host decides, and this process still leads.
  bool deciding() const { return deciding_ && leads_(); }

  /// Reads under the lock: keep it short.
  template <typename Read>
  auto Look(Read read) const {
    const std::scoped_lock lock(mutex_);
    return read(host_.engine(), clock_());
  }

  /// Reads in parts, each under the lock, with time for others in between: `part` is called until
  /// it returns false.
  void LookInParts(const Part& part) const;

  /// Updates the gauges; call before a scrape. Only the leader reports those of the cluster.
  void UpdateMetrics();

  std::expected<FilterResult, Unavailable> Filter(const ExtenderArgs& args) override;
  std::expected<std::vector<HostPriority>, Unavailable> Prioritize(
      const ExtenderArgs& args) override;
  std::expected<std::string, Unavailable> Bind(const BindArgs& args) override;
  std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> Preempt(
      const PreemptionArgs& args) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Orders = std::vector<host::Order>;

  /// A verb's call that waits for the host's answer.
  struct Mailbox {
    std::mutex mutex;  ///< Its own, so that no call waits for the host's lock to get its answer.
    std::condition_variable arrived;
    /// A PostBinding, AnswerBind or AnswerPreempt that was not taken out yet.
    std::optional<host::Order> order;
  };

  void Plan(const std::stop_token& stop);
  bool ForgetMore();
  std::int64_t MsUntilDue(engine::TimePoint now) const;
  /// Runs `work` on the host and returns the orders that follow. An exception may leave the engine
  /// half changed: it is logged, and the process ends, to start again from the API server's state.
  /// REQUIRES: the lock.
  template <typename Work>
  Orders Enter(std::string_view what, Work work) {
    ++changes_;
    changed_.notify_one();
    try {
      const auto now = clock_();
      work(now);
      return Collect(now);
    } catch (const std::exception& e) {
      Broken(what, e.what());
    } catch (...) {
      Broken(what, "not a std::exception");
    }
    return {};
  }
  /// Enter under the lock, and then what is to be done. REQUIRES: no lock held.
  template <typename Work>
  void Run(std::string_view what, Work work) {
    Orders orders;
    {
      const Lock lock(mutex_);
      orders = Enter(what, work);
    }
    Carry(std::move(orders));
  }
  void Broken(std::string_view what, std::string_view error);
  Orders Collect(engine::TimePoint now);
  void Deliver(host::Id call, host::Order& order);
  void CountBinds(const engine::Counters& counters);
  // Orders. REQUIRES: no lock held.
  void Carry(Orders orders);
  void Do(const host::Nominate& order);
  void Do(const host::RemoveGate& order);
  void Do(const host::MarkVictim& order);
  void Do(const host::Evict& order);
  void Do(const host::FindObject& order);
  void Do(const host::ReadJobs& order);
  void Do(const host::SuspendJob& order);
  void Do(const host::ReadPod& order);
  void Do(engine::EmitEvent event);
  void Do(const engine::NodeNotice& notice);
  void Do(const engine::Decision& decision);
  template <typename Tell>
  void Queue(const host::ApiOrder& order, Tell tell);
  template <typename Order>
  void QueuePod(const Order& order, std::string_view failure);
  void QueueJob(const host::ApiOrder& order, bool is_list, bool matters);
  void Finish(host::Id order, host::Result result);
  Api::Wanted Wanted(host::Id order) const;
  // Verbs. REQUIRES: no lock held.
  template <typename Begin>
  host::Order Call(std::string_view verb, Begin begin, const std::function<bool()>& caller_gone);
  host::Order Await(host::Id call, Mailbox& mailbox, const std::function<bool()>& caller_gone);
  void Post(const host::PostBinding& order);

  Api& api_;
  Metrics& metrics_;
  Logger& logger_;
  DecisionLog& decisions_;
  const Clock clock_;
  const Leads leads_;

  std::function<void()> broken_;
  std::atomic<engine::TimePoint> beat_;
  std::atomic<bool> deciding_ = false;  ///< As the host has it; changed under the lock.

  std::mutex gauges_mutex_;   ///< One scrape at a time updates the gauges.
  mutable std::mutex mutex_;  ///< Guards all down to changes_.
  host::Host host_;
  std::unordered_map<host::Id, std::shared_ptr<Mailbox>> mailboxes_;
  std::map<std::string, std::uint64_t> bind_counts_;  ///< The part already counted in the metric.
  std::map<std::string, std::uint64_t> eviction_counts_;  ///< The same.
  std::map<std::string, std::uint64_t> in_vain_counts_;   ///< The same.
  std::condition_variable_any changed_;
  std::uint64_t changes_ = 0;

  WorkQueue writes_;
  WorkQueue events_;
  std::jthread planner_;
};

}  // namespace berth::server
