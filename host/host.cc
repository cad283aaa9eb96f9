#include "host/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace berth::host {
namespace {

using kube::WriteOutcome;

}  // namespace

Host::Host(config::PolicyConfiguration policy, engine::Options options, Leads leads)
    : options_(std::move(options)),
      leads_(std::move(leads)),
      engine_(std::make_unique<engine::Engine>(std::move(policy), options_)),
      releases_(out_),
      evictions_(out_),
      warnings_(out_),
      suspensions_(out_) {}

// --- Terms ---------------------------------------------------------------------------------------

void Host::Lead(TimePoint now) {
  if (stopped_) return;
  in_term_ = true;
  engine_->Start(now);
  suspensions_.Start();
  Changed(now);
}

void Host::Resign() { EndTerm(std::nullopt); }

bool Host::Forget(TimePoint now) {
  if (!succession_) {
    engine::Options options = options_;
    options.instance = fmt::format("{}r{}", options_.instance, ++terms_);
    succession_ = std::make_unique<engine::Succession>(*engine_, std::move(options));
    engine_->SetListener(succession_.get());
  }
  if (succession_->GoOn(now)) return true;
  engine_->SetListener(nullptr);
  out_.Put(Discard{.engine = std::exchange(engine_, succession_->Take())});
  succession_.reset();
  return false;
}

void Host::Stop() {
  stopped_ = true;
  EndTerm("berth: shutting down");
}

/// Requests already sent may still take effect; the engine learns of it from the watch only.
/// Callers whose Bindings are under way are still told the outcome.
void Host::EndTerm(const std::optional<std::string>& answer) {
  in_term_ = false;
  changed_at_.reset();
  timers_.clear();
  tickets_.clear();
  awaiting_.clear();
  reads_.clear();
  releases_.Clear();
  evictions_.Clear();
  warnings_.Clear();
  suspensions_.Clear();
  for (auto at = calls_.begin(); at != calls_.end();) {
    const auto call = at++;
    if (call->second.stage == Stage::kPosts) {
      call->second.of_past_term = true;
    } else {
      Answer(call, answer);
    }
  }
}

// --- Events and planning -------------------------------------------------------------------------

void Host::Apply(const Change& change, TimePoint now) {
  change(*engine_, now);
  ServeArrived(now);
  Changed(now);
}

void Host::Changed(TimePoint now) {
  if (!changed_at_) changed_at_ = now;
  Collect(now);
}

void Host::Advance(TimePoint now) {
  Expire(now);
  releases_.Advance(now);
  warnings_.Advance(now);
  suspensions_.Advance(engine_->store(), now);
  changed_at_.reset();
  last_pass_ = now;
  if (deciding()) engine_->Step(now);
  Collect(now);
}

std::optional<TimePoint> Host::due() const {
  std::optional<TimePoint> due =
      Earlier(Earlier(releases_.due(), warnings_.due()), suspensions_.due());
  if (!timers_.empty()) due = Earlier(due, timers_.begin()->first);
  // Only a deciding host acts on these deadlines: another would be woken by passed ones again and
  // again.
  if (!deciding()) return due;
  // During a round, new changes can wait.
  if (engine_->unfinished()) return Earlier(due, last_pass_);
  return Earlier(due, Earlier(changed_at_, engine_->NextDeadline()));
}

/// Carries out the engine's actions, and goes on with releases whose nomination our watch has
/// shown. Outside a term only decisions are passed on, and none of an engine that is given up.
void Host::Collect(TimePoint now) {
  std::vector<engine::Action> actions = engine_->TakeActions();
  if (forgetting()) return;
  std::vector<engine::EvictPod> evictions;
  for (engine::Action& action : actions) {
    std::visit(
        [&](auto& a) {
          using Action = std::decay_t<decltype(a)>;
          if constexpr (std::is_same_v<Action, engine::Decision>) {
            out_.Put(std::move(a));
          } else if (!in_term_) {
            return;
          } else if constexpr (std::is_same_v<Action, engine::ReleaseMember>) {
            releases_.Begin(std::move(a));
          } else if constexpr (std::is_same_v<Action, engine::EvictPod>) {
            evictions.push_back(std::move(a));
          } else if constexpr (std::is_same_v<Action, engine::FindNeeded>) {
            evictions_.Begin(std::move(a));
          } else if constexpr (std::is_same_v<Action, engine::WarnVictim>) {
            warnings_.Begin(std::move(a));
          } else if constexpr (std::is_same_v<Action, engine::SettleBind>) {
            BeginRead(std::move(a.pod));
          } else if constexpr (std::is_same_v<Action, engine::ResolveBind>) {
            const auto ticket = tickets_.extract(a.ticket);
            if (!ticket.empty()) Resolve(ticket.mapped(), a);
          } else {
            out_.Put(std::move(a));
          }
        },
        action);
  }
  Evict(std::move(evictions), now);
  releases_.Observe(engine_->store());
  suspensions_.Observe(engine_->store(), now);
}

