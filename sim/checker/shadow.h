// Invariant I7 in large worlds: the ledger equals what its objects and live plans imply. A check
// costs in proportion to what has changed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cluster/store.h"

namespace berth::sim {

/// A second store, which is updated now and then to the objects and plans that another store then
/// holds. It does not see the events in between, so that its ledger cannot depend on their order;
/// the two ledgers must be equal.
class Shadow {
 public:
  /// Empty: the ledgers are the same.
  std::string Difference(const cluster::Store& store);
  /// The ledger of a new store that gets `store`'s objects and live plans at once.
  static std::string Rebuilt(const cluster::Store& store);

 private:
  void Follow(const cluster::Store& store);
  void FollowNodes(const cluster::Store& store);
  cluster::NodeIndex NodeOf(const cluster::NodeInfo& node);
  void FollowPods(const cluster::Store& store);
  void FollowPlans(const cluster::Store& store);
  bool Same(const cluster::Store& store) const;

  std::unique_ptr<cluster::Store> shadow_;
  std::map<std::string, std::string> nodes_;  ///< Nodes that exist, name to version.
};

}  // namespace berth::sim
