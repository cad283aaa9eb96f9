// The named groups of faults from which days are drawn, and the draw of a day's faults.
#pragma once

#include <string_view>
#include <vector>

#include "sim/random.h"
#include "sim/world/faults.h"

namespace berth::sim {

/// A named group of faults; see docs/fault-search.md.
struct Profile {
  std::string_view name;
  std::vector<FaultKind> kinds;
  int replicas = 1;      ///< Replicas of Berth.
  bool budgets = false;  ///< Draws PodDisruptionBudgets, and many pods that need evictions.
  bool mixed = false;    ///< See mixed.h.
  /// A pass judges only a few workloads, as it does in a cluster that is a thousand times as large.
  bool short_passes = false;
  bool tree = false;     ///< The queues have queues above them.
  bool flavors = false;  ///< See kinds_of_work.h.
};
/// All that there are.
const std::vector<Profile>& Profiles();
/// Null: there is none of this name.
const Profile* FindProfile(std::string_view name);

/// Faults of this profile by time, each in one of the waves: within `width` of its start.
std::vector<Fault> DrawFaults(const Profile& profile, const std::vector<TimePoint>& waves,
                              Duration width, Random& random);

}  // namespace berth::sim
