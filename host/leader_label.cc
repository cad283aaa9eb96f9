#include "host/leader_label.h"

#include <nlohmann/json.hpp>

#include "kube/api_status.h"

namespace berth::host {
namespace {

using nlohmann::json;

kube::Request MergePatch(const std::string& ns, const std::string& name, const json& metadata) {
  kube::Request request;
  request.method = "PATCH";
  request.path =
      "/api/v1/namespaces/" + kube::EscapeSegment(ns) + "/pods/" + kube::EscapeSegment(name);
  request.content_type = "application/merge-patch+json";
  request.body = json{{"metadata", metadata}}.dump(-1, ' ', false, json::error_handler_t::replace);
  return request;
}

}  // namespace

bool LeaderLabel::See(const kube::Pod& pod) {
  if (pod.meta.ns != ns_) return false;
  const bool ours = pod.meta.name == name_;
  const auto label = pod.meta.labels.find(kLeaderLabel);
  const bool labelled = label != pod.meta.labels.end();
  if (ours) {
    const auto token = pod.meta.annotations.find(kLeadingAnnotation);
    token_ = token == pod.meta.annotations.end() ? std::string() : token->second;
  } else if (!labelled) {
    return pods_.erase(pod.meta.uid) > 0;
  }
  pods_[pod.meta.uid] = {.name = pod.meta.name, .labelled = labelled && label->second == "true"};
  return false;
}

bool LeaderLabel::SeeDeleted(std::string_view uid) {
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return false;
  const bool other = it->second.name != name_;
  pods_.erase(it);
  return other;
}

std::vector<LeaderLabel::Patch> LeaderLabel::Wrong(bool leading) const {
  std::vector<Patch> wrong;
  for (const auto& [uid, carrier] : pods_) {
    const bool ours = carrier.name == name_;
    if (!ours && !leading) continue;
    const bool wanted = ours && leading;
    if (carrier.labelled == wanted) continue;
    wrong.insert(wanted ? wrong.end() : wrong.begin(),
                 {.pod = {.ns = ns_, .name = carrier.name, .uid = uid}, .set = wanted});
  }
  return wrong;
}

kube::Request LeaderLabel::TakeOver(std::string_view token) const {
  return MergePatch(ns_, name_,
                    {{"labels", {{kLeaderLabel, "true"}}},
                     {"annotations", {{kLeadingAnnotation, std::string(token)}}}});
}

kube::Request LeaderLabel::Call(const Patch& patch) {
  return MergePatch(
      patch.pod.ns, patch.pod.name,
      {{"uid", patch.pod.uid}, {"labels", {{kLeaderLabel, patch.set ? json("true") : json()}}}});
}

}  // namespace berth::host
