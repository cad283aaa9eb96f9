// How many devices of an extended resource the nodes have that a DRA driver publishes: what
// kube-scheduler may give to a pod that asks for `nvidia.com/gpu` where the node itself lists none
// (KEP 5004). Plain state: no I/O, no locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "kube/dra.h"

namespace berth::kube {

class DraCounts {
 public:
  using Nodes = std::set<std::string>;

  // --- What the informers say; each returns the nodes whose counts may be others now.
  Nodes Upsert(DeviceClass device_class);
  Nodes Upsert(ResourceSlice slice);
  Nodes Upsert(ResourceClaim claim);
  Nodes DeleteClass(const std::string& name);
  Nodes DeleteSlice(const std::string& name);
  Nodes DeleteClaim(const std::string& uid);

  /// By resource, thousandths: the devices of the node that a class of the resource stands for,
  /// less those that somebody's own claim has. A device that was allocated to a pod for asking for
  /// the resource is not taken off: that pod is charged like any other.
  ResourceList Of(const std::string& node) const;

  /// What is there and cannot be counted, by why: `class_selector` (a class with a resource's name,
  /// whose selector only CEL can judge), `no_node` (slices of a network, not of a node),
  /// `divisible` and `tainted` (devices).
  const std::map<std::string, std::int64_t>& Ignored() const { return ignored_; }

 private:
  using PoolKey = std::pair<std::string, std::string>;  ///< Driver, pool.

  /// kube-scheduler sees of a pool the highest generation alone, and nothing of one that is not
  /// complete.
  struct Pool {
    std::map<std::string, ResourceSlice> slices;                  ///< By name.
    std::map<std::int64_t, std::set<std::string>> of_generation;  ///< Names of slices.
    std::map<std::string, std::set<std::string>> of_node;         ///< Names of slices.
    std::map<std::string, std::set<std::string>> of_device;       ///< Names of slices.

    /// The generation that counts, if one does.
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

  std::map<std::string, DeviceClass> classes_;  ///< Those of an extended resource, by name.
  std::map<PoolKey, Pool> pools_;
  std::map<std::string, PoolKey> pool_of_;            ///< By slice.
  std::map<std::string, std::set<PoolKey>> of_node_;  ///< Pools with a slice of the node.
  std::map<std::string, ResourceClaim> claims_;       ///< Not those of kube-scheduler, by UID.
  std::map<std::string, std::int64_t> ignored_{
      {"class_selector", 0}, {"divisible", 0}, {"no_node", 0}, {"tainted", 0}};
  std::map<ClaimedDevice, int> claimed_;  ///< By how many claims.
};

}  // namespace berth::kube
