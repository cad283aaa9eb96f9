// The workload mix: what pods typically ask for, and the value of each device model, learned from
// the most recent arrivals. Fragmentation is measured against it. Integers only, so that every host
// computes the same.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/fit.h"

namespace berth::policy {

inline constexpr std::int64_t kMillion = 1'000'000;

/// a * b / c without overflow, for the values that occur in scores.
inline std::int64_t MulDiv(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product / c;
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(a) * b / c);
}

/// The amount of `id` that a shape takes.
std::int64_t DemandOf(const cluster::PodShape& shape, cluster::ResourceId id);

/// Whether pods are of one kind for the mix: equal in CPU, devices and node constraints. Orders the
/// larger numbers first.
struct KindOrder {
  using Shape = std::shared_ptr<const cluster::PodShape>;
  bool operator()(const Shape& a, const Shape& b) const;
};

/// The mix as one node sees it: the typical pods that may run there, by what they need of each
/// device. Many nodes share one.
struct NodeMix {
  struct Pod {
    std::int64_t cpu = 0;         ///< Thousandths of a core.
    int milli = 0;                ///< Of each device, 1..1000.
    int devices = 0;              ///< How many of them.
    std::int64_t millionths = 0;  ///< Popularity.
  };
  std::vector<Pod> pods;      ///< By rising `milli`.
  std::int64_t unusable = 0;  ///< Popularity of pods that may not run there or use no device.
  std::int64_t price = 0;     ///< Of the node's device model, millionths; see WorkloadMix::Price.
};

/// F of Weng et al. (USENIX ATC 2023), section 3: free device thousandths that a typical pod cannot
/// use, times popularity, summed. In millionths of a thousandth. `free` is what is free in all; an
/// empty `devices` means whole devices that are only counted.
std::int64_t FragmentSum(const NodeMix& mix, std::int64_t cpu, std::int64_t free,
                         const topology::DeviceSet& devices);

/// FragmentSum in thousandths of a device, rounded down.
inline std::int64_t Fragment(const NodeMix& mix, std::int64_t cpu, std::int64_t free,
                             const topology::DeviceSet& devices) {
  return FragmentSum(mix, cpu, free, devices) / kMillion;
}

class WorkloadMix {
 public:
  static constexpr std::size_t kWindow = 1000;   ///< Arrivals remembered.
  static constexpr std::size_t kRefresh = 250;   ///< Arrivals between two recomputations.
  static constexpr std::size_t kMaxKinds = 128;  ///< Most popular kinds kept.
  static constexpr std::size_t kMinSample = 32;  ///< With fewer arrivals the built-in mix is used.

  struct Entry {
    std::shared_ptr<const cluster::PodShape> shape;  ///< One pod of the kind; null: built-in.
    std::int64_t cpu = 0;                            ///< Thousandths of a core.
    std::int64_t devices = 0;                        ///< Thousandths in all.
    std::int64_t millionths = 0;                     ///< Popularity; sums to about one million.
  };

  WorkloadMix();

  /// One more pod arrived.
  void Observe(std::shared_ptr<const cluster::PodShape> shape);
  /// Makes this the mix from now on, whatever arrives; no device model has a price.
  void Fix(std::vector<Entry> entries);
  /// Recomputes entries and prices if enough pods have arrived. Call when a pod arrives, so that
  /// the mix depends on arrivals alone, and not on when it is read.
  void Advance(const cluster::Store& store, FitCache& fit);
  /// Also applies changes of nodes. Call after the store changed, before anything below.
  void Refresh(const cluster::Store& store, FitCache& fit);

  const std::vector<Entry>& entries() const { return entries_; }
  /// Mean thousandths of a core that come with one device.
  std::int64_t cpu_per_device() const { return cpu_per_device_; }
  /// In millionths; 0 for a model that no pod is tied to.
  std::int64_t Price(const cluster::NodeInfo& node) const;
  /// How fast the cluster is filling up: by how many pods with room it grew per arrival, smoothed
  /// over some thousand arrivals, in thousandths. 1000: no pod leaves (also the initial value); 0:
  /// as many leave as come.
  std::int64_t growth() const { return growth_; }
  /// The number of mixes so far.
  std::uint64_t generation() const { return generation_; }

  /// Which of the mixes a node sees. Class numbers stay valid until class_generation() changes.
  std::uint32_t ClassOf(cluster::NodeIndex node) const {
    return class_of_[static_cast<std::size_t>(node)];
  }
  const NodeMix& Class(std::uint32_t id) const { return classes_[id]; }
  std::uint64_t class_generation() const { return class_generation_; }
  /// Advances when a node's class may have changed.
  cluster::ChangeLog::Position seen() const { return seen_; }

 private:
  void UseBuiltIn();
  void RecomputeEntries();
  void RecomputePrices(const cluster::Store& store, FitCache& fit);
  void RecomputeGrowth(const cluster::Store& store);
  void Classify(const cluster::Store& store, FitCache& fit);
  std::uint32_t Classify(const cluster::NodeInfo& node,
                         std::span<const std::span<const std::uint8_t>> rows);

  std::deque<std::shared_ptr<const cluster::PodShape>> window_;
  std::size_t fresh_ = 0;
  bool fixed_ = false;
  std::vector<Entry> entries_;
  std::int64_t cpu_per_device_ = 0;
  std::map<std::string, std::int64_t> prices_;
  std::int64_t growth_ = cluster::kMilli;
  std::optional<std::int64_t> charged_;  ///< Pods with room at the last recomputation.
  std::uint64_t generation_ = 1;

  std::vector<std::uint32_t> class_of_;  ///< By node.
  std::vector<NodeMix> classes_;
  /// By price, then whether each entry's pods may run there.
  std::map<std::pair<std::int64_t, std::vector<bool>>, std::uint32_t> class_ids_;
  std::uint64_t class_generation_ = 0;
  std::uint64_t classified_ = 0;  ///< The mix generation that the classes belong to.
  cluster::ChangeLog::Position seen_ = 0;
};

/// The device model of a node, as GPU feature discovery labels it; empty: unknown.
const std::string& DeviceModel(const cluster::NodeInfo& node);

}  // namespace berth::policy
