// What a pod says of its gang, queue and topology, in any of the spellings that Berth reads.
// One decoder per dialect; Berth's own spelling comes first, then the order below.
#pragma once

#include <optional>
#include <string>

#include "config/policy_configuration.h"
#include "kube/objects.h"

namespace berth::cluster {

struct GangClaim {
  std::string name;  ///< Unique in the namespace; empty: no gang.
  int size = 0;      ///< 0: not said.
  int min_member = 0;
  bool operator==(const GangClaim&) const = default;
};

struct PodClaims {
  GangClaim gang;
  std::string queue;  ///< Empty: not said.
  std::string topology_required;
  std::string topology_preferred;
  bool whole_node = false;
  std::optional<int> rank;  ///< Job completion index or replica index.
  std::string error;        ///< Not empty: a value is out of range; the pod is refused alone.
};

/// Largest gang that is accepted: bounds every loop over members.
inline constexpr int kMaxGangSize = 65536;

PodClaims ReadClaims(const kube::Pod& pod, const config::Dialects& dialects);

}  // namespace berth::cluster
