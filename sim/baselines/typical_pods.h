// The task distribution of FGD: what fragmentation is measured against in its protocol.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "policy/law.h"

namespace berth::sim {

/// The most frequent kinds of pods, told apart by CPU, thousandths per device, devices and node
/// selection, of equally frequent ones those with the larger numbers first, until they are at least
/// 95 % of `pods`; popularity adds up to about one million over them. CPU-only pods count.
std::vector<policy::Law::Entry> TypicalPods(
    std::span<const std::shared_ptr<const cluster::PodShape>> pods);

}  // namespace berth::sim
