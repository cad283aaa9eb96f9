// What a person asks of a whole cluster: how broken into it is, and what would still fit.
#pragma once

#include "cluster/store.h"

namespace berth::cluster {

/// Pods of `pod_gpus` devices (the policy's first) that could start at once inside one domain of
/// the level, the best domain counted; level -1: the whole cluster.
std::int64_t LargestPlaceableGang(const Store& store, int level, std::int64_t pod_gpus);

/// Free devices on nodes that are broken into, as a share of all free ones: what a whole-node pod
/// cannot have. 0..1; 0 where nothing is free.
double FragmentationRatio(const Store& store, ResourceId device);

}  // namespace berth::cluster
