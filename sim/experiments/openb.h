// The packing protocol of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023): a fixed
// cluster, and pods that arrive one by one in a random order, never leave, and are dropped if they
// do not fit at once. It measures how much of the GPUs stays unallocated. docs/simulator.md lists
// our deviations from it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/experiments/traces.h"
#include "sim/random.h"

namespace berth::sim {

/// Load at which arrivals end, in percent of the cluster's GPUs.
inline constexpr int kInflationPercent = 130;

/// The GPUs of the cluster, in thousandths of a GPU.
std::int64_t CapacityMilli(const std::vector<OpenbNode>& nodes);

/// Indices into `pods` in order of arrival: sorted by name, then shuffled. If the load is below 130
/// % of `capacity_milli`, more pods are drawn uniformly with replacement until the next one would
/// exceed it (counting that pod's request on one GPU, as the published simulator does). If it is
/// above, random pods are deleted until the rest is at most 130 %.
std::vector<std::size_t> ArrivalOrder(const std::vector<OpenbPod>& pods,
                                      std::int64_t capacity_milli, std::uint64_t seed);

/// Unallocated GPU percent by arrived load.
class LoadCurve {
 public:
  static constexpr int kMaxPercent = kInflationPercent + 1;

  explicit LoadCurve(std::int64_t capacity_milli) : capacity_(capacity_milli) {}

  /// Call it after each arrival: the load that has arrived so far (placed or not), and what is
  /// allocated now.
  void Record(std::int64_t arrived_milli, std::int64_t allocated_milli);

  /// 100 minus the mean allocated percentage over the arrivals at which the arrived load rounds to
  /// `percent`; nullopt: there was none.
  std::optional<double> UnallocatedAt(int percent) const;

 private:
  struct Sum {
    std::int64_t allocated = 0;
    std::int64_t events = 0;
  };
  std::int64_t capacity_;
  std::array<Sum, kMaxPercent + 1> sums_{};
};

/// The 17 published lists.
const std::vector<std::string_view>& PublishedLists();
/// The policies with published figures, in the order of the paper.
const std::vector<std::string_view>& PublishedPolicies();
/// Published unallocated percent at 100 % arrivals, the mean of seeds 42-51; nullopt: none. Source:
/// the expected results in the artifact of the paper.
std::optional<double> PublishedUnallocated(std::string_view list, std::string_view policy);

}  // namespace berth::sim
