// Store, part: single devices. The hardware of a node, and which of its devices each pod has, on
// nodes where that is known.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cluster/hardware.h"
#include "cluster/store.h"
#include "kube/device_notes.h"

namespace berth::cluster {

using topology::DeviceMask;
using topology::DeviceSet;

namespace {

/// `count` of the `free` ones; 0: fewer are free.
DeviceMask Pick(const topology::Machine* machine, DeviceMask free, int count) {
  if (machine != nullptr) return machine->Choose(free, count);
  if (count < 1 || std::popcount(free) < count) return 0;
  unsigned rest = free;
  for (int i = 0; i < count; ++i) rest &= rest - 1U;
  return static_cast<DeviceMask>(free & ~rest);
}

std::vector<int> Indices(DeviceMask mask) {
  std::vector<int> indices;
  for (unsigned left = mask; left != 0; left &= left - 1U)
    indices.push_back(std::countr_zero(left));
  return indices;
}

const std::string* Annotation(const kube::ObjectMeta& meta, std::string_view key) {
  const auto it = meta.annotations.find(key);
  return it == meta.annotations.end() ? nullptr : &it->second;
}

}  // namespace

DeviceMask TakeDevices(DeviceSet& devices, const PodShape& shape, std::int64_t amount,
                       DeviceMask wanted, const topology::Machine* machine) {
  const int milli = shape.share > 0 ? shape.share : DeviceSet::kWhole;
  if (wanted != 0 && std::int64_t{std::popcount(wanted)} * milli == amount &&
      devices.Take(wanted, milli)) {
    return wanted;
  }
  const auto count = static_cast<int>(std::min<std::int64_t>(amount / milli, DeviceSet::kMost + 1));
  const DeviceMask mask = shape.share > 0
                              ? devices.Tightest(milli)
                              : Pick(machine, devices.AtLeast(DeviceSet::kWhole), count);
  return devices.Take(mask, milli) ? mask : DeviceMask{0};
}

void Store::ReadHardware(NodeInfo& node) {
  Hardware hardware;
  if (!options_.shares && node.present && !device_ids_.empty()) {
    const std::int64_t amount = node.allocatable[device_ids_.front()];
    hardware = cluster::ReadHardware(node.object, amount % kMilli == 0 ? amount / kMilli : 0);
  }
  node.machine = kNoMachine;
  if (hardware.machine) {
    const auto same = [&](const auto& machine) {
      return machine->description() == *hardware.machine;
    };
    const auto it = std::ranges::find_if(machines_, same);
    if (it != machines_.end()) {
      node.machine = static_cast<std::int32_t>(it - machines_.begin());
    } else if (machines_.size() < kMaxMachines) {
      node.machine = static_cast<std::int32_t>(machines_.size());
      machines_.push_back(std::make_unique<topology::Machine>(*hardware.machine));
    } else {
      hardware = {.source = HardwareSource::kRefused,
                  .machine = {},
                  .problem = fmt::format("more than {} kinds of machine", kMaxMachines)};
    }
  }
  if (node.hardware_problem != hardware.problem) device_news_.insert(node.index);
  node.hardware = hardware.source;
  node.hardware_problem = std::move(hardware.problem);
}

/// With shares the counts are authoritative: the devices of a node that lost or gained some, or has
/// more in use than it has, are rebuilt from the counts.
void Store::ReconcileDevices(NodeInfo& node) {
  if (!options_.shares) {
    TrackDevices(node);
    return;
  }
  if (device_ids_.empty()) return;
  const ResourceId device = device_ids_.front();
  const std::int64_t count = node.allocatable[device] / kMilli;
  if (count > DeviceSet::kMost) {
    node.devices = {};
    return;
  }
  const std::int64_t free = std::max<std::int64_t>(0, count * kMilli - node.used[device]);
  if (node.devices.size() != count || node.devices.total() != free) {
    node.devices = DeviceSet::FromCounts(static_cast<int>(count), free);
  }
}

/// Recomputes which pod has which devices, only from the node and the pods charged to it: so the
/// result does not depend on the order of events, and a rebuilt ledger is the same.
void Store::TrackDevices(NodeInfo& node) {
  if (options_.shares) return;
  const bool may = node.present && !device_ids_.empty();
  const std::string* selection =
      may ? Annotation(node.object.meta, kube::kDeviceSelectionAnnotation) : nullptr;
  if (selection == nullptr && node.track == DeviceTrack::kCounted) return;
  DeviceTrack track = DeviceTrack::kCounted;
  DeviceSet devices;
  std::string problem;
  if (selection != nullptr) {
    problem = *selection == kube::kSelectByAnnotation
                  ? AccountDevices(node, devices)
                  : fmt::format("{}: \"{}\" is not a component that Berth knows",
                                kube::kDeviceSelectionAnnotation,
                                std::string_view(*selection).substr(0, 63));
    track = problem.empty() ? DeviceTrack::kKept : DeviceTrack::kCountOnly;
    if (!problem.empty()) devices = {};
  }
  if (node.track != track || node.device_problem != problem) {
    device_news_.insert(node.index);
  } else if (node.devices == devices) {
    return;
  }
  node.track = track;
  node.device_problem = std::move(problem);
  node.devices = devices;
  Touch(node);
}

/// What the pod is charged of the policy's first device, in thousandths. REQUIRES: there is one.
std::int64_t Store::DevicesOf(const PodInfo& pod) const {
  const auto it = std::ranges::find(pod.charged, device_ids_.front(), &Demand::value_type::first);
  return it == pod.charged.end() ? 0 : it->second;
}

/// Assigns devices to every pod: first devices fixed by a Binding, then planned ones, which move
/// where they must. Returns an empty string if all could be tracked, and `devices` is what is free;
/// otherwise why not. REQUIRES: the policy has a device.
std::string Store::AccountDevices(const NodeInfo& node, DeviceSet& devices) {
  const std::int64_t all = node.allocatable[device_ids_.front()];
  if (!IsWholeDevice(device_ids_.front())) return "handles, not devices";
  if (node.hardware == HardwareSource::kRefused) return node.hardware_problem;
  if (all % kMilli != 0 || all > std::int64_t{DeviceSet::kMost} * kMilli) {
    return fmt::format("more than {} devices, or a part of one", DeviceSet::kMost);
  }
  devices = DeviceSet(static_cast<int>(all / kMilli));
  std::vector<PodInfo*> planned;
  for (const PodInfo* charged : node.pods) {
    PodInfo* pod = &Own(*charged);
    const std::int64_t amount = DevicesOf(*pod);
    if (amount == 0) {
      pod->devices = 0;  // devices of another resource, from before the policy changed
      continue;
    }
    if (pod->charge == Charge::kPlanned) {
      planned.push_back(pod);
      continue;
    }
    DeviceMask mask = pod->charge == Charge::kBound ? pod->said_devices : pod->devices;
    if (pod->shape->whole_node) {  // all that the node lists now, whatever the pod is charged
      mask = devices.AtLeast(DeviceSet::kWhole);
      if (std::int64_t{std::popcount(mask)} * kMilli == all) {
        if (mask != 0) devices.Take(mask, DeviceSet::kWhole);
        pod->devices = mask;
        continue;
      }
    }
    const auto& meta = pod->object.meta;
    if (mask == 0)
      return fmt::format("it is not known which devices {}/{} has", meta.ns, meta.name);
    if (std::int64_t{std::popcount(mask)} * kMilli != amount) {
      return fmt::format("{}/{} names {} devices and has {}", meta.ns, meta.name,
                         std::popcount(mask), amount / kMilli);
    }
    if (!devices.Take(mask, DeviceSet::kWhole)) {
      return fmt::format("{}/{} names devices that other pods have, or that do not exist", meta.ns,
                         meta.name);
    }
    pod->devices = mask;
  }
  std::ranges::sort(planned, {}, [](const PodInfo* pod) { return pod->object.meta.uid; });
  for (PodInfo* pod : planned) {
    const bool stays = std::int64_t{std::popcount(pod->devices)} * kMilli == DevicesOf(*pod) &&
                       devices.Take(pod->devices, DeviceSet::kWhole);
    if (!stays) pod->devices = 0;
  }
  for (PodInfo* pod : planned) {
    // No devices, if it waits for victims to leave.
    if (pod->devices != 0) continue;
    pod->devices = TakeDevices(devices, *pod->shape, DevicesOf(*pod), 0, MachineOf(node));
  }
  return {};
}

DeviceMask Store::SaidDevices(const kube::Pod& pod) const {
  const std::string* note = Annotation(pod.meta, kube::kDevicesAnnotation);
  if (note == nullptr || options_.shares || device_ids_.empty()) return 0;
  const auto indices = kube::ParseDevices(*note, resources_.Name(device_ids_.front()));
  if (!indices) return 0;
  unsigned mask = 0;
  for (const int index : *indices) mask |= 1U << static_cast<unsigned>(index);
  return static_cast<DeviceMask>(mask);
}

/// Containers that run together have devices of their own. An init container, which ends before
/// they start, gets devices that no other container has, then theirs; devices of sidecars, which
/// come last, at the very end.
std::string Store::DevicesNote(const PodInfo& pod) const {
  if (pod.node == kNoNode || pod.devices == 0) return {};
  const NodeInfo& on = node(pod.node);
  if (on.track != DeviceTrack::kKept) return {};
  const topology::Machine* machine = MachineOf(on);
  const std::string& resource = resources_.Name(device_ids_.front());
  std::map<std::string, std::vector<int>> by_container;
  DeviceMask left = pod.devices;
  std::vector<DeviceMask> pool;
  for (const kube::DeviceRequest& request : pod.object.device_requests) {
    if (request.init || request.resource != resource) continue;
    const DeviceMask mask = Pick(machine, left, static_cast<int>(request.amount / kMilli));
    if (mask == 0) return {};
    left &= static_cast<DeviceMask>(~mask);
    pool.push_back(mask);
    by_container[request.container] = Indices(mask);
  }
  pool.insert(pool.begin(), left);
  for (const kube::DeviceRequest& request : pod.object.device_requests) {
    if (!request.init || request.resource != resource) continue;
    auto need = static_cast<int>(request.amount / kMilli);
    unsigned mask = 0;
    for (const DeviceMask part : pool) {
      const DeviceMask taken = Pick(machine, part, std::min(need, std::popcount(part)));
      mask |= taken;
      need -= std::popcount(taken);
    }
    if (need > 0) return {};
    by_container[request.container] = Indices(static_cast<DeviceMask>(mask));
  }
  return by_container.empty() ? std::string() : kube::EncodeDevices(by_container, resource);
}

}  // namespace berth::cluster
