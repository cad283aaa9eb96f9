#include "server/host.h"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <cstdlib>

#include "server/views.h"

namespace berth::server {
namespace {

using engine::ResolveBind;

constexpr std::size_t kReleaseThreads = 16;
constexpr std::size_t kMaxReleases = 100'000;
constexpr std::size_t kMaxEvents = 1'000;
constexpr int kMaxReleaseTries = 5;
/// How long the removal of a gate waits for the nomination before it to come back by the watch. The
/// thread is held up meanwhile: at 100 ms, releases were slower on a busy machine than without.
constexpr std::chrono::milliseconds kNominationLag(20);
/// The planner thread waits so long between two passes of one round of planning: verbs get the lock
/// meanwhile, which goes to whoever asks first and not to whoever has waited longest.
constexpr std::int64_t kBetweenPassesMs = 1;
/// The planner thread shows at least as often that the engine can be had.
constexpr std::int64_t kBeatMs = 1'000;

/// Before the next try after `attempt` failed ones: from half a second up to 30 s.
std::int64_t RetryDelayMs(int attempt) {
  constexpr std::int64_t kFirst = 500;
  constexpr std::int64_t kMost = 30'000;
  return std::min(kMost, kFirst << std::min(attempt - 1, 6));
}

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

Host::Host(config::PolicyConfiguration policy, engine::Options options, Api& api, Metrics& metrics,
           Logger& logger, DecisionLog& decisions, Clock clock, Leads leads)
    : api_(api),
      metrics_(metrics),
      logger_(logger),
      decisions_(decisions),
      clock_(std::move(clock)),
      leads_(std::move(leads)),
      options_(Recorded(std::move(options), decisions)),
      beat_(clock_()),
      engine_(std::make_unique<engine::Engine>(std::move(policy), options_)),
      releases_(kReleaseThreads, kMaxReleases),
      events_(1, kMaxEvents) {
  planner_ = std::jthread([this](const std::stop_token& stop) { Plan(stop); });
}

Host::~Host() { Stop(); }

// --- Terms ---------------------------------------------------------------------------------------

void Host::Start() {
  Apply([&](engine::Engine& e, engine::TimePoint now) {
    if (stopped_) return;
    e.Start(now);
    deciding_ = true;
  });
}

void Host::Resign() {
  for (const auto& [ticket, waiter] : StopDeciding()) {
    const std::scoped_lock lock(waiter->mutex);
    waiter->resolution = std::unexpected(Unavailable{});
    waiter->resolved.notify_all();
  }
  {
    const std::scoped_lock lock(mutex_);
    CountBinds(engine_->TakeCounters());
    bind_counts_.clear();
    engine_ = FreshEngine();
  }
  changed_.notify_all();
}

void Host::Stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  for (const auto& [ticket, waiter] : StopDeciding()) {
    const std::scoped_lock lock(waiter->mutex);
    waiter->resolution = ResolveBind{.ticket = ticket,
                                     .verdict = ResolveBind::Verdict::kError,
                                     .error = "berth: shutting down",
                                     .annotations = {}};
    waiter->resolved.notify_all();
  }
  changed_.notify_all();
  if (planner_.joinable()) {
    planner_.request_stop();
    planner_.join();
  }
  decisions_.Flush();
}

/// Returns the binds that stood.
Host::Waiters Host::StopDeciding() {
  const std::scoped_lock lock(mutex_);
  deciding_ = false;
  ++term_;  // What is queued, or on its way back, is nobody's any more.
  later_.clear();
  turns_.clear();
  return std::exchange(waiters_, {});
}

/// REQUIRES: the lock.
std::unique_ptr<engine::Engine> Host::FreshEngine() {
  engine::Options options = options_;
  options.instance = fmt::format("{}r{}", options_.instance, term_.load());
  return engine::Engine::Anew(*engine_, std::move(options), clock_());
}

// --- The engine ----------------------------------------------------------------------------------

void Host::Apply(const std::function<void(engine::Engine&, engine::TimePoint)>& change) {
  Change(std::nullopt, change);
}

void Host::ApplyIn(Term term,
                   const std::function<void(engine::Engine&, engine::TimePoint)>& change) {
  Change(term, change);
}

void Host::Change(std::optional<Term> only,
                  const std::function<void(engine::Engine&, engine::TimePoint)>& change) {
  Wanted wanted;
  {
    const std::scoped_lock lock(mutex_);
    if (only && *only != term_) return;
    const auto now = clock_();
    Enter("an event", [&] {
      change(*engine_, now);
      wanted = Collect(now);
    });
    ++changes_;
  }
  changed_.notify_all();
  decisions_.Flush();
  Carry(std::move(wanted));
}

void Host::Broken(std::string_view what, std::string_view error) {
  logger_.Log(Severity::kError, "the engine failed: the process ends, and begins anew",
              {{"while", what}, {"error", error}});
  logger_.Flush();
  if (!broken_) std::abort();
  broken_();
}

void Host::Plan(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "planner");  // for `ps -L` and debuggers
  std::uint64_t seen = 0;
  while (!stop.stop_requested()) {
    Wanted wanted;
    std::vector<Later> due;
    {
      std::unique_lock lock(mutex_);
      // In the midst of a round what has changed can wait.
      const bool goes_on = deciding() && engine_->unfinished();
      changed_.wait_for(lock, stop, std::chrono::milliseconds(MsUntilDue(clock_())),
                        [&] { return !goes_on && changes_ != seen; });
      if (stop.stop_requested()) return;
      seen = changes_;
      const auto now = clock_();
      beat_ = now;
      due = TakeDue(now);
      if (deciding()) {
        Enter("planning", [&] {
          engine_->Step(now);
          wanted = Collect(now);
        });
      }
    }
    decisions_.Flush();
    Carry(std::move(wanted));
    for (Later& later : due) Enqueue(later.uid, std::move(later.job));
  }
}

