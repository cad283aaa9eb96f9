// Policies that are valid, but probably a mistake.
#pragma once

#include <string>
#include <vector>

#include "config/policy_configuration.h"

namespace berth::config {

/// One sentence for each finding; empty: none. So far: which namespaces its queues leave out.
std::vector<std::string> PolicyWarnings(const PolicyConfiguration& policy);

}  // namespace berth::config
