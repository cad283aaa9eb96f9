// Parses lists that are given on the command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::sim {

/// The pieces between separators: one more than there are separators.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

/// Accepts `A-B`, `A,B,C` or a mix; returns each number once and in the order given. nullopt: the
/// text is none of them, or names more than `most` seeds.
std::optional<std::vector<std::uint64_t>> ParseSeeds(std::string_view text,
                                                     std::size_t most = 10'000);

}  // namespace berth::sim
