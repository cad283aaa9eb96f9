// The resources that a pod takes from its node, as kube-scheduler 1.36 computes them
// (component-helpers resource.PodRequests, with the feature gates at their 1.36 defaults).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/objects.h"

namespace berth::kube {

/// The resources that the kubelet reports for a running pod or container.
struct StatusResources {
  ResourceList actuated;   ///< status.…resources.requests: what the runtime enforces.
  ResourceList allocated;  ///< status.…allocatedResources: what the kubelet admitted.
};

struct ContainerResources {
  ResourceList requests;
  ResourceList limits;
  /// Only if the status has a `resources` field for this container; without it upstream uses only
  /// the spec.
  std::optional<StatusResources> status;
  bool restart_always = false;  ///< An init container that is a sidecar.
};

/// The parts of a pod that its requests depend on.
struct PodResources {
  std::vector<ContainerResources> containers;
  std::vector<ContainerResources> init_containers;
  ResourceList overhead;
  ResourceList pod_requests;  ///< Pod-level spec.resources.requests.
  std::optional<StatusResources> pod_status;
  bool resize_infeasible = false;  ///< Condition PodResizePending with reason Infeasible.
};

/// Effective requests:
///   per container  max(spec, actuated, allocated), without spec if the resize is infeasible;
///   pod            max(sum of containers and sidecars,
///                      for every init container: itself + the sidecars before it);
///   pod level      replaces cpu, memory and hugepages by spec.resources.requests;
///   overhead       is added.
/// A limit without a request counts as the request, which the API server has normally filled in.
/// Amounts are rounded up to the canonical unit per container, where upstream rounds the sum: the
/// result is never less than upstream's, and the same for everything the API server stores except
/// byte fractions.
ResourceList EffectiveRequests(const PodResources& pod);

/// Whether the name is that of an extended resource, such as a device: `vendor.com/name`, outside
/// kubernetes.io.
bool IsExtendedResource(std::string_view name);

/// Pod::invalid_request: empty, or the first extended resource requested in a fraction or with a
/// limit that differs from the request, e.g. "containers[0]: nvidia.com/gpu: request 1 is not limit
/// 2".
std::string InvalidRequest(const PodResources& pod);

}  // namespace berth::kube
