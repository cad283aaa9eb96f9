// The fair shares of queues, as decisions see them. What each workload adds to the demand of queues
// is remembered, and read again only when it may have changed; shares are computed again only when
// demand, nodes or the policy have. (They do not depend on which jobs run.)
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "engine/workload_state.h"
#include "policy/claims.h"
#include "policy/fit.h"

namespace berth::engine {

class FairShareCache {
 public:
  /// All must outlive it. It is the only one that takes the store's news of demand.
  FairShareCache(cluster::Store& store, const States& states, policy::FitCache& fit)
      : store_(&store), states_(&states), fit_(&fit) {}

  /// Of this moment. The first call, and the first one after an edit of the policy, take some 10 µs
  /// for each workload; others that for each one that has changed, and where demand is another one
  /// some 20 ms with 1,000 queues and 50,000 jobs.
  const policy::FairShareTable& Now(TimePoint now);
  /// The same, or of a moment ago: enough to tell who need not be looked at. Whoever is left out
  /// wrongly is judged again once they are renewed (Engine::WakeClaimants).
  const policy::FairShareTable& Recent(TimePoint now);
  /// Of this moment, as they were if planned members gave their places up.
  policy::FairShareTable Without(TimePoint now, const policy::QueueDemands::PodSet& given_up);

  /// To be called when the verdict of the workload is another one: whether it could ever be placed
  /// may be, too.
  void OnVerdict(const cluster::Workload& workload);
  /// To be called before it is destroyed.
  void Forget(const cluster::Workload& workload);

  /// As they were computed last; null: no decision has needed them yet.
  const policy::FairShareTable* last() const { return renewals_ > 0 ? &shares_ : nullptr; }
  /// How often they were computed.
  std::uint64_t renewals() const { return renewals_; }
  /// For checks: whether the shares of `last` are those of a full reading, or are to be computed
  /// anew before the next use.
  bool Holds() const;
  /// When Recent computes them again. In a cluster with many workloads that is not after every
  /// change, so that it costs some hundredths of the time.
  TimePoint fresh_until() const { return fresh_until_; }

 private:
  /// What is known of one workload.
  struct Known {
    std::vector<policy::QueueJob> jobs{};  ///< What it adds to `demands_`.
    bool placeable = true;                 ///< By the same reading.
  };
  /// Of the store, and of its policy.
  using Generation = std::pair<std::uint64_t, std::uint64_t>;
  /// With fewer workloads than that they are computed after every change.
  static constexpr std::size_t kFew = 1'000;

  bool IsPlaceable(const cluster::Workload& workload) const;
  void Read(const cluster::Workload& workload);
  policy::FairTree TreeBy(const policy::QueueDemands& demands) const;
  void ReadAll();
  void ReadChanged();

  cluster::Store* store_;
  const States* states_;
  policy::FitCache* fit_;
  std::unordered_map<const cluster::Workload*, Known> known_;
  std::unordered_set<const cluster::Workload*> unjudged_;  ///< Their nodes were looked at instead.
  std::unordered_set<const cluster::Workload*> judged_;    ///< Since, with another result.
  cluster::ChangeLog::Position nodes_seen_ = 0;            ///< When that was.
  policy::QueueDemands demands_;                           ///< All of `known_`.
  policy::FairTree tree_;                                  ///< By `demands_`.
  policy::FairShareTable shares_;                          ///< By `tree_`.
  Generation generation_;  ///< Of the last reading; 0: they are to be read.
  std::uint64_t renewals_ = 0;
  TimePoint fresh_until_ = 0;
};

}  // namespace berth::engine
