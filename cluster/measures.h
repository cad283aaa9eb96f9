// What a person asks of a whole cluster: how broken into it is.
#pragma once

#include "cluster/store.h"

namespace berth::cluster {

/// Free devices on nodes that are broken into, as a share of all free ones: what a whole-node pod
/// cannot have. 0..1; 0 where nothing is free.
double FragmentationRatio(const Store& store, ResourceId device);

}  // namespace berth::cluster