/// Pods of a Job or JobSet that one plan evicts together may end with it.
void Host::Evict(std::vector<engine::EvictPod> evictions, TimePoint now) {
  std::map<std::pair<std::string, std::string>, std::vector<engine::EvictPod>> jobs;
  for (engine::EvictPod& eviction : evictions) {
    if (eviction.job) {
      jobs[{eviction.id, Suspensions::KeyOf(eviction)}].push_back(std::move(eviction));
    } else {
      evictions_.Begin(std::move(eviction));
    }
  }
  for (auto& [key, pods] : jobs) {
    if (suspensions_.Takes(pods.front(), now)) {
      suspensions_.Begin(std::move(pods));
    } else {
      for (engine::EvictPod& eviction : pods) evictions_.Begin(std::move(eviction));
    }
  }
}

// --- Orders and their outcomes -------------------------------------------------------------------

bool Host::Wants(Id order) const {
  if (!deciding()) return false;
  const auto call = calls_.find(order);
  if (call != calls_.end()) return !call->second.of_past_term;
  if (evictions_.Has(order)) return evictions_.Wants(order, *engine_);
  if (suspensions_.Has(order)) return suspensions_.Wants(order, *engine_);
  return reads_.contains(order) || warnings_.Has(order) || releases_.Wants(order);
}

void Host::Finished(Id order, Result result, TimePoint now) {
  if (const auto call = calls_.find(order); call != calls_.end()) {
    FinishPost(call, std::move(result), now);
  } else if (const auto read = reads_.find(order); read != reads_.end()) {
    FinishRead(read, std::move(result), now);
  } else if (evictions_.Has(order)) {
    const auto answer = evictions_.Finished(order, result);
    if (!answer) return;
    engine_->EvictionAnswered(answer->what.workload, answer->what.id, answer->what.pod.uid,
                              answer->what.dry_run, answer->accepted, now);
  } else if (suspensions_.Has(order)) {
    Suspensions::Ended ended = suspensions_.Finished(order, result, engine_->store(), now);
    for (engine::EvictPod& eviction : ended.one_by_one) evictions_.Begin(std::move(eviction));
    for (const engine::EvictPod& eviction : ended.accepted) {
      engine_->EvictionAnswered(eviction.workload, eviction.id, eviction.pod.uid,
                                /*dry_run=*/false, /*accepted=*/true, now);
    }
    if (ended.accepted.empty()) return;
  } else if (warnings_.Has(order)) {
    warnings_.Finished(order, result, now);
    return;  // the engine does not wait for it
  } else {
    releases_.Finished(order, result, engine_->store(), now);
    return;  // Nothing that the engine knows has changed.
  }
  Changed(now);
}

void Host::BeginRead(engine::PodRef pod) {
  const Id id = out_.NewId();
  reads_.emplace(id, Reading{.pod = pod});
  out_.Put(ReadPod{.id = id, .pod = std::move(pod)});
}

/// The pod's room stays charged until the API server says where the pod is.
void Host::FinishRead(std::map<Id, Reading>::iterator at, Result result, TimePoint now) {
  const bool gone = result.outcome == WriteOutcome::kNotFound;
  if (!gone && (result.outcome != WriteOutcome::kDone || !result.pod)) {
    timers_.emplace(now + RetryDelay(at->second.attempt++), at->first);
    return;
  }
  const std::string uid = at->second.pod.uid;
  reads_.erase(at);
  if (!gone && result.pod->meta.uid == uid) {
    // While the answer was on its way the watch may have shown that the pod is gone: then no event
    // would ever take it away again.
    if (engine_->store().FindPod(uid) == nullptr) return;
    engine_->OnPod(std::move(*result.pod), now);
    engine_->BindSettled(uid, now);
  } else {
    engine_->OnPodDeleted(uid, now);
  }
}

/// Ends the wait of calls that have waited long enough for their pod, and retries failed reads.
void Host::Expire(TimePoint now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const Id id = timers_.extract(timers_.begin()).mapped();
    if (awaiting_.contains(id)) {
      Serve(id, now);
    } else if (const auto read = reads_.find(id); read != reads_.end()) {
      out_.Put(ReadPod{.id = id, .pod = read->second.pod, .attempt = read->second.attempt});
    }
  }
}

bool Host::FindsOut(std::string_view uid) const {
  return std::ranges::any_of(calls_,
                             [&](const auto& entry) {
                               const Call& call = entry.second;
                               return call.stage == Stage::kPosts && !call.of_past_term &&
                                      call.pod.uid == uid;
                             }) ||
         std::ranges::any_of(reads_,
                             [&](const auto& entry) { return entry.second.pod.uid == uid; });
}

std::vector<std::pair<std::string, std::string>> Host::ParkedBinds() const {
  std::vector<std::pair<std::string, std::string>> parked;
  for (const auto& [id, call] : calls_) {
    if (call.stage == Stage::kParked) parked.emplace_back(call.pod.uid, call.node);
  }
  return parked;
}

}  // namespace berth::host
