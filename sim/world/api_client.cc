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

constexpr Duration kGivenUpAfter = 1'000;
constexpr Duration kForEver = std::numeric_limits<Duration>::max();

kube::PodRef Ref(const engine::PodRef& pod) {
  return {.ns = pod.ns, .name = pod.name, .uid = pod.uid};
}

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

/// Carries out the request in its bytes and decodes the answer's bytes as
/// server/drivers/kube_api.cc does.
Reply InBytes(Environment& env, const kube::Request& request) {
  std::string unknown;
  const kube::Response answer = Serve(env.api, request, unknown);
  if (!unknown.empty()) env.Garble(unknown);
  Reply reply{.status = answer.status};
  if (!reply.ok()) {
    reply.message = kube::ParseStatus(answer.body, answer.status).message;
  } else if (JobKindOf(request)) {
    simdjson::dom::parser parser;
    auto jobs = kube::DecodeJobs(answer.body, parser);
    if (!jobs) {
      env.Garble("read of Jobs: " + jobs.error().ToString());
      return {.status = 500, .message = "unreadable"};
    }
    reply.jobs = *std::move(jobs);
  } else if (request.method == "GET" && !NeededIn(request)) {
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

/// The outcome of a Binding that got a conflict, by the pod that was read afterwards. At fidelity
/// `wire` kube/requests.h decides it from the pod's bytes.
WriteOutcome AfterConflict(const WriteResult& read, const kube::PodRef& pod,
                           const std::string& node) {
  const std::string body =
      read.reply.pod == nullptr ? std::string() : Bytes(PodJson(*read.reply.pod));
  return kube::AfterConflict(read.outcome, body, pod, node);
}

}  // namespace

struct ApiClient::Call {
  std::uint64_t number;
  Operation operation;
  Wanted wanted;
  Done done;
  kube::Attempts attempts;
  Reply last{.status = 0, .message = "timed out"};
};

/// In the clock type of kube/attempts.h.
kube::TimePoint ApiClient::now() const {
  return kube::TimePoint(std::chrono::milliseconds(env_.now()));
}

void ApiClient::Nominate(const engine::PodRef& pod, const std::string& node,
                         const std::string& plan, Duration timeout, Wanted wanted, Done done) {
  kube::AnnotationPatch annotations;
  if (!plan.empty()) annotations.emplace(cluster::kPlanAnnotation, plan);
  Send(
      pod, /*is_read=*/false, [&] { return kube::NominateRequest(Ref(pod), node, annotations); },
      [pod, node, annotations](ApiServer& api) { return api.Nominate(pod, node, annotations); },
      timeout, std::move(wanted), std::move(done));
}

void ApiClient::RemoveGate(const engine::PodRef& pod, const std::string& gate, Duration timeout,
                           Wanted wanted, Done done) {
  Send(
      pod, /*is_read=*/false, [&] { return kube::RemoveGateRequest(Ref(pod), gate); },
      [pod, gate](ApiServer& api) { return api.RemoveGate(pod, gate); }, timeout, std::move(wanted),
      std::move(done));
}

void ApiClient::Mark(const host::MarkVictim& order, Duration timeout, Wanted wanted, Done done) {
  const engine::PodRef pod = order.pod;
  const kube::AnnotationPatch patch{
      {std::string(order.annotation),
       order.mark.empty() ? std::nullopt : std::optional(order.mark)}};
  Send(
      pod, /*is_read=*/false,
      [&] {
        return order.sets_condition ? kube::DisruptRequest(Ref(pod), patch, {})
                                    : kube::AnnotateRequest(Ref(pod), patch);
      },
      [pod, patch](ApiServer& api) { return api.Annotate(pod, patch); }, timeout, std::move(wanted),
      std::move(done));
}

void ApiClient::Evict(const host::Evict& order, Duration timeout, Wanted wanted, Done done) {
  const engine::PodRef pod = order.pod;
  const bool dry_run = order.dry_run;
  const bool by_delete = order.by_delete;
  Send(
      pod, /*is_read=*/false,
      [&] {
        return by_delete ? kube::DeletePodRequest(Ref(pod), dry_run)
                         : kube::EvictRequest(Ref(pod), dry_run);
      },
      [pod, dry_run, by_delete](ApiServer& api) {
        return by_delete ? api.EvictByDelete(pod, dry_run) : api.EvictPod(pod, dry_run);
      },
      timeout, std::move(wanted), std::move(done));
}

void ApiClient::Find(const host::FindObject& order, Duration timeout, Done done) {
  Send(
      {.ns = order.ns, .name = order.object.name}, /*is_read=*/true,
      [&] { return kube::GetNeededRequest(order.ns, order.object); },
      [order](ApiServer& api) { return api.FindNeeded(order.ns, order.object); }, timeout, {},
      std::move(done));
}

void ApiClient::ReadJobs(const host::ReadJobs& order, Duration timeout, Done done) {
  const std::string label(cluster::kSuspendedLabel);
  Send(
      {.ns = order.ns, .name = order.name}, /*is_read=*/true,
      [&] {
        if (!order.of_set.empty()) {
          return kube::JobsOfSetRequest(order.ns, order.of_set, order.from);
        }
        return order.name.empty() ? kube::ListJobsRequest(order.kind, label, order.from)
                                  : kube::GetJobRequest(order.kind, order.ns, order.name);
      },
      [order, label](ApiServer& api) {
        if (!order.of_set.empty()) return api.ListJobsOfSet(order.ns, order.of_set, order.from);
        return order.name.empty() ? api.ListJobs(order.kind, label, order.from)
                                  : api.ReadJob(order.kind, order.ns, order.name);
      },
      timeout, {}, std::move(done));
}

void ApiClient::SuspendJob(const host::SuspendJob& order, Duration timeout, Wanted wanted,
                           Done done) {
  const std::string label(cluster::kSuspendedLabel);
  Send(
      {.ns = order.job.ns, .name = order.job.name}, /*is_read=*/false,
      [&] { return kube::SuspendJobRequest(order.job, label, order.suspend); },
      [order, label](ApiServer& api) { return api.SuspendJob(order.job, label, order.suspend); },
      timeout, std::move(wanted), std::move(done));
}

void ApiClient::Read(const engine::PodRef& pod, Duration timeout, Done done) {
  Send(
      pod, /*is_read=*/true, [&] { return kube::GetPodRequest(pod.ns, pod.name); },
      [pod](ApiServer& api) { return api.ReadPod(pod); }, timeout, {}, std::move(done));
}

void ApiClient::Send(const engine::PodRef& pod, bool is_read, const MakeRequest& make,
                     Operation operation, Duration timeout, Wanted wanted, Done done) {
  const bool in_bytes = env_.fidelity == Fidelity::kWire;
  // Every request about a pod is refused for the same names.
  const auto request = in_bytes           ? make()
                       : pod.name.empty() ? kube::Request()
                                          : kube::GetPodRequest(pod.ns, pod.name);
  if (!request) return done({WriteOutcome::kRefused, {.status = 0, .message = "invalid name"}});
  if (in_bytes) {
    operation = [&env = env_, request = *request](ApiServer&) { return InBytes(env, request); };
  }
  const auto call = std::make_shared<Call>(
      Call{.number = ++last_call_,
           .operation = std::move(operation),
           .wanted = std::move(wanted),
           .done = std::move(done),
           .attempts = kube::Attempts(is_read, kube::Duration(timeout), now())});
  calls_.emplace(call->number, call);
  Attempt(call);
}

void ApiClient::End(const std::shared_ptr<Call>& call, const WriteResult& result) {
  calls_.erase(call->number);
  call->done(result);
}

void ApiClient::CutOff() {
  life_.Renew();
  for (const auto& [number, call] : std::exchange(calls_, {})) {
    call->attempts.Lost(/*maybe_sent=*/true);
    call->done({call->attempts.GivenUp(), {.status = 0, .message = "cut off"}});
  }
}

void ApiClient::Attempt(const std::shared_ptr<Call>& call) {
  const auto most = call->attempts.Next(now());
  const Duration permitted = left_ ? left_() : kForEver;
  const bool wanted = !call->wanted || call->wanted();
  if (!most || permitted <= 0 || !wanted) {
    return End(call, {call->attempts.GivenUp(), call->last});
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
  End(call, {*outcome, reply});
}

void ApiClient::Retry(const std::shared_ptr<Call>& call) {
  const double random = static_cast<double>(env_.network.Between(0, 999)) / 1'000;
  const auto wait = call->attempts.Pause(now(), random);
  if (!wait) return End(call, {call->attempts.GivenUp(), call->last});
  env_.timeline.After(wait->count(), life_.Guard([this, call] { Attempt(call); }));
}

void ApiClient::Bind(const engine::PodRef& pod, const std::string& node,
                     const std::map<std::string, std::string>& annotations, Duration timeout,
                     Wanted wanted, Done done) {
  const TimePoint deadline = env_.now() + timeout;
  Send(
      pod, /*is_read=*/false,
      [&] {
        return kube::BindRequest(Ref(pod), node, {annotations.begin(), annotations.end()});
      },
      [pod, node, annotations](ApiServer& api) { return api.Bind(pod, node, annotations); },
      timeout, std::move(wanted),
      [this, pod, node, deadline, done](const WriteResult& result) {
        if (result.outcome != WriteOutcome::kConflict) return done(result);
        Read(pod, std::max<Duration>(0, deadline - env_.now()),
             [pod, node, done, result](const WriteResult& read) {
               done({AfterConflict(read, Ref(pod), node), result.reply});
             });
      });
}

}  // namespace berth::sim
