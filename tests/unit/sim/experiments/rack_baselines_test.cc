// The two baselines that know racks, worked out by hand. Racks of two nodes of 8 GPUs.
#include "sim/experiments/rack_baselines.h"

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

/// Nodes 0 and 1 are rack 0, 2 and 3 rack 1, and so on.
std::vector<RackNode> Nodes(const std::vector<std::int64_t>& free) {
  std::vector<RackNode> nodes;
  for (std::size_t i = 0; i < free.size(); ++i) {
    nodes.push_back({.rack = static_cast<int>(i / 2), .free = free[i], .all = 8});
  }
  return nodes;
}

using Chosen = std::vector<std::size_t>;

TEST_CASE("rack baselines: whole into the rack with the least room", "[unit][sim]") {
  // Rack 1 has room for four pods of 2 GPUs, rack 0 for eight, rack 2 for three.
  CHECK(PlaceByTightestRack(Nodes({8, 8, 2, 6, 6, 0}), 4, 2) == Chosen{2, 3, 3, 3});
  // Nowhere whole: the racks with the most room first.
  CHECK(PlaceByTightestRack(Nodes({8, 0, 8, 8, 0, 8}), 3, 8) == Chosen{2, 3, 5});
  CHECK(PlaceByTightestRack(Nodes({8, 0, 8, 0}), 3, 8).empty());
}

TEST_CASE("rack baselines: affinity draws mates into one rack as long as there is room",
          "[unit][sim]") {
  Random ties(1);
  // The first goes to the emptiest node; its rack is worth 200 points to the others, an empty node
  // at most 100.
  CHECK(PlaceByRackAffinity(Nodes({4, 6, 8, 3, 7, 0}), 3, 2, ties) == Chosen{2, 2, 2});
  CHECK(PlaceByRackAffinity(Nodes({4, 6, 8, 3, 7, 0}), 4, 3, ties) == Chosen{2, 2, 3, 4});
  CHECK(PlaceByRackAffinity(Nodes({8, 8}), 3, 8, ties).empty());
}

}  // namespace
}  // namespace berth::sim
