#include "server/drivers/host_driver.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "server/ops/views.h"

namespace berth::server {
namespace {

using kube::WriteOutcome;

constexpr std::size_t kWriteThreads = 16;
constexpr std::size_t kMaxWrites = 100'000;
constexpr std::size_t kMaxEvents = 1'000;
/// The longest time between two proofs by the planner thread that it can take the host's lock.
constexpr std::int64_t kBeatMs = 1'000;

engine::Options Recorded(engine::Options options, DecisionLog& decisions) {
  options.listener = decisions.listener();
  return options;
}

}  // namespace

engine::TimePoint SystemClock() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Clock SteadyClock() {
  using std::chrono::steady_clock;
  return [epoch = SystemClock(), start = steady_clock::now()] {
    return epoch +
           std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start)
               .count();
  };
}

HostDriver::HostDriver(config::PolicyConfiguration policy, engine::Options options, Api& api,
                       Metrics& metrics, Logger& logger, DecisionLog& decisions, Clock clock,
                       Leads leads)
    : api_(api),
      metrics_(metrics),
      logger_(logger),
      decisions_(decisions),
      clock_(std::move(clock)),
      leads_(std::move(leads)),
      beat_(clock_()),
      host_(std::move(policy), Recorded(std::move(options), decisions), leads_),
      writes_(kWriteThreads, kMaxWrites),
      events_(1, kMaxEvents) {
  planner_ = std::jthread([this](const std::stop_token& stop) { Plan(stop); });
}

HostDriver::~HostDriver() { Stop(); }

// --- The host ------------------------------------------------------------------------------------

void HostDriver::Broken(std::string_view what, std::string_view error) {
  logger_.Log(Severity::kError, "the engine failed: the process exits, so that it is restarted",
              {{"while", what}, {"error", error}});
  logger_.Flush();
  if (!broken_) std::abort();
  broken_();
}

/// Takes the host's orders, adds its decisions to the log while their order is known, and hands
/// calls their answers. REQUIRES: the lock.
HostDriver::Orders HostDriver::Collect(engine::TimePoint now) {
  deciding_ = host_.in_term();
  Orders left;
  for (host::Order& order : host_.TakeOrders()) {
    if (const auto* decision = std::get_if<engine::Decision>(&order)) {
      decisions_.Add(*decision, now);
    }
    if (const auto* binding = std::get_if<host::PostBinding>(&order)) {
      Deliver(binding->id, order);
    } else if (const auto* bound = std::get_if<host::AnswerBind>(&order)) {
      Deliver(bound->id, order);
    } else if (const auto* kept = std::get_if<host::AnswerPreempt>(&order)) {
      Deliver(kept->id, order);
    } else {
      left.push_back(std::move(order));
    }
  }
  return left;
}

/// REQUIRES: the lock.
void HostDriver::Deliver(host::Id call, host::Order& order) {
  const auto at = mailboxes_.find(call);
  if (at == mailboxes_.end()) return;
  const auto mailbox = at->second;
  if (!std::holds_alternative<host::PostBinding>(order)) mailboxes_.erase(at);
  const std::scoped_lock lock(mailbox->mutex);
  mailbox->order = std::move(order);
  mailbox->arrived.notify_all();
}

void HostDriver::Apply(const host::Host::Change& change) {
  Run("an event", [&](engine::TimePoint now) { host_.Apply(change, now); });
  decisions_.Flush();
}

void HostDriver::Plan(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "planner");  // for `ps -L` and debuggers
  std::uint64_t seen = 0;
  while (!stop.stop_requested()) {
    Orders orders;
    bool unfinished = false;
    {
      Lock lock(mutex_);
      const auto now = clock_();
      beat_ = now;
      const std::int64_t wait = MsUntilDue(now);
      if (wait > 0) {
        changed_.wait_for(lock, stop, std::chrono::milliseconds(wait),
                          [&] { return changes_ != seen; });
        seen = changes_;
        continue;
      }
      orders = Enter("planning", [&](engine::TimePoint at) { host_.Advance(at); });
      seen = changes_;
      unfinished = host_.engine().unfinished();
    }
    decisions_.Flush();
    Carry(std::move(orders));
    if (!unfinished) continue;
    // The lock goes to the thread that asks first, not to the one that has waited longest.
    Lock lock(mutex_);
    changed_.wait_for(lock, stop, std::chrono::milliseconds(host::kBetweenPasses),
                      [] { return false; });
  }
}

