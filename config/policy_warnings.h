// What a policy may say, and hardly anybody means.
#pragma once

#include <string>
#include <vector>

#include "config/policy_configuration.h"

namespace berth::config {

/// One sentence for each; empty: nothing is odd. So far: whom its queues leave out.
std::vector<std::string> PolicyWarnings(const PolicyConfiguration& policy);

}  // namespace berth::config
