#include "server/ops/positions.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "policy/queue_order.h"
#include "server/ops/workload_view.h"

namespace berth::server {
namespace {

using cluster::Workload;
using policy::DeviceAmounts;

/// One workload; the order is that of a queue that nobody shares.
struct Place {
  cluster::QueueId queue;
  std::int64_t descending_priority;
  std::int64_t service;
  kube::Millis creation;
  std::string_view key;
  std::string_view sharer{};
  DeviceAmounts wants{};  ///< Only with a sharer.

  auto Order() const { return std::tie(queue, descending_priority, service, creation, key); }
  bool operator<(const Place& other) const { return Order() < other.Order(); }
};

/// What is read of the cluster.
struct Lines {
  std::vector<Place> places;
  DeviceAmounts total;
  std::map<std::pair<cluster::QueueId, std::string_view>, DeviceAmounts> held;  ///< By sharer.
};

std::string_view Keep(std::string_view text, std::pmr::memory_resource& memory) {
  if (text.empty()) return {};
  char* copy = static_cast<char*>(memory.allocate(text.size(), 1));
  std::ranges::copy(text, copy);
  return {copy, text.size()};
}

Lines ReadLines(const InParts& read, std::pmr::memory_resource& memory) {
  Lines lines;
  std::deque<Place> places;  // does not move under the lock
  ForEachWorkload(read, [&](const engine::Engine& engine, const Workload& workload, auto) {
    const bool waits = Waits(workload) && workload.plan.empty() && !workload.members.empty();
    if (!waits || workload.queue == cluster::kNoQueue) return;
    const cluster::Store& store = engine.store();
    const engine::Turn turn = engine::TurnOf(workload, store, engine.StateOf(workload));
    Place& place = places.emplace_back(workload.queue, -std::int64_t{workload.priority},
                                       turn.service, turn.since, Keep(workload.key, memory));
    if (turn.sharer.empty()) return;
    place.wants = policy::HeldBy(store, workload.queue, {}, turn.wants);
    const auto known = lines.held.find({workload.queue, turn.sharer});
    if (known != lines.held.end()) {
      place.sharer = known->first.second;
      return;
    }
    place.sharer = Keep(turn.sharer, memory);
    lines.total = policy::TotalDevices(store);
    lines.held.emplace(std::pair(workload.queue, place.sharer),
                       policy::HeldBy(store, workload.queue, turn.sharer, {}));
  });
  lines.places.assign(std::make_move_iterator(places.begin()),
                      std::make_move_iterator(places.end()));
  std::sort(lines.places.begin(), lines.places.end());
  return lines;
}

/// The places of one queue in the order in which its sharers take turns.
std::vector<const Place*> InTurns(std::span<const Place> places, Lines& lines) {
  std::map<std::string_view, std::deque<const Place*>> lanes;
  for (const Place& place : places) lanes[place.sharer].push_back(&place);
  using Turn = std::tuple<std::int64_t, std::int64_t, const Place*>;  // priority, share
  const auto before = [](const Turn& a, const Turn& b) {
    const auto rank = [](const Turn& turn) {
      return std::pair(std::get<0>(turn), std::get<1>(turn));
    };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return *std::get<2>(a) < *std::get<2>(b);
  };
  std::set<Turn, decltype(before)> next(before);
  const auto held_with = [&lines](const Place& place) {
    DeviceAmounts held = lines.held[{place.queue, place.sharer}];
    held.resize(lines.total.size());
    for (std::size_t kind = 0; kind < std::min(held.size(), place.wants.size()); ++kind) {
      held[kind] += place.wants[kind];
    }
    return held;
  };
  const auto enqueue = [&](const Place& first) {
    const std::int64_t share =
        first.sharer.empty() ? 0 : policy::LargestPart(held_with(first), lines.total);
    next.emplace(first.descending_priority, share, &first);
  };
  for (const auto& [sharer, lane] : lanes) enqueue(*lane.front());
  std::vector<const Place*> order;
  while (!next.empty()) {
    const Place& place = *std::get<2>(*next.begin());
    next.erase(next.begin());
    order.push_back(&place);
    if (!place.sharer.empty()) lines.held[{place.queue, place.sharer}] = held_with(place);
    std::deque<const Place*>& lane = lanes[place.sharer];
    lane.pop_front();
    if (!lane.empty()) enqueue(*lane.front());
  }
  return order;
}

}  // namespace

Positions PositionsOf(const InParts& read, std::pmr::memory_resource& memory) {
  Lines lines = ReadLines(read, memory);
  Positions positions(&memory);
  const std::span<const Place> places(lines.places);
  for (std::size_t from = 0; from < places.size();) {
    std::size_t to = from;
    while (to < places.size() && places[to].queue == places[from].queue) ++to;
    int position = 0;
    for (const Place* place : InTurns(places.subspan(from, to - from), lines)) {
      positions.emplace(place->key, ++position);
    }
    from = to;
  }
  return positions;
}

}  // namespace berth::server
