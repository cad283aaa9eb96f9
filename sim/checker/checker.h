// The invariants of the design, checked after every step against what the API server holds (the
// truth) and against the engine's ledger (its belief). Numbers I1-I11: docs/fault-search.md.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/checker/shadow.h"
#include "sim/checker/usage.h"
#include "sim/world/host_driver.h"
#include "sim/world/pods.h"

namespace berth::sim {

/// The key of the gang that the pod is a member of, as in cluster::Workload.
std::string GangKey(const kube::Pod& pod);
/// That of the gang, or of the pod by itself.
std::string WorkloadKey(const kube::Pod& pod);

/// Watches one simulated cluster, and keeps the first violation of an invariant.
class Checker {
 public:
  /// `env` must outlive it.
  explicit Checker(Environment& env);

  // --- Events of the simulated world.
  void OnBound(const kube::Pod& pod);
  /// Berth is about to answer a bind call, with the knowledge in `store`.
  void OnBindCall(const cluster::Store& store, const std::string& uid);
  void OnPreemption(const kube::Pod& preemptor, const std::string& node,
                    const std::vector<const kube::Pod*>& victims);
  /// Berth has answered preempt for the pod `uid`, with the knowledge in `engine`: with these nodes
  /// and victims.
  void OnPreemptAnswer(const engine::Engine& engine, const std::string& uid,
                       const engine::VictimMap& kept);
  /// Berth's eviction of the pod is about to take effect.
  void OnEviction(const kube::Pod& victim);
  /// It is unknown, until OnBindingRead, whether the Binding of this pod to the node took effect.
  void OnBindingUnknown(const std::string& uid, const std::string& node) { unknown_[uid] = node; }
  void OnBindingRead(const std::string& uid) { unknown_.erase(uid); }
  void OnFault(const Fault& fault);
  void OnBerthStarted() { berth_started_ = env_.now(); }

  /// Compares the engine's whole belief only rarely, as in a large world, whatever the size of this
  /// one.
  void LookSeldom() { looks_seldom_ = true; }
  /// Called after every event. Null: Berth is down.
  void AfterStep(const HostDriver* host);
  /// A pending workload that has a placement in the free room, and that `berth` may start; empty:
  /// none.
  std::string WhoCouldRun(const engine::Engine& berth) const;
  /// Called after a period without changes that is longer than any pause: no workload waits that
  /// could run, and the engine's belief equals the truth.
  void WhenQuiet(const HostDriver& host);
  /// Called when every pod is gone and the watches have delivered it.
  void WhenEmpty(const HostDriver& host);

  /// Ends the run with this violation.
  void Stop(std::string why) { Broken(std::move(why)); }

  /// The first violation found; empty: none.
  const std::string& violation() const { return violation_; }
  TimePoint last_bound() const { return last_bound_; }
  int bound() const { return bound_; }
  int gangs() const { return gangs_; }
  int evictions() const { return evictions_; }
  /// Pods that Berth has evicted by itself.
  int evicted() const { return evicted_; }
  /// Of these, the surplus of gangs that went on.
  int surplus() const { return surplus_; }
  /// Of these, those that made room for members which a running gang lacked.
  int for_running() const { return for_running_; }
  int terms() const { return terms_; }

 private:
  /// The longest that Berth or kube-scheduler may act on outdated information: a slow or broken
  /// watch, a Binding under way, a parked bind call.
  static constexpr Duration kOutdatedFor = 75'000;

  /// The ledger is compared with a fresh store once per this many changes, and when all is quiet,
  /// because a fresh store costs more than the rest of a day. A short-lived difference may be
  /// missed.
  static constexpr int kRebuildEvery = 8;

  /// The largest recent values. Watches are late, so an excess counts only when it exceeds all of
  /// these.
  class Late {
   public:
    void Set(TimePoint now, std::int64_t value);
    std::int64_t Most(TimePoint now) const;

   private:
    std::deque<std::pair<TimePoint, std::int64_t>> values_;
  };

