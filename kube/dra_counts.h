// How many devices of an extended resource, published by DRA drivers, the nodes have: the devices
// that kube-scheduler may give to a pod that asks for `nvidia.com/gpu` where the node itself lists
// none (KEP 5004). Plain state: no I/O, no locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "kube/dra.h"

namespace berth::kube {

/// How many devices of each resource a node has by what DRA drivers publish. Not thread-safe.
class DraCounts {
 public:
  using Nodes = std::set<std::string>;

  // --- Updates from the informers; each returns the nodes whose counts may have changed.
  Nodes Upsert(DeviceClass device_class);
  Nodes Upsert(ResourceSlice slice);
  Nodes Upsert(ResourceClaim claim);
  Nodes DeleteClass(const std::string& name);
  Nodes DeleteSlice(const std::string& name);
  Nodes DeleteClaim(const std::string& uid);

  /// By resource, thousandths: the devices of the node that match a class of the resource, less
  /// those that a user's own claim has. A device that was allocated to a pod because it asked for
  /// the resource is not subtracted: that pod is charged like any other.
  ResourceList Of(const std::string& node) const;

  /// Devices and objects that exist and cannot be counted, by reason: `class_selector` (a class
  /// with a resource's name, whose selector only CEL can evaluate), `no_node` (slices of a network,
  /// not of a node), `divisible` and `tainted` (devices).
  const std::map<std::string, std::int64_t>& Ignored() const { return ignored_; }

 private:
  using PoolKey = std::pair<std::string, std::string>;  ///< Driver, pool.

  /// Of a pool, kube-scheduler uses the highest generation only, and nothing of an incomplete pool.
  struct Pool {
    std::map<std::string, ResourceSlice> slices;                  ///< By name.
    std::map<std::int64_t, std::set<std::string>> of_generation;  ///< Names of slices.
    std::map<std::string, std::set<std::string>> of_node;         ///< Names of slices.
    std::map<std::string, std::set<std::string>> of_device;       ///< Names of slices.

    /// The generation that counts; nullopt: none does.
    std::optional<std::int64_t> Seen() const;
  };

  std::optional<std::int64_t> Seen(const PoolKey& key) const;
  Nodes AllNodes() const;
  void Remove(const std::string& slice, Nodes& changed);
  void TellPool(const PoolKey& key, std::optional<std::int64_t> before, Nodes& changed) const;
  void Ignore(const ResourceSlice& slice, int change);
  void Count(const ClaimedDevice& device, int change, Nodes& changed);
  bool Stands(const DeviceClass& device_class, const std::string& driver,
              const SliceDevice& device) const;
  void CountPool(const PoolKey& key, const Pool& pool, const std::string& node,
                 ResourceList& counts) const;

  std::map<std::string, DeviceClass> classes_;  ///< Classes with an extended resource, by name.
  std::map<PoolKey, Pool> pools_;
  std::map<std::string, PoolKey> pool_of_;            ///< By slice.
  std::map<std::string, std::set<PoolKey>> of_node_;  ///< Pools with a slice of the node.
  std::map<std::string, ResourceClaim> claims_;       ///< By UID; without those made by
                                                      ///< kube-scheduler.
  std::map<std::string, std::int64_t> ignored_{
      {"class_selector", 0}, {"divisible", 0}, {"no_node", 0}, {"tainted", 0}};
  std::map<ClaimedDevice, int> claimed_;  ///< The number of claims that have the device.
};

}  // namespace berth::kube
