// The largest gang that could start now: a measure of fragmentation in a unit that users
// understand. Pure: depends only on the store, so that it is the same after a restart.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cluster/store.h"

namespace berth::policy {

/// A size of pods that is measured.
struct PodSize {
  std::int64_t devices = 0;  ///< Whole ones, of the policy's first kind; above 0.
  std::shared_ptr<const cluster::PodShape> shape;  ///< What such a pod asks for; never null.
};

inline constexpr int kWholeCluster = -1;  ///< Used instead of a level: all nodes.

struct LargestGang {
  int level = kWholeCluster;  ///< Index into PolicyConfiguration::levels.
  std::int64_t devices = 0;   ///< Per pod.
  std::int64_t pods = 0;
};

inline constexpr std::size_t kMaxPodSizes = 8;

/// A pod that asks for nothing but `devices`, and tolerates a taint named after them (as the
/// admission plugin ExtendedResourceToleration would add it).
std::shared_ptr<const cluster::PodShape> BarePod(const cluster::Store& store, std::int64_t devices);

/// Counts the sizes of pods, one workload after the other in the order of their keys: with many of
/// them, a part at a time.
class SizeCount {
 public:
  void Add(const cluster::Store& store, const cluster::Workload& workload);
  /// 1, 2, 4 and 8 devices, and the most frequent other sizes among the pods that were counted,
  /// waiting or running; at most kMaxPodSizes in all, by rising size. The shape of a size is the
  /// one that most workloads' first members have; a size without any pod gets a BarePod. Empty: the
  /// policy has no device that is counted whole.
  std::vector<PodSize> Sizes(const cluster::Store& store) const;

 private:
  struct Seen {
    std::shared_ptr<const cluster::PodShape> shape;
    std::int64_t pods = 0;
  };
  std::vector<Seen> order_;
  std::unordered_map<const cluster::PodShape*, std::size_t> at_;  ///< In `order_`.
};

/// For the whole cluster and then for each level, by size: how many pods of that shape can start at
/// once inside the best domain of the level. Exact: Place() finds room for a gang of that many that
/// requires the level, and for no larger one, if quota allows it and the pods have no constraints
/// on neighbours and use no host port. REQUIRES: store.Refresh().
std::vector<LargestGang> LargestGangs(const cluster::Store& store, std::span<const PodSize> sizes);

}  // namespace berth::policy
