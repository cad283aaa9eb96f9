// Which of several sibling queues gets free room next: first queues that ask for what they are
// promised, then the queue that has least beyond its quota, by weight. And inside a queue, which of
// the users or namespaces that share it. Pure functions of the ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cluster/store.h"
#include "policy/whole_jobs.h"

namespace berth::policy {

/// The rank of a queue among its siblings, with its next job counted. The least comes first.
struct Standing {
  bool beyond = false;      ///< With the job it has more than its quota of some device.
  std::int64_t excess = 0;  ///< How much: thousandths of devices, or, where there are several kinds
                            ///< of devices, billionths of all of the kind of which it has most.
  std::int64_t weight = 1;  ///< Thousandths, see config::Queue.
  std::int64_t priority = 0;  ///< Of the queue.
  /// It lost a straddler, which this job makes good (Exchange::UndercutBy): of the queues beyond
  /// their quotas it comes first.
  bool owed = false;

  // With fairness.halfLife, `excess` contains the past; these do not, and do not order queues by
  // themselves: see Yields.
  std::int64_t held_excess = 0;  ///< As `excess`, by what it has with the job.
  bool entitled = true;          ///< With the job it stays within its fair share.

  /// A total preorder: queues that compare equal are ordered by the age and the key of their first
  /// workloads.
  bool operator<(const Standing& other) const;
  bool operator==(const Standing& other) const { return !(*this < other) && !(other < *this); }
};

/// Whether one has less beyond its quota than the other, by weight and by what they hold with the
/// job alone. A strict weak order.
bool HoldsLess(const Standing& one, const Standing& other);
/// Whether the queue must let `entitled`, one of its siblings, go first although it used less in
/// the past: the sibling would take the room back at once, by its fair share (policy/claims.h). So
/// the past never leads to an eviction.
bool Yields(const Standing& standing, const Standing& entitled);

/// A Standing's `excess` of `amount` beyond a quota, where there are `total` of that kind of
/// devices and `kinds` kinds. Of several kinds the dominant one counts: the largest part of all
/// that there are (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011).
std::int64_t ExcessPart(std::int64_t amount, std::int64_t total, std::size_t kinds);

/// What a queue would have beyond its quotas, of the kinds of devices that a job asks for. A quota
/// of some of these promises the job as a whole: of the others, of which the queue has no quota,
/// nothing is beyond as long as it stays within; and then the same part of them as of the promised
/// kind of which most is beyond. Of a job that asks for no promised kind, all is beyond. First call
/// See for each kind, then the others.
class BeyondQuota {
 public:
  explicit BeyondQuota(std::size_t kinds) : kinds_(kinds) {}
  /// `amount`: what the queue would have.
  void See(std::int64_t amount, std::int64_t quota);
  bool Is(std::int64_t amount, std::int64_t quota) const;
  /// As `excess` of a Standing. `total`: how much of that kind there is.
  std::int64_t Part(std::int64_t amount, std::int64_t quota, std::int64_t total) const;

 private:
  bool Follows(std::int64_t quota) const { return promised_ && quota <= 0; }

  std::size_t kinds_;
  bool promised_ = false;
  std::int64_t over_ = 0;  ///< Billionths of what it would have of a promised kind; 0: all within.
  bool is_over_ = false;
};

/// What fairness.halfLife orders queues by besides what they hold now, as it was at one moment.
struct PastUse {
  struct Of {
    cluster::Amounts held;   ///< On average: Store::PastUse.
    cluster::Amounts share;  ///< Its fair share.
  };
  std::vector<Of>
      queues{};           ///< By QueueId, each with the queues below it. Empty: without halfLife.
  std::vector<Of> own{};  ///< The same of the work of each queue itself.
};

/// `wants`: what the job asks for of devices. Without borrowing all queues rank equal. With `past`,
/// the mean of what the queue held and what it would hold with the job counts beyond its quota.
Standing StandingOf(const cluster::Store& store, cluster::QueueId queue,
                    const cluster::Demand& wants, const PastUse& past);
/// Whether the job would take `queue`, or one above it, beyond its quota.
bool GoesBeyondQuota(const cluster::Store& store, cluster::QueueId queue,
                     const cluster::Demand& wants);
/// The rank of the work of `queue` itself among the queues below it. It has no quota of its own
/// there, and weight 1.
Standing StandingOfOwn(const cluster::Store& store, cluster::QueueId queue,
                       const cluster::Demand& wants, const PastUse& past);

// --- Inside a queue that users or namespaces share (config::Queue::fair_within): the one that has
// less of its devices, with its next job counted, comes first.

/// The largest part of any kind of devices, as `excess` of a Standing. Both have one entry for each
/// kind.
std::int64_t LargestPart(const DeviceAmounts& held, const DeviceAmounts& total);
/// Of all nodes.
DeviceAmounts TotalDevices(const cluster::Store& store);
/// What the sharer would have of `queue` itself with `wants`.
DeviceAmounts HeldBy(const cluster::Store& store, cluster::QueueId queue, std::string_view sharer,
                     const cluster::Demand& wants);

}  // namespace berth::policy
