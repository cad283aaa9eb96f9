// Part of Host: the verbs. A call is answered only if this process leads when the answer is ready.
#include "host/host.h"

namespace berth::host {
namespace {

using engine::BindOutcome;
using engine::ResolveBind;
using kube::WriteOutcome;

/// kube-scheduler may learn of a pod before we do. A refusal only for that reason could last until
/// some unrelated event; it is better to wait for the watch, which is milliseconds behind.
constexpr Duration kLongestWaitForPod = 1'000;
/// How much of the API server's message about a refused Binding is kept for `why`.
constexpr std::size_t kMaxBindError = 512;

BindOutcome OutcomeOf(WriteOutcome outcome) {
  if (outcome == WriteOutcome::kDone) return BindOutcome::kBound;
  return outcome == WriteOutcome::kUnknown ? BindOutcome::kUnknown : BindOutcome::kRefused;
}

}  // namespace

std::optional<engine::FilterAnswer> Host::Filter(const engine::FilterQuery& query, TimePoint now) {
  if (!deciding()) return std::nullopt;
  auto answer = engine_->Filter(query, now);
  Changed(now);
  return answer;
}

std::optional<std::string_view> Host::PlannedNode(std::string_view uid) const {
  if (!deciding()) return std::nullopt;
  const auto planned = engine_->PlannedNode(uid);
  if (planned == cluster::kNoNode) return std::string_view();
  return engine_->store().node(planned).name;
}

Id Host::Bind(engine::PodRef pod, std::string node, TimePoint now) {
  return Await({.pod = std::move(pod), .node = std::move(node)}, now);
}

Id Host::Preempt(std::string uid, engine::VictimMap candidates, TimePoint now) {
  return Await({.pod = {.uid = std::move(uid)}, .candidates = std::move(candidates)}, now);
}

/// Serves the call as soon as our watch has delivered its pod, or without the pod after the longest
/// wait.
Id Host::Await(Call call, TimePoint now) {
  const Id id = out_.NewId();
  const bool known = engine_->store().FindPod(call.pod.uid) != nullptr;
  calls_.emplace(id, std::move(call));
  awaiting_.insert(id);
  if (known || !deciding()) {
    Serve(id, now);
    Changed(now);
  } else {
    timers_.emplace(now + kLongestWaitForPod, id);
  }
  return id;
}

void Host::ServeArrived(TimePoint now) {
  std::vector<Id> arrived;
  for (const Id id : awaiting_) {
    if (engine_->store().FindPod(calls_.at(id).pod.uid) != nullptr) arrived.push_back(id);
  }
  for (const Id id : arrived) Serve(id, now);
}

/// REQUIRES: the call awaits its pod (kAwaitsPod).
void Host::Serve(Id id, TimePoint now) {
  awaiting_.erase(id);
  const auto at = calls_.find(id);
  Call& call = at->second;
  if (!deciding()) return Answer(at, std::nullopt);
  if (call.candidates) {
    auto kept = engine_->Preempt(call.pod.uid, *call.candidates, now);
    calls_.erase(at);
    return out_.Put(AnswerPreempt{.id = id, .kept = std::move(kept)});
  }
  if (on_bind) on_bind(call.pod.uid);
  const auto answer = engine_->Bind(
      {.uid = call.pod.uid, .ns = call.pod.ns, .name = call.pod.name, .node = call.node}, now);
  if (!answer.parked) return Resolve(id, answer.now);
  call.stage = Stage::kParked;
  call.ticket = answer.ticket;
  tickets_.emplace(answer.ticket, id);
}

/// The engine's resolution of a bind call.
void Host::Resolve(Id id, const ResolveBind& resolve) {
  const auto at = calls_.find(id);
  Call& call = at->second;
  switch (resolve.resolution) {
    case ResolveBind::Resolution::kPost:
      call.stage = Stage::kPosts;
      return out_.Put(PostBinding{
          .id = id, .pod = call.pod, .node = call.node, .annotations = resolve.annotations});
    case ResolveBind::Resolution::kBound:
      return Answer(at, "");
    case ResolveBind::Resolution::kError:
      return Answer(at, resolve.error.empty() ? "berth: refused" : resolve.error);
  }
}

void Host::Answer(Calls::iterator at, const std::optional<std::string>& answer) {
  const auto& [id, call] = *at;
  if (call.candidates) {
    out_.Put(AnswerPreempt{.id = id, .kept = std::nullopt});
  } else {
    out_.Put(AnswerBind{.id = id, .error = answer});
  }
  calls_.erase(at);
}

void Host::CallerGone(Id id, TimePoint now) {
  const auto at = calls_.find(id);
  if (at == calls_.end() || at->second.stage == Stage::kPosts) return;
  if (at->second.stage == Stage::kParked) {
    tickets_.erase(at->second.ticket);
    engine_->BindAbandoned(at->second.ticket);
  }
  awaiting_.erase(id);
  Answer(at, "berth: the caller has gone");
  Changed(now);
}

/// REQUIRES: the call's Binding is being posted (kPosts).
void Host::FinishPost(Calls::iterator at, Result result, TimePoint now) {
  const bool of_past_term = at->second.of_past_term;
  const BindOutcome outcome = OutcomeOf(result.outcome);
  if (outcome == BindOutcome::kUnknown) {
    result.message = "the outcome of the Binding is unknown: " + result.message;
  }
  if (!of_past_term) {
    engine_->BindFinished(at->second.pod.uid, outcome, now,
                          kube::TruncateUtf8(result.message, kMaxBindError));
  }
  if (outcome == BindOutcome::kBound) return Answer(at, "");
  if (of_past_term || !leads_()) return Answer(at, std::nullopt);
  Answer(at, "berth: " + result.message);
}

}  // namespace berth::host
