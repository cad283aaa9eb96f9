// The packing protocol (openb.h) one decision at a time, to train or try a policy: a pod arrives,
// and the caller says on which node it goes. `berth simulate env` offers it over JSON lines,
// sim/gym/python/berth_gym in Gymnasium's conventions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/experiments/openb.h"
#include "sim/experiments/openb_experiment.h"
#include "sim/experiments/packing.h"

namespace berth::sim {

/// One environment; each episode begins with a reset.
class PackingEnv {
 public:
  // Units: cores, GiB, GPUs.
  static constexpr std::array kPodFeatures{"cpu", "memory", "gpus", "gpu_share", "wants_model"};
  static constexpr std::array kNodeFeatures{"cpu_free",    "memory_free", "gpu_free", "gpus_whole",
                                            "gpu_largest", "gpus_total",  "model"};
  using PodRow = std::array<double, kPodFeatures.size()>;
  using NodeRow = std::array<double, kNodeFeatures.size()>;

  /// Why an environment cannot be made of these; empty: it can.
  static std::string Problem(const std::vector<OpenbNode>& nodes, const OpenbList& list);
  /// REQUIRES: no Problem().
  PackingEnv(std::vector<OpenbNode> nodes, OpenbList list, const config::ScoreWeights& weights);

  /// A new episode: empties the cluster, draws the arrivals. The same seed gives the same episode,
  /// as in `berth simulate openb`.
  void Reset(std::uint64_t seed);

  struct Result {
    double reward = 0;
    bool done = false;
  };
  /// Places the pod on a node. If it does not fit there, or there is no such node, the pod is
  /// dropped. Following pods that fit nowhere are dropped without asking. The reward is minus the
  /// growth of lost_percent() during the step. REQUIRES: an episode that is not done.
  Result Step(std::int64_t node);

  // --- Observations.
  bool done() const { return done_; }
  /// The pod to be placed; null once done.
  const OpenbPod* pod() const { return done_ ? nullptr : &list_.pods[order_[next_]]; }
  PodRow PodFeatures() const;
  /// By node: whether the pod fits there. Empty once done.
  const std::vector<bool>& mask() const { return mask_; }
  NodeRow NodeFeatures(std::size_t node) const;
  /// The maximum of each feature over all pods of the list, and over all nodes.
  PodRow PodMost() const;
  NodeRow NodeMost() const;
  const std::vector<OpenbNode>& nodes() const { return nodes_; }
  /// Nodes whose features the last Step changed.
  const std::vector<std::size_t>& changed() const { return changed_; }
  /// GPU models by number, from 1; 0 is a node without GPUs.
  const std::vector<std::string>& models() const { return models_; }
  /// Where Berth would place the pod, given the arrivals so far from which it has learned; kNoNode
  /// once done.
  cluster::NodeIndex BerthChoice();

  // --- Figures, in percent of all GPUs.
  double arrived_percent() const { return Percent(arrived_); }
  double allocated_percent() const { return Percent(cluster_->allocated_milli()); }
  /// Free, but not usable by a typical pod of the list (the measure of FGD).
  double fragment_percent() const { return Percent(fragment_); }
  /// Requests of pods that were dropped.
  double dropped_percent() const { return Percent(dropped_); }
  double lost_percent() const { return fragment_percent() + dropped_percent(); }
  /// The figure of `berth simulate openb`; nullopt: fewer than 100 % have arrived.
  std::optional<double> UnallocatedPercent() const { return curve_.UnallocatedAt(100); }

 private:
  void Submit();
  void Arrived(bool placed);
  void GoToNext();
  PodRow RowOf(const OpenbPod& pod) const;
  double Percent(std::int64_t milli) const {
    return 100.0 * static_cast<double>(milli) / static_cast<double>(capacity_);
  }

  const std::vector<OpenbNode> nodes_;
  const OpenbList list_;
  const config::ScoreWeights weights_;
  const std::int64_t capacity_;
  std::vector<std::string> models_;

  std::optional<PackingCluster> cluster_;
  LoadCurve curve_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;  ///< Index into `order_`.
  PackingCluster::PodId id_ = 0;
  std::vector<bool> mask_;
  std::vector<std::size_t> changed_;
  bool done_ = true;
  std::int64_t arrived_ = 0;
  std::int64_t dropped_ = 0;
  std::int64_t fragment_ = 0;
};

}  // namespace berth::sim
