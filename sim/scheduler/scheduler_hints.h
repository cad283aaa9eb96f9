// Which event may help which waiting pod: the QueueingHints of kube-scheduler v1.36's plugins
// (EventsToRegister and the isSchedulableAfter functions of each).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "kube/objects.h"

namespace berth::sim {

/// The plugins that refused a pod's nodes in its last attempt. Bits of a set.
enum Rejector : std::uint8_t {
  kExtender = 1U,
  kNodeUnschedulable = 2U,
  kTaintToleration = 4U,
  kNodeAffinity = 8U,
  kNodeResourcesFit = 16U,
  kVolumeBinding = 32U,
  kNeighbours = 64U,  ///< InterPodAffinity or PodTopologySpread.
};
/// Empty: the attempt itself failed and no plugin refused the pod.
using Rejectors = std::uint8_t;

/// A change in the cluster, or of a waiting pod itself.
struct ClusterEvent {
  enum class What : std::uint8_t {
    kAssignedPodAdd,
    kAssignedPodUpdate,
    kAssignedPodDelete,
    kPodUpdate,  ///< A pod that is not assigned was changed.
    kNodeAdd,
    kNodeUpdate,  ///< Something that scheduling reads was changed.
    kNodeDelete,
    kClaimAdd,  ///< Of a volume or of devices.
  };
  What what;
  std::shared_ptr<const kube::Node> before{};  ///< For kNodeUpdate.
  std::shared_ptr<const kube::Node> after{};   ///< For kNodeAdd and kNodeUpdate.
  /// Only waiting pods of at most this priority are affected.
  std::int32_t up_to_priority = std::numeric_limits<std::int32_t>::max();
};

/// Whether the event may let the pod be scheduled, which `rejectors` refused last.
bool MayHelp(const ClusterEvent& event, const kube::Pod& pod, Rejectors rejectors);

}  // namespace berth::sim
