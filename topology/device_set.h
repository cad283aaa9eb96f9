// The devices of one node and what is free on each, in thousandths: whole devices and shares of
// one. A plain value, cheap to copy, compare and hash.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace berth::topology {

/// Bit i: device i.
using DeviceMask = std::uint16_t;

class DeviceSet {
 public:
  static constexpr int kMost = 16;
  static constexpr int kWhole = 1000;  ///< A whole device, in thousandths.

  /// No devices. Also used for a node whose devices are only counted.
  DeviceSet() = default;
  /// `count` devices (0..kMost), all free.
  explicit DeviceSet(int count) : size_(static_cast<std::uint8_t>(std::clamp(count, 0, kMost))) {
    std::fill_n(free_.begin(), size_, std::uint16_t{kWhole});
  }
  /// `count` devices with `free` thousandths free in all: the devices of the lowest index are
  /// taken, at most one of them in part.
  static DeviceSet FromCounts(int count, std::int64_t free) {
    DeviceSet set(count);
    std::int64_t taken = std::max<std::int64_t>(0, std::int64_t{set.size_} * kWhole - free);
    for (int i = 0; i < set.size_; ++i) {
      const std::int64_t here = std::min<std::int64_t>(taken, kWhole);
      set.free_[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(kWhole - here);
      taken -= here;
    }
    return set;
  }

  int size() const { return size_; }
  /// Free thousandths of device `i`, 0..kWhole. REQUIRES: 0 <= i < size().
  int free(int i) const { return free_[static_cast<std::size_t>(i)]; }
  /// Free thousandths of all devices together.
  int total() const {
    int sum = 0;
    for (const std::uint16_t free : free_) sum += free;
    return sum;
  }
  /// Devices that are fully free.
  int WholeFree() const { return std::popcount(AtLeast(kWhole)); }
  /// Devices with at least `milli` free; empty if milli <= 0.
  DeviceMask AtLeast(int milli) const {
    unsigned mask = 0;
    for (unsigned i = 0; i < size_; ++i) {
      mask |= static_cast<unsigned>(milli > 0 && free_[i] >= milli) << i;
    }
    return static_cast<DeviceMask>(mask);
  }

  /// The `count` fully free devices of the lowest index; 0: there are fewer, or count <= 0.
  DeviceMask LowestWhole(int count) const {
    unsigned left = AtLeast(kWhole);
    unsigned mask = 0;
    for (; count > 0 && left != 0; --count) {
      mask |= left & (~left + 1U);
      left &= left - 1U;
    }
    return static_cast<DeviceMask>(count > 0 ? 0U : mask);
  }
  /// The device that `milli` fills most; among equals the lowest index. 0: it fits nowhere.
  DeviceMask Tightest(int milli) const {
    int best = -1;
    for (int i = 0; i < size_; ++i) {
      if (milli > 0 && free(i) >= milli && (best < 0 || free(i) < free(best))) best = i;
    }
    return static_cast<DeviceMask>(best < 0 ? 0U : 1U << static_cast<unsigned>(best));
  }

  /// Every different way to place a share: calls visit(alike, after) with the devices that have the
  /// same amount free, and with the set after the first of them gave `milli`. In the order of those
  /// first devices.
  template <typename Visit>
  void ForEachShare(int milli, Visit visit) const {
    for (unsigned open = AtLeast(milli); open != 0;) {
      const int free_here = free(std::countr_zero(open));
      unsigned alike = 0;
      for (unsigned rest = open; rest != 0; rest &= rest - 1U) {
        const int i = std::countr_zero(rest);
        if (free(i) == free_here) alike |= 1U << static_cast<unsigned>(i);
      }
      open &= ~alike;
      DeviceSet after = *this;
      after.Add(static_cast<DeviceMask>(alike & (~alike + 1U)), -milli);
      visit(static_cast<DeviceMask>(alike), after);
    }
  }

  /// Takes `milli` of every device in `mask`. Returns false, and changes nothing, if one has less
  /// or does not exist, or if the mask is empty.
  bool Take(DeviceMask mask, int milli) {
    if (mask == 0 || milli < 0 || (milli > 0 && (mask & ~AtLeast(milli)) != 0)) return false;
    return Add(mask, -milli);
  }
  /// Undoes Take. Returns false, and changes nothing, if a device would be more than whole.
  bool GiveBack(DeviceMask mask, int milli) {
    if (mask == 0 || milli < 0) return false;
    for (unsigned left = mask; left != 0; left &= left - 1U) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      if (i >= size_ || free_[i] + milli > kWhole) return false;
    }
    return Add(mask, milli);
  }

  /// Two sets are equal if their words and sizes are equal.
  using Words = std::array<std::int64_t, kMost * sizeof(std::uint16_t) / sizeof(std::int64_t)>;
  Words words() const {
    Words words;
    static_assert(sizeof(words) == sizeof(free_));
    std::memcpy(words.data(), free_.data(), sizeof(words));
    return words;
  }

  DeviceSet(const Words& words, int size) : size_(static_cast<std::uint8_t>(size)) {
    std::memcpy(free_.data(), words.data(), sizeof(words));
  }

  bool operator==(const DeviceSet&) const = default;

 private:
  bool Add(DeviceMask mask, int milli) {
    for (unsigned left = mask; left != 0; left &= left - 1U) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      if (i >= size_) return false;
      free_[i] = static_cast<std::uint16_t>(free_[i] + milli);
    }
    return true;
  }

  std::array<std::uint16_t, kMost> free_{};  ///< 0 beyond size_.
  std::uint8_t size_ = 0;
};

}  // namespace berth::topology
