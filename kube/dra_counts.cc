#include "kube/dra_counts.h"

#include <algorithm>

namespace berth::kube {
namespace {

constexpr std::int64_t kWhole = 1000;

}  // namespace

DraCounts::Nodes DraCounts::AllNodes() const {
  Nodes nodes;
  for (const auto& [node, pools] : of_node_) nodes.insert(node);
  return nodes;
}

DraCounts::Nodes DraCounts::Upsert(DeviceClass device_class) {
  const std::string name = device_class.meta.name;
  DeleteClass(name);
  if (device_class.extended_resource.empty()) return AllNodes();
  if (!device_class.match) ++ignored_["class_selector"];
  classes_.emplace(name, std::move(device_class));
  return AllNodes();
}

DraCounts::Nodes DraCounts::DeleteClass(const std::string& name) {
  const auto it = classes_.find(name);
  if (it == classes_.end()) return {};
  if (!it->second.match) --ignored_["class_selector"];
  classes_.erase(it);
  return AllNodes();
}

std::optional<std::int64_t> DraCounts::Pool::Seen() const {
  if (of_generation.empty()) return std::nullopt;
  const auto& [generation, names] = *of_generation.rbegin();
  const std::int64_t wanted = slices.at(*names.begin()).slice_count;
  if (static_cast<std::int64_t>(names.size()) != wanted) return std::nullopt;
  return generation;
}

std::optional<std::int64_t> DraCounts::Seen(const PoolKey& key) const {
  const auto pool = pools_.find(key);
  return pool == pools_.end() ? std::nullopt : pool->second.Seen();
}

DraCounts::Nodes DraCounts::Upsert(ResourceSlice slice) {
  const std::string name = slice.meta.name;
  const PoolKey key{slice.driver, slice.pool};
  Nodes changed;
  if (const auto it = pool_of_.find(name); it != pool_of_.end() && it->second != key) {
    changed = DeleteSlice(name);
  }
  const auto before = Seen(key);
  Remove(name, changed);
  pool_of_.emplace(name, key);
  Ignore(slice, 1);
  Pool& pool = pools_[key];
  pool.of_generation[slice.generation].insert(name);
  if (!slice.node.empty()) {
    pool.of_node[slice.node].insert(name);
    of_node_[slice.node].insert(key);
    changed.insert(slice.node);
  }
  for (const SliceDevice& device : slice.devices) pool.of_device[device.name].insert(name);
  pool.slices.emplace(name, std::move(slice));
  TellPool(key, before, changed);
  return changed;
}

DraCounts::Nodes DraCounts::DeleteSlice(const std::string& name) {
  Nodes changed;
  const auto it = pool_of_.find(name);
  if (it == pool_of_.end()) return changed;
  const PoolKey key = it->second;
  const auto before = Seen(key);
  Remove(name, changed);
  TellPool(key, before, changed);
  return changed;
}

/// If another generation counts now than `before`, or none does, that concerns all nodes of the
/// pool. A pool may have many nodes, whose slices come one by one: each slice concerns only its own
/// node.
void DraCounts::TellPool(const PoolKey& key, std::optional<std::int64_t> before,
                         Nodes& changed) const {
  if (Seen(key) == before) return;
  const auto pool = pools_.find(key);
  if (pool == pools_.end()) return;
  for (const auto& [node, names] : pool->second.of_node) changed.insert(node);
}

void DraCounts::Remove(const std::string& name, Nodes& changed) {
  const auto it = pool_of_.find(name);
  if (it == pool_of_.end()) return;
  const PoolKey key = it->second;
  pool_of_.erase(it);
  Pool& pool = pools_.at(key);
  const ResourceSlice slice = std::move(pool.slices.extract(name).mapped());
  Ignore(slice, -1);
  auto& siblings = pool.of_generation.at(slice.generation);
  siblings.erase(name);
  if (siblings.empty()) pool.of_generation.erase(slice.generation);
  for (const SliceDevice& device : slice.devices) {
    const auto slices = pool.of_device.find(device.name);
    if (slices == pool.of_device.end()) continue;  // named twice
    slices->second.erase(name);
    if (slices->second.empty()) pool.of_device.erase(slices);
  }
  if (!slice.node.empty()) {
    changed.insert(slice.node);
    auto& names = pool.of_node.at(slice.node);
    names.erase(name);
    if (names.empty()) {
      pool.of_node.erase(slice.node);
      auto& pools = of_node_.at(slice.node);
      pools.erase(key);
      if (pools.empty()) of_node_.erase(slice.node);
    }
  }
  if (pool.slices.empty()) pools_.erase(key);
}

DraCounts::Nodes DraCounts::Upsert(ResourceClaim claim) {
  const std::string uid = claim.meta.uid;
  Nodes changed = DeleteClaim(uid);
  if (claim.for_extended_resource || claim.devices.empty()) return changed;
  for (const ClaimedDevice& device : claim.devices) Count(device, 1, changed);
  claims_.emplace(uid, std::move(claim));
  return changed;
}

DraCounts::Nodes DraCounts::DeleteClaim(const std::string& uid) {
  Nodes changed;
  const auto it = claims_.find(uid);
  if (it == claims_.end()) return changed;
  for (const ClaimedDevice& device : it->second.devices) Count(device, -1, changed);
  claims_.erase(it);
  return changed;
}

void DraCounts::Count(const ClaimedDevice& claimed, int change, Nodes& changed) {
  if ((claimed_[claimed] += change) == 0) claimed_.erase(claimed);
  const auto pool = pools_.find({claimed.driver, claimed.pool});
  if (pool == pools_.end()) return;
  const auto slices = pool->second.of_device.find(claimed.device);
  if (slices == pool->second.of_device.end()) return;
  for (const std::string& name : slices->second) {
    const std::string& node = pool->second.slices.at(name).node;
    if (!node.empty()) changed.insert(node);
  }
}

bool DraCounts::Stands(const DeviceClass& device_class, const std::string& driver,
                       const SliceDevice& device) const {
  if (!device_class.match) return false;
  const DeviceMatch& match = *device_class.match;
  if (!match.driver.empty() && match.driver != driver) return false;
  return std::ranges::all_of(match.attributes, [&](const auto& wanted) {
    const auto it = device.attributes.find(wanted.first);
    return it != device.attributes.end() && it->second == wanted.second;
  });
}

void DraCounts::CountPool(const PoolKey& key, const Pool& pool, const std::string& node,
                          ResourceList& counts) const {
  const auto generation = pool.Seen();
  if (!generation) return;
  for (const std::string& name : pool.of_node.at(node)) {
    const ResourceSlice& slice = pool.slices.at(name);
    if (slice.generation != *generation) continue;
    for (const SliceDevice& device : slice.devices) {
      if (device.divisible || device.tainted) continue;
      if (claimed_.contains({key.first, key.second, device.name})) continue;
      std::set<std::string_view> counted;  // two classes may have the same resource
      for (const auto& [class_name, device_class] : classes_) {
        if (Stands(device_class, key.first, device) &&
            counted.insert(device_class.extended_resource).second) {
          counts[device_class.extended_resource] += kWhole;
        }
      }
    }
  }
}

ResourceList DraCounts::Of(const std::string& node) const {
  ResourceList counts;
  const auto pools = of_node_.find(node);
  if (pools == of_node_.end()) return counts;
  for (const PoolKey& key : pools->second) CountPool(key, pools_.at(key), node, counts);
  return counts;
}

void DraCounts::Ignore(const ResourceSlice& slice, int change) {
  if (slice.node.empty()) ignored_["no_node"] += change;
  for (const SliceDevice& device : slice.devices) {
    if (device.divisible) ignored_["divisible"] += change;
    if (device.tainted) ignored_["tainted"] += change;
  }
}

}  // namespace berth::kube
