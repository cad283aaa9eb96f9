// How far apart the members of gangs come to run on a loaded cluster, and the GPUs of one pod:
// Berth, which places a gang whole and knows the tree and the sockets, against policies that place
// one pod after the other by free room alone, and against two that know racks. Fidelity `engine`:
// no scheduler, queue or clock.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/policy_configuration.h"

namespace berth::sim {

/// `BestFit`, `LeastAllocated` (kube-scheduler's default), `RackAffinity` and `TightestRack`
/// (rack_baselines.h), `Berth`, and `BerthPreferred`, where every gang prefers one rack.
const std::vector<std::string_view>& TopologyPolicies();

struct TopologyOptions {
  std::string policy = "Berth";  ///< One of TopologyPolicies().
  /// Share of the GPUs that the jobs ask for that are there at one time, above 0, below 1.
  double load = 0.7;
  /// Draws the jobs, and which of them end: the same for every policy.
  std::uint64_t seed = 0;
  std::size_t jobs = 2000;         ///< That are looked at, after as many that fill the cluster.
  config::ScoreWeights weights{};  ///< Berth's.
};

/// Means are per gang that was placed. 512 DGX H100 in racks of 16, blocks of 8 racks.
struct TopologyResult {
  std::string policy;
  double load = 0;
  std::uint64_t seed = 0;
  std::size_t gangs = 0;        ///< Placed.
  std::size_t refused = 0;      ///< Jobs that found no room when they came. They do not wait.
  double pairs = 0;             ///< Of members.
  double cross_rack_pairs = 0;  ///< Of members in two racks.
  double rack_changes = 0;      ///< From one rank to the next.
  /// Pairs of GPUs of one pod on two sockets; of pods that one socket would hold.
  double cross_socket_pairs = 0;
};

TopologyResult RunTopology(const TopologyOptions& options);

std::vector<nlohmann::ordered_json> TopologyRows(const std::vector<TopologyResult>& results);
/// By load and policy, means over seeds.
std::string TopologyTable(const std::vector<TopologyResult>& results);

}  // namespace berth::sim
