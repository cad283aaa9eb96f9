// A cluster under one policy at fidelity `engine`: decisions by the ledger and the placement code
// of the service, without a scheduler, a queue or a clock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cluster/store.h"
#include "policy/placement.h"
#include "sim/experiments/traces.h"

namespace berth::sim {

/// Names of the policies that can place pods, as on the command line: the six published ones and
/// `Berth`.
const std::vector<std::string_view>& PackingPolicies();
/// kube-scheduler's own scoring (stock_scorer.h): `LeastAllocated` (the default profile) and
/// `MostAllocated`.
const std::vector<std::string_view>& StockPolicies();

/// Who places the pods of a cluster.
struct PackingOptions {
  std::string policy = "Berth";  ///< One of PackingPolicies() or StockPolicies().
  /// The policy for the pods without GPUs, one of StockPolicies(). Empty: `policy`.
  std::string cpu_policy{};
  /// Determines the one order of the nodes that breaks ties (and is Berth's `rank`), and the random
  /// numbers of the policies that break ties at random.
  std::uint64_t seed = 0;
  config::ScoreWeights weights{};
};

/// A cluster on which one policy places pods.
class PackingCluster {
 public:
  using PodId = std::uint64_t;

  /// `typical`: the pods that make up the mix of FGD and of Fragment(); each counts once.
  PackingCluster(const std::vector<OpenbNode>& nodes, const std::vector<OpenbPod>& typical,
                 const PackingOptions& options);

  /// A pod arrives; it holds nothing yet.
  PodId Submit(const OpenbPod& pod);
  /// Places it. False: it fits nowhere now.
  bool TryPlace(PodId id) { return TryPlace(std::span(&id, 1), {}); }
  /// The same for a gang: all of them or none, inside one domain of the level `topology` if that is
  /// not empty.
  bool TryPlace(std::span<const PodId> ids, const std::string& topology);
  /// Places it on that node only.
  bool PlaceOn(PodId id, cluster::NodeIndex node);
  /// Where the policy would place it now; kNoNode: nowhere.
  cluster::NodeIndex Choice(PodId id);
  /// By node: whether it fits there now.
  std::vector<bool> Feasible(PodId id) const;
  /// Nodes have the same indices as in the list.
  const cluster::Store& store() const { return *store_; }
  /// Removes the pod and frees what it held.
  void Remove(PodId id);
  /// Whether it fits on some node of the empty cluster.
  bool FitsEmpty(PodId id) const;

  std::int64_t allocated_milli() const { return allocated_milli_; }
  /// The measure of Weng et al. with the mix of `typical`: GPU thousandths that a typical pod
  /// cannot use.
  std::int64_t FragmentMilli();

 private:
  struct Waiting {
    const cluster::PodInfo* info = nullptr;
    std::int64_t milli = 0;
    bool placed = false;
  };

  policy::PlacementRequest RequestFor(std::span<const PodId> ids) const;
  policy::Placement Find(const policy::PlacementRequest& request);
  void Charge(Waiting& pod, const policy::Placed& placed);
  std::shared_ptr<const kube::PodSpec> SpecOf(const OpenbPod& pod);
  bool ByStock(const cluster::PodShape& shape) const { return cpu_scorer_ && !shape.asks_device; }

  std::unique_ptr<cluster::Store> store_;
  std::unique_ptr<policy::Scorer> scorer_;
  std::unique_ptr<policy::Scorer> cpu_scorer_;
  std::vector<policy::WorkloadMix::Entry> typical_;
  std::unique_ptr<policy::WorkloadMix> measure_;  ///< `typical_`, for FragmentMilli.
  bool learns_ = false;
  std::uint64_t seed_ = 0;
  bool ties_at_random_ = false;
  std::map<std::string, std::shared_ptr<const kube::PodSpec>> specs_;
  std::unordered_map<PodId, Waiting> pods_;
  /// When a shape was found to fit nowhere. It is not tried again until room is freed.
  std::unordered_map<const cluster::PodShape*, std::uint64_t> refused_at_;
  PodId next_ = 1;
  std::int64_t allocated_milli_ = 0;
};

/// Reads a node file. A node with more GPUs than the ledger tracks individually (16) is an error:
/// no share would ever fit on it.
Traced<OpenbNode> ReadPackingNodes(const std::string& path);

}  // namespace berth::sim
