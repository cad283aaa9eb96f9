// Whether an edit of the policy may come into force at once.
#pragma once

#include <string>

#include "config/policy_configuration.h"
#include "server/ops/parts.h"

namespace berth::server {

/// Why the edit is held: it would let queues take back more devices than eviction.maxPerEdit, of
/// the edited policy, permits (policy/edit_exposure.h). Empty: it may come into force. Reads the
/// cluster in parts.
std::string WhyHeld(const InParts& read, const config::PolicyConfiguration& next);

}  // namespace berth::server