/// How long nothing is to be done unless something happens. REQUIRES: the lock.
std::int64_t HostDriver::MsUntilDue(engine::TimePoint now) const {
  const auto due = host_.due();
  return due ? std::clamp<std::int64_t>(*due - now, 0, kBeatMs) : kBeatMs;
}

// --- Terms ---------------------------------------------------------------------------------------

void HostDriver::Start() {
  Run("the start of a term", [&](engine::TimePoint now) { host_.Lead(now); });
  decisions_.Flush();
}

void HostDriver::Resign() {
  Run("the end of a term", [&](engine::TimePoint) { host_.Resign(); });
  while (ForgetMore()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(host::kBetweenPasses));
  }
}

bool HostDriver::ForgetMore() {
  bool more = false;
  Orders orders;
  {
    const Lock lock(mutex_);
    CountBinds(host_.TakeCounters());
    orders = Enter("the end of a term", [&](engine::TimePoint now) { more = host_.Forget(now); });
    if (!more) {  // the next engine counts from 0
      bind_counts_.clear();
      eviction_counts_.clear();
      in_vain_counts_.clear();
    }
  }
  decisions_.Flush();
  Carry(std::move(orders));
  return more;
}

void HostDriver::Stop() {
  Run("the end", [&](engine::TimePoint) { host_.Stop(); });
  if (planner_.joinable()) {
    planner_.request_stop();
    planner_.join();
  }
  decisions_.Flush();
}

// --- Orders --------------------------------------------------------------------------------------

void HostDriver::Carry(Orders orders) {
  for (host::Order& order : orders) {
    std::visit(
        [this](auto& o) {
          if constexpr (requires { Do(std::move(o)); }) Do(std::move(o));
        },
        order);
  }
}

Api::Wanted HostDriver::Wanted(host::Id order) const {
  return [this, order] {
    const Lock lock(mutex_);
    return host_.Wants(order);
  };
}

void HostDriver::Finish(host::Id order, host::Result result) {
  Run("an outcome", [&](engine::TimePoint now) { host_.Finished(order, std::move(result), now); });
}

/// Keeps the order of calls of one key. One that is not wanted any more when its turn comes, in a
/// later term say, is not made; one that does not fit into the queue is ordered again later.
/// `tell`: logs a result that is not final.
template <typename Tell>
void HostDriver::Queue(const host::ApiOrder& order, Tell tell) {
  const host::Id id = host::IdOf(order);
  const bool queued = writes_.Push(host::KeyOf(order), [this, id, order, tell] {
    if (!Wanted(id)()) return Finish(id, {.outcome = WriteOutcome::kRefused});
    host::Result result = api_.CarryOut(order, Wanted(id));
    if (!host::IsSettled(result)) tell(result);
    Finish(id, std::move(result));
  });
  if (!queued) Finish(id, {.outcome = WriteOutcome::kRefused, .tried = false});
}

template <typename Order>
void HostDriver::QueuePod(const Order& order, std::string_view failure) {
  Queue(order, [this, failure, order](const host::Result& result) {
    const std::string pod = order.pod.ns + "/" + order.pod.name;
    if constexpr (requires { order.node; }) {
      logger_.Log(Severity::kWarning, failure,
                  {{"pod", pod},
                   {"node", order.node},
                   {"attempt", order.attempt},
                   {"error", result.message}});
    } else {
      logger_.Log(Severity::kWarning, failure,
                  {{"pod", pod}, {"attempt", order.attempt}, {"error", result.message}});
    }
  });
}

