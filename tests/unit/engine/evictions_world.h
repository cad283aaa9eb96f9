// Work of high priority, and the gang that is evicted for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/engine/gang_world.h"

namespace berth::engine {

using Lines = std::vector<std::string>;
using Counts = std::map<std::string, std::uint64_t>;

/// n0 and n1 of 8 GPUs, full of the gang `low` (l0, l1). The gang g (m0, m1) has priority 10.
class EvictionsWorld : public testing::GangWorld {
 public:
  explicit EvictionsWorld(int nodes = 2, config::PolicyConfiguration policy = {})
      : testing::GangWorld(nodes, std::move(policy)) {
    for (int i = 0; i < 2; ++i) Add(Low(i).On("n" + std::to_string(i)));
    Tick();
  }
  static testing::PodBuilder Low(int i) {
    return testing::MakePod("l" + std::to_string(i)).Gpu(8).Gang("low", 2).Created(10);
  }
  void GatherHigh() {
    for (int i = 0; i < 2; ++i) Add(Member(i, 2, 2).Gated().Priority(10));
    Tick();
  }
  Lines Orders() const {
    Lines lines = LogOf("try ");
    for (const std::string& line : LogOf("evict ")) lines.push_back(line);
    return lines;
  }
};

inline const Lines kBoth{"try l0 for default/gang/g", "try l1 for default/gang/g",
                         "evict l0 for default/gang/g", "evict l1 for default/gang/g"};

}  // namespace berth::engine
