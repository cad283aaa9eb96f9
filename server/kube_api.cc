#include "server/kube_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cluster/plan_claim.h"
#include "kube/decode.h"

namespace berth::server {
namespace {

using std::chrono::seconds;

kube::PodRef Ref(const engine::PodRef& pod) {
  return {.ns = pod.ns, .name = pod.name, .uid = pod.uid};
}

constexpr const char* kNotLeader = "not the leader any more";

kube::MicroTime Now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace

kube::WriteOptions KubeApi::Options(const Tenure::Permit& permit) const {
  return {.timeout = std::min(permit.timeout, tenure_.Left()),
          .stop = permit.stop,
          .permitted = [this] { return tenure_.Holds(); }};
}

Api::BindResult KubeApi::Bind(const engine::PodRef& pod, const std::string& node,
                              const std::map<std::string, std::string>& annotations) {
  const auto permit = tenure_.Enter(seconds(8));
  if (!permit) return {.outcome = engine::BindOutcome::kRefused, .message = kNotLeader};
  const kube::BindResult result = writer_.PostBinding(
      Ref(pod), node, {annotations.begin(), annotations.end()}, Options(*permit));
  switch (result.outcome) {
    case kube::BindOutcome::kBound:
      return {.outcome = engine::BindOutcome::kBound, .message = {}};
    case kube::BindOutcome::kUnknown:
      return {.outcome = engine::BindOutcome::kUnknown,
              .message = "the outcome of the Binding is unknown: " + result.message};
    default:
      return {.outcome = engine::BindOutcome::kRefused, .message = result.message};
  }
}

std::string KubeApi::Release(const engine::ReleaseMember& release,
                             const std::function<void()>& nominated) {
  const auto permit = tenure_.Enter(seconds(5));
  if (!permit) return kNotLeader;
  const kube::PodRef pod = Ref(release.pod);
  if (release.withdraw) {
    const auto result = writer_.Nominate(pod, "", {}, Options(*permit));
    const bool over = result.outcome == kube::WriteOutcome::kNotFound ||
                      result.outcome == kube::WriteOutcome::kDone;
    return over ? std::string() : "taking the nomination back: " + result.message;
  }
  // First the nomination: kube-scheduler tries that node alone as soon as the gate is gone, or, for
  // a pod that it refused before, as soon as it sees the annotation change.
  if (!release.node.empty()) {
    kube::AnnotationPatch annotations;
    if (!release.annotation.empty()) {
      annotations.emplace(cluster::kPlanAnnotation, release.annotation);
    }
    const auto result = writer_.Nominate(pod, release.node, annotations, Options(*permit));
    // Gone, or bound in the meantime: there is nothing left to release.
    if (result.outcome == kube::WriteOutcome::kNotFound ||
        result.message.find("already bound") != std::string::npos) {
      return {};
    }
    if (result.outcome != kube::WriteOutcome::kDone) return "nominating: " + result.message;
  }
  if (!release.remove_gate) return {};
  if (!release.node.empty()) nominated();
  const auto result =
      writer_.RemoveGate(pod, std::string(cluster::kAdmissionGate), Options(*permit));
  if (result.outcome == kube::WriteOutcome::kNotFound ||
      result.outcome == kube::WriteOutcome::kDone) {
    return {};
  }
  return "releasing: " + result.message;
}

Api::ReadResult KubeApi::ReadPod(const engine::PodRef& pod) {
  const auto result = writer_.GetPod(pod.ns, pod.name, {.timeout = seconds(10)});
  if (result.outcome == kube::WriteOutcome::kNotFound) return {};
  if (result.outcome != kube::WriteOutcome::kDone) return {.pod = {}, .error = result.message};
  simdjson::dom::parser parser;
  auto decoded = kube::DecodePod(result.body, parser);
  if (!decoded) return {.pod = {}, .error = decoded.error().ToString()};
  return {.pod = std::move(*decoded), .error = {}};
}

void KubeApi::Event(const engine::EmitEvent& event) {
  const auto permit = tenure_.Enter(seconds(5));
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
  const kube::WriteOptions options = Options(*permit);
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
