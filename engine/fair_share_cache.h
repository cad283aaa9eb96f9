// The fair shares of queues, as decisions see them. What each workload adds to the demand of queues
// is remembered, and read again only when it may have changed; shares are computed again only when
// demand, nodes or the policy have. (They do not depend on which jobs run.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "policy/empty_room.h"
#include "policy/fair_share_table.h"
#include "policy/fit.h"
#include "policy/queue_demand.h"

namespace berth::engine {

using cluster::TimePoint;

class FairShareCache {
 public:
  /// All must outlive it. It is the only one that takes the store's news of demand.
  FairShareCache(cluster::Store& store, policy::FitCache& fit)
      : store_(&store), fit_(&fit), room_(store, fit) {}

  /// About `pods` pods will come: makes the tables large enough for them.
  void Expect(std::size_t pods);
  /// Whether the demand of all workloads has been read under this policy.
  bool HasRead() const { return read_under_ == store_->policy_generation(); }
  /// Reads that of at most `most` more. Not to be called while the store is reading().
  void ReadSome(std::size_t most);
  /// Of this moment. Takes some 10 µs for each workload that was not read, or that has changed; and
  /// where demand is another one some 20 ms with 1,000 queues and 50,000 jobs.
  const policy::FairShareTable& Now(TimePoint now);
  /// The same, or of a moment ago under the same policy: enough to tell which workloads find
  /// nothing to evict. A workload that is wrongly among them is judged again once the shares are
  /// renewed (Engine::WakeClaimants).
  const policy::FairShareTable& Recent(TimePoint now);
  /// Whether Recent gives the shares of this moment.
  bool IsOfNow() const;
  /// Of this moment, as they were if planned members gave their places up.
  policy::FairShareTable Without(TimePoint now, const policy::QueueDemands::PodSet& given_up);

  /// To be called before it is destroyed.
  void Forget(const cluster::Workload& workload);

  // --- Jobs that were evicted, and are away until their owners have made them again. What they ask
  // for is demand meanwhile: else each eviction would change the shares that it was decided by, and
  // give others claims for a moment.
  /// `workload`, of which a member has just left, is one; `job`: EvictedJobs::KeyOf. It is demand
  /// until a workload of that job is, at most until then.
  void KeepAway(const cluster::Workload& workload, const std::string& job, TimePoint until);
  /// Forgets those whose time is over. Returns whether there were some.
  bool EndAway(TimePoint now);
  /// When that has something to do next; nullopt: nothing.
  std::optional<TimePoint> away_until() const { return away_until_; }
  /// What they add to demand.
  std::vector<policy::QueueJob> Away() const;

  /// As they were computed last; null: no decision has needed them yet.
  const policy::FairShareTable* last() const { return renewals_ > 0 ? &shares_ : nullptr; }
  /// How often they were computed.
  std::uint64_t renewals() const { return renewals_; }
  /// For checks: whether the shares of `last` equal those of a full reading, or are to be computed
  /// again before the next use.
  bool Holds() const;
  /// When Recent computes them again. In a cluster with many workloads that is not after every
  /// change, so that it costs some hundredths of the time.
  TimePoint fresh_until() const { return fresh_until_; }

 private:
  /// Of the store, and of its policy.
  using Generation = std::pair<std::uint64_t, std::uint64_t>;
  /// With fewer workloads than that they are computed after every change.
  static constexpr std::size_t kFew = 1'000;

  struct AwayJob {
    std::vector<policy::QueueJob> jobs;
    TimePoint until;
  };
  /// By the key of the job and of the workload that it was: a controller may have several pods.
  using AwayJobs = std::map<std::pair<std::string, std::string>, AwayJob>;

  void Read(const cluster::Workload& workload);
  void EndAway(AwayJobs::iterator job);
  void Erase(AwayJobs::iterator job);
  policy::FairTree TreeBy(const policy::QueueDemands& demands) const;
  void ReadChanged();

  cluster::Store* store_;
  policy::FitCache* fit_;
  /// What each workload adds to `demands_`.
  std::unordered_map<const cluster::Workload*, std::vector<policy::QueueJob>> known_;
  policy::EmptyRoom room_;  ///< By which they were read.
  AwayJobs away_;
  std::optional<TimePoint> away_until_;  ///< The first AwayJob::until; each pass asks for it.
  static constexpr std::uint64_t kNoPolicy = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t read_under_ = kNoPolicy;     ///< The last policy under which all were read.
  std::uint64_t reading_under_ = kNoPolicy;  ///< That under which they are read.
  std::string read_upto_;                    ///< The last key that was read.
  policy::QueueDemands demands_;             ///< All of `known_`, and Away().
  policy::FairTree tree_;                    ///< By `demands_`.
  policy::FairShareTable shares_;            ///< By `tree_`.
  Generation generation_;                    ///< Of the last reading; 0: they are to be read.
  std::uint64_t renewals_ = 0;
  TimePoint fresh_until_ = 0;
};

}  // namespace berth::engine
