#include "server/verbs/verb_server.h"

#include <chrono>
#include <expected>
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

HttpResponse Refused(Unavailable unavailable) {
  return {.status = unavailable.http_status, .close = true};
}

HttpResponse Filter(VerbHandler& handler, Metrics& metrics, const HttpRequest& request) {
  HttpResponse response;
  const auto args = ThreadDecoder().DecodeExtenderArgs(BodyOf(request));
  if (!args) {
    metrics.CountDecodeError(Verb::kFilter);
    EncodeFilterError("berth: " + args.error(), response.body);
    return response;
  }
  const auto result = handler.Filter(*args);
  if (!result) return Refused(result.error());
  EncodeFilterResult(args->node_names, *result, response.body);
  return response;
}

HttpResponse Prioritize(VerbHandler& handler, Metrics& metrics, const HttpRequest& request) {
  const auto args = ThreadDecoder().DecodeExtenderArgs(BodyOf(request));
  if (!args) {
    metrics.CountDecodeError(Verb::kPrioritize);
    return {.status = 400};
  }
  const auto priorities = handler.Prioritize(*args);
  if (!priorities) return Refused(priorities.error());
  HttpResponse response;
  EncodePriorities(*priorities, response.body);
  return response;
}

HttpResponse Bind(VerbHandler& handler, Metrics& metrics, const HttpRequest& request) {
  HttpResponse response;
  auto args = ThreadDecoder().DecodeBindArgs(BodyOf(request));
  if (!args) {
    metrics.CountDecodeError(Verb::kBind);
    EncodeBindResult("berth: " + args.error(), response.body);
    return response;
  }
  args->client_gone = request.client_gone;
  const auto error = handler.Bind(*args);
  if (!error) return Refused(error.error());
  EncodeBindResult(*error, response.body);
  return response;
}

HttpResponse Preempt(VerbHandler& handler, Metrics& metrics, const HttpRequest& request) {
  const auto args = ThreadDecoder().DecodePreemptionArgs(BodyOf(request));
  if (!args) {
    metrics.CountDecodeError(Verb::kPreempt);
    return {.status = 400};
  }
  const auto victims = handler.Preempt(*args);
  if (!victims) return Refused(victims.error());
  HttpResponse response;
  EncodePreemption(*victims, response.body);
  return response;
}

using Answerer = HttpResponse (*)(VerbHandler&, Metrics&, const HttpRequest&);

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

void ServeVerbs(HttpServer& server, VerbHandler& handler, Metrics& metrics) {
  const auto serve = [&](const char* path, Verb verb, Answerer answer) {
    server.Handle("POST", path, [&handler, &metrics, verb, answer](const HttpRequest& request) {
      Timer timer(metrics, verb);
      auto response = answer(handler, metrics, request);
      timer.code = response.status;
      return response;
    });
  };
  serve("/filter", Verb::kFilter, Filter);
  serve("/prioritize", Verb::kPrioritize, Prioritize);
  serve("/bind", Verb::kBind, Bind);
  serve("/preempt", Verb::kPreempt, Preempt);
}

}  // namespace berth::server
