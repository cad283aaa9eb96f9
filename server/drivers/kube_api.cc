#include "server/drivers/kube_api.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <chrono>

#include "cluster/plan_claim.h"
#include "host/timeouts.h"
#include "kube/decode.h"

namespace berth::server {
namespace {

kube::PodRef Ref(const engine::PodRef& pod) {
  return {.ns = pod.ns, .name = pod.name, .uid = pod.uid};
}

kube::MicroTime Now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

bool IsForbidden(const kube::WriteResult& result) {
  return result.status == 401 || result.status == 403;
}

}  // namespace

kube::WriteOptions KubeApi::Options(const Tenure::Permit& permit, const Wanted& wanted) const {
  return {.timeout = std::min(permit.timeout, tenure_.Left()),
          .stop = permit.stop,
          .permitted = [this, wanted] { return tenure_.Holds() && wanted(); }};
}

/// The permit is taken before the host is asked whether the write is still wanted. A later term
/// begins only when all permits have been returned, so a write that is wanted then is wanted in
/// this term.
template <typename Write>
host::Result KubeApi::WhileLeading(kube::Duration timeout, const Wanted& wanted, Write write) {
  const auto permit = tenure_.Enter(timeout);
  if (!permit) {
    return {.outcome = kube::WriteOutcome::kRefused, .message = "not the leader any more"};
  }
  kube::WriteResult result = write(Options(*permit, wanted));
  return {.outcome = result.outcome,
          .message = std::move(result.message),
          .forbidden = IsForbidden(result)};
}

host::Result KubeApi::Bind(const host::PostBinding& binding, const Wanted& wanted) {
  return WhileLeading(host::kBindTimeout, wanted, [&](const kube::WriteOptions& options) {
    return writer_.PostBinding(Ref(binding.pod), binding.node,
                               {binding.annotations.begin(), binding.annotations.end()}, options);
  });
}

host::Result KubeApi::Nominate(const host::Nominate& nomination, const Wanted& wanted) {
  kube::AnnotationPatch annotations;
  if (!nomination.annotation.empty()) {
    annotations.emplace(cluster::kPlanAnnotation, nomination.annotation);
  }
  return WhileLeading(host::kWriteTimeout, wanted, [&](const kube::WriteOptions& options) {
    return writer_.Nominate(Ref(nomination.pod), nomination.node, annotations, options);
  });
}

host::Result KubeApi::RemoveGate(const host::RemoveGate& removal, const Wanted& wanted) {
  return WhileLeading(host::kWriteTimeout, wanted, [&](const kube::WriteOptions& options) {
    return writer_.RemoveGate(Ref(removal.pod), std::string(cluster::kAdmissionGate), options);
  });
}

host::Result KubeApi::Mark(const host::MarkVictim& mark, const Wanted& wanted) {
  const kube::AnnotationPatch annotations{
      {std::string(mark.annotation), mark.mark.empty() ? std::nullopt : std::optional(mark.mark)}};
  return WhileLeading(host::kWriteTimeout, wanted, [&](const kube::WriteOptions& options) {
    if (mark.sets_condition) return writer_.Disrupt(Ref(mark.pod), annotations, Now(), options);
    return writer_.Annotate(Ref(mark.pod), annotations, options);
  });
}

host::Result KubeApi::Evict(const host::Evict& eviction, const Wanted& wanted) {
  return WhileLeading(host::kWriteTimeout, wanted, [&](const kube::WriteOptions& options) {
    return writer_.Evict(Ref(eviction.pod), eviction.dry_run, eviction.by_delete, options);
  });
}

host::Result KubeApi::Find(const host::FindObject& order) {
  const auto result = writer_.GetNeeded(order.ns, order.object, {.timeout = host::kReadTimeout});
  return {.outcome = result.outcome, .message = result.message, .forbidden = IsForbidden(result)};
}

host::Result KubeApi::ReadJobs(const host::ReadJobs& order) {
  const kube::WriteOptions options{.timeout = host::kReadTimeout};
  const auto result =
      !order.of_set.empty() ? writer_.JobsOfSet(order.ns, order.of_set, order.from, options)
      : order.name.empty()
          ? writer_.ListJobs(order.kind, cluster::kSuspendedLabel, order.from, options)
          : writer_.GetJob(order.kind, order.ns, order.name, options);
  if (result.outcome != kube::WriteOutcome::kDone) {
    return {.outcome = result.outcome, .message = result.message, .forbidden = IsForbidden(result)};
  }
  simdjson::dom::parser parser;
  auto jobs = kube::DecodeJobs(result.body, parser);
  if (!jobs) return {.outcome = kube::WriteOutcome::kUnknown, .message = jobs.error().ToString()};
  return {.outcome = kube::WriteOutcome::kDone, .jobs = std::move(*jobs)};
}

host::Result KubeApi::SuspendJob(const host::SuspendJob& order, const Wanted& wanted) {
  return WhileLeading(host::kWriteTimeout, wanted, [&](const kube::WriteOptions& options) {
    return writer_.SuspendJob(order.job, cluster::kSuspendedLabel, order.suspend, options);
  });
}

host::Result KubeApi::ReadPod(const engine::PodRef& pod) {
  const auto result = writer_.GetPod(pod.ns, pod.name, {.timeout = host::kReadTimeout});
  if (result.outcome != kube::WriteOutcome::kDone) {
    return {.outcome = result.outcome, .message = result.message};
  }
  simdjson::dom::parser parser;
  auto decoded = kube::DecodePod(result.body, parser);
  if (!decoded) {
    return {.outcome = kube::WriteOutcome::kRefused, .message = decoded.error().ToString()};
  }
  return {.outcome = kube::WriteOutcome::kDone, .pod = std::move(*decoded)};
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
