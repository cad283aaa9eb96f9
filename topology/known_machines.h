// Machines that are known by name: the name that GPU feature discovery writes into a node's labels.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "topology/machine.h"

namespace berth::topology {

struct KnownMachine {
  std::string_view name;  ///< The common name.
  MachineDescription description;
};

/// DGX-1V (hybrid cube mesh), DGX A100, DGX H100 and H200.
std::span<const KnownMachine> KnownMachines();

/// Finds a machine by the values of the labels `nvidia.com/gpu.machine` (the DMI product name, as
/// in `DGXH100` or `DGXA100-920-23687-2530-000`) and `nvidia.com/gpu.product`. Null: none of those
/// above. A machine that is cut into MIG instances is not one of them: there are no links between
/// instances.
const KnownMachine* FindMachine(std::string_view machine_label, std::string_view product_label);

}  // namespace berth::topology
