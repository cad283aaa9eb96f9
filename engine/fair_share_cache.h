// The fair shares of queues, as decisions see them: read from the whole cluster when they are first
// asked for, and again when it has changed.
#pragma once

#include <cstdint>
#include <utility>

#include "cluster/store.h"
#include "engine/workload_state.h"
#include "policy/claims.h"
#include "policy/fit.h"

namespace berth::engine {

class FairShareCache {
 public:
  /// All must outlive it.
  FairShareCache(const cluster::Store& store, const States& states, policy::FitCache& fit)
      : store_(&store), states_(&states), fit_(&fit) {}

  /// Of this moment. Takes some 10 µs for each workload if the cluster has changed.
  const policy::FairShareTable& Now(TimePoint now);
  /// The same, or of a moment ago: enough to tell who need not be looked at. Whoever is left out
  /// wrongly is judged again once they are renewed (Engine::WakeClaimants).
  const policy::FairShareTable& Recent(TimePoint now);
  /// Of this moment, as they were if planned members gave their places up.
  policy::FairShareTable Without(TimePoint now, const policy::QueueDemands::PodSet& given_up);
  /// Something else that they depend on has changed: whether work could ever be placed.
  void Expire() { generation_ = {}; }
  /// As they were computed last; null: no decision has needed them yet.
  const policy::FairShareTable* last() const { return renewals_ > 0 ? &shares_ : nullptr; }
  /// How often they were computed.
  std::uint64_t renewals() const { return renewals_; }
  /// When Recent computes them again. In a cluster with many workloads that is not after every
  /// change, so that it costs some hundredths of the time.
  TimePoint fresh_until() const { return fresh_until_; }

 private:
  /// Of the store, and of its policy.
  using Generation = std::pair<std::uint64_t, std::uint64_t>;
  /// Fewer workloads than that are read after every change.
  static constexpr std::size_t kFew = 1'000;

  bool IsPlaceable(const cluster::Workload& workload) const;

  const cluster::Store* store_;
  const States* states_;
  policy::FitCache* fit_;
  policy::QueueDemands demands_;
  policy::FairShareTable shares_;  ///< By `demands_`.
  Generation generation_;          ///< 0: they are to be computed.
  std::uint64_t renewals_ = 0;
  TimePoint fresh_until_ = 0;
};

}  // namespace berth::engine
