// Lists as they are given on the command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::sim {

/// The pieces between separators: one more than there are of those.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

/// `A-B`, `A,B,C` or a mix, each number once and in the order given; nullopt: it is none of them,
/// or names more than `most` seeds.
std::optional<std::vector<std::uint64_t>> ParseSeeds(std::string_view text,
                                                     std::size_t most = 10'000);

}  // namespace berth::sim