/// `is_list`: all Jobs that Berth has suspended are read. `matters`: a Job may stay suspended if it
/// fails. Otherwise it is no trouble: pods are evicted one by one.
void HostDriver::QueueJob(const host::ApiOrder& order, bool is_list, bool matters) {
  const std::string job = host::KeyOf(order);
  Queue(order, [this, job, is_list, matters](const host::Result& result) {
    const bool without_right = is_list && result.forbidden;  // so no Job is suspended
    if (matters && !without_right) {
      logger_.Log(Severity::kWarning, "Jobs that Berth has suspended could not be resumed yet",
                  {{"job", job}, {"error", result.message}});
    } else {
      logger_.V(1, "a Job could not be read or suspended",
                {{"job", job}, {"error", result.message}});
    }
  });
}

void HostDriver::Do(const host::Nominate& order) { QueuePod(order, "nomination failed"); }

void HostDriver::Do(const host::RemoveGate& order) { QueuePod(order, "removing the gate failed"); }

void HostDriver::Do(const host::MarkVictim& order) { QueuePod(order, "marking a victim failed"); }

void HostDriver::Do(const host::Evict& order) { QueuePod(order, "eviction refused"); }

void HostDriver::Do(const host::FindObject& order) {
  Queue(order, [this, object = host::KeyOf(order)](const host::Result& result) {
    logger_.V(1, "an object that pods need was not found",
              {{"object", object}, {"error", result.message}});
  });
}

void HostDriver::Do(const host::ReadJobs& order) {
  const bool is_list = order.name.empty() && order.of_set.empty();
  QueueJob(order, is_list, /*matters=*/is_list);
}

void HostDriver::Do(const host::SuspendJob& order) {
  QueueJob(order, /*is_list=*/false, !order.suspend);
}

void HostDriver::Do(const host::ReadPod& order) {
  QueuePod(order, "the outcome of a bind could not be read; its room stays taken");
}

void HostDriver::Do(engine::EmitEvent event) {
  logger_.V(2, "event",
            {{"pod", event.pod.ns + "/" + event.pod.name},
             {"reason", event.reason},
             {"note", event.note}});
  if (!events_.Push("", [this, event = std::move(event)] { api_.Event(event); })) {
    metrics_.CountEvent("dropped");
  }
}

void HostDriver::Do(const engine::NodeNotice& notice) {
  if (notice.problem.empty()) {
    logger_.V(1, notice.kept ? "devices are tracked individually" : "devices are counted",
              {{"node", notice.node}});
    return;
  }
  logger_.Log(Severity::kWarning, "devices are only counted",
              {{"node", notice.node}, {"why", notice.problem}});
}

void HostDriver::Do(const engine::Decision& decision) {
  logger_.V(2, "decision",
            {{"kind", decision.kind},
             {"workload", decision.workload},
             {"queue", decision.queue},
             {"plan", decision.plan},
             {"reason", cluster::Token(decision.verdict.reason)},
             {"members", decision.placed.size()}});
}

// --- Metrics -------------------------------------------------------------------------------------

void HostDriver::LookInParts(const Part& part) const {
  // A thread that takes a mutex again at once is faster than those that wait for it.
  constexpr std::chrono::microseconds kBetweenParts{200};
  while (Look(part)) std::this_thread::sleep_for(kBetweenParts);
}

void HostDriver::UpdateMetrics() {
  const std::scoped_lock one_at_a_time(gauges_mutex_);
  {
    const Lock lock(mutex_);
    CountBinds(host_.TakeCounters());
  }
  FeedGauges([this](const Part& part) { LookInParts(part); }, metrics_);
}

/// REQUIRES: the lock.
void HostDriver::CountBinds(const engine::Counters& counters) {
  const auto add = [this](const auto& counts, auto& counted, auto count_one) {
    for (const auto& [label, count] : counts) {
      for (; counted[label] < count; ++counted[label]) (metrics_.*count_one)(label);
    }
  };
  add(counters.binds, bind_counts_, &Metrics::CountBind);
  add(counters.evictions, eviction_counts_, &Metrics::CountEviction);
  add(counters.evictions_in_vain, in_vain_counts_, &Metrics::CountEvictionInVain);
  for (const std::int64_t ms : counters.gang_waits_ms) {
    metrics_.ObserveGangWait(static_cast<double>(ms) / 1000.0);
  }
}

}  // namespace berth::server
