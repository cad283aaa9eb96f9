// The `queues` part of a policy file: see decode.h. Internal to config/.
#pragma once

#include <span>
#include <vector>

#include "config/policy_configuration.h"
#include "config/strict_reader.h"

namespace berth::config {

/// The queues of the list at `at`. `devices` are the extended resources that amounts may name.
std::vector<Queue> ReadQueues(ErrorSink& sink, const Located& at,
                              std::span<const DeviceResource> devices);

}  // namespace berth::config
