// The nodes and pods of a small openb data set.
#pragma once

#include <string>
#include <vector>

#include "sim/experiments/openb_variants.h"
#include "sim/experiments/traces.h"
#include "tests/support/catch.h"

namespace berth::sim {

inline std::vector<OpenbNode> TestNodes() {
  const auto nodes = ReadTrace(
      BERTH_SOURCE_DIR "/tests/unit/sim/testdata/openb_node_list_gpu_node.csv", &ReadOpenbNodes);
  REQUIRE(nodes);
  return *nodes;
}

inline OpenbList TestList() {
  const auto pods = ReadTrace(
      BERTH_SOURCE_DIR "/tests/unit/sim/testdata/openb_pod_list_default.csv", &ReadOpenbPods);
  REQUIRE(pods);
  return {.name = "default", .pods = *pods};
}

}  // namespace berth::sim
