// The invariants of the design, checked against what the API server holds (the truth) and against
// the engine's ledger (its belief), after every step. Numbers I1-I10: docs/fault-search.md.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/world/berth_host.h"
#include "sim/world/scenario.h"
#include "sim/world/shadow.h"
#include "sim/world/usage.h"

namespace berth::sim {

class Checker {
 public:
  /// `env` must outlive it.
  explicit Checker(Environment& env);

  // --- What happens in the world.
  void OnBound(const kube::Pod& pod);
  /// Berth is about to answer a bind call, knowing what is in `store`.
  void OnBindCall(const cluster::Store& store, const std::string& uid);
  void OnPreemption(const kube::Pod& preemptor, const std::string& node,
                    const std::vector<const kube::Pod*>& victims);
  /// Of the nodes and victims that kube-scheduler offered for the pod `uid` Berth keeps these,
  /// knowing what is in `store`.
  void OnPreemptAnswer(const cluster::Store& store, const std::string& uid,
                       const engine::VictimMap& offered, const engine::VictimMap& kept);
  /// Whether the Binding of this pod to the node took effect is not known, until OnBindingRead.
  void OnBindingUnknown(const std::string& uid, const std::string& node) { unknown_[uid] = node; }
  void OnBindingRead(const std::string& uid) { unknown_.erase(uid); }
  void OnFault(const Fault& fault);
  void OnBerthStarted() { berth_started_ = env_.now(); }

  /// Compares the engine's whole belief seldom, as in a large world, however small this one is.
  void LookSeldom() { looks_seldom_ = true; }
  /// After every event. Null: Berth is down.
  void AfterStep(const BerthHost* host);
  /// A pending workload that has a placement in the free room; empty: none.
  std::string WhoCouldRun() const;
  /// All has been quiet for longer than any pause: nobody waits who could run, belief is truth.
  void WhenQuiet(const BerthHost& host);
  /// Every pod is gone, and the news has arrived.
  void WhenEmpty(const BerthHost& host);

  /// The run cannot go on.
  void Stop(std::string why) { Broken(std::move(why)); }

  /// Empty: nothing is broken. The first one found stays.
  const std::string& violation() const { return violation_; }
  TimePoint last_bound() const { return last_bound_; }
  int bound() const { return bound_; }
  int gangs() const { return gangs_; }
  int evictions() const { return evictions_; }
  int terms() const { return terms_; }

 private:
  /// The longest that Berth or kube-scheduler may go by old news: a slow or broken watch, a Binding
  /// under way, a call that stands.
  static constexpr Duration kOldNews = 75'000;

  /// The ledger is compared with a fresh store after every so many changes, and when all is quiet:
  /// a fresh store costs more than the rest of a day. What differs for a moment alone may be
  /// missed.
  static constexpr int kRebuildEvery = 8;

  /// The largest values of late: news is late as well, so that an excess counts only when it
  /// exceeds all of these.
  class Late {
   public:
    void Set(TimePoint now, std::int64_t value);
    std::int64_t Most(TimePoint now) const;

   private:
    std::deque<std::pair<TimePoint, std::int64_t>> values_;
  };

  /// What Berth had been told, when it charged a pod, of the queue or the node that it charged.
  struct Told {
    std::string where;
    std::int64_t most = 0;  ///< Milli-GPUs that may be taken there.
  };

