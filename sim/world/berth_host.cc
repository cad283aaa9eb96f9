#include "sim/world/berth_host.h"

#include "cluster/plan_claim.h"

namespace berth::sim {

using engine::ResolveBind;

namespace {

// As in server/host.cc and server/kube_api.cc.
constexpr int kMaxReleaseTries = 5;
constexpr int kMaxSettleTries = 30;
constexpr Duration kBindTimeout = 8'000;
constexpr Duration kPatchTimeout = 5'000;
constexpr Duration kReadTimeout = 10'000;
constexpr Duration kPollClient = 1'000;
constexpr Duration kAwaitPod = 1'000;
constexpr Duration kLongestSleep = 60'000;

/// As the decoder does: every event brings a spec of its own.
kube::Pod Decoded(const kube::Pod& pod) {
  kube::Pod copy = pod;
  copy.spec = std::make_shared<const kube::PodSpec>(*pod.spec);
  return copy;
}

engine::Options OptionsOf(const Environment& env, const std::string& instance) {
  engine::Options options{.instance = instance};
  options.pass_budget = env.pass_budget;
  return options;
}

}  // namespace

BerthHost::BerthHost(Environment& env, std::string instance, std::function<Duration()> left)
    : env_(env),
      instance_(std::move(instance)),
      left_(std::move(left)),
      clock_(env),
      engine_(std::make_unique<engine::Engine>(env.api.policy(), OptionsOf(env, instance_))),
      client_(std::make_unique<ApiClient>(env, left_)) {
  using engine::Engine;
  Watch(Kind::kNode, {.upsert =
                          [this](const Change& c) {
                            Apply([&](Engine& e, TimePoint now) { e.OnNode(*c.node, now); });
                          },
                      .remove =
                          [this](const std::string& key, const Change&) {
                            Apply([&](Engine& e, TimePoint now) { e.OnNodeDeleted(key, now); });
                          },
                      .synced = {}});
  Watch(Kind::kPod, {.upsert =
                         [this](const Change& c) {
                           Apply([&](Engine& e, TimePoint now) { e.OnPod(Decoded(*c.pod), now); });
                         },
                     .remove =
                         [this](const std::string& key, const Change&) {
                           Apply([&](Engine& e, TimePoint now) { e.OnPodDeleted(key, now); });
                         },
                     .synced = {}});
  Watch(Kind::kPolicy, {.upsert =
                            [this](const Change& c) {
                              if (*c.policy == engine_->store().policy()) return;
                              Apply([&](Engine& e, TimePoint now) { e.OnPolicy(*c.policy, now); });
                            },
                        .remove = [](const std::string&, const Change&) {},
                        .synced = {}});
  if (env.api.budgets().empty()) return;
  Watch(Kind::kBudget, {.upsert =
                            [this](const Change& c) {
                              Apply([&](Engine& e, TimePoint) { e.OnDisruptionBudget(*c.budget); });
                            },
                        .remove = [](const std::string&, const Change&) {},
                        .synced = {}});
}

void BerthHost::Watch(Kind kind, WatchStream::Sink sink) {
  sink.synced = [this] { OnSynced(); };
  sink.ended = true;  // members that succeed count, what a kubelet refuses is worth knowing
  ++unsynced_;
  streams_[static_cast<std::size_t>(kind)] =
      std::make_unique<WatchStream>(env_, kind, std::move(sink));
}

void BerthHost::OnSynced() {
  if (--unsynced_ > 0) return;
  if (on_synced) return on_synced();
  env_.trace.Say("berth: ready");
  Lead();
}

void BerthHost::Lead() {
  if (left_) env_.trace.Say("berth {}: leads", instance_);
  deciding_ = true;
  Apply([](engine::Engine& e, TimePoint now) { e.Start(now); });
}

/// What was sent arrives all the same; nobody hears of it but by watch.
void BerthHost::Resign() {
  deciding_ = false;
  term_life_.Renew();
  client_ = std::make_unique<ApiClient>(env_, left_);
  carrying_ = 0;
  plan_at_ = -1;
  owed_.clear();
  for (auto& lane : lanes_) lane.clear();
  const auto waiters = std::exchange(waiters_, {});
  const auto posting = std::exchange(posting_, {});
  const auto awaiting = std::exchange(awaiting_, {});
  const std::string instance = fmt::format("{}r{}", instance_, ++terms_);
  engine_ = engine::Engine::Anew(*engine_, OptionsOf(env_, instance), now());
  for (const auto& [ticket, waiter] : waiters) waiter.done(std::nullopt);
  for (const auto& [id, done] : posting) done(std::nullopt);
  for (const auto& [uid, call] : awaiting) call();
}

bool BerthHost::Idle() const {
  if (!deciding_ || carrying_ > 0 || !waiters_.empty() || !owed_.empty()) return false;
  for (const auto& lane : lanes_) {
    if (!lane.empty()) return false;
  }
  return std::ranges::all_of(
      streams_, [](const auto& stream) { return stream == nullptr || stream->settled(); });
}

std::vector<std::pair<std::string, std::string>> BerthHost::Standing() const {
  std::vector<std::pair<std::string, std::string>> standing;
  for (const auto& [ticket, waiter] : waiters_) standing.emplace_back(waiter.pod.uid, waiter.node);
  return standing;
}

// --- The lock, the planner thread and what is carried out ----------------------------------------

void BerthHost::Apply(const std::function<void(engine::Engine&, TimePoint)>& change) {
  change(*engine_, now());
  Changed();
  Carry();
}

/// Wakes whoever waits for a change: the planner thread, and calls that wait for their pod.
void BerthHost::Changed() {
  if (!deciding_ && left_) return;  // nobody waits
  const Duration wake =
      env_.network.Between(0, env_.weather.Is(FaultKind::kBerthThreads) ? 200 : 2);
  const TimePoint at = env_.now() + wake;
  if (plan_at_ < 0 || at < plan_at_) {
    plan_at_ = at;
    env_.timeline.At(at, life_.Guard([this, turn = ++plan_turn_] {
      if (turn == plan_turn_) Plan();
    }));
  }
  if (awaiting_.empty()) return;
  std::vector<std::function<void()>> calls;
  std::erase_if(awaiting_, [&](auto& entry) {
    if (engine_->store().FindPod(entry.first) == nullptr) return false;
    calls.push_back(std::move(entry.second));
    return true;
  });
  for (const auto& call : calls) env_.timeline.After(0, life_.Guard(call));
}

void BerthHost::Plan() {
  plan_at_ = -1;
  if (left_ && !ready()) return;
  engine_->Step(now());
  Carry();
  const auto due = engine_->NextDeadline();
  const Duration wait = due ? std::clamp<Duration>(*due - now(), 0, kLongestSleep) : kLongestSleep;
  plan_at_ = env_.now() + clock_.Takes(std::max<Duration>(wait, 1));
  env_.timeline.At(plan_at_, life_.Guard([this, turn = ++plan_turn_] {
    if (turn == plan_turn_) Plan();
  }));
}

/// Actions are carried out after the lock is given back, each batch by its own thread: a slow one
/// may be overtaken.
void BerthHost::Carry() {
  std::vector<engine::Action> actions = engine_->TakeActions();
  if (actions.empty() || !deciding_) return;
  const auto carry = [this, actions = std::move(actions)] {
    for (const engine::Action& action : actions) {
      std::visit([this](const auto& a) { Do(a); }, action);
    }
  };
  if (!env_.weather.Is(FaultKind::kBerthThreads)) return carry();
  env_.weather.Struck(FaultKind::kBerthThreads);
  ++carrying_;
  env_.timeline.After(env_.network.Between(0, 300), term_life_.Guard([this, carry] {
    --carrying_;
    carry();
  }));
}

// --- Jobs, in order per lane ---------------------------------------------------------------------

std::size_t BerthHost::LaneOf(const std::string& key) const {
  return cluster::NodeHash(key) % lanes_.size();
}

void BerthHost::Push(const std::string& key, Job job) {
  auto& lane = lanes_[LaneOf(key)];
  lane.push_back(std::move(job));
  if (lane.size() > 1) return;
  const Job first = lane.front();  // it may end, and leave the lane, at once
  first();
}

/// REQUIRES: a job of this key has ended.
void BerthHost::NextJob(const std::string& key) {
  auto& lane = lanes_[LaneOf(key)];
  lane.pop_front();
  if (lane.empty()) return;
  const Job next = lane.front();
  next();
}

void BerthHost::Do(const engine::ReleaseMember& release) {
  env_.trace.Say("berth: release {} to {}", release.pod.name, release.node);
  Push(release.pod.uid, [this, release] { TryRelease(release, 1); });
}

/// First the nomination and the plan, in one patch; then the gate.
void BerthHost::TryRelease(const engine::ReleaseMember& release, int attempt) {
  if (release.node.empty() && !release.withdraw) return TryOpenGate(release, attempt);
  const auto nominated = [this, release, attempt](const WriteResult& result) {
    if (result.outcome == WriteOutcome::kNotFound ||
        result.reply.message.find("already bound") != std::string::npos) {
      return NextJob(release.pod.uid);
    }
    if (result.outcome != WriteOutcome::kDone) return RetryRelease(release, attempt);
    TryOpenGate(release, attempt);
  };
  client_->Nominate(release.pod, release.node, release.annotation, kPatchTimeout, nominated);
}

void BerthHost::TryOpenGate(const engine::ReleaseMember& release, int attempt) {
  if (!release.remove_gate) return NextJob(release.pod.uid);
  const auto opened = [this, release, attempt](const WriteResult& result) {
    const bool settled =
        result.outcome == WriteOutcome::kDone || result.outcome == WriteOutcome::kNotFound;
    if (!settled) return RetryRelease(release, attempt);
    NextJob(release.pod.uid);
  };
  client_->RemoveGate(release.pod, std::string(cluster::kAdmissionGate), kPatchTimeout, opened);
}

void BerthHost::RetryRelease(const engine::ReleaseMember& release, int attempt) {
  if (attempt < kMaxReleaseTries) return TryRelease(release, attempt + 1);
  env_.trace.Say("berth: release of {} given up", release.pod.name);
  NextJob(release.pod.uid);
}

void BerthHost::Do(const engine::SettleBind& settle) {
  env_.trace.Say("berth: settle {}", settle.pod.name);
  owed_.insert(settle.pod.uid);
  Push(settle.pod.uid, [this, pod = settle.pod] { Settle(pod, 1); });
}

void BerthHost::Settle(const engine::PodRef& pod, int attempt) {
  client_->Read(pod, kReadTimeout, [this, pod, attempt](const WriteResult& read) {
    const bool gone = read.outcome == WriteOutcome::kNotFound;
    if (!gone && read.outcome != WriteOutcome::kDone) {
      if (attempt < kMaxSettleTries) {
        Push(pod.uid, [this, pod, attempt] { Settle(pod, attempt + 1); });
      }
      return NextJob(pod.uid);
    }
    owed_.erase(owed_.find(pod.uid));
    Apply([&](engine::Engine& e, TimePoint now) {
      if (!gone && read.reply.pod->meta.uid == pod.uid) {
        e.OnPod(Decoded(*read.reply.pod), now);
        e.BindSettled(pod.uid, now);
      } else {
        e.OnPodDeleted(pod.uid, now);
      }
    });
    if (on_read) on_read(pod.uid);
    NextJob(pod.uid);
  });
}

void BerthHost::Do(const engine::EmitEvent& event) {
  env_.trace.Say("berth: event {} {}", event.pod.name, event.reason);
}

void BerthHost::Do(const engine::NodeNotice& notice) {
  env_.trace.Say("berth: devices of {} are {} {}", notice.node, notice.kept ? "kept" : "counted",
                 notice.problem);
}

void BerthHost::Do(const engine::Decision& decision) {
  std::string placed;
  for (const auto& [pod, node] : decision.placed) placed += fmt::format(" {}->{}", pod, node);
  env_.trace.Say("berth: {} {} {} {}{}", decision.kind, decision.workload, decision.plan,
                 cluster::Token(decision.verdict.reason), placed);
}

// --- Verbs ---------------------------------------------------------------------------------------

std::optional<FilterReply> BerthHost::Filter(const engine::PodRef& pod, const Names& offered,
                                             const std::function<const kube::Pod*()>& request_pod) {
  if (!ready()) return std::nullopt;
  const auto answer =
      engine_->Filter({.uid = pod.uid, .offered = offered, .request_pod = request_pod}, now());
  FilterReply reply;
  if (answer.keep_all) {
    reply.kept = {offered.begin(), offered.end()};
  } else {
    for (const std::size_t index : answer.kept) reply.kept.emplace_back(offered.at(index));
    reply.reason = cluster::RefusalText(answer.reason);
  }
  env_.trace.Say("filter {}: {} offered, kept {} {}", pod.name, offered.size(),
                 answer.keep_all      ? "all"
                 : reply.kept.empty() ? "none"
                                      : reply.kept.front(),
                 cluster::Token(answer.reason));
  Changed();
  Carry();
  return reply;
}

std::optional<std::map<std::string, std::int64_t>> BerthHost::Prioritize(const std::string& uid,
                                                                         const Names& offered) {
  if (!ready()) return std::nullopt;
  const auto planned = engine_->PlannedNode(uid);
  const std::string best =
      planned == cluster::kNoNode ? std::string() : engine_->store().node(planned).name;
  std::map<std::string, std::int64_t> scores;
  for (const std::string_view name : offered) {
    scores[std::string(name)] = name == best ? 10 : 0;
  }
  return scores;
}

/// Waits a second at most for the watch to bring the pod.
void BerthHost::AwaitPod(const std::string& uid, std::function<void()> then) {
  if (engine_->store().FindPod(uid) != nullptr) return then();
  awaiting_.emplace(uid, std::move(then));
  env_.timeline.After(kAwaitPod, life_.Guard([this, uid] {
    const auto it = awaiting_.find(uid);
    if (it == awaiting_.end()) return;
    const auto call = std::move(it->second);
    awaiting_.erase(it);
    call();
  }));
}

void BerthHost::Bind(const engine::PodRef& pod, const std::string& node,
                     std::weak_ptr<const bool> client, BindDone done) {
  if (!ready()) return done(std::nullopt);
  AwaitPod(pod.uid, [this, pod, node, client = std::move(client), done = std::move(done)] {
    if (!ready()) return done(std::nullopt);
    if (on_bind) on_bind(pod.uid);
    const auto answer =
        engine_->Bind({.uid = pod.uid, .ns = pod.ns, .name = pod.name, .node = node}, now());
    env_.trace.Say("bind {} to {}: {} {}", pod.name, node, answer.stand ? "stands" : "at once",
                   answer.now.error);
    if (answer.stand) {
      waiters_.emplace(answer.ticket, Waiter{pod, node, client, done});
      env_.timeline.After(kPollClient,
                          term_life_.Guard([this, ticket = answer.ticket] { Poll(ticket); }));
    }
    Changed();
    Carry();
    if (!answer.stand) FinishBind(pod, node, answer.now, done);
  });
}

/// A call whose caller has hung up ends by itself.
void BerthHost::Poll(engine::TicketId ticket) {
  const auto it = waiters_.find(ticket);
  if (it == waiters_.end()) return;
  if (!it->second.client.expired()) {
    env_.timeline.After(kPollClient, term_life_.Guard([this, ticket] { Poll(ticket); }));
    return;
  }
  env_.trace.Say("bind {}: the caller has gone", it->second.pod.name);
  bool stood = false;
  Apply([&](engine::Engine& e, TimePoint) { stood = e.BindAbandoned(ticket); });
  if (stood) waiters_.erase(ticket);  // else its resolution is on its way
}

void BerthHost::Do(const ResolveBind& resolution) {
  const auto it = waiters_.find(resolution.ticket);
  if (it == waiters_.end()) return;
  const Waiter waiter = std::move(it->second);
  waiters_.erase(it);
  FinishBind(waiter.pod, waiter.node, resolution, waiter.done);
}

void BerthHost::FinishBind(const engine::PodRef& pod, const std::string& node,
                           const ResolveBind& word, const BindDone& done) {
  if (word.verdict == ResolveBind::Verdict::kBound) return done("");
  if (word.verdict == ResolveBind::Verdict::kError) {
    return done(word.error.empty() ? "berth: refused" : word.error);
  }
  owed_.insert(pod.uid);
  const std::uint64_t id = ++postings_;
  posting_.emplace(id, done);
  client_->Bind(pod, node, word.annotations, kBindTimeout,
                [this, id, pod, node, done](const WriteResult& result) {
                  posting_.erase(id);
                  owed_.erase(owed_.find(pod.uid));
                  auto outcome = engine::BindOutcome::kRefused;
                  if (result.outcome == WriteOutcome::kDone) outcome = engine::BindOutcome::kBound;
                  if (result.outcome == WriteOutcome::kUnknown) {
                    outcome = engine::BindOutcome::kUnknown;
                  }
                  Apply([&](engine::Engine& e, TimePoint now) {
                    e.BindFinished(pod.uid, outcome, now, result.reply.message);
                  });
                  if (outcome == engine::BindOutcome::kUnknown && on_unknown) {
                    on_unknown(pod.uid, node);
                  }
                  done(outcome == engine::BindOutcome::kBound ? std::string()
                                                              : "berth: " + result.reply.message);
                });
}

void BerthHost::Preempt(const std::string& uid, const engine::VictimMap& candidates,
                        PreemptDone done) {
  if (!ready()) return done(std::nullopt);
  AwaitPod(uid, [this, uid, candidates, done = std::move(done)] {
    if (!ready()) return done(std::nullopt);
    const engine::VictimMap kept = engine_->Preempt(uid, candidates, now());
    if (on_preempt) on_preempt(uid, candidates, kept);
    Changed();
    Carry();
    done(kept);
  });
}

}  // namespace berth::sim
