#include "host/requests.h"

#include <simdjson.h>

#include <optional>
#include <utility>

#include "host/timeouts.h"
#include "kube/decode.h"

namespace berth::host {
namespace {

using kube::WriteOutcome;

/// One overload for each order. nullopt: a name is invalid.
struct Requests {
  kube::MicroTime now;
  using Request = std::optional<kube::Request>;

  Request operator()(const Nominate& order) const {
    return kube::NominateRequest(RefOf(order.pod), order.node, AnnotationsOf(order));
  }
  Request operator()(const RemoveGate& order) const {
    return kube::RemoveGateRequest(RefOf(order.pod), cluster::kAdmissionGate);
  }
  Request operator()(const MarkVictim& order) const {
    if (!order.sets_condition) return kube::AnnotateRequest(RefOf(order.pod), AnnotationsOf(order));
    return kube::DisruptRequest(RefOf(order.pod), AnnotationsOf(order), now);
  }
  Request operator()(const Evict& order) const {
    return order.by_delete ? kube::DeletePodRequest(RefOf(order.pod), order.dry_run)
                           : kube::EvictRequest(RefOf(order.pod), order.dry_run);
  }
  Request operator()(const FindObject& order) const {
    return kube::GetNeededRequest(order.ns, order.object);
  }
  Request operator()(const ReadJobs& order) const {
    if (!order.of_set.empty()) return kube::JobsOfSetRequest(order.ns, order.of_set, order.from);
    if (!order.name.empty()) return kube::GetJobRequest(order.kind, order.ns, order.name);
    return kube::ListJobsRequest(order.kind, cluster::kSuspendedLabel, order.from);
  }
  Request operator()(const SuspendJob& order) const {
    return kube::SuspendJobRequest(order.job, cluster::kSuspendedLabel, order.suspend);
  }
  Request operator()(const ReadPod& order) const {
    return kube::GetPodRequest(order.pod.ns, order.pod.name);
  }
  Request operator()(const PostBinding& order) const {
    return kube::BindRequest(RefOf(order.pod), order.node,
                             {order.annotations.begin(), order.annotations.end()});
  }
};

struct Keys {
  std::string operator()(const auto& order) const { return order.pod.uid; }
  std::string operator()(const FindObject& order) const {
    return order.ns + '/' + engine::KeyOf(order.object);
  }
  std::string operator()(const ReadJobs& order) const {
    return order.ns + '/' + (order.of_set.empty() ? order.name : order.of_set);
  }
  std::string operator()(const SuspendJob& order) const {
    return order.job.ns + '/' + order.job.name;
  }
};

/// The answer about a path that is not served names no object.
bool NamesIt(const FindObject& order, const std::string& message) {
  return message.find('"' + order.object.name + '"') != std::string::npos;
}

}  // namespace

kube::PodRef RefOf(const engine::PodRef& pod) {
  return {.ns = pod.ns, .name = pod.name, .uid = pod.uid};
}

Id IdOf(const ApiOrder& order) {
  return std::visit([](const auto& o) { return o.id; }, order);
}

std::string KeyOf(const ApiOrder& order) { return std::visit(Keys{}, order); }

kube::AnnotationPatch AnnotationsOf(const Nominate& order) {
  if (order.annotation.empty()) return {};
  return {{std::string(cluster::kPlanAnnotation), order.annotation}};
}

kube::AnnotationPatch AnnotationsOf(const MarkVictim& order) {
  return {{std::string(order.annotation),
           order.mark.empty() ? std::nullopt : std::optional(order.mark)}};
}

std::expected<kube::Request, Result> RequestOf(const ApiOrder& order, kube::MicroTime now) {
  auto request = std::visit(Requests{now}, order);
  if (!request) {
    // kube-apiserver accepts pods that name claims by what can be no claim's name.
    const bool finds = std::holds_alternative<FindObject>(order);
    return std::unexpected(
        Result{.outcome = finds ? WriteOutcome::kNotFound : WriteOutcome::kRefused,
               .message = "invalid name"});
  }
  request->timeout = std::holds_alternative<PostBinding>(order) ? kBindTimeout
                     : request->method == "GET"                 ? kReadTimeout
                                                                : kWriteTimeout;
  return *std::move(request);
}

Result OutcomeOf(const ApiOrder& order, const kube::WriteResult& answer) {
  Result result{.outcome = answer.outcome,
                .message = answer.message,
                .forbidden = answer.status == 401 || answer.status == 403};
  const auto* find = std::get_if<FindObject>(&order);
  if (find != nullptr && result.outcome == WriteOutcome::kNotFound &&
      !NamesIt(*find, result.message)) {
    result.outcome = WriteOutcome::kRefused;
  }
  return result;
}

Result ResultOf(const ApiOrder& order, const kube::WriteResult& answer) {
  Result result = OutcomeOf(order, answer);
  if (result.outcome != WriteOutcome::kDone) return result;
  simdjson::dom::parser parser;
  if (std::holds_alternative<ReadJobs>(order)) {
    auto jobs = kube::DecodeJobs(answer.body, parser);
    if (!jobs) return {.outcome = WriteOutcome::kUnknown, .message = jobs.error().ToString()};
    result.jobs = *std::move(jobs);
  } else if (std::holds_alternative<ReadPod>(order)) {
    auto pod = kube::DecodePod(answer.body, parser);
    if (!pod) return {.outcome = WriteOutcome::kRefused, .message = pod.error().ToString()};
    result.pod = *std::move(pod);
  }
  return result;
}

}  // namespace berth::host
