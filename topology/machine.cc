#include "topology/machine.h"

#include <algorithm>
#include <bit>
#include <span>

namespace berth::topology {
namespace {

constexpr unsigned Bit(int device) { return 1U << static_cast<unsigned>(device); }

/// Maps a number of `popcount(mask)` bits to the devices of `mask`, the lowest bit to the lowest
/// device. Works on whole bytes, so that a walk over thousands of subsets costs two look-ups each.
class Spread {
 public:
  explicit Spread(DeviceMask mask) {
    std::array<unsigned, DeviceSet::kMost> device{};
    int count = 0;
    for (unsigned left = mask; left != 0; left &= left - 1U) {
      device[static_cast<std::size_t>(count++)] = left & (~left + 1U);
    }
    Fill(low_, std::span(device).first<8>(), std::min(count, 8));
    Fill(high_, std::span(device).last<8>(), std::max(count - 8, 0));
  }

  DeviceMask operator()(unsigned bits) const {
    return static_cast<DeviceMask>(low_[bits & 255U] | high_[bits >> 8U]);
  }

 private:
  using Table = std::array<DeviceMask, 256>;
  static void Fill(Table& table, std::span<const unsigned, 8> device, int bits) {
    table[0] = 0;
    for (unsigned i = 1; i < Bit(bits); ++i) {
      table[i] = static_cast<DeviceMask>(table[i & (i - 1U)] |
                                         device[static_cast<std::size_t>(std::countr_zero(i))]);
    }
  }

  Table low_;
  Table high_;
};

/// The next larger number with the same number of bits set (Gosper).
constexpr unsigned NextOfSameSize(unsigned bits) {
  const unsigned low = bits & (~bits + 1U);
  const unsigned ripple = bits + low;
  return ripple | (((bits ^ ripple) >> 2U) / low);
}

}  // namespace

MachineDescription Describe(int count, const PairTable& links, const DeviceTable& socket,
                            const DeviceTable& rail) {
  MachineDescription description{.count = count, .socket = {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    description.socket[i] = socket[i];
    for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j) {
      if (i == j) continue;
      description.score[i][j] = PairScore(links[i][j], rail[i] == rail[j], socket[i] == socket[j]);
    }
  }
  return description;
}

Machine::Machine(const MachineDescription& description) : description_(description) {
  const unsigned sets = Bit(count());
  links_.resize(sets);
  for (unsigned set = 1; set < sets; ++set) {
    const auto& row = description_.score[static_cast<std::size_t>(std::countr_zero(set))];
    const unsigned rest = set & (set - 1U);
    std::uint32_t sum = links_[rest];
    for (unsigned left = rest; left != 0; left &= left - 1U) {
      sum += static_cast<std::uint32_t>(row[static_cast<std::size_t>(std::countr_zero(left))]);
    }
    links_[set] = sum;
    Range& range = range_[static_cast<std::size_t>(std::popcount(set))];
    range.best = std::max(range.best, sum);
    range.worst = std::min(range.worst, sum);
  }
  // All pairs are equal if all sets of two are.
  uniform_ = count() < 2 || range_[2].best == range_[2].worst;
  for (unsigned left = all(); left != 0;) {
    unsigned socket = 0;
    const auto of = [&](unsigned device) {
      return description_.socket[static_cast<std::size_t>(std::countr_zero(device))];
    };
    for (unsigned rest = left; rest != 0; rest &= rest - 1U) {
      const unsigned device = rest & (~rest + 1U);
      if (of(device) == of(left & (~left + 1U))) socket |= device;
    }
    sockets_.push_back(static_cast<DeviceMask>(socket));
    left &= ~socket;
  }
}

DeviceMask Machine::Choose(DeviceMask free, int wanted) const {
  free &= all();
  const int have = std::popcount(free);
  if (wanted < 1 || wanted > have) return 0;
  if (wanted == have) return free;
  const Spread spread(free);
  if (uniform_) return spread(Bit(wanted) - 1U);
  DeviceMask best = 0;
  std::uint32_t most = 0;
  for (unsigned bits = Bit(wanted) - 1U; bits < Bit(have); bits = NextOfSameSize(bits)) {
    const DeviceMask set = spread(bits);
    const std::uint32_t value = kOwnLinks * Links(set) + Links(static_cast<DeviceMask>(free ^ set));
    if (best != 0 && value <= most) continue;
    best = set;
    most = value;
  }
  return best;
}

int Machine::Loss(DeviceMask set) const {
  set &= all();
  const Range& range = range_[static_cast<std::size_t>(std::popcount(set))];
  if (set == 0 || range.best == range.worst) return 0;
  return static_cast<int>(std::uint64_t{range.best - Links(set)} * 1000U /
                          (range.best - range.worst));
}

int Machine::PartSockets(DeviceMask set) const {
  return static_cast<int>(std::ranges::count_if(
      sockets_, [set](DeviceMask socket) { return (socket & set) != 0 && (socket & ~set) != 0; }));
}

}  // namespace berth::topology
