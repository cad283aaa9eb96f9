// Exponential decay in integers, so that the same inputs give the same result on every machine.
#pragma once

#include <cstdint>

namespace berth::cluster {

/// `value` * 2^(-elapsed / half_life), rounded towards zero; off by less than one part in 2^25 of
/// `value`, and by less than 1. With a `half_life` of 0 nothing is left.
/// REQUIRES: elapsed >= 0, half_life >= 0; both in the same unit.
std::int64_t Decayed(std::int64_t value, std::int64_t elapsed, std::int64_t half_life);

}  // namespace berth::cluster