  /// What the watches had told Berth about a queue or a node when it charged a pod there.
  struct Told {
    std::string where;
    std::int64_t most = 0;  ///< Milli-GPUs that may be taken there.
  };

  void Broken(std::string what);
  void Began(const HostDriver& host);
  void CheckUnknown(const cluster::Store& store);
  void CheckStarted(const cluster::Store& store);
  static std::optional<std::int64_t> ToldMost(const std::vector<std::string>& uids,
                                              const std::string& where,
                                              const std::map<std::string, Told>& told);
  void RememberTold(const HostDriver& host, const cluster::PodInfo& pod, bool decided);
  /// Milli-GPUs that a queue may use. 0: there is no such queue.
  static std::int64_t CapOf(const config::PolicyConfiguration& policy, const std::string& name);
  void WatchNode(const Change& change);
  void WatchPolicy(const config::PolicyConfiguration& policy);
  std::int64_t GpusOf(const std::string& node) const;
  void CheckRoom(const kube::Pod& pod);
  void CheckQueues(const kube::Pod& pod);
  void ReportOver(const kube::Pod& bound, const std::string& queue, std::int64_t used,
                  std::int64_t cap);
  bool FollowsItsGang(const kube::Pod& bound) const;
  void CheckRunTime(const kube::Pod& victim);
  void WatchWarning(const kube::Pod& pod);
  void CheckWarning(const kube::Pod& victim);
  void CheckDrained(const kube::Pod& victim);
  bool GoesWithItsJob(const kube::Pod& victim) const;
  void NotePartlyEvicted(const kube::Pod& victim);
  void CheckPartlyEvicted();
  void CheckSurplus(const kube::Pod& victim);
  void CheckBeneficiaries();
  void NoteUse(const kube::Pod& bound);
  void CheckBudgets(const cluster::Store& store, const cluster::PodInfo& preemptor,
                    const std::string& node, const engine::VictimSet& set);
  void WatchGang(const Change& change);
  bool Runs(const std::string& gang, const std::string& but) const;
  void CheckBarrier(const kube::Pod& pod);
  void CheckStart(const std::string& gang, const std::string& who);
  void CheckDomain(const kube::Pod& pod);
  void CheckIndices(const kube::Pod& pod);
  void CheckDevices(const engine::Engine& engine);
  void CheckPlans(const HostDriver& host);
  void CheckParked(const HostDriver& host);
  void CheckCaps(const HostDriver& host);
  void CheckParts(const engine::Engine& engine, const std::set<std::string>& fresh);
  void CheckPartsOf(const engine::Engine& engine, const cluster::PodInfo& fresh);
  void CheckJobs(const engine::Engine& engine, const std::set<std::string>& fresh,
                 const std::set<std::string>& held);
  void CheckStarts(const engine::Engine& engine, const std::set<std::string>& fresh);
  void CheckClaim(const engine::Engine& engine, const cluster::Workload& workload);
  void CheckLoan(const engine::Engine& engine, const cluster::Workload& workload,
                 const std::string& within);
  void CheckShown(const engine::Engine& engine);
  bool FitsSomewhere(const kube::Pod& pod) const;
  bool CouldRunAlone(const kube::Pod& pod) const;
  bool QueueHasRoom(const kube::Pod& pod, std::int64_t gpus) const;
  void CheckLedger(const cluster::Store& store);

