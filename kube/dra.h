// Objects of dynamic resource allocation (resource.k8s.io/v1) that tell how many devices a node has
// where the node itself lists none, cut down to that. Bounded and never throwing, like decode.h.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/decode.h"
#include "kube/objects.h"
#include "kube/simdjson_fwd.h"

namespace berth::kube {

/// What the CEL selectors of a class ask for, if they have the form that drivers ship: comparisons
/// with a text, joined by `&&`.
struct DeviceMatch {
  std::string driver;                                           ///< Empty: any.
  std::vector<std::pair<std::string, std::string>> attributes;  ///< `domain/name` equals that text.
  bool operator==(const DeviceMatch&) const = default;
};

/// nullopt: another form, which only the API server's own CEL can evaluate.
std::optional<DeviceMatch> ReadDeviceSelector(std::string_view cel);

/// A DeviceClass, as far as Berth counts its devices.
struct DeviceClass {
  ObjectMeta meta;
  std::string extended_resource;     ///< spec.extendedResourceName; empty: the class maps to none.
  std::optional<DeviceMatch> match;  ///< Of all selectors together; nullopt: not supported.
};

/// A device of a ResourceSlice.
struct SliceDevice {
  std::string name;
  StringMap attributes;    ///< Only those that are texts, by `domain/name`.
  bool divisible = false;  ///< It shares counters with other devices, or may be allocated several
                           ///< times.
  bool tainted = false;    ///< The taint keeps away pods that do not tolerate it.
};

/// Devices that a driver publishes.
struct ResourceSlice {
  ObjectMeta meta;
  std::string node;  ///< Empty: its devices do not belong to one node.
  std::string driver;
  std::string pool;
  std::int64_t generation = 0;   ///< Of the pool; only the highest counts.
  std::int64_t slice_count = 1;  ///< Slices of the pool in this generation.
  std::vector<SliceDevice> devices;
};

/// The full name of a device.
struct ClaimedDevice {
  std::string driver;
  std::string pool;
  std::string device;
  auto operator<=>(const ClaimedDevice&) const = default;
};

/// A ResourceClaim with the devices that are allocated to it.
struct ResourceClaim {
  ObjectMeta meta;
  /// Made by kube-scheduler for a pod that asks for an extended resource; used by that pod only.
  bool for_extended_resource = false;
  std::vector<ClaimedDevice> devices;  ///< Allocated devices, except those for administration only
                                       ///< (admin access).
};

std::expected<DeviceClass, DecodeError> DecodeDeviceClass(simdjson::dom::element json);
std::expected<ResourceSlice, DecodeError> DecodeResourceSlice(simdjson::dom::element json);
std::expected<ResourceClaim, DecodeError> DecodeResourceClaim(simdjson::dom::element json);

}  // namespace berth::kube
