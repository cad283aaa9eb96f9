// A scenario under other names: of nodes, workloads, queues, namespaces, users, flavors and
// classes. Internal to sim/scenario/.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "sim/scenario/scenario.h"

namespace berth::scenario {

/// How new names compare with each other.
enum class NameOrder : std::uint8_t {
  kKept,      ///< New names compare as the old ones do.
  kReversed,  ///< The other way round.
};

/// Namespaces and queues called `default` keep that name, which has a meaning of its own. Nodes of
/// one group become groups of their own, in the same racks. The error says why not.
std::expected<Scenario, std::string> Renamed(const Scenario& scenario, NameOrder order);

}  // namespace berth::scenario