  Environment& env_;
  Life life_;
  Usage usage_;
  std::string violation_;
  bool looks_seldom_ = false;
  std::uint64_t next_look_ = 0;  ///< In a large world, the step at which belief is checked again.
  std::map<std::pair<std::string, std::string>, Late> allocatable_;  ///< By node, resource.
  std::map<std::string, Late> caps_;                                 ///< GPUs, by queue.
  std::unordered_map<std::string, std::string> gang_of_;  ///< By UID, of every pod that ever
                                                          ///< existed.
  /// By gang: members without devices, by UID, with when they last changed.
  std::map<std::string, std::map<std::string, TimePoint>> launchers_;
  /// The time from when the last running member of a gang has ended until that happens again.
  struct Incarnation {
    bool runs = false;           ///< A member with devices is bound and not about to end.
    bool checked = false;        ///< It began with a Binding under Berth's rules.
    std::set<std::string> came;  ///< UIDs of members for which a bind call has arrived.
    int needed = 0;              ///< How many of them were needed when the first one was bound.
    std::string plan;            ///< The plan of the first one bound.
  };
  std::map<std::string, Incarnation> incarnations_;  ///< By gang.
  /// By gang: members that have succeeded, by UID, with their plan and when they last changed.
  std::map<std::string, std::map<std::string, std::pair<std::string, TimePoint>>> succeeded_;
  std::set<std::string> anywhere_;  ///< UIDs that passthrough may have bound.
  std::set<std::string> joined_;    ///< UIDs with a bind call while, as far as Berth knew, other
                                    ///< members ran.
  TimePoint scheduler_restarted_ = -1'000'000;
  TimePoint berth_started_ = -1'000'000;
  TimePoint passthrough_until_ = -1'000'000;
  std::map<std::string, TimePoint> other_binds_;  ///< By node: when another scheduler bound there.
  TimePoint last_bound_ = 0;
  int bound_ = 0;
  int gangs_ = 0;
  int evictions_ = 0;
  int evicted_ = 0;
  int surplus_ = 0;
  int for_running_ = 0;
  int faults_ = 0;
  /// What was evicted for a workload.
  struct Room {
    std::string victim;           ///< The first of them.
    std::set<std::string> nodes;  ///< Of all of them.
    std::string queue;            ///< Of the workload, as its priority.
    std::int32_t priority = 0;
  };
  /// By the key of a workload, while no member has been bound since.
  std::map<std::string, Room> in_vain_;
  std::map<std::string, TimePoint> left_;  ///< By the same key: when a member last ended.
  std::map<std::string, TimePoint> lost_;  ///< By gang: when one was last deleted, not evicted.
  /// By the key of a gang that loses members to an eviction: UIDs of those that ran then and are
  /// not about to end.
  struct PartlyEvicted {
    TimePoint since = 0;
    std::set<std::string> left{};
  };
  std::map<std::string, PartlyEvicted> partly_evicted_;
  /// When a pod is to be evicted, as its annotation says.
  struct ToldTime {
    std::string note;
    TimePoint at = 0;     ///< 0: the annotation has no valid time.
    TimePoint since = 0;  ///< When the API server has had it.
    TimePoint created = 0;
    std::string gang;  ///< Its key; empty: none.
  };
  std::map<std::string, ToldTime> told_times_;  ///< By UID; of pods that are gone, too.
  int terms_ = 0;
  /// All values that these ever had, in the order of the API server's journal.
  std::vector<std::pair<std::string, std::int64_t>> devices_;  ///< Node, milli-GPUs.
  std::vector<std::shared_ptr<const config::PolicyConfiguration>> policies_;
  std::map<std::string, Told> told_caps_;   ///< By UID: for the pod's queue.
  std::map<std::string, Told> told_rooms_;  ///< By UID: for the pod's node.

  const HostDriver* host_ = nullptr;  ///< The process that the members below describe; null: none
                                      ///< decides.
  bool looked_ = false;               ///< Its ledger was examined at least once.
  std::uint64_t generation_ = 0;
  int changes_ = 0;
  Shadow shadow_;                                         ///< For large worlds.
  std::map<std::string, std::set<std::string>> charged_;  ///< Queue to UIDs, one step ago.
  std::set<std::string> holding_;                         ///< UIDs with a charge, one step ago.
  std::set<std::string> posting_;                         ///< UIDs that are about to be bound.
  std::map<std::string, std::string>
      unknown_;                 ///< UID to the node of a Binding whose outcome is unknown.
  std::size_t told_until_ = 0;  ///< How many of `devices_` Berth has been told; `told_gpus_` has
                                ///< the values.
  std::map<std::string, std::int64_t> told_gpus_;
};

}  // namespace berth::sim
