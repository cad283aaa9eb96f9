// What annotations of nodes and pods say about single devices (docs/gpu-topology.md has the
// schemas). Their text is untrusted: it is bounded, checked as a whole and refused with a reason;
// parsing never throws.
#pragma once

#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace berth::kube {

/// On pods, written with the Binding: which devices each container was given.
inline constexpr std::string_view kDevicesAnnotation = "berth.dev/devices";
/// On nodes: which component hands out the devices that kDevicesAnnotation names.
inline constexpr std::string_view kDeviceSelectionAnnotation = "berth.dev/device-selection";
/// Its value: an agent reads the pod's annotation.
inline constexpr std::string_view kSelectByAnnotation = "annotation";
/// On nodes: how the devices are connected.
inline constexpr std::string_view kDeviceTopologyAnnotation = "berth.dev/device-topology";
/// On nodes, by HAMi's device plugin: the devices, and a score for each pair of them.
inline constexpr std::string_view kHamiRegisterAnnotation = "hami.io/node-nvidia-register";
inline constexpr std::string_view kHamiScoreAnnotation = "hami.io/node-nvidia-score";

inline constexpr int kMaxNodeDevices = 16;  ///< Tracked individually.
inline constexpr int kMaxDeviceLinks = 64;  ///< Between two devices.
inline constexpr int kMaxDeviceScore = 100'000;
inline constexpr int kMaxDeviceGroup = 63;                ///< The largest NUMA node or rail.
inline constexpr std::size_t kMaxDeviceNote = 64 * 1024;  ///< Bytes of one annotation.

/// The topology of `count` devices, by index. A list is empty where the annotation does not give
/// it.
struct DeviceTopology {
  int count = 0;
  std::vector<int> numa{};
  std::vector<int> rails{};
  std::vector<std::vector<int>> links{};   ///< NVLinks by pair.
  std::vector<std::vector<int>> scores{};  ///< go-gpuallocator's score by pair, links included.
  bool operator==(const DeviceTopology&) const = default;
};

/// kDeviceTopologyAnnotation: `{"count":8,"numa":[...],"rails":[...],"links":[[...],...]}`, all but
/// `count` optional.
std::expected<DeviceTopology, std::string> ParseDeviceTopology(std::string_view text);

/// HAMi's two annotations; `score` may be empty. Reads both forms of the first: JSON (2.8 and
/// later) and `uuid,count,memory,cores,type,numa,health[,index,mode]:` repeated.
std::expected<DeviceTopology, std::string> ParseHamiTopology(std::string_view registered,
                                                             std::string_view score);

/// kDevicesAnnotation of a pod: the indices of `resource` over all containers, each once, in
/// ascending order; 0..kMaxNodeDevices-1. Empty where the resource is not named.
std::expected<std::vector<int>, std::string> ParseDevices(std::string_view text,
                                                          std::string_view resource);

/// `{"<container>":{"<resource>":[0,1]}}`
std::string EncodeDevices(const std::map<std::string, std::vector<int>>& by_container,
                          std::string_view resource);

}  // namespace berth::kube
