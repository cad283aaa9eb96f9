#include "server/host.h"

#include <chrono>

#include "kube/decode.h"
#include "server/views.h"

namespace berth::server {
namespace {

using engine::ResolveBind;

constexpr std::size_t kReleaseThreads = 16;
constexpr std::size_t kMaxReleases = 100'000;
constexpr std::size_t kMaxEvents = 1'000;
constexpr int kMaxReleaseTries = 5;
constexpr int kMaxSettleTries = 30;

engine::PodRef RefOf(const BindArgs& args) {
  return {std::string(args.pod_namespace), std::string(args.pod_name), std::string(args.pod_uid)};
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
           Logger& logger, DecisionLog& decisions, Clock clock)
    : api_(api),
      metrics_(metrics),
      logger_(logger),
      decisions_(decisions),
      clock_(std::move(clock)),
      engine_(std::move(policy), Recorded(std::move(options), decisions)),
      releases_(kReleaseThreads, kMaxReleases),
      events_(1, kMaxEvents) {}

Host::~Host() { Stop(); }

bool Host::ready() const {
  const std::scoped_lock lock(mutex_);
  return ready_;
}

void Host::Start() {
  Apply([](engine::Engine& e, engine::TimePoint now) { e.Start(now); });
  {
    const std::scoped_lock lock(mutex_);
    ready_ = true;
  }
  planner_ = std::jthread([this](const std::stop_token& stop) { Plan(stop); });
}

void Host::Stop() {
  std::unordered_map<engine::TicketId, std::shared_ptr<Waiter>> waiters;
  {
    const std::scoped_lock lock(mutex_);
    ready_ = false;
    stopped_ = true;
    waiters.swap(waiters_);
  }
  for (auto& [ticket, waiter] : waiters) {
    const std::scoped_lock lock(waiter->mutex);
    waiter->resolution = ResolveBind{.ticket = ticket,
                                     .verdict = ResolveBind::Verdict::kError,
                                     .error = "berth: shutting down",
                                     .annotations = {}};
    waiter->resolved.notify_all();
  }
  if (planner_.joinable()) {
    planner_.request_stop();
    planner_.join();
  }
}

void Host::Apply(const std::function<void(engine::Engine&, engine::TimePoint)>& change) {
  std::vector<engine::Action> actions;
  {
    const std::scoped_lock lock(mutex_);
    const auto now = clock_();
    change(engine_, now);
    actions = Collect(now);
    ++changes_;
  }
  changed_.notify_all();
  Carry(std::move(actions));
}

void Host::Plan(const std::stop_token& stop) {
  std::uint64_t seen = 0;
  while (!stop.stop_requested()) {
    std::vector<engine::Action> actions;
    {
      std::unique_lock lock(mutex_);
      const auto due = engine_.NextDeadline();
      const auto wait = std::chrono::milliseconds(
          due ? std::clamp<std::int64_t>(*due - clock_(), 0, 60'000) : 60'000);
      changed_.wait_for(lock, stop, wait, [&] { return changes_ != seen; });
      if (stop.stop_requested()) return;
      seen = changes_;
      const auto now = clock_();
      engine_.Step(now);
      actions = Collect(now);
    }
    Carry(std::move(actions));
  }
}

// --- Actions -------------------------------------------------------------------------------------

/// Takes what the engine wants done since it was called at `now`, and notes its decisions for the
/// log while their order is certain. REQUIRES: the lock.
std::vector<engine::Action> Host::Collect(engine::TimePoint now) {
  std::vector<engine::Action> actions = engine_.TakeActions();
  for (const engine::Action& action : actions) {
    if (const auto* decision = std::get_if<engine::Decision>(&action)) {
      decisions_.Add(*decision, now);
    }
  }
  return actions;
}

void Host::Carry(std::vector<engine::Action> actions) {
  decisions_.Flush();
  for (engine::Action& action : actions) {
    std::visit([this](auto& a) { Do(std::move(a)); }, action);
  }
}

void Host::Do(engine::ReleaseMember release) {
  const std::string uid = release.pod.uid;
  const bool queued = releases_.Push(uid, [this, release = std::move(release)] {
    for (int attempt = 1; attempt <= kMaxReleaseTries; ++attempt) {
      const std::string error = api_.Release(release);
      if (error.empty()) return;
      logger_.Log(Severity::kWarning, "release failed",
                  {{"pod", release.pod.ns + "/" + release.pod.name},
                   {"node", release.node},
                   {"attempt", attempt},
                   {"error", error}});
    }
  });
  if (!queued) {
    logger_.Log(Severity::kError, "release dropped: too many wait; its plan will expire", {});
  }
}

void Host::Do(const ResolveBind& resolution) {
  std::shared_ptr<Waiter> waiter;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = waiters_.find(resolution.ticket);
    if (it == waiters_.end()) return;
    waiter = it->second;
    waiters_.erase(it);
  }
  const std::scoped_lock lock(waiter->mutex);
  waiter->resolution = resolution;
  waiter->resolved.notify_all();
}

void Host::Do(engine::SettleBind settle) {
  const std::string uid = settle.pod.uid;
  releases_.Push(uid, [this, pod = std::move(settle.pod)] { Settle(pod, 1); });
}

/// Reads the pod until the API server says where it is; until then its room stays taken.
void Host::Settle(const engine::PodRef& pod, int attempt) {
  Api::ReadResult read = api_.ReadPod(pod);
  if (!read.error.empty()) {
    if (attempt >= kMaxSettleTries) {
      logger_.Log(Severity::kError, "the outcome of a bind could not be read; its room stays taken",
                  {{"pod", pod.ns + "/" + pod.name}, {"error", read.error}});
      return;
    }
    releases_.Push(pod.uid, [this, pod, attempt] { Settle(pod, attempt + 1); });
    return;
  }
  Apply([&](engine::Engine& e, engine::TimePoint now) {
    if (read.pod && read.pod->meta.uid == pod.uid) {
      e.OnPod(std::move(*read.pod), now);
      e.BindSettled(pod.uid, now);
    } else {
      e.OnPodDeleted(pod.uid, now);
    }
  });
}

void Host::Do(engine::EmitEvent event) {
  logger_.V(2, "event",
            {{"pod", event.pod.ns + "/" + event.pod.name},
             {"reason", event.reason},
             {"note", event.note}});
  events_.Push("", [this, event = std::move(event)] { api_.Event(event); });
}

void Host::Do(const engine::Decision& decision) {
  logger_.V(2, "decision",
            {{"kind", decision.kind},
             {"workload", decision.workload},
             {"queue", decision.queue},
             {"plan", decision.plan},
             {"reason", cluster::Token(decision.verdict.reason)},
             {"members", decision.placed.size()}});
}

// --- Verbs ---------------------------------------------------------------------------------------

std::expected<FilterResult, Unavailable> Host::Filter(const ExtenderArgs& args) {
  std::optional<kube::Pod> request_pod;
  const engine::FilterQuery query{
      .uid = args.pod_uid, .offered = args.node_names, .request_pod = [&]() -> const kube::Pod* {
        if (!request_pod) {
          simdjson::dom::parser parser;
          auto decoded = kube::DecodePod(args.pod_json, parser);
          if (!decoded) return nullptr;
          request_pod = std::move(*decoded);
        }
        return &*request_pod;
      }};
  engine::FilterAnswer answer;
  std::vector<engine::Action> actions;
  {
    const std::scoped_lock lock(mutex_);
    if (!ready_) return std::unexpected(Unavailable{});
    const auto now = clock_();
    answer = engine_.Filter(query, now);
    actions = Collect(now);
    ++changes_;
  }
  changed_.notify_all();
  Carry(std::move(actions));
  FilterResult result;
  if (answer.keep_all) {
    result.kept = args.node_names;
  } else {
    for (const std::size_t index : answer.kept) result.kept.push_back(args.node_names[index]);
    result.reason = cluster::RefusalText(answer.reason);
  }
  return result;
}

std::expected<std::vector<HostPriority>, Unavailable> Host::Prioritize(const ExtenderArgs& args) {
  const std::scoped_lock lock(mutex_);
  if (!ready_) return std::unexpected(Unavailable{});
  const auto planned = engine_.PlannedNode(args.pod_uid);
  const std::string_view best =
      planned == cluster::kNoNode ? std::string_view() : engine_.store().node(planned).name;
  std::vector<HostPriority> priorities;
  priorities.reserve(args.node_names.size());
  for (const auto name : args.node_names) {
    priorities.push_back({.host = name, .score = name == best ? 10 : 0});
  }
  return priorities;
}

/// kube-scheduler may hear of a pod before we do. A refusal for that alone could stand until some
/// unrelated event: better to wait for the watch, which is milliseconds behind.
void Host::AwaitPod(std::unique_lock<std::mutex>& lock, std::string_view uid) {
  changed_.wait_for(lock, std::chrono::seconds(1),
                    [&] { return stopped_ || engine_.store().FindPod(uid) != nullptr; });
}

std::expected<std::string, Unavailable> Host::Bind(const BindArgs& args) {
  const engine::PodRef pod = RefOf(args);
  const std::string node(args.node);
  engine::BindAnswer answer;
  std::vector<engine::Action> actions;
  auto waiter = std::make_shared<Waiter>();
  {
    std::unique_lock lock(mutex_);
    if (!ready_) return std::unexpected(Unavailable{});
    AwaitPod(lock, args.pod_uid);
    const auto now = clock_();
    answer = engine_.Bind({.uid = pod.uid, .ns = pod.ns, .name = pod.name, .node = node}, now);
    actions = Collect(now);
    if (answer.stand) waiters_.emplace(answer.ticket, waiter);
    ++changes_;
  }
  changed_.notify_all();
  Carry(std::move(actions));
  if (!answer.stand) return FinishBind(pod, node, answer.now);
  const StandingBind standing(metrics_);
  return FinishBind(pod, node, Await(*waiter, answer.ticket, args));
}

/// Parks the call. The engine ends every stand at its deadline, Stop ends them all at once, and one
/// whose caller has hung up ends by itself.
ResolveBind Host::Await(Waiter& waiter, engine::TicketId ticket, const BindArgs& args) {
  std::unique_lock lock(waiter.mutex);
  const auto resolved = [&] { return waiter.resolution.has_value(); };
  while (!waiter.resolved.wait_for(lock, std::chrono::seconds(1), resolved)) {
    if (!args.client_gone || !args.client_gone()) continue;
    lock.unlock();
    bool stood = false;
    Apply([&](engine::Engine& e, engine::TimePoint) { stood = e.BindAbandoned(ticket); });
    if (stood) {
      const std::scoped_lock host_lock(mutex_);
      waiters_.erase(ticket);
    }
    lock.lock();
    // Told to post meanwhile, perhaps by a thread that has not come here yet: the room is charged
    // for it, so wait for the word and do it.
    if (!stood) continue;
    if (resolved()) break;
    return {.ticket = ticket,
            .verdict = ResolveBind::Verdict::kError,
            .error = "berth: the caller has gone",
            .annotations = {}};
  }
  return *waiter.resolution;
}

void Host::UpdateMetrics() {
  engine::Counters counters;
  {
    const std::scoped_lock lock(mutex_);
    counters = engine_.TakeCounters();
    FeedGauges(engine_, metrics_);
  }
  for (const auto& [result, count] : counters.binds) {
    for (; bind_counts_[result] < count; ++bind_counts_[result]) metrics_.CountBind(result);
  }
  for (const std::int64_t ms : counters.gang_waits_ms) {
    metrics_.ObserveGangWait(static_cast<double>(ms) / 1000.0);
  }
}

std::string Host::FinishBind(const engine::PodRef& pod, const std::string& node,
                             const ResolveBind& word) {
  switch (word.verdict) {
    case ResolveBind::Verdict::kPost:
      return Post(pod, node, word);
    case ResolveBind::Verdict::kBound:
      return {};
    case ResolveBind::Verdict::kError:
      break;
  }
  return word.error.empty() ? "berth: refused" : word.error;
}

std::string Host::Post(const engine::PodRef& pod, const std::string& node,
                       const ResolveBind& word) {
  const Api::BindResult result = api_.Bind(pod, node, word.annotations);
  Apply([&](engine::Engine& e, engine::TimePoint now) {
    e.BindFinished(pod.uid, result.outcome, now);
  });
  if (result.outcome == engine::BindOutcome::kBound) {
    logger_.V(2, "bound", {{"pod", pod.ns + "/" + pod.name}, {"node", node}});
    return {};
  }
  logger_.Log(Severity::kWarning, "bind failed",
              {{"pod", pod.ns + "/" + pod.name}, {"node", node}, {"error", result.message}});
  return "berth: " + result.message;
}

std::expected<std::map<std::string, Victims, std::less<>>, Unavailable> Host::Preempt(
    const PreemptionArgs& args) {
  engine::VictimMap candidates;
  for (const auto& [node, victims] : args.node_to_victims) {
    candidates[node] = {.uids = victims.pod_uids, .pdb_violations = victims.num_pdb_violations};
  }
  engine::VictimMap kept;
  std::vector<engine::Action> actions;
  {
    std::unique_lock lock(mutex_);
    if (!ready_) return std::unexpected(Unavailable{});
    AwaitPod(lock, args.pod_uid);
    const auto now = clock_();
    kept = engine_.Preempt(args.pod_uid, candidates, now);
    actions = Collect(now);
  }
  Carry(std::move(actions));
  std::map<std::string, Victims, std::less<>> answer;
  for (auto& [node, set] : kept) {
    answer[node] = {.pod_uids = std::move(set.uids), .num_pdb_violations = set.pdb_violations};
  }
  return answer;
}

}  // namespace berth::server
