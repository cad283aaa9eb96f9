// Invariant I7 in large worlds: the ledger is what its objects and live plans make of it, checked
// at the cost of what has changed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cluster/store.h"

namespace berth::sim {

/// A second store, brought up now and then to the objects and plans that another one holds by then.
/// Of what happened in between it learns nothing, so that its ledger owes nothing to the order of
/// events; it must be the same.
class Shadow {
 public:
  /// Empty: the ledgers are the same.
  std::string Difference(const cluster::Store& store);
  /// The ledger as it would be had `store`'s objects and live plans come at once.
  static std::string Rebuilt(const cluster::Store& store);

 private:
  void Follow(const cluster::Store& store);
  void FollowNodes(const cluster::Store& store);
  cluster::NodeIndex NodeOf(const cluster::NodeInfo& node);
  void FollowPods(const cluster::Store& store);
  void FollowPlans(const cluster::Store& store);
  bool Same(const cluster::Store& store) const;

  std::unique_ptr<cluster::Store> shadow_;
  std::map<std::string, std::string> nodes_;  ///< Those that are there, name to version.
};

}  // namespace berth::sim