/// How long nothing is to be done unless something happens. REQUIRES: the lock.
std::int64_t Host::MsUntilDue(engine::TimePoint now) const {
  if (deciding() && engine_->unfinished()) return kBetweenPassesMs;
  engine::TimePoint due = now + kBeatMs;
  if (!later_.empty()) due = std::min(due, later_.begin()->first);
  // Only who decides has deadlines: another would find its own passed, over and over.
  if (const auto deadline = deciding() ? engine_->NextDeadline() : std::nullopt) {
    due = std::min(due, *deadline);
  }
  return std::max<std::int64_t>(due - now, 0);
}

// --- Jobs ----------------------------------------------------------------------------------------

/// In the order of calls for one UID; a full lane takes it later.
void Host::Enqueue(const std::string& uid, std::function<void()> job) {
  if (!releases_.Push(uid, job)) Postpone(uid, RetryDelayMs(1), std::move(job));
}

void Host::Postpone(const std::string& uid, std::int64_t delay_ms, std::function<void()> job) {
  const std::scoped_lock lock(mutex_);
  later_.emplace(clock_() + delay_ms, Later{.uid = uid, .job = std::move(job)});
}

/// REQUIRES: the lock.
std::vector<Host::Later> Host::TakeDue(engine::TimePoint now) {
  std::vector<Later> due;
  while (!later_.empty() && later_.begin()->first <= now) {
    due.push_back(std::move(later_.begin()->second));
    later_.erase(later_.begin());
  }
  return due;
}

// --- Actions -------------------------------------------------------------------------------------

/// Takes what the engine wants done since it was called at `now`, and notes its decisions for the
/// log while their order is certain. REQUIRES: the lock.
Host::Wanted Host::Collect(engine::TimePoint now) {
  Wanted wanted{.term = term_, .actions = engine_->TakeActions()};
  for (const engine::Action& action : wanted.actions) {
    if (const auto* decision = std::get_if<engine::Decision>(&action)) {
      decisions_.Add(*decision, now);
    }
  }
  if (!deciding_) wanted.actions.clear();  // Of an engine whose term is over.
  return wanted;
}

void Host::Carry(Wanted wanted) {
  for (engine::Action& action : wanted.actions) {
    std::visit([&](auto& a) { Do(wanted.term, std::move(a)); }, action);
  }
}

void Host::Do(Term term, engine::ReleaseMember release) {
  auto shared = std::make_shared<const engine::ReleaseMember>(std::move(release));
  const std::string& uid = shared->pod.uid;
  std::uint64_t turn = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (term != term_) return;
    turn = turns_[uid] = ++next_turn_;
  }
  Enqueue(uid, [this, term, shared, turn] { Release(term, shared, turn, 1); });
}

