// Runs the engine in real time: one lock around it, the verbs on the HTTP threads, a planner
// thread, and a few writers that carry out its actions. Holds no scheduling logic of its own.
//
// It decides from Start to Resign, as often as this process comes to lead. Before, after and
// between it follows: cluster events are taken in, and nothing else is done.
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

/// Thread-safe, but for Start, Resign and Stop, which one thread calls at a time.
class Host final : public VerbHandler {
 public:
  /// Whether this process may act as the leader at this moment. Called often, from any thread.
  using Leads = std::function<bool()>;

  /// The references must outlive it.
  Host(
      config::PolicyConfiguration policy, engine::Options options, Api& api, Metrics& metrics,
      Logger& logger, DecisionLog& decisions, Clock clock = SteadyClock(),
      Leads leads = [] { return true; });
  ~Host() override;

  /// Runs `change` on the engine, then whatever it wants done.
  void Apply(const std::function<void(engine::Engine&, engine::TimePoint)>& change);
  /// Begins to decide, unless stopped. Every first list is in, and no write of an earlier term is
  /// under way.
  void Start();
  /// Follows again: fails standing binds at once, and forgets plans, holds and whatever was under
  /// way. The cluster stays known, so that Start begins as a new process would.
  void Resign();
  /// Fails standing binds at once and answers no verb any more.
  void Stop();
  /// `broken` is called instead of ending the process; for tests. Set it first.
  void OnBroken(std::function<void()> broken) { broken_ = std::move(broken); }
  /// Milliseconds since the planner thread last had the engine to itself, which it has at least
  /// once a second. More than a few thousand: something holds the lock, or the thread hangs.
  std::int64_t SilentMs() const { return clock_() - beat_; }
  /// Whether verbs are answered: it decides, and still leads.
  bool deciding() const { return deciding_ && leads_(); }

  /// Reads under the lock: keep it short.
  template <typename Read>
  auto Look(Read read) const {
    const std::scoped_lock lock(mutex_);
    return read(std::as_const(*engine_), clock_());
  }

  /// Feeds the gauges; call before a scrape. Those of the cluster are the leader's to say.
  void UpdateMetrics();

  std::expected<FilterResult, Unavailable> Filter(const ExtenderArgs& args) override;
  std::expected<std::vector<HostPriority>, Unavailable> Prioritize(
      const ExtenderArgs& args) override;
  std::expected<std::string, Unavailable> Bind(const BindArgs& args) override;
  std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> Preempt(
      const PreemptionArgs& args) override;

 private:
  /// Each Resign ends one and begins the next. Tickets, and what an engine wants done, mean
  /// something in their own only.
  using Term = std::uint64_t;

  struct Waiter {
    std::mutex mutex;
    std::condition_variable resolved;
    /// How the wait ends; unexpected: this process leads no more.
    std::optional<std::expected<engine::ResolveBind, Unavailable>> resolution;
  };
  using Waiters = std::unordered_map<engine::TicketId, std::shared_ptr<Waiter>>;

  struct Wanted {
    Term term = 0;
    std::vector<engine::Action> actions;
  };

  /// A job for a lane of `releases_` that is not due yet.
  struct Later {
    std::string uid;
    std::function<void()> job;
  };

  void Plan(const std::stop_token& stop);
  /// Runs `work` on the engine. An exception may leave the engine half changed: that is logged, and
  /// the process ends, to begin again from what the API server holds.
  template <typename Work>
  void Enter(std::string_view what, Work work) {
    try {
      work();
    } catch (const std::exception& e) {
      Broken(what, e.what());
    } catch (...) {
      Broken(what, "not a std::exception");
    }
  }
  void Broken(std::string_view what, std::string_view error);
  void Enqueue(const std::string& uid, std::function<void()> job);
  void Postpone(const std::string& uid, std::int64_t delay_ms, std::function<void()> job);
  std::vector<Later> TakeDue(engine::TimePoint now);
  std::int64_t MsUntilDue(engine::TimePoint now) const;
  std::unique_ptr<engine::Engine> FreshEngine();
  Wanted Collect(engine::TimePoint now);
  void AwaitPod(std::unique_lock<std::mutex>& lock, std::string_view uid);
  /// Apply, unless the engine is not the one of `term` any more.
  void ApplyIn(Term term, const std::function<void(engine::Engine&, engine::TimePoint)>& change);
  void Change(std::optional<Term> only,
              const std::function<void(engine::Engine&, engine::TimePoint)>& change);
  Waiters StopDeciding();
  void CountBinds(const engine::Counters& counters);
  /// REQUIRES: no lock held.
  void Carry(Wanted wanted);
  void Do(Term term, engine::ReleaseMember release);
  void Do(Term term, const engine::ResolveBind& resolution);
  void Do(Term term, engine::SettleBind settle);
  void Do(Term term, engine::EmitEvent event);
  void Do(Term term, const engine::NodeNotice& notice);
  void Do(Term term, const engine::Decision& decision);
  std::expected<std::string, Unavailable> Post(Term term, const engine::PodRef& pod,
                                               const std::string& node,
                                               const engine::ResolveBind& word);
  std::expected<std::string, Unavailable> FinishBind(Term term, const engine::PodRef& pod,
                                                     const std::string& node,
                                                     const engine::ResolveBind& word);
  void Settle(Term term, const engine::PodRef& pod, int attempt);
  void Release(Term term, const std::shared_ptr<const engine::ReleaseMember>& release,
               std::uint64_t turn, int attempt);
  void AwaitNomination(Term term, const std::string& uid, const std::string& node);
  std::expected<engine::ResolveBind, Unavailable> Await(Waiter& waiter, Term term,
                                                        engine::TicketId ticket,
                                                        const BindArgs& args);

  Api& api_;
  Metrics& metrics_;
  Logger& logger_;
  DecisionLog& decisions_;
  const Clock clock_;
  const Leads leads_;
  const engine::Options options_;

  std::function<void()> broken_;
  std::atomic<engine::TimePoint> beat_;

  mutable std::mutex mutex_;  ///< Guards all down to turns_.
  std::unique_ptr<engine::Engine> engine_;
  std::atomic<Term> term_ = 0;  ///< Changed under the lock.
  std::atomic<bool> deciding_ = false;
  bool stopped_ = false;
  Waiters waiters_;
  std::condition_variable_any changed_;
  std::uint64_t changes_ = 0;
  std::map<std::string, std::uint64_t> bind_counts_;  ///< Already counted in the metric.
  std::multimap<engine::TimePoint, Later> later_;
  /// By UID: the newest release under way. An older one must not be tried again after it.
  std::unordered_map<std::string, std::uint64_t> turns_;
  std::uint64_t next_turn_ = 0;

  WorkQueue releases_;
  WorkQueue events_;
  std::jthread planner_;
};

}  // namespace berth::server
