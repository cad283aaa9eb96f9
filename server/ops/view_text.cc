#include "server/ops/view_text.h"

#include "kube/quantity.h"

namespace berth::server {

using cluster::DeviceTrack;
using cluster::HardwareSource;

double Whole(std::string_view resource, std::int64_t amount) {
  return kube::InThousandths(resource) ? static_cast<double>(amount) / 1000.0
                                       : static_cast<double>(amount);
}

std::string_view TrackName(DeviceTrack track) {
  switch (track) {
    case DeviceTrack::kKept:
      return "kept";
    case DeviceTrack::kCountOnly:
      return "count_only";
    case DeviceTrack::kCounted:
      break;
  }
  return "counted";
}

std::string_view SourceName(HardwareSource source) {
  switch (source) {
    case HardwareSource::kRefused:
      return "refused";
    case HardwareSource::kAnnotation:
      return "annotation";
    case HardwareSource::kHami:
      return "hami";
    case HardwareSource::kLabels:
      return "labels";
    case HardwareSource::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace berth::server
