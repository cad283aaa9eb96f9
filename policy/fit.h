// Whether a pod may run on a node: what kube-scheduler's own filters will say, as far as a planner
// can know it (DESIGN 3.2). Pure.
#pragma once

#include <cstdint>
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

/// Host ports are free on the node.
bool HostPortsFree(const cluster::PodInfo& pod, const Overlay& overlay, cluster::NodeIndex node);

/// Remembers FitsNode per pod spec and node object; a cache the caller owns, not state of a policy.
class FitCache {
 public:
  /// Forgets everything when more than this many specs are held.
  static constexpr std::size_t kMaxSpecs = 256;

  bool Fits(const cluster::PodShape& shape, const cluster::NodeInfo& node);

 private:
  struct Entry {
    std::uint64_t object_generation = 0;
    bool fits = false;
  };
  struct Row {
    std::shared_ptr<const kube::PodSpec> spec;  ///< Keeps the key's address from being re-used.
    std::vector<Entry> entries;                 ///< By node.
  };
  std::unordered_map<const kube::PodSpec*, Row> rows_;
};

}  // namespace berth::policy
