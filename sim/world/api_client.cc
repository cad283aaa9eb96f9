#include "sim/world/api_client.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "cluster/plan_claim.h"
#include "host/timeouts.h"
#include "kube/api_status.h"
#include "sim/world/api_http.h"
#include "sim/world/object_json.h"

namespace berth::sim {
namespace {

constexpr Duration kGivenUpAfter = 1'000;
constexpr Duration kForEver = std::numeric_limits<Duration>::max();

enum class Mishap : std::uint8_t { kNone, kThrottled, kError, kErrorAfter, kLost, kAnswerLost };

Mishap DrawMishap(ActiveFaults& faults, Random& random) {
  static constexpr std::array<std::pair<FaultKind, Mishap>, 5> kMishaps{
      {{FaultKind::kApiThrottled, Mishap::kThrottled},
       {FaultKind::kApiError, Mishap::kError},
       {FaultKind::kApiErrorAfter, Mishap::kErrorAfter},
       {FaultKind::kApiRequestLost, Mishap::kLost},
       {FaultKind::kApiAnswerLost, Mishap::kAnswerLost}}};
  for (const auto& [kind, mishap] : kMishaps) {
    if (!faults.Has(kind) || !random.Percent(60)) continue;
    faults.TookEffect(kind);
    return mishap;
  }
  return Mishap::kNone;
}

/// Carries out the request in its bytes, and reads the answer's bytes as the server does.
Reply InBytes(Environment& env, const host::ApiOrder& order, const kube::Request& request) {
  std::string unknown;
  kube::Response answer = Serve(env.api, request, unknown);
  if (!unknown.empty()) env.Garble(unknown);
  Reply reply{.status = answer.status};
  if (!reply.ok()) {
    reply.message = kube::ParseStatus(answer.body, answer.status).message;
    return reply;
  }
  host::Result result = host::ResultOf(
      order,
      {.outcome = WriteOutcome::kDone, .status = answer.status, .body = std::move(answer.body)});
  if (result.outcome != WriteOutcome::kDone) {
    env.Garble("answer to " + request.method + ' ' + request.path + ": " + result.message);
    return {.status = 500, .message = "unreadable"};
  }
  reply.jobs = std::move(result.jobs);
  if (result.pod) reply.pod = std::make_shared<const kube::Pod>(*std::move(result.pod));
  return reply;
}

/// What the request of an order does to the server's objects. At fidelity `wire` the request itself
/// says it, which must come to the same.
struct ByValue {
  ApiServer& api;

