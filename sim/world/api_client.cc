#include "sim/world/api_client.h"

namespace berth::sim {
namespace {

// As in kube/writer.cc.
constexpr int kMaxAttempts = 10;
constexpr Duration kAttemptTimeout = 5'000;
constexpr Duration kFirstBackoff = 100;
constexpr Duration kLastBackoff = 3'000;

enum class Mishap : std::uint8_t { kNone, kThrottled, kError, kErrorAfter, kLost, kAnswerLost };

Mishap DrawMishap(const Weather& weather, Random& random) {
  static constexpr std::array<std::pair<FaultKind, Mishap>, 5> kMishaps{
      {{FaultKind::kApiThrottled, Mishap::kThrottled},
       {FaultKind::kApiError, Mishap::kError},
       {FaultKind::kApiErrorAfter, Mishap::kErrorAfter},
       {FaultKind::kApiRequestLost, Mishap::kLost},
       {FaultKind::kApiAnswerLost, Mishap::kAnswerLost}}};
  for (const auto& [kind, mishap] : kMishaps) {
    if (weather.Is(kind) && random.Percent(60)) return mishap;
  }
  return Mishap::kNone;
}

}  // namespace

struct ApiClient::Call {
  Operation operation;
  Done done;
  TimePoint deadline = 0;
  bool is_read = false;
  bool maybe_done = false;
  int attempts = 0;
  Duration backoff = kFirstBackoff;
  Reply last{.status = 0, .message = "timed out"};
};

void ApiClient::Write(Operation operation, Duration timeout, Done done) {
  Send(std::move(operation), timeout, /*is_read=*/false, std::move(done));
}

void ApiClient::Read(const engine::PodRef& pod, Duration timeout, Done done) {
  Send([pod](ApiServer& api) { return api.ReadPod(pod); }, timeout, /*is_read=*/true,
       std::move(done));
}

void ApiClient::Send(Operation operation, Duration timeout, bool is_read, Done done) {
  auto call = std::make_shared<Call>();
  call->operation = std::move(operation);
  call->done = std::move(done);
  call->deadline = env_.now() + timeout;
  call->is_read = is_read;
  Attempt(call);
}

void ApiClient::Attempt(const std::shared_ptr<Call>& call) {
  const Duration left = call->deadline - env_.now();
  if (left <= 0 || call->attempts++ >= kMaxAttempts) {
    const bool unknown = call->maybe_done && !call->is_read;
    call->done({unknown ? WriteOutcome::kUnknown : WriteOutcome::kRefused, call->last});
    return;
  }
  const Mishap mishap = DrawMishap(env_.weather, env_.network);
  const bool slow = env_.weather.Is(FaultKind::kApiSlow);
  const Duration there = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration back = env_.network.Between(1, slow ? 4'000 : 5);
  const Duration timeout = std::min(left, kAttemptTimeout);
  const bool answered =
      mishap != Mishap::kLost && mishap != Mishap::kAnswerLost && there + back < timeout;
  if (!answered) {
    env_.timeline.After(timeout, life_.Guard([this, call] {
      call->maybe_done = true;
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
  if (reply.status == 429 || reply.status >= 500) {
    call->maybe_done |= reply.status != 429;
    Retry(call);
    return;
  }
  WriteOutcome outcome = WriteOutcome::kRefused;
  if (reply.ok()) outcome = WriteOutcome::kDone;
  if (reply.status == 404) outcome = WriteOutcome::kNotFound;
  if (reply.status == 409) outcome = WriteOutcome::kConflict;
  if (outcome == WriteOutcome::kRefused && call->maybe_done && !call->is_read) {
    outcome = WriteOutcome::kUnknown;
  }
  call->done({outcome, reply});
}

void ApiClient::Retry(const std::shared_ptr<Call>& call) {
  const Duration wait = call->backoff + env_.network.Between(0, call->backoff);
  call->backoff = std::min(2 * call->backoff, kLastBackoff);
  const bool pointless = env_.now() + wait >= call->deadline;
  if (pointless) call->attempts = kMaxAttempts;
  env_.timeline.After(pointless ? 0 : wait, life_.Guard([this, call] { Attempt(call); }));
}

void ApiClient::Bind(const engine::PodRef& pod, const std::string& node,
                     const std::map<std::string, std::string>& annotations, Duration timeout,
                     Done done) {
  const TimePoint deadline = env_.now() + timeout;
  Write([pod, node, annotations](ApiServer& api) { return api.Bind(pod, node, annotations); },
        timeout,
        [this, pod, node, deadline, done](const WriteResult& result) {
          if (result.outcome != WriteOutcome::kConflict) return done(result);
          const auto judge = [pod, node, done, result](const WriteResult& read) {
            if (read.outcome == WriteOutcome::kNotFound) return done(read);
            if (read.outcome != WriteOutcome::kDone) {
              return done({WriteOutcome::kUnknown, read.reply});
            }
            const kube::Pod& found = *read.reply.pod;
            const bool there = found.meta.uid == pod.uid && found.node_name == node;
            done(there ? read : result);
          };
          Read(pod, std::max<Duration>(0, deadline - env_.now()), judge);
        });
}

}  // namespace berth::sim
