// Small texts that the pages and the gauges share.
#pragma once

#include <cstdint>
#include <string_view>

#include "cluster/model.h"

namespace berth::server {

/// An amount in its own unit: devices, not thousandths of them.
double Whole(std::string_view resource, std::int64_t amount);

std::string_view TrackName(cluster::DeviceTrack track);
std::string_view SourceName(cluster::HardwareSource source);

}  // namespace berth::server
