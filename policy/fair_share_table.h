// The fair shares of all queues as one table, with what they have in use beside them: what claims
// (claims.h) and the order of queues by past use (queue_order.h) are judged by.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/fair_share.h"
#include "policy/queue_order.h"
#include "policy/quota.h"

namespace berth::policy {

/// A queue; or, of a queue that has queues below it, the work that is in it directly, which is a
/// sibling of theirs with a quota of 0.
struct Claimant {
  cluster::QueueId queue = cluster::kNoQueue;
  bool own = false;
  bool operator==(const Claimant&) const = default;
};

/// The fair shares of all queues (fair_share.h), as they were at one time.
class FairShareTable {
 public:
  /// No queue is entitled to anything.
  FairShareTable() = default;
  /// `tree`: QueueDemands::TreeOf.
  FairShareTable(const cluster::Store& store, const FairTree& tree);

  /// Thousandths of a device. 0 for a resource that is no device, and for a queue that came later.
  std::int64_t Share(const cluster::Store& store, Claimant of, cluster::ResourceId id) const;
  /// What the claimant has in use by that view.
  std::int64_t Used(const QuotaView& view, Claimant of, cluster::ResourceId id) const;
  /// The claimants that are charged for the work of a queue, the narrowest first.
  std::vector<Claimant> PathOf(const cluster::Store& store, cluster::QueueId queue) const;

  /// Whether a queue that is not on the path of `queue` has less in use than its fair share, and
  /// with `within_quota` less than its quota, too.
  bool OthersLack(const QuotaView& view, cluster::QueueId queue, cluster::ResourceId id,
                  bool within_quota) const;

  bool operator==(const FairShareTable&) const = default;

 private:
  struct Entry {
    DeviceAmounts share{};
    DeviceAmounts own{};
    std::vector<cluster::QueueId> below{};  ///< The queues whose parent it is.
    bool operator==(const Entry&) const = default;
  };
  const Entry& EntryOf(cluster::QueueId queue) const;

  std::vector<Entry> entries_;  ///< By QueueId.
};

/// For fairness.halfLife: what queues held on average until `now`, and the shares in `shares`.
PastUse PastUseOf(const cluster::Store& store, const FairShareTable& shares,
                  cluster::TimePoint now);

}  // namespace berth::policy
