// Which waiting work an autoscaler of nodes is to see. An autoscaler buys nodes for pods that
// kube-scheduler has marked Unschedulable, and kube-scheduler does not look at pods behind a gate.
// So work that finds no room is ungated without a plan where its queue's quota covers it, and stays
// gated where it waits for quota (policy autoscaler.show). From then on it waits like work that
// never had the gate: kube-scheduler is refused every node until there is a plan.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "engine/workload_state.h"
#include "policy/quota.h"

namespace berth::engine {

class ShownWork {
 public:
  /// Both must outlive it.
  ShownWork(const cluster::Store& store, const States& states) : store_(store), states_(states) {}

  /// About `pods` pods will come: makes the tables large enough for them.
  void Expect(std::size_t pods) { known_.reserve(pods); }
  /// Reads whether the workload waits, and how. Call when it was judged, and when it has changed
  /// and is not judged.
  void Update(const cluster::Workload& workload, TimePoint now);
  /// Before it is destroyed.
  void Forget(const cluster::Workload& workload);
  /// Quotas or what is in use may have changed: see `due`.
  void LookAgain(TimePoint now);
  /// The pods whose gate is to be removed now; the caller sets MemberState::asked. Takes time in
  /// proportion to the number of queues if it is due.
  std::vector<const cluster::PodInfo*> TakeNext(TimePoint now);
  /// When TakeNext is to be called. nullopt: when something changes.
  std::optional<TimePoint> due() const { return due_; }

 private:
  /// A workload that waits for nodes, behind our gate. A queue's candidates are shown in the order
  /// in which they would start.
  struct Candidate {
    std::int32_t descending_priority = 0;
    TimePoint since = 0;
    const cluster::Workload* workload = nullptr;
    bool operator<(const Candidate& other) const;
  };
  struct Known {
    cluster::QueueId queue = cluster::kNoQueue;
    /// What the queue would be charged for its waiting pods without our gate.
    cluster::Demand ungated{};
    cluster::FlavorId flavor = cluster::kNoFlavor;  ///< Of the nodes that these count on.
    std::optional<Candidate> candidate{};           ///< Its entry in `candidates_`.
    std::int64_t least = 0;    ///< Of the first device, what it could start with.
    TimePoint refused_at = 0;  ///< Since when it is a candidate.
  };
  struct Line {
    std::set<Candidate> order{};
    std::multiset<std::int64_t> least{};  ///< Known::least of each.
  };
  /// By queue and user: jobs that are shown and have no room yet.
  using Jobs = std::map<std::pair<cluster::QueueId, std::string>, std::int64_t>;

  bool IsGated(const cluster::PodInfo& pod) const;
  cluster::Demand DemandOf(const cluster::PodInfo& pod) const;
  bool MayShow(cluster::QueueId queue) const;
  bool WaitsForNodes(const cluster::Workload& workload) const;
  std::int64_t LeftOf(const policy::QuotaView& view, cluster::QueueId queue) const;
  static bool StaysGated(const cluster::Workload& workload, const cluster::PodInfo& pod);
  std::vector<const cluster::PodInfo*> GatedOf(const cluster::Workload& workload) const;
  std::vector<const cluster::PodInfo*> LeastOf(const cluster::Workload& workload) const;
  /// Pods that are covered, and on nodes of which flavor.
  struct Covered {
    std::vector<const cluster::PodInfo*> pods{};
    cluster::FlavorId flavor = cluster::kNoFlavor;
  };
  Covered CoveredOf(const policy::QuotaView& view, const cluster::Workload& workload) const;
  std::vector<cluster::FlavorId> FlavorsOf(const cluster::Workload& workload,
                                           std::span<const cluster::PodInfo* const> pods) const;
  cluster::Demand ChargeOf(const cluster::PodInfo& pod, cluster::FlavorId flavor) const;
  std::optional<cluster::FlavorId> CoveredOn(const policy::QuotaView& view,
                                             const cluster::Workload& workload,
                                             std::span<const cluster::PodInfo* const> pods) const;
  Jobs ShownJobs() const;
  bool HasTooManyJobs(const policy::QuotaView& view, const cluster::Workload& workload,
                      const Jobs& jobs) const;
  void AddUngated(cluster::QueueId queue, const cluster::Demand& demand, int sign);
  policy::QuotaView WithUngated() const;
  bool TakeFrom(const Line& line, policy::QuotaView& view, std::optional<Jobs>& jobs, TimePoint now,
                std::vector<const cluster::PodInfo*>& shown);

  const cluster::Store& store_;
  const States& states_;
  std::unordered_map<const cluster::Workload*, Known> known_;  ///< Only workloads that wait.
  std::map<cluster::QueueId, cluster::Amounts> ungated_;       ///< The sum of Known::ungated.
  std::map<cluster::QueueId, Line> candidates_;                ///< None of them is empty.
  std::optional<TimePoint> due_;
};

}  // namespace berth::engine
