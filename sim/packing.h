// A cluster under one policy at fidelity `engine`: the ledger and the placement code of the service
// decide, without a scheduler, a queue or a clock around them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/store.h"
#include "policy/placement.h"
#include "sim/traces.h"

namespace berth::sim {

/// Names of the policies that can place pods, as on the command line.
const std::vector<std::string_view>& PackingPolicies();

struct PackingOptions {
  std::string policy = "Berth";  ///< One of PackingPolicies().
  /// Chooses the one order of the nodes that breaks ties (and is Berth's `rank`).
  std::uint64_t seed = 0;
  config::ScoreWeights weights{};
};

class PackingCluster {
 public:
  PackingCluster(const std::vector<OpenbNode>& nodes, const PackingOptions& options);

  /// A pod arrives and is placed at once. nullopt: it fits nowhere and is forgotten. The number
  /// names it for Depart().
  std::optional<std::uint64_t> Arrive(const OpenbPod& pod);
  void Depart(std::uint64_t pod);

  std::int64_t allocated_milli() const { return allocated_milli_; }

 private:
  std::shared_ptr<const kube::PodSpec> SpecOf(const OpenbPod& pod);

  std::unique_ptr<cluster::Store> store_;
  std::unique_ptr<policy::Scorer> scorer_;
  std::map<std::vector<std::string>, std::shared_ptr<const kube::PodSpec>> specs_;
  std::uint64_t next_ = 0;
  std::int64_t allocated_milli_ = 0;
};

}  // namespace berth::sim
