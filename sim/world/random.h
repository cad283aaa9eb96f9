// The only source of chance in the simulated world: xoshiro256** (Blackman and Vigna, 2018), its
// state filled by SplitMix64. Own code, because what <random>'s distributions draw differs between
// standard libraries, and a run must repeat bit by bit everywhere.
#pragma once

#include <array>
#include <cstdint>

namespace berth::sim {

/// SplitMix64's step: advances `state`, returns 64 well mixed bits.
constexpr std::uint64_t SplitMix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

class Random {
 public:
  /// Generators of one seed and different `stream`s are independent.
  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t state = seed ^ (stream * 0xd1342543de82ef95U);
    for (std::uint64_t& word : state_) word = SplitMix64(state);
  }

  constexpr std::uint64_t Next() {
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

  /// Uniform in [low, high], both included. REQUIRES: low <= high. The bias of taking a remainder
  /// is below 2^-40 for the ranges used here.
  constexpr std::int64_t Between(std::int64_t low, std::int64_t high) {
    const auto width = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(width == 0 ? Next() : Next() % width);
  }

  /// True in `percent` of 100 calls.
  constexpr bool Percent(int percent) { return Between(0, 99) < percent; }

 private:
  static constexpr std::uint64_t Rotate(std::uint64_t x, unsigned k) {
    return (x << k) | (x >> (64U - k));
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace berth::sim
