// How far apart the members of gangs run on a loaded cluster, and the GPUs of one pod. Compares
// Berth, which places a gang as a whole and knows the tree and the sockets, with policies that
// place one pod after the other by free room alone, and with two that know racks. Fidelity
// `engine`: no scheduler, queue or clock.
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

/// What one run is.
struct TopologyOptions {
  std::string policy = "Berth";  ///< One of TopologyPolicies().
  /// Share of the GPUs that are requested by the jobs present at one time, above 0, below 1.
  double load = 0.7;
  /// Draws the jobs and which of them end, in the same way for every policy.
  std::uint64_t seed = 0;
  std::size_t jobs = 2000;         ///< Jobs that are measured, after as many that fill the cluster.
  config::ScoreWeights weights{};  ///< Weights of Berth.
};

/// Means are per gang that was placed. The cluster is 512 DGX H100 in racks of 16, blocks of 8
/// racks.
struct TopologyResult {
  std::string policy;
  double load = 0;
  std::uint64_t seed = 0;
  std::size_t gangs = 0;        ///< Gangs that were placed.
  std::size_t refused = 0;      ///< Jobs for which there was no room on arrival. They do not wait.
  double pairs = 0;             ///< Pairs of members.
  double cross_rack_pairs = 0;  ///< Pairs of members in different racks.
  double rack_changes = 0;      ///< Changes of rack from one rank to the next.
  /// Pairs of GPUs of one pod on two sockets, counting pods that fit into one socket.
  double cross_socket_pairs = 0;
};

/// Runs it once.
TopologyResult RunTopology(const TopologyOptions& options);

/// A row per run, all with the same keys.
std::vector<nlohmann::ordered_json> TopologyRows(const std::vector<TopologyResult>& results);
/// Means over seeds, by load and policy.
std::string TopologyTable(const std::vector<TopologyResult>& results);

}  // namespace berth::sim
