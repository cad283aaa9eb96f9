// The devices of one machine model and the links between them: which sets of devices communicate
// well, and which of the free ones to hand out. Pure and immutable; nodes of one model share one
// Machine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "topology/device_set.h"

namespace berth::topology {

/// A number for every pair of devices.
using PairTable = std::array<std::array<std::int32_t, DeviceSet::kMost>, DeviceSet::kMost>;
/// A number for every device.
using DeviceTable = std::array<std::uint8_t, DeviceSet::kMost>;

/// The description of a machine. A plain value; entries of devices that do not exist are 0.
struct MachineDescription {
  int count = 0;         ///< Devices, 1..DeviceSet::kMost.
  DeviceTable socket{};  ///< The NUMA node of each device.
  PairTable score{};     ///< Link quality of two devices, 0..kMaxPairScore; symmetric, 0 to itself.
  bool operator==(const MachineDescription&) const = default;
};

inline constexpr std::int32_t kMaxPairScore = 100'000;
inline constexpr int kMaxLinks = 64;  ///< NVLinks between two devices; an H100 has 18 in all.

/// go-gpuallocator's score of a pair: 100 for every NVLink, plus 50 behind one PCIe switch, 30 on
/// one socket, 10 across sockets.
constexpr std::int32_t PairScore(int links, bool same_switch, bool same_socket) {
  const int close = same_switch ? 50 : 10;
  return 100 * links + (same_socket && !same_switch ? 30 : close);
}

/// Builds a description from its parts: NVLinks by pair, and for every device the socket and the
/// rail (the NIC next to it, behind the same PCIe switch). REQUIRES: links are symmetric.
MachineDescription Describe(int count, const PairTable& links, const DeviceTable& socket,
                            const DeviceTable& rail);

class Machine {
 public:
  /// Weight of a pod's own links against the links that it leaves for the next pods. Measured over
  /// random arrivals (docs/gpu-topology.md): 4 is the best value, or next to it, on every known
  /// machine.
  static constexpr std::uint32_t kOwnLinks = 4;

  /// REQUIRES: the description keeps its bounds and is symmetric. Costs 2^count steps, and 4 bytes
  /// for each.
  explicit Machine(const MachineDescription& description);

  const MachineDescription& description() const { return description_; }
  int count() const { return description_.count; }
  /// All devices.
  DeviceMask all() const {
    return static_cast<DeviceMask>((1U << static_cast<unsigned>(count())) - 1U);
  }
  /// Whether all choices of devices are equally good.
  bool uniform() const { return uniform_; }

  /// The sum of the scores of all pairs in `set`.
  std::uint32_t Links(DeviceMask set) const { return links_[set]; }

  /// Which `wanted` of the `free` devices to hand out: the set S for which kOwnLinks * Links(S) +
  /// Links(free without S) is largest; among equals, the set that is smallest as a number. So pods
  /// get devices with good links, and leave such devices for others: a single device is the one
  /// with the worst links to the rest. 0: wanted < 1, or more than are free.
  DeviceMask Choose(DeviceMask free, int wanted) const;

  /// How much worse the links inside `set` are than those of the best set of its size, as
  /// thousandths of the difference between the best and the worst: 0..1000.
  int Loss(DeviceMask set) const;

  /// Sockets with some of their devices in `set`, and some not.
  int PartSockets(DeviceMask set) const;

 private:
  MachineDescription description_;
  bool uniform_ = true;
  std::vector<std::uint32_t> links_;  ///< By set.
  std::vector<DeviceMask> sockets_;   ///< The devices of each socket.
  struct Range {
    std::uint32_t best = 0;
    std::uint32_t worst = UINT32_MAX;
  };
  std::array<Range, DeviceSet::kMost + 1> range_{};  ///< The range of Links, by set size.
};

}  // namespace berth::topology
