// A random story: every number is one event in a small world. After every step the world can be
// checked for violated invariants.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace berth::testing {

class Story {
 public:
  /// `failover`: kube-scheduler's leader changes now and then; the new one asks about pods whose
  /// bind calls from the old one are still parked.
  explicit Story(bool failover = false, engine::Options options = {});

  World& world() { return world_; }

  /// One event, chosen by the number.
  void Step(int number);
  /// A description of what is violated now; empty: nothing.
  std::string Violation();
  /// Ends all faults, delivers all late events, waits for all pauses to end, and lets
  /// kube-scheduler do its work.
  void Calm();
  /// Deletes everything and waits until every outcome is known.
  void EndAll();

 private:
  void CreateGang(int choice);
  void CreateSingle(int choice);
  void Attempt(int choice);
  void DisturbNode(int choice);
  void SetTrouble(int choice);
  void SettleBindings();
  /// The name of some pod; empty if there is none.
  std::string Pick(int choice) const;
  std::string GangOf(const std::string& pod) const;
  std::set<const cluster::PodInfo*> Victims();
  std::string Overcommitted();
  std::string OverCap();
  std::string TornGang();

  bool failover_;
  World world_;
  std::vector<kube::Node> all_nodes_;
  std::set<std::string> disturbed_;  ///< Gangs that lost a member or a node: they may be
                                     ///< incomplete.
  int created_ = 0;
};

}  // namespace berth::testing
