#include "kube/pod_requests.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kube/quantity.h"

namespace berth::kube {
namespace {

std::int64_t SaturatingAdd(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

void Add(ResourceList& into, const ResourceList& amounts) {
  for (const auto& [name, amount] : amounts) {
    std::int64_t& sum = into[name];
    sum = SaturatingAdd(sum, amount);
  }
}

void Max(ResourceList& into, const ResourceList& amounts) {
  for (const auto& [name, amount] : amounts) {
    const auto [entry, inserted] = into.try_emplace(name, amount);
    if (!inserted) entry->second = std::max(entry->second, amount);
  }
}

ResourceList WithStatus(ResourceList spec, const StatusResources& status, bool resize_infeasible) {
  if (resize_infeasible) spec.clear();
  Max(spec, status.actuated);
  Max(spec, status.allocated);
  return spec;
}

/// `use_status` is false for init containers that end: they are never resized.
ResourceList RequestsOf(const ContainerResources& container, bool use_status,
                        bool resize_infeasible) {
  ResourceList requests = container.requests;
  for (const auto& [name, limit] : container.limits) requests.try_emplace(name, limit);
  if (!use_status || !container.status) return requests;
  return WithStatus(std::move(requests), *container.status, resize_infeasible);
}

bool IsPodLevelResource(std::string_view name) {
  return name == "cpu" || name == "memory" || name.starts_with("hugepages-");
}

void ApplyPodLevel(const PodResources& pod, ResourceList& requests) {
  const bool any = std::any_of(pod.pod_requests.begin(), pod.pod_requests.end(),
                               [](const auto& entry) { return IsPodLevelResource(entry.first); });
  if (!any) return;
  ResourceList effective = pod.pod_requests;
  if (pod.pod_status) {
    effective = WithStatus(std::move(effective), *pod.pod_status, pod.resize_infeasible);
  }
  for (const auto& [name, amount] : pod.pod_requests) {
    if (!IsPodLevelResource(name)) continue;
    // An infeasible resize that the status says nothing about counts zero, as upstream.
    const auto found = effective.find(name);
    requests[name] = found == effective.end() ? 0 : found->second;
  }
}

std::string InvalidIn(const ContainerResources& container) {
  for (const ResourceList* list : {&container.requests, &container.limits}) {
    for (const auto& [name, amount] : *list) {
      if (amount == std::numeric_limits<std::int64_t>::max()) return name + " is too large";
      if (IsExtendedResource(name) && amount % 1000 != 0) {
        return name + ": " + Format(name, amount) + " is not a whole number";
      }
    }
  }
  for (const auto& [name, request] : container.requests) {
    const auto limit = container.limits.find(name);
    if (limit == container.limits.end() || limit->second == request) continue;
    if (!IsExtendedResource(name)) continue;
    return name + ": request " + Format(name, request) + " is not limit " +
           Format(name, limit->second);
  }
  return {};
}

std::string InvalidIn(std::string_view list_name,
                      const std::vector<ContainerResources>& containers) {
  for (std::size_t i = 0; i < containers.size(); ++i) {
    std::string why = InvalidIn(containers[i]);
    if (why.empty()) continue;
    return std::string(list_name) + "[" + std::to_string(i) + "]: " + why;
  }
  return {};
}

}  // namespace

ResourceList EffectiveRequests(const PodResources& pod) {
  ResourceList running;
  for (const ContainerResources& container : pod.containers) {
    Add(running, RequestsOf(container, true, pod.resize_infeasible));
  }
  ResourceList sidecars;  // Sidecars started so far.
  ResourceList starting;  // The largest request of any step of initialization.
  for (const ContainerResources& container : pod.init_containers) {
    const ResourceList step =
        RequestsOf(container, container.restart_always, pod.resize_infeasible);
    // For resources that this step does not ask for, the sidecars' part is in `starting` already.
    // So each step costs its own names only, however many sidecars a hostile pod has.
    for (const auto& [name, amount] : step) {
      const auto before = sidecars.find(name);
      const std::int64_t sum =
          before == sidecars.end() ? amount : SaturatingAdd(before->second, amount);
      std::int64_t& largest = starting[name];
      largest = std::max(largest, sum);
      if (container.restart_always) sidecars.insert_or_assign(name, sum);
    }
    if (container.restart_always) Add(running, step);
  }
  Max(running, starting);
  ApplyPodLevel(pod, running);
  Add(running, pod.overhead);
  return running;
}

bool IsExtendedResource(std::string_view name) {
  return name.find('/') != std::string_view::npos &&
         name.find("kubernetes.io/") == std::string_view::npos && !name.starts_with("requests.");
}

std::string InvalidRequest(const PodResources& pod) {
  std::string why = InvalidIn("containers", pod.containers);
  return why.empty() ? InvalidIn("initContainers", pod.init_containers) : why;
}

}  // namespace berth::kube
