#include "server/verbs/verb_server.h"

#include <atomic>
#include <chrono>
#include <expected>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "server/verbs/wire.h"

namespace berth::server {
namespace {

/// A decoder's buffers serve one request at a time, and a connection's thread has one at a time.
Decoder& ThreadDecoder() {
  thread_local Decoder decoder;
  return decoder;
}

PaddedBody BodyOf(const HttpRequest& request) {
  return {.data = request.body.data(), .size = request.body.size()};
}

/// Reports bodies that cannot be decoded: each is counted, and at most one a second is logged.
class Undecodable {
 public:
  Undecodable(Metrics& metrics, Logger& logger) : metrics_(metrics), logger_(logger) {}

  void Note(Verb verb, const std::string& error) {
    metrics_.CountDecodeError(verb);
    const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count();
    std::int64_t next = next_.load();
    if (now < next || !next_.compare_exchange_strong(next, now + 1'000)) return;
    logger_.Log(Severity::kWarning, "a call could not be understood",
                {{"verb", VerbName(verb)}, {"error", error}});
  }

 private:
  Metrics& metrics_;
  Logger& logger_;
  std::atomic<std::int64_t> next_ = std::numeric_limits<std::int64_t>::min();
};

HttpResponse Refused(Unavailable unavailable) {
  return {.status = unavailable.http_status, .close = true};
}

HttpResponse Filter(VerbHandler& handler, Undecodable& undecodable, const HttpRequest& request) {
  HttpResponse response;
  const auto args = ThreadDecoder().DecodeExtenderArgs(BodyOf(request));
  if (!args) {
    undecodable.Note(Verb::kFilter, args.error());
    EncodeFilterError("berth: " + args.error(), response.body);
    return response;
  }
  const auto result = handler.Filter(*args);
  if (!result) return Refused(result.error());
  EncodeFilterResult(args->node_names, *result, response.body);
  return response;
}

HttpResponse Prioritize(VerbHandler& handler, Undecodable& undecodable,
                        const HttpRequest& request) {
  const auto args = ThreadDecoder().DecodeExtenderArgs(BodyOf(request));
  if (!args) {
    undecodable.Note(Verb::kPrioritize, args.error());
    return {.status = 400};
  }
  const auto priorities = handler.Prioritize(*args);
  if (!priorities) return Refused(priorities.error());
  HttpResponse response;
  EncodePriorities(*priorities, response.body);
  return response;
}

HttpResponse Bind(VerbHandler& handler, Undecodable& undecodable, const HttpRequest& request) {
  HttpResponse response;
  auto args = ThreadDecoder().DecodeBindArgs(BodyOf(request));
  if (!args) {
    undecodable.Note(Verb::kBind, args.error());
    EncodeBindResult("berth: " + args.error(), response.body);
    return response;
  }
  args->client_gone = request.client_gone;
  const auto error = handler.Bind(*args);
  if (!error) return Refused(error.error());
  EncodeBindResult(*error, response.body);
  return response;
}

HttpResponse Preempt(VerbHandler& handler, Undecodable& undecodable, const HttpRequest& request) {
  const auto args = ThreadDecoder().DecodePreemptionArgs(BodyOf(request));
  if (!args) {
    undecodable.Note(Verb::kPreempt, args.error());
    return {.status = 400};
  }
  const auto victims = handler.Preempt(*args);
  if (!victims) return Refused(victims.error());
  HttpResponse response;
  EncodePreemption(*victims, response.body);
  return response;
}

using Answerer = HttpResponse (*)(VerbHandler&, Undecodable&, const HttpRequest&);

/// Once a request is answered, the memory that a large one took is given back: its connection may
/// be idle for long.
struct Buffers {
  Buffers() = default;
  ~Buffers() { ThreadDecoder().ReleaseLarge(); }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
};

/// Observes a call when it ends, even if the handler throws (which the HTTP server turns into a
/// 500).
class Timer {
 public:
  Timer(Metrics& metrics, Verb verb) : metrics_(metrics), verb_(verb) {}
  ~Timer() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    metrics_.ObserveRequest(verb_, code, took.count());
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  int code = 500;

 private:
  Metrics& metrics_;
  const Verb verb_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void ServeVerbs(HttpServer& server, VerbHandler& handler, Metrics& metrics, Logger& logger) {
  const auto undecodable = std::make_shared<Undecodable>(metrics, logger);
  const auto serve = [&](const char* path, Verb verb, Answerer answer) {
    const auto call = [&handler, &metrics, undecodable, verb, answer](const HttpRequest& request) {
      Timer timer(metrics, verb);
      const Buffers buffers;
      auto response = answer(handler, *undecodable, request);
      timer.code = response.status;
      return response;
    };
    server.Handle("POST", path, call);
  };
  serve("/filter", Verb::kFilter, Filter);
  serve("/prioritize", Verb::kPrioritize, Prioritize);
  serve("/bind", Verb::kBind, Bind);
  serve("/preempt", Verb::kPreempt, Preempt);
}

}  // namespace berth::server
