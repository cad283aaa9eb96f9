// Policies that are valid, but probably a mistake.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/policy_configuration.h"

namespace berth::config {

/// One sentence for each finding; empty: none. Which namespaces its queues leave out, which queues
/// nobody can use, which quotas cannot all be used at once, and which keys have no effect.
std::vector<std::string> PolicyWarnings(const PolicyConfiguration& policy);

/// The same for the text of a valid policy file, in which a key may be left out: also whether it
/// relies on quotas as caps, which they no longer are by default.
std::vector<std::string> PolicyWarnings(const std::string& yaml, const PolicyConfiguration& policy);

/// How much of the resource all quotas together promise: of each queue its own, or else what those
/// below it are promised. Saturates.
std::int64_t PromisedInAll(const PolicyConfiguration& policy, const std::string& resource);

}  // namespace berth::config
