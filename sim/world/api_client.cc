#include "sim/world/api_client.h"

#include <simdjson.h>

#include <limits>

#include "cluster/plan_claim.h"
#include "kube/api_status.h"
#include "kube/decode.h"
#include "sim/world/api_http.h"
#include "sim/world/object_json.h"

namespace berth::sim {
namespace {

constexpr Duration kForEver = std::numeric_limits<Duration>::max();
constexpr Duration kAttemptTimeout = kube::kAttemptTimeout.count();
constexpr Duration kFirstBackoff = kube::kRetry.initial.count();
constexpr Duration kLastBackoff = kube::kRetry.cap.count();

kube::PodRef Ref(const engine::PodRef& pod) {
  return {.ns = pod.ns, .name = pod.name, .uid = pod.uid};
}

enum class Mishap : std::uint8_t { kNone, kThrottled, kError, kErrorAfter, kLost, kAnswerLost };

Mishap DrawMishap(Weather& weather, Random& random) {
  static constexpr std::array<std::pair<FaultKind, Mishap>, 5> kMishaps{
      {{FaultKind::kApiThrottled, Mishap::kThrottled},
       {FaultKind::kApiError, Mishap::kError},
       {FaultKind::kApiErrorAfter, Mishap::kErrorAfter},
       {FaultKind::kApiRequestLost, Mishap::kLost},
       {FaultKind::kApiAnswerLost, Mishap::kAnswerLost}}};
  for (const auto& [kind, mishap] : kMishaps) {
    if (!weather.Is(kind) || !random.Percent(60)) continue;
    weather.Struck(kind);
    return mishap;
  }
  return Mishap::kNone;
}

/// The request carried out in its bytes, and the answer's bytes read as server/kube_api.cc does.
Reply InBytes(Environment& env, const kube::Request& request) {
  std::string unknown;
  const kube::Response answer = Serve(env.api, request, unknown);
  if (!unknown.empty()) env.Garble(unknown);
  Reply reply{.status = answer.status};
  if (!reply.ok()) {
    reply.message = kube::ParseStatus(answer.body, answer.status).message;
  } else if (request.method == "GET") {
    simdjson::dom::parser parser;
    auto pod = kube::DecodePod(answer.body, parser);
    if (!pod) {
      env.Garble("read of a pod: " + pod.error().ToString());
      return {.status = 500, .message = "unreadable"};
    }
    reply.pod = std::make_shared<const kube::Pod>(*std::move(pod));
  }
  return reply;
}

/// What the read says of a Binding's conflict; kube/requests.h judges by the pod's bytes.
WriteOutcome AfterConflict(const WriteResult& read, const kube::PodRef& pod,
                           const std::string& node) {
  const std::string body =
      read.reply.pod == nullptr ? std::string() : Bytes(PodJson(*read.reply.pod));
  return kube::AfterConflict(read.outcome, body, pod, node);
}

}  // namespace

struct ApiClient::Call {
  Operation operation;
  Done done;
  TimePoint deadline = 0;
  kube::Attempts attempts;
  int tries = 0;
  Duration backoff = kFirstBackoff;
  Reply last{.status = 0, .message = "timed out"};
};

void ApiClient::Nominate(const engine::PodRef& pod, const std::string& node,
                         const std::string& plan, Duration timeout, Done done) {
  kube::AnnotationPatch annotations;
  if (!plan.empty()) annotations.emplace(cluster::kPlanAnnotation, plan);
  Send(
      kube::NominateRequest(Ref(pod), node, annotations),
      [pod, node, annotations](ApiServer& api) { return api.Nominate(pod, node, annotations); },
      timeout, std::move(done));
}

void ApiClient::RemoveGate(const engine::PodRef& pod, const std::string& gate, Duration timeout,
                           Done done) {
  Send(
      kube::RemoveGateRequest(Ref(pod), gate),
      [pod, gate](ApiServer& api) { return api.RemoveGate(pod, gate); }, timeout, std::move(done));
}

void ApiClient::Read(const engine::PodRef& pod, Duration timeout, Done done) {
  Send(
      kube::GetPodRequest(pod.ns, pod.name), [pod](ApiServer& api) { return api.ReadPod(pod); },
      timeout, std::move(done));
}

void ApiClient::Send(const std::optional<kube::Request>& request, Operation operation,
                     Duration timeout, Done done) {
  if (!request) return done({WriteOutcome::kRefused, {.status = 0, .message = "invalid name"}});
  if (env_.fidelity == Fidelity::kWire) {
    operation = [&env = env_, request = *request](ApiServer&) { return InBytes(env, request); };
  }
  Attempt(std::make_shared<Call>(Call{.operation = std::move(operation),
                                      .done = std::move(done),
                                      .deadline = env_.now() + timeout,
                                      .attempts = kube::Attempts(*request)}));
}

void ApiClient::Attempt(const std::shared_ptr<Call>& call) {
  const Duration permitted = left_ ? left_() : kForEver;
  const Duration left = std::min(call->deadline - env_.now(), permitted);
  if (left <= 0 || call->tries++ >= kube::kMaxAttempts) {
    return call->done({call->attempts.GivenUp(), call->last});
  }
  const Mishap mishap = DrawMishap(env_.weather, env_.network);
  const bool slow = env_.weather.Is(FaultKind::kApiSlow);
  if (slow) env_.weather.Struck(FaultKind::kApiSlow);
  const Duration there = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration back = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration timeout = std::min(left, kAttemptTimeout);
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
  // What is on the wire arrives, whether or not the sender lives to hear of it.
  auto answer = life_.Guard([this, call](const Reply& reply) { Answered(call, reply); });
  env_.timeline.After(there, [&env = env_, call, mishap, back, answered, answer] {
    Reply reply{.status = mishap == Mishap::kThrottled ? 429 : 500, .message = "trouble"};
    if (mishap != Mishap::kThrottled && mishap != Mishap::kError) {
      const Reply done = call->operation(env.api);
      if (mishap != Mishap::kErrorAfter) reply = done;
    }
    if (answered) env.timeline.After(back, [answer, reply] { answer(reply); });
  });
}

void ApiClient::Answered(const std::shared_ptr<Call>& call, const Reply& reply) {
  call->last = reply;
  auto outcome = call->attempts.Answered(reply.status);
  if (!outcome) return Retry(call);
  if (kube::IsOtherUid(reply.status, reply.message)) outcome = WriteOutcome::kConflict;
  call->done({*outcome, reply});
}

void ApiClient::Retry(const std::shared_ptr<Call>& call) {
  const Duration wait = call->backoff + env_.network.Between(0, call->backoff);
  call->backoff = std::min(2 * call->backoff, kLastBackoff);
  const bool pointless = env_.now() + wait >= call->deadline;
  if (pointless) call->tries = kube::kMaxAttempts;
  env_.timeline.After(pointless ? 0 : wait, life_.Guard([this, call] { Attempt(call); }));
}

void ApiClient::Bind(const engine::PodRef& pod, const std::string& node,
                     const std::map<std::string, std::string>& annotations, Duration timeout,
                     Done done) {
  const TimePoint deadline = env_.now() + timeout;
  Send(
      kube::BindRequest(Ref(pod), node, {annotations.begin(), annotations.end()}),
      [pod, node, annotations](ApiServer& api) { return api.Bind(pod, node, annotations); },
      timeout,
      [this, pod, node, deadline, done](const WriteResult& result) {
        if (result.outcome != WriteOutcome::kConflict) return done(result);
        Read(pod, std::max<Duration>(0, deadline - env_.now()),
             [pod, node, done, result](const WriteResult& read) {
               done({AfterConflict(read, Ref(pod), node), result.reply});
             });
      });
}

}  // namespace berth::sim
