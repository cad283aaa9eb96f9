// A gang `g` of 8-GPU members m0, m1, ... on nodes of 8 GPUs: what the gang tests start from.
#pragma once

#include <string>
#include <utility>

#include "tests/support/world.h"

namespace berth::testing {

/// `nodes` nodes n0, n1, ... of 8 GPUs.
class GangWorld : public World {
 public:
  explicit GangWorld(int nodes, config::PolicyConfiguration policy = {})
      : World(std::move(policy)) {
    for (int i = 0; i < nodes; ++i) Add(MakeNode("n" + std::to_string(i)).Gpu(8));
    Start();
  }
  PodBuilder Member(int i, int size, int min) {
    return MakePod("m" + std::to_string(i)).Gpu(8).Gang("g", size).Min(min).Created(1000 + i);
  }
  void Gather(int size, int min) {
    for (int i = 0; i < size; ++i) Add(Member(i, size, min).Gated());
    Tick();
  }
  /// The member comes to bind on its planned node.
  BindResult Arrive(int i) {
    const std::string name = "m" + std::to_string(i);
    return Bind(name, Planned(name));
  }
  bool Bound(int i) { return !NodeOf("m" + std::to_string(i)).empty(); }
};

}  // namespace berth::testing
