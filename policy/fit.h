// Whether a pod may run on a node: what kube-scheduler's own filters will decide, as far as a
// planner can know it (docs/architecture.md). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/overlay.h"

namespace berth::policy {

/// Checks node name, selectors, required node affinity, taints and cordon. Does not look at free
/// room.
bool FitsNode(const kube::PodSpec& spec, const cluster::NodeInfo& node);

/// How many pods of this shape fit into the node's free room, at most `most`. A whole-node shape
/// needs every device of the node to be free.
int Capacity(const cluster::PodShape& shape, const Overlay& overlay, cluster::NodeIndex node,
             int most);

/// What Capacity looks at: all resources, only devices, or all resources as if the node were empty.
enum class Looking : std::uint8_t { kAtAll, kAtDevicesOnly, kAtEmptyNode };
int Capacity(const cluster::PodShape& shape, const Overlay& overlay, cluster::NodeIndex node,
             int most, Looking looking);

/// How many pods of this shape fit on these devices. REQUIRES: they are of the kind that the shape
/// asks for.
std::int64_t DeviceCapacity(const cluster::PodShape& shape, const topology::DeviceSet& devices);

/// Whether the pod's host ports are free on the node.
bool HostPortsFree(const cluster::PodInfo& pod, const Overlay& overlay, cluster::NodeIndex node);

/// Remembers FitsNode per node for a pod's node constraints (selectors, affinity, tolerations):
/// pods with equal constraints share one row. A cache that the caller owns, not state of a policy.
class FitCache {
 public:
  static constexpr std::size_t kMaxSpecs = 1024;

  explicit FitCache(const cluster::Store& store) : store_(&store) {}

  bool Fits(const cluster::PodShape& shape, const cluster::NodeInfo& node) {
    return Row(shape)[static_cast<std::size_t>(node.index)] != 0;
  }

  /// By node: whether pods of this shape may run there. Valid until the store changes or Trim is
  /// called.
  std::span<const std::uint8_t> Row(const cluster::PodShape& shape);

  /// Forgets everything when more than kMaxSpecs specs are held.
  void Trim();

 private:
  using Spec = std::shared_ptr<const kube::PodSpec>;
  struct SameNodes {  ///< Orders specs by their node constraints.
    bool operator()(const Spec& a, const Spec& b) const;
  };
  struct FitRow {
    std::vector<std::uint8_t> fits;
    cluster::ChangeLog::Position seen = 0;
  };
  struct Known {
    Spec spec;  ///< Keeps the key's address from being reused.
    FitRow* row;
  };

  void CatchUp(const kube::PodSpec& spec, FitRow& row) const;

  const cluster::Store* store_;
  std::map<Spec, FitRow, SameNodes> rows_;
  std::unordered_map<const kube::PodSpec*, Known> known_;
};

}  // namespace berth::policy
