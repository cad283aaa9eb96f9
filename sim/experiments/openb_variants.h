// Arrivals of the experiment `openb`: the published protocol and further variants.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/experiments/openb.h"

namespace berth::sim {

/// `protocol`    as published (openb.h).
/// `time-order`  pods in the order in which the trace created them, then the drawn ones likewise.
/// `departures`  Poisson arrivals of pods drawn from those that ran; each leaves after its own
///               duration, at most 6 hours; the offered load is 120 % of the GPUs.
/// `drift`       the protocol's pods, but shares come early and whole GPUs late: the mix drifts.
/// `gangs`       a tenth of the protocol's whole-GPU arrivals become gangs of 2 to 8 equal members,
///               placed all or none.
/// `racks`       the same, in racks of 16 nodes, and a gang must lie inside one rack.
const std::vector<std::string_view>& OpenbVariants();

/// A pod or a gang that arrives.
struct Arrival {
  std::size_t pod = 0;                       ///< Index into the list.
  int members = 1;                           ///< Of the gang.
  std::int64_t at_ms = 0;                    ///< Only in variants in which pods leave.
  std::optional<std::int64_t> service_ms{};  ///< Absent: the pod never leaves.
};

/// The error names what the list lacks.
std::expected<std::vector<Arrival>, std::string> Arrivals(std::string_view variant,
                                                          const std::vector<OpenbPod>& pods,
                                                          std::int64_t capacity_milli,
                                                          std::uint64_t seed);

/// Assigns the nodes, in their order, to racks of `size`.
std::vector<OpenbNode> InRacks(std::vector<OpenbNode> nodes, std::size_t size);

}  // namespace berth::sim
