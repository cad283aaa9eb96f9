#include "engine/timers.h"

#include <algorithm>

namespace berth::engine {

void Timers::AllAt(TimePoint when) {
  const auto [from, to] = due_.equal_range(when);
  const auto is_all = [](const auto& entry) { return std::holds_alternative<All>(entry.second); };
  if (std::none_of(from, to, is_all)) due_.emplace(when, All());
}

std::optional<Timers::Due> Timers::Take(TimePoint now) {
  if (due_.empty() || due_.begin()->first > now) return std::nullopt;
  return std::move(due_.extract(due_.begin()).mapped());
}

std::optional<TimePoint> Timers::next() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

}  // namespace berth::engine
