#include "sim/experiments/rack_baselines.h"

#include <algorithm>
#include <map>

namespace berth::sim {

std::vector<std::size_t> PlaceByRackAffinity(std::vector<RackNode> nodes, int members,
                                             std::int64_t gpus, Random& ties) {
  std::map<int, std::int64_t> mates;  // by rack
  std::vector<std::size_t> placed;
  for (int member = 0; member < members; ++member) {
    std::int64_t most = 0;
    for (const auto& [rack, count] : mates) most = std::max(most, count);
    std::vector<std::size_t> best;
    std::int64_t top = -1;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const RackNode& node = nodes[i];
      if (node.free < gpus) continue;
      const std::int64_t near = most == 0 ? 0 : 100 * mates[node.rack] / most;
      const std::int64_t score = 100 * (node.free - gpus) / node.all + 2 * near;
      if (score > top) best.clear();
      top = std::max(top, score);
      if (score == top) best.push_back(i);
    }
    if (best.empty()) return {};
    const std::size_t chosen = best[ties.Below(best.size())];
    nodes[chosen].free -= gpus;
    ++mates[nodes[chosen].rack];
    placed.push_back(chosen);
  }
  return placed;
}

std::vector<std::size_t> PlaceByTightestRack(std::vector<RackNode> nodes, int members,
                                             std::int64_t gpus) {
  std::map<int, std::int64_t> rooms;  // pods, by rack
  for (const RackNode& node : nodes) rooms[node.rack] += node.free / gpus;
  std::vector<std::pair<std::int64_t, int>> order;  // room, rack
  for (const auto& [rack, room] : rooms) order.emplace_back(room, rack);
  std::ranges::sort(order);
  const auto whole =
      std::ranges::find_if(order, [members](const auto& entry) { return entry.first >= members; });
  if (whole != order.end()) {
    std::swap(*whole, order.front());
    order.resize(1);
  } else {
    std::ranges::reverse(order);
  }
  std::vector<std::size_t> placed;
  for (const auto& [room, rack] : order) {
    while (std::ssize(placed) < members) {
      std::size_t fullest = nodes.size();
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].rack != rack || nodes[i].free < gpus) continue;
        if (fullest == nodes.size() || nodes[i].free < nodes[fullest].free) fullest = i;
      }
      if (fullest == nodes.size()) break;
      nodes[fullest].free -= gpus;
      placed.push_back(fullest);
    }
  }
  if (std::ssize(placed) < members) return {};
  return placed;
}

}  // namespace berth::sim
