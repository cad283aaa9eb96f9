// Measures of a whole cluster for people: how fragmented it is.
#pragma once

#include "cluster/store.h"

namespace berth::cluster {

/// Free devices on nodes that are partly in use, as a share of all free ones: a whole-node pod
/// cannot have them. 0..1; 0 where nothing is free.
double FragmentationRatio(const Store& store, ResourceId device);

}  // namespace berth::cluster
