// Small texts used by the pages and the gauges.
#pragma once

#include <cstdint>
#include <string_view>

#include "cluster/model.h"

namespace berth::server {

/// An amount in its natural unit: devices, not thousandths.
double Whole(std::string_view resource, std::int64_t amount);

/// The words of pages, and of the labels of berth_device_nodes and berth_hardware_nodes.
std::string_view TrackName(cluster::DeviceTrack track);
std::string_view SourceName(cluster::HardwareSource source);

}  // namespace berth::server
