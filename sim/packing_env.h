// The packing protocol (openb.h) one decision at a time, for whoever wants to train or to try a
// policy: a pod arrives, the caller says on which node it goes. `berth simulate env` speaks it over
// JSON lines, python/berth_gym in Gymnasium's conventions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/openb.h"
#include "sim/openb_experiment.h"
#include "sim/packing.h"

namespace berth::sim {

class PackingEnv {
 public:
  // Units: cores, GiB, GPUs.
  static constexpr std::array kPodFeatures{"cpu", "memory", "gpus", "gpu_share", "wants_model"};
  static constexpr std::array kNodeFeatures{"cpu_free",    "memory_free", "gpu_free", "gpus_whole",
                                            "gpu_largest", "gpus_total",  "model"};
  using PodRow = std::array<double, kPodFeatures.size()>;
  using NodeRow = std::array<double, kNodeFeatures.size()>;

  /// What makes an environment of these impossible; empty: nothing.
  static std::string Problem(const std::vector<OpenbNode>& nodes, const OpenbList& list);
  /// REQUIRES: no Problem().
  PackingEnv(std::vector<OpenbNode> nodes, OpenbList list, const config::ScoreWeights& weights);

  /// A new episode: empties the cluster, draws the arrivals. The same seed, the same episode, as
  /// `berth simulate openb` has it.
  void Reset(std::uint64_t seed);

  struct Result {
    double reward = 0;
    bool done = false;
  };
  /// Places the pod on a node; one where it does not fit, or that there is not, drops the pod. Pods
  /// that come next and fit nowhere are dropped without asking. The reward is what was lost
  /// meanwhile, negative: the growth of lost_percent(). REQUIRES: an episode that is not done.
  Result Step(std::int64_t node);

  // --- What there is to see.
  bool done() const { return done_; }
  /// The pod to be placed; null once done.
  const OpenbPod* pod() const { return done_ ? nullptr : &list_.pods[order_[next_]]; }
  PodRow PodFeatures() const;
  /// By node: whether the pod fits there. None once done.
  const std::vector<bool>& mask() const { return mask_; }
  NodeRow NodeFeatures(std::size_t node) const;
  /// No pod of the list has more of anything; no node has.
  PodRow PodMost() const;
  NodeRow NodeMost() const;
  const std::vector<OpenbNode>& nodes() const { return nodes_; }
  /// Nodes whose features the last Step changed.
  const std::vector<std::size_t>& changed() const { return changed_; }
  /// GPU models by number, from 1; 0 is a node without GPUs.
  const std::vector<std::string>& models() const { return models_; }
  /// Where Berth would place the pod, which has learned from the arrivals so far; kNoNode once
  /// done.
  cluster::NodeIndex BerthChoice();

  // --- Figures, in percent of all GPUs.
  double arrived_percent() const { return Percent(arrived_); }
  double allocated_percent() const { return Percent(cluster_->allocated_milli()); }
  /// Free, but of no use to a typical pod of the list (the measure of FGD).
  double fragment_percent() const { return Percent(fragment_); }
  /// Asked for by pods that were dropped.
  double dropped_percent() const { return Percent(dropped_); }
  double lost_percent() const { return fragment_percent() + dropped_percent(); }
  /// The figure of `berth simulate openb`; nullopt: 100 % have not arrived.
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
  std::size_t next_ = 0;  ///< Of order_.
  PackingCluster::PodId id_ = 0;
  std::vector<bool> mask_;
  std::vector<std::size_t> changed_;
  bool done_ = true;
  std::int64_t arrived_ = 0;
  std::int64_t dropped_ = 0;
  std::int64_t fragment_ = 0;
};

}  // namespace berth::sim