/// The API client retries by itself what may pass. What it gives up is tried again a few times,
/// each time later, unless a newer release of the pod has come; then the plan expires.
void Host::Release(Term term, const std::shared_ptr<const engine::ReleaseMember>& release,
                   std::uint64_t turn, int attempt) {
  const std::string& uid = release->pod.uid;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = turns_.find(uid);
    if (term != term_ || it == turns_.end() || it->second != turn) return;
  }
  if (!leads_()) return;
  const std::string error =
      api_.Release(*release, [&] { AwaitNomination(term, uid, release->node); });
  if (!error.empty()) {
    logger_.Log(Severity::kWarning, "release failed",
                {{"pod", release->pod.ns + "/" + release->pod.name},
                 {"node", release->node},
                 {"attempt", attempt},
                 {"error", error}});
    if (attempt < kMaxReleaseTries) {
      Postpone(uid, RetryDelayMs(attempt),
               [this, term, release, turn, attempt] { Release(term, release, turn, attempt + 1); });
      return;
    }
  }
  const std::scoped_lock lock(mutex_);
  if (const auto it = turns_.find(uid); it != turns_.end() && it->second == turn) turns_.erase(it);
}

/// The API server patches the pod that its watch cache holds. Where that lacks the nomination,
/// etcd refuses the result, and decoding, field management, admission and validation are done over.
/// Our own watch is fed by that cache. Where it is late, what it saves is not worth a longer wait.
void Host::AwaitNomination(Term term, const std::string& uid, const std::string& node) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kNominationLag, [&] {
    const cluster::PodInfo* pod = engine_->store().FindPod(uid);
    return term != term_ || pod == nullptr || pod->object.nominated_node == node;
  });
}

void Host::Do(Term term, const ResolveBind& resolution) {
  std::shared_ptr<Waiter> waiter;
  {
    const std::scoped_lock lock(mutex_);
    if (term != term_) return;
    const auto it = waiters_.find(resolution.ticket);
    if (it == waiters_.end()) return;
    waiter = it->second;
    waiters_.erase(it);
  }
  const std::scoped_lock lock(waiter->mutex);
  waiter->resolution = resolution;
  waiter->resolved.notify_all();
}

void Host::Do(Term term, engine::SettleBind settle) {
  const std::string uid = settle.pod.uid;
  Enqueue(uid, [this, term, pod = std::move(settle.pod)] { Settle(term, pod, 1); });
}

/// Reads the pod until the API server says where it is; until then its room stays taken.
void Host::Settle(Term term, const engine::PodRef& pod, int attempt) {
  if (term != term_) return;
  Api::ReadResult read = api_.ReadPod(pod);
  if (!read.error.empty()) {
    logger_.Log(Severity::kWarning, "the outcome of a bind could not be read; its room stays taken",
                {{"pod", pod.ns + "/" + pod.name}, {"attempt", attempt}, {"error", read.error}});
    Postpone(pod.uid, RetryDelayMs(attempt),
             [this, term, pod, attempt] { Settle(term, pod, attempt + 1); });
    return;
  }
  ApplyIn(term, [&](engine::Engine& e, engine::TimePoint now) {
    if (read.pod && read.pod->meta.uid == pod.uid) {
      e.OnPod(std::move(*read.pod), now);
      e.BindSettled(pod.uid, now);
    } else {
      e.OnPodDeleted(pod.uid, now);
    }
  });
}

void Host::Do(Term /*term*/, engine::EmitEvent event) {
  logger_.V(2, "event",
            {{"pod", event.pod.ns + "/" + event.pod.name},
             {"reason", event.reason},
             {"note", event.note}});
  if (!events_.Push("", [this, event = std::move(event)] { api_.Event(event); })) {
    metrics_.CountEvent("dropped");
  }
}

void Host::Do(Term /*term*/, const engine::NodeNotice& notice) {
  if (notice.problem.empty()) {
    logger_.V(1, notice.kept ? "devices are told apart" : "devices are counted",
              {{"node", notice.node}});
    return;
  }
  logger_.Log(Severity::kWarning, "devices are only counted",
              {{"node", notice.node}, {"why", notice.problem}});
}

void Host::Do(Term /*term*/, const engine::Decision& decision) {
  logger_.V(2, "decision",
            {{"kind", decision.kind},
             {"workload", decision.workload},
             {"queue", decision.queue},
             {"plan", decision.plan},
             {"reason", cluster::Token(decision.verdict.reason)},
             {"members", decision.placed.size()}});
}

// --- Metrics -------------------------------------------------------------------------------------

void Host::UpdateMetrics() {
  const std::scoped_lock lock(mutex_);
  CountBinds(engine_->TakeCounters());
  FeedGauges(*engine_, metrics_);
}

/// REQUIRES: the lock.
void Host::CountBinds(const engine::Counters& counters) {
  for (const auto& [result, count] : counters.binds) {
    for (; bind_counts_[result] < count; ++bind_counts_[result]) metrics_.CountBind(result);
  }
  for (const std::int64_t ms : counters.gang_waits_ms) {
    metrics_.ObserveGangWait(static_cast<double>(ms) / 1000.0);
  }
}

}  // namespace berth::server
