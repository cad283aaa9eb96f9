#include "cluster/hardware.h"

#include <fmt/format.h>

#include "cluster/string_map.h"
#include "kube/device_notes.h"
#include "topology/known_machines.h"

namespace berth::cluster {
namespace {

static_assert(kube::kMaxNodeDevices == topology::DeviceSet::kMost);
static_assert(kube::kMaxDeviceLinks == topology::kMaxLinks);
static_assert(kube::kMaxDeviceScore == topology::kMaxPairScore);

const std::string* FindValue(const kube::StringMap& map, std::string_view key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

std::string_view Text(const kube::StringMap& map, std::string_view key) {
  const std::string* value = FindValue(map, key);
  return value == nullptr ? std::string_view() : std::string_view(*value);
}

Hardware Refused(std::string why) {
  return {.source = HardwareSource::kRefused, .machine = {}, .problem = std::move(why)};
}

topology::DeviceTable Table(const std::vector<int>& numbers) {
  topology::DeviceTable table{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(numbers[i]);
  }
  return table;
}

topology::PairTable Pairs(const std::vector<std::vector<int>>& matrix) {
  topology::PairTable table{};
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j < matrix.size(); ++j) table[i][j] = matrix[i][j];
  }
  return table;
}

topology::MachineDescription DescriptionOf(const kube::DeviceTopology& said) {
  topology::DeviceTable rails = Table(said.rails);
  if (said.rails.empty()) {  // every device by itself
    for (std::size_t i = 0; i < rails.size(); ++i) rails[i] = static_cast<std::uint8_t>(i);
  }
  auto description = topology::Describe(said.count, Pairs(said.links), Table(said.numa), rails);
  if (!said.scores.empty()) description.score = Pairs(said.scores);
  return description;
}

std::string OtherCount(std::string_view who, std::int64_t said, std::int64_t count) {
  return fmt::format("{} describes {} devices, the node has {}", who, said, count);
}

Hardware OwnAnnotation(std::string_view text, std::int64_t count) {
  const auto said = kube::ParseDeviceTopology(text);
  if (!said) return Refused(fmt::format("{}: {}", kube::kDeviceTopologyAnnotation, said.error()));
  if (said->count != count) {
    return Refused(OtherCount(kube::kDeviceTopologyAnnotation, said->count, count));
  }
  return {.source = HardwareSource::kAnnotation, .machine = DescriptionOf(*said), .problem = {}};
}

Hardware Hami(const kube::StringMap& annotations, std::string_view registered, std::int64_t count) {
  const auto said =
      kube::ParseHamiTopology(registered, Text(annotations, kube::kHamiScoreAnnotation));
  if (!said) return Refused(fmt::format("{}: {}", kube::kHamiRegisterAnnotation, said.error()));
  if (said->count < count) return {};  // HAMi splits devices: what is counted here are shares
  if (said->count != count) {
    return Refused(OtherCount(kube::kHamiRegisterAnnotation, said->count, count));
  }
  return {.source = HardwareSource::kHami, .machine = DescriptionOf(*said), .problem = {}};
}

Hardware Labels(const kube::StringMap& labels, std::int64_t count) {
  const auto* known = topology::FindMachine(Text(labels, "nvidia.com/gpu.machine"),
                                            Text(labels, "nvidia.com/gpu.product"));
  const std::string_view sharing = Text(labels, "nvidia.com/gpu.sharing-strategy");
  if (known == nullptr || (!sharing.empty() && sharing != "none")) return {};
  const int devices = known->description.count;
  const std::string_view said = Text(labels, "nvidia.com/gpu.count");
  if (devices != count || (!said.empty() && said != std::to_string(devices))) {
    return Refused(fmt::format("a {} has {} devices; the node has {}, and its label says {}",
                               known->name, devices, count,
                               said.empty() ? "nothing" : said.substr(0, 20)));
  }
  return {.source = HardwareSource::kLabels, .machine = known->description, .problem = {}};
}

}  // namespace

Hardware ReadHardware(const kube::Node& node, std::int64_t count) {
  if (count <= 0) return {};
  const kube::StringMap& annotations = node.meta.annotations;
  if (const auto* own = Find(annotations, kube::kDeviceTopologyAnnotation)) {
    return OwnAnnotation(*own, count);
  }
  if (const auto* registered = Find(annotations, kube::kHamiRegisterAnnotation)) {
    return Hami(annotations, *registered, count);
  }
  return Labels(node.meta.labels, count);
}

}  // namespace berth::cluster
