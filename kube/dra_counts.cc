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

DraCounts::Nodes DraCounts::Upsert(ResourceSlice slice) {
  Nodes changed;
  const std::string name = slice.meta.name;
  Remove(name, changed);
  const PoolKey key{slice.driver, slice.pool};
  if (!slice.node.empty()) {
    of_node_[slice.node].insert(key);
    changed.insert(slice.node);
  }
  pool_of_.emplace(name, key);
  Ignore(slice, 1);
  Pool& pool = pools_[key];
  pool.emplace(name, std::move(slice));
  // Whether a pool is complete concerns all of its slices.
  for (const auto& [other, part] : pool) {
    if (!part.node.empty()) changed.insert(part.node);
  }
  return changed;
}

DraCounts::Nodes DraCounts::DeleteSlice(const std::string& name) {
  Nodes changed;
  Remove(name, changed);
  return changed;
}

void DraCounts::Remove(const std::string& slice, Nodes& changed) {
  const auto it = pool_of_.find(slice);
  if (it == pool_of_.end()) return;
  const PoolKey key = it->second;
  Pool& pool = pools_.at(key);
  const std::string node = pool.at(slice).node;
  for (const auto& [other, part] : pool) {
    if (!part.node.empty()) changed.insert(part.node);
  }
  Ignore(pool.at(slice), -1);
  pool.erase(slice);
  pool_of_.erase(it);
  const bool left = std::ranges::any_of(pool, [&](const auto& p) { return p.second.node == node; });
  if (!node.empty() && !left) {
    auto& pools = of_node_.at(node);
    pools.erase(key);
    if (pools.empty()) of_node_.erase(node);
  }
  if (pool.empty()) pools_.erase(key);
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

void DraCounts::Count(const ClaimedDevice& device, int change, Nodes& changed) {
  if ((claimed_[device] += change) == 0) claimed_.erase(device);
  const auto pool = pools_.find({device.driver, device.pool});
  if (pool == pools_.end()) return;
  for (const auto& [name, slice] : pool->second) {
    if (!slice.node.empty()) changed.insert(slice.node);
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

/// As kube-scheduler sees a pool: the highest generation alone, and nothing of one that is not
/// complete.
void DraCounts::CountPool(const PoolKey& key, const Pool& pool, const std::string& node,
                          ResourceList& counts) const {
  std::int64_t generation = 0;
  for (const auto& [name, slice] : pool) generation = std::max(generation, slice.generation);
  const auto of_it = [&](const auto& part) { return part.second.generation == generation; };
  const auto parts = std::ranges::count_if(pool, of_it);
  for (const auto& [name, slice] : pool) {
    if (slice.generation != generation || slice.slice_count != parts || slice.node != node) {
      continue;
    }
    for (const SliceDevice& device : slice.devices) {
      if (device.divisible || device.tainted) continue;
      if (claimed_.contains({key.first, key.second, device.name})) continue;
      std::set<std::string_view> counted;  // two classes may be of one resource
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
