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

/// Reports limits below the quota, and parents that make a cycle, of the queues that were read from
/// the list.
void CheckQueues(ErrorSink& sink, const Located& list, const std::vector<Queue>& queues,
                 std::span<const DeviceResource> devices);

}  // namespace berth::config
