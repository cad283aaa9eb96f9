// Objects of dynamic resource allocation (resource.k8s.io/v1) that say how many devices a node has
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

namespace berth::kube {

/// What the CEL selectors of a class ask for, where they are of the form that drivers ship: equal
/// to a text, joined by `&&`.
struct DeviceMatch {
  std::string driver;                                           ///< Empty: any.
  std::vector<std::pair<std::string, std::string>> attributes;  ///< `domain/name` is that text.
  bool operator==(const DeviceMatch&) const = default;
};

/// nullopt: another form, which only the API server's own CEL can judge.
std::optional<DeviceMatch> ReadDeviceSelector(std::string_view cel);

struct DeviceClass {
  ObjectMeta meta;
  std::string extended_resource;     ///< spec.extendedResourceName; empty: it stands for none.
  std::optional<DeviceMatch> match;  ///< Of all selectors together; nullopt: not understood.
};

struct SliceDevice {
  std::string name;
  StringMap attributes;    ///< The texts among them, by `domain/name`.
  bool divisible = false;  ///< It shares counters with others, or may be allocated several times.
  bool tainted = false;    ///< Keeps off pods that do not tolerate it.
};

struct ResourceSlice {
  ObjectMeta meta;
  std::string node;  ///< Empty: its devices are not of one node.
  std::string driver;
  std::string pool;
  std::int64_t generation = 0;   ///< Of the pool; only the highest counts.
  std::int64_t slice_count = 1;  ///< Slices of the pool in this generation.
  std::vector<SliceDevice> devices;
};

struct ClaimedDevice {
  std::string driver;
  std::string pool;
  std::string device;
  auto operator<=>(const ClaimedDevice&) const = default;
};

struct ResourceClaim {
  ObjectMeta meta;
  /// Made by kube-scheduler for a pod that asks for an extended resource, and that pod's alone.
  bool for_extended_resource = false;
  std::vector<ClaimedDevice> devices;  ///< Allocated; without those for administration alone.
};

std::expected<DeviceClass, DecodeError> DecodeDeviceClass(simdjson::dom::element json);
std::expected<ResourceSlice, DecodeError> DecodeResourceSlice(simdjson::dom::element json);
std::expected<ResourceClaim, DecodeError> DecodeResourceClaim(simdjson::dom::element json);

}  // namespace berth::kube
