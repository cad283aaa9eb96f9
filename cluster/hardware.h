// What a node says about its hardware: our own annotation first, then HAMi's, then the labels of
// GPU feature discovery (docs/gpu-topology.md). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/model.h"
#include "kube/objects.h"

namespace berth::cluster {

/// What is known of the devices of a node beside their number.
struct Hardware {
  HardwareSource source = HardwareSource::kUnknown;
  std::optional<topology::MachineDescription> machine;  ///< None: unknown, all devices alike.
  std::string problem;                                  ///< With kRefused.
};

/// The first source that says anything decides, right or wrong. `count`: whole devices that the
/// node offers. A description of another number of devices is refused, because it is not known
/// which ones are missing.
Hardware ReadHardware(const kube::Node& node, std::int64_t count);

}  // namespace berth::cluster
