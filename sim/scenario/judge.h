// Whether what is seen in a cluster is what a scenario expects: the one judge for the simulator and
// for the real control plane.
#pragma once

#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"

namespace berth::scenario {

struct SeenPod {
  std::string ns;
  std::string name;
  std::string node{};     ///< Empty: not bound.
  bool gated = false;     ///< Behind Berth's gate.
  bool finished = false;  ///< Succeeded or Failed: it exists, but neither waits nor takes room.
  int gpus = 0;
  std::string reason{};  ///< Why it waits, as Berth says.
};

struct SeenNode {
  std::string name;
  kube::StringMap labels{};
};

/// A cluster at one moment. Pods that were deleted are not in it.
struct Observation {
  std::vector<SeenNode> nodes;
  std::vector<SeenPod> pods;
};

/// Reads `{"nodes": [{"name", "labels"}], "pods": [{"namespace", "name", "node", "gated",
/// "finished", "gpus", "reason"}]}`; the last five of a pod may be absent.
std::expected<Observation, std::string> DecodeObservation(std::string_view json);

/// What is not as expected, one sentence each; empty: all is.
std::vector<std::string> Judge(const Scenario& scenario, const Expect& expect,
                               const Observation& seen);

/// What changed from `before` to `after`: in a quiet round, nothing may.
std::vector<std::string> Changes(const Observation& before, const Observation& after);

}  // namespace berth::scenario
