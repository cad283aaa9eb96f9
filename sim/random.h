// The only generator of pseudo-random numbers of the simulator: the same seed gives the same
// numbers on every machine and in every release. xoshiro256** 1.0 (Blackman and Vigna, 2018), with
// its state filled by SplitMix64 from the seed, as its authors advise.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace berth::sim {

/// SplitMix64's step: advances `state`, returns 64 well-mixed bits.
inline std::uint64_t SplitMix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

/// One stream of random numbers.
class Random {
 public:
  /// `stream` separates the uses of one seed, so that drawing more numbers for one use does not
  /// change any other.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t x = seed + stream * 0xd1342543de82ef95U;
    for (std::uint64_t& word : state_) word = SplitMix64(x);
  }

  std::uint64_t Next() {
    const std::uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

  /// Uniform in 0..bound-1 without bias (Lemire 2019). REQUIRES: bound > 0.
  std::uint64_t Below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>(Next()) * bound;
    if (auto low = static_cast<std::uint64_t>(product); low < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (low < threshold) {
        product = static_cast<Wide>(Next()) * bound;
        low = static_cast<std::uint64_t>(product);
      }
    }
    return static_cast<std::uint64_t>(product >> 64U);
  }

  /// Uniform in [low, high], both included. REQUIRES: low <= high. The bias of taking a remainder
  /// is below 2^-40 for the ranges used here.
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    const auto width = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(width == 0 ? Next() : Next() % width);
  }

  /// True in `percent` of 100 calls.
  bool Percent(int percent) { return Between(0, 99) < percent; }

  /// Uniform in [0, 1), 53 bits.
  double Unit() { return static_cast<double>(Next() >> 11U) * 0x1.0p-53; }

  /// Exponentially distributed with this mean. Use it only for arrival times, never for a decision.
  double Exponential(double mean) { return -mean * std::log1p(-Unit()); }

  /// Fisher-Yates, starting at the last place.
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  static std::uint64_t Rotate(std::uint64_t x, unsigned by) {
    return (x << by) | (x >> (64U - by));
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace berth::sim
