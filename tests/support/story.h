// A random story: every number is one thing that happens in a small world. After every step the
// world can be asked whether an invariant is broken.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace berth::testing {

class Story {
 public:
  /// `failover`: kube-scheduler's leader changes now and then; the new one asks about pods whose
  /// bind calls the old one left standing.
  explicit Story(bool failover = false, engine::Options options = {});

  World& world() { return world_; }

  /// One event, chosen by the number.
  void Step(int number);
  /// What is broken now, in words; empty: nothing.
  std::string Violation();
  /// Nobody fails any more, all news arrives, all pauses end, kube-scheduler does its work.
  void Calm();
  /// Everything is deleted and every outcome is known.
  void EndAll();

 private:
  void CreateGang(int choice);
  void CreateSingle(int choice);
  void Attempt(int choice);
  void DisturbNode(int choice);
  void SetTrouble(int choice);
  void SettleBindings();
  /// The name of some pod; empty: there is none.
  std::string Pick(int choice) const;
  std::string GangOf(const std::string& pod) const;
  std::string Overcommitted();
  std::string OverCap();
  std::string TornGang();

  bool failover_;
  World world_;
  std::vector<kube::Node> all_nodes_;
  std::set<std::string> disturbed_;  ///< Gangs that lost a member or a node: may be incomplete.
  int created_ = 0;
};

}  // namespace berth::testing
