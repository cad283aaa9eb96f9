// Places a whole workload, or says why it cannot be placed. Pure: reads the overlay's store and
// writes only its own copy of the overlay (and the scorer's caches).
//
// Topology first, then nodes: candidate domains from the preferred level outwards, never beyond the
// required one, tightest first. Inside a domain it takes the best-scored node, one member at a
// time. The search is complete for members of one shape without neighbour constraints. Otherwise it
// tries a bounded number of orders and reports SearchExhausted, never a false Fragmented.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/node_groups.h"
#include "policy/score.h"

namespace berth::policy {

/// A pair to avoid for a while: kube-scheduler or the kubelet refused that shape on that node.
struct Avoid {
  std::shared_ptr<const cluster::PodShape> shape;  ///< Held, so that its address is not reused.
  cluster::NodeIndex node = cluster::kNoNode;
  cluster::TimePoint until = 0;
};

struct PlacementRequest {
  std::vector<const cluster::PodInfo*> pods;  ///< In rank order.
  int min = 1;                                ///< Fewer than this is not a placement.
  std::string topology_required{};            ///< Level name, node label key, or empty.
  std::string topology_preferred{};
  std::span<const Avoid> avoid{};  ///< Pairs not to try.
  /// For the pods that ask for devices, only nodes of this flavor, or of none (kNoFlavor); absent:
  /// any.
  std::optional<cluster::FlavorId> flavor{};
  /// Another limit on the nodes, by node; null: none.
  std::function<bool(cluster::NodeIndex)> allowed{};
  /// Another limit on the nodes, by pod; asked for one pod of each shape. Null: none.
  std::function<bool(const cluster::PodInfo&, cluster::NodeIndex)> payable{};
  /// Not null: the one of `pods` that may only go where `asking_allowed` says.
  const cluster::PodInfo* asking = nullptr;
  std::function<bool(cluster::NodeIndex)> asking_allowed{};
  /// Not 0: ties between equal scores, and between equally good devices, are broken by a hash of
  /// this and not by the one node order.
  std::uint64_t tie_seed = 0;
  /// Whether to find out why it could not be placed, which costs more than the search.
  bool explain = true;
};

struct Placed {
  const cluster::PodInfo* pod = nullptr;
  cluster::NodeIndex node = cluster::kNoNode;
  topology::DeviceMask devices = 0;  ///< The device that a share goes to; else 0.
};

struct Placement {
  std::vector<Placed> placed{};  ///< Empty: not placed, see verdict. In rank order.
  cluster::Verdict verdict{};    ///< kNone when placed.

  bool ok() const { return !placed.empty(); }
};

Placement Place(const PlacementRequest& request, const Overlay& base, Scorer& scorer);

}  // namespace berth::policy
