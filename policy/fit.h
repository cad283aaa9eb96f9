// Whether a pod may run on a node: what kube-scheduler's own filters will say, as far as a planner
// can know it (DESIGN 3.2). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/overlay.h"

namespace berth::policy {

/// Node name, selectors, required node affinity, taints, cordon. Does not look at free room.
bool FitsNode(const kube::PodSpec& spec, const cluster::NodeInfo& node);

/// How many pods of this shape the node's free room takes, at most `most`. A whole-node shape needs
/// every device of the node free.
int Capacity(const cluster::PodShape& shape, const Overlay& overlay, cluster::NodeIndex node,
             int most);

/// As Capacity, looking only at the resources for which `want(id)` holds.
enum class Looking : std::uint8_t { kAtAll, kAtDevicesOnly, kAtEmptyNode };
int Capacity(const cluster::PodShape& shape, const Overlay& overlay, cluster::NodeIndex node,
             int most, Looking looking);

/// How many pods of this shape these devices take. REQUIRES: they are what the shape asks for.
std::int64_t DeviceCapacity(const cluster::PodShape& shape, const topology::DeviceSet& devices);

/// Host ports are free on the node.
bool HostPortsFree(const cluster::PodInfo& pod, const Overlay& overlay, cluster::NodeIndex node);

/// Remembers FitsNode per node for what a pod says of nodes (selectors, affinity, tolerations):
/// pods that say the same share one row. A cache the caller owns, not state of a policy.
class FitCache {
 public:
  static constexpr std::size_t kMaxSpecs = 1024;

  explicit FitCache(const cluster::Store& store) : store_(&store) {}

  bool Fits(const cluster::PodShape& shape, const cluster::NodeInfo& node) {
    return Row(shape)[static_cast<std::size_t>(node.index)] != 0;
  }

  /// By node: whether pods of this shape may run there. Valid until the store changes, or Trim.
  std::span<const std::uint8_t> Row(const cluster::PodShape& shape);

  /// Forgets everything when more than kMaxSpecs specs are held.
  void Trim();

 private:
  using Spec = std::shared_ptr<const kube::PodSpec>;
  struct SameNodes {  ///< Orders specs by what they say of nodes.
    bool operator()(const Spec& a, const Spec& b) const;
  };
  struct FitRow {
    std::vector<std::uint8_t> fits;
    cluster::ChangeLog::Position seen = 0;
  };
  struct Known {
    Spec spec;  ///< Keeps the key's address from being re-used.
    FitRow* row;
  };

  void CatchUp(const kube::PodSpec& spec, FitRow& row) const;

  const cluster::Store* store_;
  std::map<Spec, FitRow, SameNodes> rows_;
  std::unordered_map<const kube::PodSpec*, Known> known_;
};

}  // namespace berth::policy
