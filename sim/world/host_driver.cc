#include "sim/world/host_driver.h"

#include <algorithm>
#include <type_traits>

#include "cluster/plan_claim.h"
#include "host/timeouts.h"
#include "host/watched.h"

namespace berth::sim {
namespace {

/// What the decoder makes of an event: a copy, and of a pod one with a spec of its own.
template <typename Object>
Object Decoded(const Object& object) {
  return object;
}
kube::Pod Decoded(const kube::Pod& pod) {
  kube::Pod copy = pod;
  copy.spec = std::make_shared<const kube::PodSpec>(*pod.spec);
  return copy;
}

engine::Options OptionsOf(const Environment& env, const std::string& instance) {
  engine::Options options = env.engine_options;
  options.instance = instance;
  return options;
}

}  // namespace

HostDriver::HostDriver(Environment& env, std::string instance, std::function<Duration()> left)
    : env_(env),
      instance_(std::move(instance)),
      left_(std::move(left)),
      clock_(env),
      freezer_(env.timeline),
      host_(env.api.policy(), OptionsOf(env, instance_), [this] { return !left_ || left_() > 0; }),
      client_(env, freezer_, left_),
      life_(&freezer_) {
  Watch(Kind::kNode, &Change::node);
  Watch(Kind::kPod, &Change::pod);
  Watch(Kind::kPolicy,
        {.upsert =
             [this](const Change& c) {
               if (*c.policy == engine().store().policy()) return;
               Apply([&](engine::Engine& e, TimePoint now) { e.OnPolicy(*c.policy, now); });
             },
         .remove = [](const std::string&, const Change&) {},
         .synced = {}});
  if (!env.api.budgets().empty()) Watch(Kind::kBudget, &Change::budget);
}

void HostDriver::Apply(const host::Host::Change& change) {
  Enter([&](TimePoint now) { host_.Apply(change, now); });
}

template <typename Object>
void HostDriver::Watch(Kind kind, std::shared_ptr<const Object> Change::*object) {
  using Events = host::Watched<Object>;
  Watch(kind, {.upsert =
                   [this, object](const Change& c) {
                     Apply([&](engine::Engine& e, TimePoint now) {
                       Events::Upsert(e, Decoded(*(c.*object)), now);
                     });
                   },
               .remove =
                   [this](const std::string& key, const Change&) {
                     Apply([&](engine::Engine& e, TimePoint now) { Events::Remove(e, key, now); });
                   },
               .synced = {}});
}

void HostDriver::Watch(Kind kind, WatchStream::Sink sink) {
  sink.synced = [this] { OnSynced(); };
  sink.stale = left_ != nullptr;
  sink.ended = true;  // members that succeed count, and pods that a kubelet rejects matter
  ++unsynced_;
  streams_[static_cast<std::size_t>(kind)] =
      std::make_unique<WatchStream>(env_, kind, std::move(sink), &freezer_);
}

void HostDriver::OnSynced() {
  if (--unsynced_ > 0) return;
  if (on_synced) return on_synced();
  env_.log.Say("berth: ready");
  Lead();
}

void HostDriver::Lead() {
  if (left_) env_.log.Say("berth {}: leads", instance_);
  Enter([this](TimePoint now) { host_.Lead(now); });
  Enter([this](TimePoint now) {
    host_.Apply([&](engine::Engine& e, TimePoint at) { e.BeginUsage(env_.usage, at); }, now);
  });
  usage_due_ = now();
}

void HostDriver::KeepUsage() {
  if (!host_.in_term() || now() < usage_due_) return;
  usage_due_ = now() + host::kBetweenUsageWrites.count();
  if (auto usage = engine().store().UsageUntil(now())) env_.usage = *std::move(usage);
}

bool HostDriver::Resign() {
  Enter([this](TimePoint) { host_.Resign(); });
  return !ForgetMore();
}

bool HostDriver::UnknownSince(Duration ago) const {
  const auto at = client_.unknown_at();
  return at && env_.now() < *at + ago;
}

void HostDriver::Stop() {
  Enter([this](TimePoint) { host_.Stop(); });
}

bool HostDriver::ForgetMore() {
  bool more = false;
  Enter([&](TimePoint now) { more = host_.Forget(now); });
  if (!more) return false;
  env_.timeline.After(host::kBetweenPasses, life_.Guard([this] {
    if (!ForgetMore()) on_forgotten();
  }));
  return true;
}

bool HostDriver::CaughtUp() const {
  return std::ranges::all_of(
      streams_, [](const auto& stream) { return stream == nullptr || stream->settled(); });
}

bool HostDriver::Idle() const { return host_.in_term() && host_.idle() && CaughtUp(); }

// --- The lock and the planner thread -------------------------------------------------------------

template <typename Work>
void HostDriver::Enter(Work work) {
  work(now());
  KeepUsage();
  Collect();
  Wake(env_.Latency(env_.network, 0, env_.faults.Has(FaultKind::kBerthThreads) ? 200 : 2));
}

/// Lets the planner thread run when the host is due, but not before `least`.
void HostDriver::Wake(Duration least) {
  const auto due = host_.due();
  if (!due) return;
  const Duration wait = clock_.Takes(std::max<Duration>(*due - now(), 0));
  const TimePoint at = env_.now() + std::max(least, wait);
  if (advance_at_ >= 0 && advance_at_ <= at) return;
  advance_at_ = at;
  env_.timeline.At(at, life_.Guard([this, turn = ++advance_turn_] {
    if (turn == advance_turn_) Advance();
  }));
}

void HostDriver::Advance() {
  advance_at_ = -1;
  host_.Advance(now());
  Collect();
  Wake(host::kBetweenPasses);
}

// --- Orders --------------------------------------------------------------------------------------

/// Answers to calls are delivered at once. Other orders are carried out after the lock is released,
/// each batch in a thread of its own: a slow batch may be overtaken by a later one.
void HostDriver::Collect() {
  std::vector<host::Order> orders;
  for (host::Order& order : host_.TakeOrders()) {
    if (!Deliver(order)) orders.push_back(std::move(order));
  }
  if (orders.empty()) return;
  if (!env_.faults.Has(FaultKind::kBerthThreads)) return Carry(orders);
  env_.faults.TookEffect(FaultKind::kBerthThreads);
  env_.timeline.After(env_.network.Between(0, 300),
                      life_.Guard([this, orders = std::move(orders)] { Carry(orders); }));
}

bool HostDriver::Deliver(host::Order& order) {
  if (const auto* answer = std::get_if<host::AnswerBind>(&order)) {
    binds_.extract(answer->id).mapped().done(answer->error);
    return true;
  }
  if (const auto* answer = std::get_if<host::AnswerPreempt>(&order)) {
    const PreemptCall call = std::move(preempts_.extract(answer->id).mapped());
    if (answer->kept && on_preempt) on_preempt(call.uid, *answer->kept);
    call.done(answer->kept);
    return true;
  }
  return std::holds_alternative<host::Discard>(order);
}

void HostDriver::Carry(const std::vector<host::Order>& orders) {
  for (const host::Order& order : orders) {
    std::visit(
        [this](const auto& o) {
          if constexpr (requires { Do(o); }) Do(o);
        },
        order);
  }
}

void HostDriver::Finish(host::Id order, host::Result result) {
  if (result.pod) result.pod = Decoded(*result.pod);
  Enter([&](TimePoint now) { host_.Finished(order, std::move(result), now); });
}

ApiClient::Wanted HostDriver::Wanted(host::Id order) const {
  return [this, order] { return host_.Wants(order); };
}

void HostDriver::Do(const host::Nominate& order) {
  env_.log.Say("berth: nominate {} to {}", order.pod.name, order.node);
  Queue(order);
}

void HostDriver::Do(const host::RemoveGate& order) {
  env_.log.Say("berth: remove the gate of {}", order.pod.name);
  Queue(order);
}

void HostDriver::Do(const host::MarkVictim& order) {
  env_.log.Say("berth: {} has {}={}", order.pod.name, order.annotation, order.mark);
  Queue(order);
}

void HostDriver::Do(const host::Evict& order) {
  env_.log.Say("berth: {} {}", order.dry_run ? "may it evict" : "evict", order.pod.name);
  Queue(order);
}

void HostDriver::Do(const host::FindObject& order) {
  env_.log.Say("berth: is there {}", host::KeyOf(order));
  Queue(order);
}

void HostDriver::Do(const host::ReadJobs& order) { Queue(order); }

void HostDriver::Do(const host::SuspendJob& order) {
  env_.log.Say("berth: {} the Job {}", order.suspend ? "suspend" : "resume", order.job.name);
  Queue(order);
}

void HostDriver::Do(const host::ReadPod& order) {
  env_.log.Say("berth: read {}", order.pod.name);
  Queue(order);
}

/// Runs in the call's own thread.
void HostDriver::Do(const host::PostBinding& order) {
  client_.CarryOut(order, Wanted(order.id), [this, order](const host::Result& result) {
    const bool told = host_.Wants(order.id);
    Finish(order.id, result);
    if (told && result.outcome == WriteOutcome::kUnknown && on_unknown) {
      on_unknown(order.pod.uid, order.node);
    }
  });
}

void HostDriver::Do(const engine::EmitEvent& event) {
  env_.log.Say("berth: event {} {}", event.pod.name, event.reason);
}

void HostDriver::Do(const engine::NodeNotice& notice) {
  env_.log.Say("berth: devices of {} are {} {}", notice.node, notice.kept ? "kept" : "counted",
               notice.problem);
}

void HostDriver::Do(const engine::Decision& decision) {
  env_.log.Say([&decision] {
    std::string placed;
    for (const auto& [pod, node] : decision.placed) placed += fmt::format(" {}->{}", pod, node);
    return fmt::format("berth: {} {} {} {}{}", decision.kind, decision.workload, decision.plan,
                       cluster::Token(decision.verdict.reason), placed);
  });
}

// --- The writers' threads, as server/drivers/work_queue.h ----------------------------------------

std::size_t HostDriver::LaneOf(const std::string& key) const {
  return cluster::NodeHash(key) % lanes_.size();
}

/// A request that is not wanted any more when its turn comes is not made. Nor is one for Jobs in a
/// world without any.
void HostDriver::Queue(const host::ApiOrder& order) {
  const host::Id id = host::IdOf(order);
  const std::string key = host::KeyOf(order);
  Push(key, id, [this, order, id, key] {
    const auto end = [this, order, id, key](const host::Result& result) {
      const auto* read = std::get_if<host::ReadPod>(&order);
      const bool told = read != nullptr && host_.Wants(id) && host::IsSettled(result);
      Finish(id, result);
      if (told && on_read) on_read(read->pod.uid);
      NextJob(key);
    };
    const auto* jobs = std::get_if<host::ReadJobs>(&order);
    if (!host_.Wants(id)) return end({.outcome = WriteOutcome::kRefused});
    if (jobs != nullptr && env_.api.jobs(jobs->kind).empty()) {
      return end({.outcome = WriteOutcome::kNotFound});
    }
    client_.CarryOut(order, Wanted(id), end);
  });
}

void HostDriver::Push(const std::string& key, host::Id order, Job job) {
  if (env_.faults.Has(FaultKind::kFullQueues)) {
    env_.faults.TookEffect(FaultKind::kFullQueues);
    const host::Result result{.outcome = WriteOutcome::kRefused, .tried = false};
    return Enter([&](TimePoint now) { host_.Finished(order, result, now); });
  }
  auto& lane = lanes_[LaneOf(key)];
  lane.push_back(std::move(job));
  if (lane.size() > 1) return;
  const Job first = lane.front();  // may end, and leave the lane, at once
  first();
}

/// REQUIRES: a job of this key has ended.
void HostDriver::NextJob(const std::string& key) {
  auto& lane = lanes_[LaneOf(key)];
  lane.pop_front();
  if (lane.empty()) return;
  const Job next = lane.front();
  next();
}

// --- Verbs ---------------------------------------------------------------------------------------

std::optional<FilterReply> HostDriver::Filter(
    const engine::PodRef& pod, const Names& offered,
    const std::function<const kube::Pod*()>& request_pod) {
  std::optional<engine::FilterAnswer> answer;
  if (!ready()) return std::nullopt;
  FilterReply reply;
  Enter([&](TimePoint now) {
    answer = host_.Filter({.uid = pod.uid, .offered = offered, .request_pod = request_pod}, now);
    if (!answer) return;
    if (answer->keep_all) {
      reply.kept = {offered.begin(), offered.end()};
    } else {
      for (const std::size_t index : answer->kept) reply.kept.emplace_back(offered.at(index));
      reply.reason = cluster::RefusalText(answer->reason);
    }
    env_.log.Say("filter {}: {} offered, kept {} {}", pod.name, offered.size(),
                 answer->keep_all     ? "all"
                 : reply.kept.empty() ? "none"
                                      : reply.kept.front(),
                 cluster::Token(answer->reason));
  });
  if (!answer) return std::nullopt;
  return reply;
}

std::optional<std::map<std::string, std::int64_t>> HostDriver::Prioritize(const std::string& uid,
                                                                          const Names& offered) {
  const auto best = host_.PlannedNode(uid);
  if (!best) return std::nullopt;
  std::map<std::string, std::int64_t> scores;
  for (const std::string_view name : offered) scores[std::string(name)] = name == *best ? 10 : 0;
  return scores;
}

void HostDriver::Bind(const engine::PodRef& pod, const std::string& node,
                      std::weak_ptr<const bool> client, BindDone done) {
  if (!ready()) return done(std::nullopt);
  host::Id call = 0;
  env_.log.Say("bind {} to {}", pod.name, node);
  Enter([&](TimePoint now) {
    call = host_.Bind(pod, node, now);
    binds_.emplace(call, BindCall{.client = std::move(client), .done = std::move(done)});
  });
  env_.timeline.After(host::kAskForCaller.count(), life_.Guard([this, call] { Poll(call); }));
}

/// Ends a call whose caller has hung up.
void HostDriver::Poll(host::Id call) {
  const auto at = binds_.find(call);
  if (at == binds_.end()) return;
  if (at->second.client.expired()) {
    env_.log.Say("bind: the caller has gone");
    Enter([&](TimePoint now) { host_.CallerGone(call, now); });
  }
  env_.timeline.After(host::kAskForCaller.count(), life_.Guard([this, call] { Poll(call); }));
}

void HostDriver::Preempt(const std::string& uid, const engine::VictimMap& candidates,
                         PreemptDone done) {
  if (!ready()) return done(std::nullopt);
  Enter([&](TimePoint now) {
    const host::Id call = host_.Preempt(uid, candidates, now);
    preempts_.emplace(call, PreemptCall{uid, std::move(done)});
  });
}

}  // namespace berth::sim
