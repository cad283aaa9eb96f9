// The `queues` part of a policy file, beyond what its keys say: see decode.h. Internal to config/.
#pragma once

#include <span>
#include <vector>

#include "config/policy_configuration.h"
#include "config/strict_reader.h"

namespace berth::config {

/// Adds the amounts of the mapping at `at`. `devices` are the extended resources that they may
/// name.
void ReadAmounts(ErrorSink& sink, const Located& at, std::span<const DeviceResource> devices,
                 kube::ResourceList& amounts);

/// Reports what is wrong about the queues that were read from the list: limits below the quota,
/// flavors and classes that the policy does not have, and parents that make a cycle.
void CheckQueues(ErrorSink& sink, const Located& list, const PolicyConfiguration& policy);

}  // namespace berth::config