  Reply operator()(const host::Nominate& order) const {
    return api.Nominate(order.pod, order.node, host::AnnotationsOf(order));
  }
  Reply operator()(const host::RemoveGate& order) const {
    return api.RemoveGate(order.pod, std::string(cluster::kAdmissionGate));
  }
  Reply operator()(const host::MarkVictim& order) const {
    return api.Annotate(order.pod, host::AnnotationsOf(order));
  }
  Reply operator()(const host::Evict& order) const {
    return order.by_delete ? api.EvictByDelete(order.pod, order.dry_run)
                           : api.EvictPod(order.pod, order.dry_run);
  }
  Reply operator()(const host::FindObject& order) const {
    return api.FindNeeded(order.ns, order.object);
  }
  Reply operator()(const host::ReadJobs& order) const {
    if (!order.of_set.empty()) return api.ListJobsOfSet(order.ns, order.of_set, order.from);
    if (!order.name.empty()) return api.ReadJob(order.kind, order.ns, order.name);
    return api.ListJobs(order.kind, std::string(cluster::kSuspendedLabel), order.from);
  }
  Reply operator()(const host::SuspendJob& order) const {
    return api.SuspendJob(order.job, std::string(cluster::kSuspendedLabel), order.suspend);
  }
  Reply operator()(const host::ReadPod& order) const { return api.ReadPod(order.pod); }
  Reply operator()(const host::PostBinding& order) const {
    return api.Bind(order.pod, order.node, order.annotations);
  }
};

host::Result ResultOf(const host::ApiOrder& order, WriteOutcome outcome, const Reply& reply) {
  host::Result result = host::OutcomeOf(
      order, {.outcome = outcome, .status = reply.status, .message = reply.message});
  result.jobs = reply.jobs;
  const bool reads = std::holds_alternative<host::ReadPod>(order);
  if (reads && reply.pod != nullptr) result.pod = *reply.pod;
  return result;
}

/// The outcome of a Binding that got a conflict, by the read of the pod afterwards.
WriteOutcome AfterConflict(const host::PostBinding& order, const host::Result& read) {
  const std::string body = read.pod ? Bytes(PodJson(*read.pod)) : std::string();
  return kube::AfterConflict(read.outcome, body, host::RefOf(order.pod), order.node);
}

}  // namespace

struct ApiClient::Call {
  std::uint64_t number;
  host::ApiOrder order;
  kube::Request request;
  Wanted wanted;
  Done done;
  kube::Attempts attempts;
  Reply last{.status = 0, .message = "timed out"};
};

/// In the clock type of kube/attempts.h.
kube::TimePoint ApiClient::now() const {
  return kube::TimePoint(std::chrono::milliseconds(env_.now()));
}

void ApiClient::CarryOut(const host::ApiOrder& order, Wanted wanted, Done done) {
  const auto* binding = std::get_if<host::PostBinding>(&order);
  if (binding == nullptr) {
    return Send(order, kube::Duration::max(), std::move(wanted), std::move(done));
  }
  const auto deadline = now() + host::kBindTimeout;
  Send(order, kube::Duration::max(), std::move(wanted),
       [this, binding = *binding, deadline, done](const host::Result& result) {
         if (result.outcome != WriteOutcome::kConflict) return done(result);
         const auto left = std::chrono::floor<kube::Duration>(deadline - now());
         Send(host::ReadPod{.pod = binding.pod}, left, {},
              [binding, done, result](const host::Result& read) {
                host::Result settled = result;
                settled.outcome = AfterConflict(binding, read);
                done(settled);
              });
       });
}

void ApiClient::Send(const host::ApiOrder& order, kube::Duration timeout, Wanted wanted,
                     Done done) {
  auto request = host::RequestOf(order, kube::MicroTime(std::chrono::milliseconds(env_.now())));
  if (!request) return done(request.error());
  const kube::Attempts attempts(*request, std::min(timeout, request->timeout), now());
  const auto call = std::make_shared<Call>(Call{.number = ++last_call_,
                                                .order = order,
                                                .request = *std::move(request),
                                                .wanted = std::move(wanted),
                                                .done = std::move(done),
                                                .attempts = attempts});
  calls_.emplace(call->number, call);
  Attempt(call);
}

void ApiClient::End(const std::shared_ptr<Call>& call, WriteOutcome outcome) {
  calls_.erase(call->number);
  if (outcome == WriteOutcome::kUnknown) unknown_at_ = env_.now();
  call->done(ResultOf(call->order, outcome, call->last));
}

void ApiClient::CutOff() {
  life_.Renew();
  for (const auto& [number, call] : std::exchange(calls_, {})) {
    call->attempts.Lost(/*maybe_sent=*/true);
    const WriteOutcome outcome = call->attempts.GivenUp();
    if (outcome == WriteOutcome::kUnknown) unknown_at_ = env_.now();
    call->done({.outcome = outcome, .message = "cut off"});
  }
}

void ApiClient::Attempt(const std::shared_ptr<Call>& call) {
  const auto most = call->attempts.Next(now());
  const Duration permitted = left_ ? left_() : kForEver;
  const bool wanted = call->request.method == "GET" || call->wanted();
  if (!most || permitted <= 0 || !wanted) {
    return End(call, call->attempts.GivenUp());
  }
  const Duration timeout = std::min(permitted, Duration{most->count()});
  if (const Duration freeze = std::exchange(freeze_for_, 0); freeze > 0) {
    env_.faults.TookEffect(FaultKind::kFreeze);
    freezer_.Freeze(freeze);
  }
  life_.Guard([this, call, not_after = env_.now() + timeout] { Transmit(call, not_after); })();
}

/// As kube/rest_client.cc treats Request::not_after.
void ApiClient::Transmit(const std::shared_ptr<Call>& call, TimePoint not_after) {
  const Duration timeout = not_after - env_.now();
  if (timeout <= 0) {
    call->last = {.status = 0, .message = "too late to be sent"};
    return Retry(call);
  }
  const Mishap mishap = DrawMishap(env_.faults, env_.network);
  const bool slow = env_.faults.Has(FaultKind::kApiSlow);
  if (slow) env_.faults.TookEffect(FaultKind::kApiSlow);
  const Duration there = env_.Latency(env_.network, 1, slow ? 4'000 : 5);
  const Duration back = env_.Latency(env_.network, 1, slow ? 4'000 : 5);
  const bool answered =
      mishap != Mishap::kLost && mishap != Mishap::kAnswerLost && there + back < timeout;
  if (!answered) {
    env_.timeline.After(timeout, life_.Guard([this, call] {
      call->attempts.Lost(/*maybe_sent=*/true);
      call->last = {.status = 0, .message = "timed out"};
      Retry(call);
    }));
  }
  if (mishap == Mishap::kLost) return;
  // A request that was sent arrives, whether or not the sender lives to receive the answer.
  auto answer = life_.Guard([this, call](const Reply& reply) { Answered(call, reply); });
  // But without an election a new process begins to decide a second after the death of the last
  // one: by then the API server has given up the requests of a client that is gone.
  const bool late = !left_ && there >= kGivenUpAfter;
  env_.timeline.After(
      there, [&env = env_, call, mishap, back, answered, answer, late, alive = life_.alive()] {
        if (late && alive.expired()) return;
        Reply reply{.status = mishap == Mishap::kThrottled ? 429 : 500, .message = "trouble"};
        if (mishap != Mishap::kThrottled && mishap != Mishap::kError) {
          const Reply done = env.fidelity == Fidelity::kWire
                                 ? InBytes(env, call->order, call->request)
                                 : std::visit(ByValue{env.api}, call->order);
          if (mishap != Mishap::kErrorAfter) reply = done;
        }
        if (answered) env.timeline.After(back, [answer, reply] { answer(reply); });
      });
}

void ApiClient::Answered(const std::shared_ptr<Call>& call, const Reply& reply) {
  call->last = reply;
  const auto outcome = call->attempts.Answered(reply.status, reply.message);
  if (!outcome) return Retry(call);
  End(call, *outcome);
}

void ApiClient::Retry(const std::shared_ptr<Call>& call) {
  const double random = static_cast<double>(env_.network.Between(0, 999)) / 1'000;
  const auto wait = call->attempts.Pause(now(), random);
  if (!wait) return End(call, call->attempts.GivenUp());
  env_.timeline.After(wait->count(), life_.Guard([this, call] { Attempt(call); }));
}

}  // namespace berth::sim
