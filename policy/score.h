// How good a node is for a pod: one sum of fixed-point terms that keeps whole nodes whole
// (docs/policy.md explains each weight).
//
//   + fragmentation * (F - F')        F: free devices that a typical pod cannot use there
//   - stranding     * (S' - S)        S: free devices beyond what the node's free CPU can serve
//   - scarcity      * price * devices price: how sought-after the node's device model is
//   - oddRemainder  * (odd' - odd)    odd: 1 if 1, 3, 5 or 7 devices stay free
//   - emptyNode     * opened          opened: 1 if an untouched node is broken into
//   - rank          * rank / nodes    graded first-fit over one hashed order; also the tie-break
//
// F is the fragmentation measure of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), here
// for whole devices; the other terms follow reference measurements over its 17 pod lists.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/fit.h"

namespace berth::policy {

/// Scores are millionths: 1'000'000 is one device's worth.
using Score = std::int64_t;
inline constexpr Score kOne = 1'000'000;

/// What pods typically ask for, and what each device model is worth, learned from the most recent
/// arrivals. Integers only, so that every host computes the same.
class Law {
 public:
  static constexpr std::size_t kWindow = 1000;   ///< Arrivals remembered.
  static constexpr std::size_t kRefresh = 250;   ///< Arrivals between two recomputations.
  static constexpr std::size_t kMaxShapes = 32;  ///< Most popular shapes kept.
  static constexpr std::size_t kMinSample = 32;  ///< Below it the built-in law stands.

  struct Entry {
    std::shared_ptr<const cluster::PodShape> shape;  ///< Null: the built-in 1, 2, 4, 8.
    std::int64_t cpu = 0;                            ///< Thousandths of a core.
    std::int64_t devices = 0;                        ///< Thousandths.
    std::int64_t millionths = 0;                     ///< Popularity; sums to about one million.
  };

  Law();

  /// One more device pod arrived.
  void Observe(std::shared_ptr<const cluster::PodShape> shape);
  /// Recomputes entries and prices if enough has arrived. Call before a batch of scoring.
  void Refresh(const cluster::Store& store, FitCache& fit);

  const std::vector<Entry>& entries() const { return entries_; }
  /// Mean thousandths of a core that come with one device.
  std::int64_t cpu_per_device() const { return cpu_per_device_; }
  /// Millionths; 0 for a model that nobody is bound to.
  std::int64_t Price(const cluster::NodeInfo& node) const;
  std::uint64_t generation() const { return generation_; }

 private:
  void UseBuiltIn();
  void RecomputeEntries();
  void RecomputePrices(const cluster::Store& store, FitCache& fit);

  std::deque<std::shared_ptr<const cluster::PodShape>> window_;
  std::size_t fresh_ = 0;
  std::vector<Entry> entries_;
  std::int64_t cpu_per_device_ = 0;
  std::map<std::string, std::int64_t> prices_;
  std::uint64_t generation_ = 1;
};

/// The device model of a node, as GPU feature discovery labels it; empty: unknown.
const std::string& DeviceModel(const cluster::NodeInfo& node);

/// Free device thousandths of the node that a typical pod could not use, times popularity:
/// thousandths of a device. `cpu` and `devices` are what is free.
std::int64_t Fragment(const Law& law, const cluster::NodeInfo& node, FitCache& fit,
                      std::int64_t cpu, std::int64_t devices);

/// Says where one shape fits and how well, remembering the answer for every node that did not
/// change since. Obtain from Scorer; valid until the next call of Scorer::For.
class ShapeScores {
 public:
  ShapeScores(std::shared_ptr<const cluster::PodShape> shape, const cluster::Store& store)
      : shape_(std::move(shape)), store_(&store) {}

  /// nullopt: no room, or the node does not match. Otherwise higher is better; on equal
  /// scores the lower Store::rank wins.
  std::optional<Score> Of(const Overlay& overlay, cluster::NodeIndex node, Law& law, FitCache& fit);

 private:
  struct Entry {
    std::uint64_t node_generation = 0;
    std::uint64_t law_generation = 0;
    std::optional<Score> base;  ///< Without rank, which depends on the other nodes.
  };

  std::optional<Score> Base(const Overlay& overlay, cluster::NodeIndex node, const Law& law,
                            FitCache& fit) const;

  std::shared_ptr<const cluster::PodShape> shape_;
  const cluster::Store* store_;
  std::vector<Entry> entries_;
};

/// The law and the caches of scoring: one per engine.
class Scorer {
 public:
  static constexpr std::size_t kMaxShapes = 128;

  explicit Scorer(const cluster::Store& store) : store_(&store) {}

  Law& law() { return law_; }
  FitCache& fit() { return fit_; }
  /// Call before a batch: takes in what arrived.
  void Refresh() { law_.Refresh(*store_, fit_); }

  std::optional<Score> Of(const std::shared_ptr<const cluster::PodShape>& shape,
                          const Overlay& overlay, cluster::NodeIndex node) {
    return For(shape).Of(overlay, node, law_, fit_);
  }

  ShapeScores& For(const std::shared_ptr<const cluster::PodShape>& shape);

  /// Each weighted term of a score by name, for the decision log.
  std::map<std::string, Score> Terms(const cluster::PodShape& shape, const Overlay& overlay,
                                     cluster::NodeIndex node);

 private:
  const cluster::Store* store_;
  Law law_;
  FitCache fit_;
  std::unordered_map<const cluster::PodShape*, ShapeScores> shapes_;
};

}  // namespace berth::policy
