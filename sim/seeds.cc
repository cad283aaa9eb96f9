#include "sim/seeds.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

namespace berth::sim {
namespace {

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::vector<std::uint64_t>> ParseSeeds(std::string_view text, std::size_t most) {
  std::vector<std::uint64_t> seeds;
  std::unordered_set<std::uint64_t> known;
  for (const std::string_view part : SplitAt(text, ',')) {
    const auto ends = SplitAt(part, '-');
    const auto first = ParseNumber(ends.front());
    const auto last = ParseNumber(ends.back());
    if (!first || !last || ends.size() > 2 || *last < *first) return std::nullopt;
    if (*last - *first >= most - std::min(most, seeds.size())) return std::nullopt;
    for (std::uint64_t seed = *first;; ++seed) {
      if (known.insert(seed).second) seeds.push_back(seed);
      if (seed == *last) break;
    }
  }
  return seeds;
}

}  // namespace berth::sim
