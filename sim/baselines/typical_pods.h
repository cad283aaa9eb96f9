// The task distribution of FGD, against which its protocol measures fragmentation.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "policy/workload_mix.h"

namespace berth::sim {

/// The most frequent kinds of pods until they are at least 95 % of `pods`. A kind is defined by
/// CPU, thousandths per device, devices and node selection; of equally frequent kinds those with
/// the larger numbers come first. Popularity adds up to about one million over them. CPU-only pods
/// count.
std::vector<policy::WorkloadMix::Entry> TypicalPods(
    std::span<const std::shared_ptr<const cluster::PodShape>> pods);

}  // namespace berth::sim
