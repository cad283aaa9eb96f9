#include "server/drivers/kube_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "host/timeouts.h"

namespace berth::server {
namespace {

kube::MicroTime Now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace

kube::WriteOptions KubeApi::Options(const Tenure::Permit& permit, const Wanted& wanted) const {
  return {.timeout = std::min(permit.timeout, tenure_.Left()),
          .stop = permit.stop,
          .permitted = [this, wanted] { return tenure_.Holds() && wanted(); }};
}

/// The permit is taken before the host is asked whether a write is still wanted. A later term
/// begins only when all permits have been returned, so a write that is wanted then is wanted in
/// this term.
host::Result KubeApi::CarryOut(const host::ApiOrder& order, const Wanted& wanted) {
  auto request = host::RequestOf(order, Now());
  if (!request) return request.error();
  const kube::Duration timeout = request->timeout;
  if (request->method == "GET") {
    return host::ResultOf(order, writer_.Send(*std::move(request), {.timeout = timeout}));
  }
  const auto permit = tenure_.Enter(timeout);
  if (!permit) {
    return {.outcome = kube::WriteOutcome::kRefused, .message = "not the leader any more"};
  }
  const kube::WriteOptions options = Options(*permit, wanted);
  const auto* binding = std::get_if<host::PostBinding>(&order);
  const kube::WriteResult result =
      binding == nullptr ? writer_.Send(*std::move(request), options)
                         : writer_.SendBinding(*std::move(request), host::RefOf(binding->pod),
                                               binding->node, options);
  if (result.outcome == kube::WriteOutcome::kUnknown) tenure_.NoteUnknown();
  return host::ResultOf(order, result);
}

void KubeApi::Event(const engine::EmitEvent& event) {
  const auto permit = tenure_.Enter(host::kWriteTimeout);
  if (!permit) return;
  const kube::MicroTime now = Now();
  const auto taken = [&] {
    const std::scoped_lock lock(mutex_);
    return series_.Take(event, now);
  }();
  if (const auto* held = std::get_if<EventHeld>(&taken)) {
    metrics_.CountEvent(*held == EventHeld::kLimited ? "limited" : "aggregated");
    return;
  }
  const auto& [record, count] = std::get<EventWrite>(taken);
  const kube::WriteOptions options = Options(*permit, [] { return true; });
  auto result = count == 1 ? writer_.CreateEvent(record, options)
                           : writer_.PatchEvent(record, count, now, options);
  if (count > 1 && result.outcome == kube::WriteOutcome::kNotFound) {
    result = writer_.CreateEvent(record, options);
  }
  const bool written = result.outcome == kube::WriteOutcome::kDone;
  metrics_.CountEvent(written ? "written" : "failed");
  if (!written) {
    logger_.V(1, "event not written",
              {{"pod", event.pod.ns + "/" + event.pod.name}, {"error", result.message}});
  }
}

}  // namespace berth::server
