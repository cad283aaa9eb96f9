#include "sim/world/pods.h"

#include <cstdlib>

namespace berth::sim {
namespace {

int NumberOf(const kube::Pod& pod, std::string_view key) {
  const auto it = pod.meta.annotations.find(key);
  return it == pod.meta.annotations.end() ? 0 : std::atoi(it->second.c_str());
}

}  // namespace

bool Lives(const kube::Pod& pod) {
  return pod.phase != kube::PodPhase::kSucceeded && pod.phase != kube::PodPhase::kFailed;
}

std::string LabelOf(const kube::Pod& pod, std::string_view key) {
  const auto it = pod.meta.labels.find(key);
  return it == pod.meta.labels.end() ? std::string() : it->second;
}

std::string GangOf(const kube::Pod& pod) {
  const std::string name = LabelOf(pod, "berth.dev/gang");
  return name.empty() ? name : pod.meta.ns + '/' + name;
}

int MinimumOf(const kube::Pod& pod) {
  const int min = NumberOf(pod, "berth.dev/gang-min-member");
  return min > 0 ? min : NumberOf(pod, "berth.dev/gang-size");
}

std::int64_t AmountOf(const kube::ResourceList& list, std::string_view name) {
  const auto it = list.find(name);
  return it == list.end() ? 0 : it->second;
}

bool WholeNode(const kube::Pod& pod) {
  const auto note = pod.meta.annotations.find("berth.dev/whole-node");
  return note != pod.meta.annotations.end() && note->second == "true" &&
         AmountOf(pod.spec->requests, kGpu) > 0;
}

}  // namespace berth::sim
