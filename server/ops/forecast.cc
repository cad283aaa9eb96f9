#include "server/ops/forecast.h"

#include <algorithm>

namespace berth::server {

Forecasts::Forecasts(const InParts& read) : read_(read) {
  engine::TimePoint at = 0;
  read_([&at](const engine::Engine&, engine::TimePoint now) {
    at = now;
    return false;
  });
  ForEachNode(read_, [&](const engine::Engine& engine, const cluster::NodeInfo& node) {
    const auto ends = engine.ExpectedEnds(node, at);
    ends_.insert(ends_.end(), ends.begin(), ends.end());
  });
  // What has room already is judged at any moment.
  if (!ends_.empty()) ends_.push_back(at);
  std::ranges::sort(ends_);
  const auto repeats = std::ranges::unique(ends_);
  ends_.erase(repeats.begin(), repeats.end());
}

/// What ends leaves room, so that a later time is never worse, but for work that comes first in its
/// queue: a search by halves finds the first time, or one close to it. It begins at the early ends,
/// as most work needs few of them.
engine::TimePoint Forecasts::Of(std::span<const std::string> line) {
  if (ends_.empty() || line.empty() || line.size() > kMostBefore + 1) return 0;
  if (!HasRoomAt(line, ends_.back())) return 0;
  std::size_t first = 0;  // it has no room at the ends before this one
  std::size_t step = 1;
  while (first + step < ends_.size() && !HasRoomAt(line, ends_[first + step - 1])) {
    first += step;
    step *= 2;
  }
  std::size_t last = std::min(first + step, ends_.size()) - 1;  // it has room then
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    HasRoomAt(line, ends_[middle]) ? last = middle : first = middle + 1;
  }
  return looks_ > kMostLooks ? 0 : ends_[last];
}

/// False once there were too many looks.
bool Forecasts::HasRoomAt(std::span<const std::string> line, engine::TimePoint at) {
  if (++looks_ > kMostLooks) return false;
  bool has_room = false;
  read_([&](const engine::Engine& engine, engine::TimePoint now) {
    std::vector<const cluster::Workload*> workloads;
    for (const std::string& key : line) {
      const cluster::Workload* workload = engine.store().FindWorkload(key);
      if (workload != nullptr) workloads.push_back(workload);
    }
    const bool waits = !workloads.empty() && workloads.back()->key == line.back();
    has_room = waits && engine.HasRoomAt(workloads, at, now);
    return false;
  });
  return has_room;
}

}  // namespace berth::server
