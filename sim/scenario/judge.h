// Judges whether the observed state of a cluster is what a scenario expects. The simulator and the
// tests on a real control plane use this same code.
#pragma once

#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"

namespace berth::scenario {

/// A pod, as it was observed.
struct SeenPod {
  std::string ns;
  std::string name;
  std::string node{};          ///< Empty: not bound.
  bool gated = false;          ///< It has Berth's scheduling gate.
  bool unschedulable = false;  ///< kube-scheduler has marked it so: autoscalers see it.
  bool finished = false;  ///< Succeeded or Failed: it exists, but neither waits nor takes room.
  int gpus = 0;
  std::string reason{};  ///< Why it waits, according to Berth.
};

/// A node, as it was observed.
struct SeenNode {
  std::string name;
  kube::StringMap labels{};
};

/// The state of a cluster at one moment. It does not contain deleted pods.
struct Observation {
  std::vector<SeenNode> nodes;
  std::vector<SeenPod> pods;
};

/// Reads `{"nodes": [{"name", "labels"}], "pods": [{"namespace", "name", "node", "gated",
/// "unschedulable", "finished", "gpus", "reason"}]}`; the last six of a pod may be absent.
std::expected<Observation, std::string> DecodeObservation(std::string_view json);

/// What is not as expected, one sentence each; empty: everything is.
std::vector<std::string> Unmet(const Scenario& scenario, const Expect& expect,
                               const Observation& seen);

/// What changed from `before` to `after`; nothing may change in a quiet round.
std::vector<std::string> Changes(const Observation& before, const Observation& after);

}  // namespace berth::scenario