  void Broken(std::string what);
  void Began(const BerthHost& host);
  void CheckUnknown(const cluster::Store& store);
  void CheckStarted(const cluster::Store& store);
  static std::optional<std::int64_t> ToldMost(const std::vector<std::string>& uids,
                                              const std::string& where,
                                              const std::map<std::string, Told>& told);
  void RememberTold(const BerthHost& host, const cluster::PodInfo& pod, bool decided);
  /// Milli-GPUs that a queue may use. 0: there is no such queue.
  static std::int64_t CapOf(const config::PolicyConfiguration& policy, const std::string& name);
  void WatchNode(const Change& change);
  void WatchPolicy(const config::PolicyConfiguration& policy);
  std::int64_t GpusOf(const std::string& node) const;
  void CheckRoom(const kube::Pod& pod);
  void CheckQueues(const kube::Pod& pod);
  bool FollowsItsGang(const kube::Pod& bound) const;
  void CheckBudgets(const cluster::Store& store, const cluster::PodInfo& preemptor,
                    const engine::VictimMap& offered, const std::string& node,
                    const engine::VictimSet& set);
  void WatchGang(const Change& change);
  bool Runs(const std::string& gang, const std::string& but) const;
  void CheckBarrier(const kube::Pod& pod);
  void CheckStart(const std::string& gang, const std::string& who);
  void CheckDomain(const kube::Pod& pod);
  void CheckIndices(const kube::Pod& pod);
  void CheckDevices(const engine::Engine& engine);
  void CheckPlans(const BerthHost& host);
  void CheckStanding(const BerthHost& host);
  void CheckCaps(const BerthHost& host);
  bool FitsSomewhere(const kube::Pod& pod) const;
  bool CouldRunAlone(const kube::Pod& pod) const;
  bool QueueHasRoom(const kube::Pod& pod, std::int64_t gpus) const;
  void CheckLedger(const cluster::Store& store);

  Environment& env_;
  Life life_;
  Usage usage_;
  std::string violation_;
  bool looks_seldom_ = false;
  std::uint64_t next_look_ = 0;  ///< The step of a large world at which belief is checked again.
  std::map<std::pair<std::string, std::string>, Late> allocatable_;  ///< By node, resource.
  std::map<std::string, Late> caps_;                                 ///< GPUs, by queue.
  std::unordered_map<std::string, std::string> gang_of_;  ///< By UID, of all that ever were.
  /// Gang to members without devices, by UID, with when they last changed.
  std::map<std::string, std::map<std::string, TimePoint>> launchers_;
  /// From when the last running member of a gang has ended until the next time that happens.
  struct Incarnation {
    bool runs = false;           ///< A member with devices is bound and not about to end.
    bool checked = false;        ///< It began with a Binding under Berth's rules.
    std::set<std::string> came;  ///< UIDs that came to bind.
    int needed = 0;              ///< Of these, when the first one was bound.
    std::string plan;            ///< Of the first one bound.
  };
  std::map<std::string, Incarnation> incarnations_;  ///< By gang.
  /// Gang to members that have succeeded, by UID: their plan, and when they last changed.
  std::map<std::string, std::map<std::string, std::pair<std::string, TimePoint>>> succeeded_;
  std::set<std::string> anywhere_;  ///< UIDs that passthrough may have bound.
  std::set<std::string> joined_;  ///< UIDs that came to bind when others ran, as far as Berth knew.
  TimePoint scheduler_restarted_ = -1'000'000;
  TimePoint berth_started_ = -1'000'000;
  TimePoint passthrough_until_ = -1'000'000;
  std::map<std::string, TimePoint> strangers_;  ///< Node to when another scheduler bound there.
  TimePoint last_bound_ = 0;
  int bound_ = 0;
  int gangs_ = 0;
  int evictions_ = 0;
  int terms_ = 0;
  /// All that was ever so, in the order of the API server's journal.
  std::vector<std::pair<std::string, std::int64_t>> devices_;  ///< Node, milli-GPUs.
  std::vector<std::shared_ptr<const config::PolicyConfiguration>> policies_;
  std::map<std::string, Told> told_caps_;   ///< By UID: of its queue.
  std::map<std::string, Told> told_rooms_;  ///< By UID: of its node.

  const BerthHost* host_ = nullptr;  ///< Of which the rest speaks; null: none decides.
  bool looked_ = false;              ///< At its ledger, at least once.
  std::uint64_t generation_ = 0;
  int changes_ = 0;
  Shadow shadow_;                                         ///< Of large worlds.
  std::map<std::string, std::set<std::string>> charged_;  ///< Queue to UIDs, one step ago.
  std::set<std::string> holding_;                         ///< UIDs with a charge, one step ago.
  std::set<std::string> posting_;                         ///< UIDs that are about to be bound.
  std::map<std::string, std::string>
      unknown_;                 ///< UID to the node of a Binding without an outcome.
  std::size_t told_until_ = 0;  ///< Of `devices_`, what it has been told:
  std::map<std::string, std::int64_t> told_gpus_;
};

}  // namespace berth::sim
