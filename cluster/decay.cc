#include "cluster/decay.h"

#include <array>

namespace berth::cluster {
namespace {

/// A fraction is a number of parts in 2^32.
constexpr int kBits = 32;

/// The square root of a fraction: the integer root of what it is times 2^32.
constexpr std::uint64_t RootOf(std::uint64_t fraction) {
  const std::uint64_t square = fraction << kBits;
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << (kBits - 1); bit != 0; bit >>= 1U) {
    if ((root | bit) <= square / (root | bit)) root |= bit;
  }
  return root;
}

/// 2^(-1/2), 2^(-1/4), and so on: for each binary digit of a fraction of a half-life.
constexpr auto kRoots = [] {
  std::array<std::uint64_t, kBits> roots{};
  std::uint64_t last = std::uint64_t{1} << (kBits - 1);  // 2^(-1)
  for (std::uint64_t& root : roots) root = last = RootOf(last);
  return roots;
}();

}  // namespace

std::int64_t Decayed(std::int64_t value, std::int64_t elapsed, std::int64_t half_life) {
  constexpr std::int64_t kGone = 63;  // halved so often, nothing is left of any value
  if (half_life == 0 || elapsed / half_life >= kGone) return 0;
  const auto part =
      static_cast<std::uint64_t>((static_cast<__int128>(elapsed % half_life) << kBits) / half_life);
  auto left = std::uint64_t{1} << kBits;
  for (int i = 0; i < kBits; ++i) {
    const bool digit = ((part >> (kBits - 1 - i)) & 1U) != 0;
    if (digit) left = (left * kRoots[static_cast<std::size_t>(i)]) >> kBits;
  }
  const __int128 halved = __int128{1} << (kBits + elapsed / half_life);
  return static_cast<std::int64_t>(static_cast<__int128>(value) * left / halved);
}

}  // namespace berth::cluster
