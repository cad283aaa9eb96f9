#include "cluster/dialects.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

namespace berth::cluster {
namespace {

const std::string* Find(const kube::StringMap& map, std::string_view key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

/// A count in 1..kMaxGangSize; otherwise 0 and a text in `error`.
int ReadCount(const kube::StringMap& map, std::string_view key, std::string& error) {
  const std::string* text = Find(map, key);
  if (text == nullptr) return 0;
  int value = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (code != std::errc{} || end != text->data() + text->size() || value < 1 ||
      value > kMaxGangSize) {
    error = fmt::format("{} must be a whole number from 1 to {}.", key, kMaxGangSize);
    return 0;
  }
  return value;
}

GangClaim ReadBerth(const kube::Pod& pod, std::string& error) {
  GangClaim claim;
  const std::string* name = Find(pod.meta.labels, "berth.dev/gang");
  if (name == nullptr || name->empty()) return claim;
  claim.name = *name;
  claim.size = ReadCount(pod.meta.annotations, "berth.dev/gang-size", error);
  claim.min_member = ReadCount(pod.meta.annotations, "berth.dev/gang-min-member", error);
  if (claim.size == 0 && claim.min_member == 0 && error.empty()) {
    error = "berth.dev/gang needs the annotation berth.dev/gang-size.";
  }
  return claim;
}

/// scheduler-plugins: the label of the lightweight form carries the minimum itself; the current
/// form names a PodGroup object, whose minMember is read by discovery (another issue), so that
/// here the pod may repeat it as an annotation.
GangClaim ReadSchedulerPlugins(const kube::Pod& pod, std::string& error) {
  GangClaim claim;
  constexpr std::string_view kOldName = "pod-group.scheduling.sigs.k8s.io/name";
  constexpr std::string_view kOldMin = "pod-group.scheduling.sigs.k8s.io/min-available";
  constexpr std::string_view kNewName = "scheduling.x-k8s.io/pod-group";
  for (const std::string_view key : {kNewName, kOldName}) {
    const std::string* name = Find(pod.meta.labels, key);
    if (name == nullptr || name->empty()) continue;
    claim.name = *name;
    claim.min_member = ReadCount(pod.meta.labels, kOldMin, error);
    if (claim.min_member == 0) claim.min_member = ReadCount(pod.meta.annotations, kOldMin, error);
    if (claim.min_member == 0) {
      claim.min_member = ReadCount(pod.meta.annotations, "berth.dev/gang-min-member", error);
    }
    claim.size = ReadCount(pod.meta.annotations, "berth.dev/gang-size", error);
    if (claim.min_member == 0 && claim.size == 0 && error.empty()) {
      error = fmt::format("{} needs {} to say the minimum.", key, kOldMin);
    }
    break;
  }
  return claim;
}

std::optional<int> ReadRank(const kube::Pod& pod) {
  static constexpr std::array<std::string_view, 3> kIndexKeys{
      "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index",
      "leaderworkerset.sigs.k8s.io/worker-index"};
  for (const auto key : kIndexKeys) {
    const std::string* text = Find(pod.meta.labels, key);
    if (text == nullptr) text = Find(pod.meta.annotations, key);
    if (text == nullptr) continue;
    int value = 0;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (code == std::errc{} && end == text->data() + text->size() && value >= 0) return value;
  }
  return std::nullopt;
}

}  // namespace

PodClaims ReadClaims(const kube::Pod& pod, const config::Dialects& dialects) {
  PodClaims claims;
  claims.gang = ReadBerth(pod, claims.error);
  if (claims.gang.name.empty() && dialects.scheduler_plugins != config::DialectSwitch::kOff) {
    claims.gang = ReadSchedulerPlugins(pod, claims.error);
  }
  if (claims.gang.size != 0 && claims.gang.min_member > claims.gang.size && claims.error.empty()) {
    claims.error = "The gang's minimum is larger than its size.";
  }
  if (claims.gang.size == 0) claims.gang.size = claims.gang.min_member;
  if (claims.gang.min_member == 0) claims.gang.min_member = claims.gang.size;
  const auto annotation = [&pod](std::string_view key) {
    const std::string* text = Find(pod.meta.annotations, key);
    return text == nullptr ? std::string() : *text;
  };
  if (const std::string* queue = Find(pod.meta.labels, "berth.dev/queue")) claims.queue = *queue;
  claims.topology_required = annotation("berth.dev/topology-required");
  claims.topology_preferred = annotation("berth.dev/topology-preferred");
  const std::string whole = annotation("berth.dev/whole-node");
  claims.whole_node = whole == "true";
  if (!whole.empty() && whole != "true" && whole != "false" && claims.error.empty()) {
    claims.error = "berth.dev/whole-node must be \"true\" or \"false\".";
  }
  claims.rank = ReadRank(pod);
  return claims;
}

}  // namespace berth::cluster
