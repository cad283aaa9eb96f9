// The quota of queues, over the ledger: what a queue may still take, and why it may take no more.
// In policy and engine caps are read here alone. Flat: a queue answers for itself alone.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "policy/placement.h"

namespace berth::policy {

/// What the queues have in use, with what a decision would take and give back, as Overlay is for
/// nodes. Valid until the store's next change.
class QuotaView {
 public:
  explicit QuotaView(const cluster::Store& store) : store_(&store) {}

  /// As if `demand` were charged to `queue`; to kNoQueue: changes nothing.
  void Take(cluster::QueueId queue, const cluster::Demand& demand);
  /// As if `pod` gave back what it is charged.
  void GiveBack(const cluster::PodInfo& pod);

  struct Allowance {
    cluster::ResourceId id;
    std::int64_t cap;
    std::int64_t left;  ///< Negative: the queue is over its cap.
  };
  /// One for each resource that `queue` has a cap for. kNoQueue has none.
  std::vector<Allowance> Of(cluster::QueueId queue) const;

  const cluster::Store& store() const { return *store_; }

 private:
  void Add(cluster::QueueId queue, const cluster::Demand& demand, int sign);

  const cluster::Store* store_;
  std::map<cluster::QueueId, cluster::Amounts> taken_;
};

/// How many of `pods`, in order, `queue` has room for, into `fit`; fewer than `min`: why. By what
/// the pods ask for: what a whole-node pod is charged depends on its node, see GrantCharge.
cluster::Verdict GrantMembers(const QuotaView& view, cluster::QueueId queue,
                              std::span<const cluster::PodInfo* const> pods, int min, int& fit);

/// Whether `queue` has room for the exact charge of a placement; if not, why. Members that move
/// give back what they hold: what takes no more than before is granted, over a cap too, unless
/// `strict`.
cluster::Verdict GrantCharge(const QuotaView& view, cluster::QueueId queue,
                             std::span<const Placed> placed, bool strict);

/// The nodes that `queue` can pay, where `pods` are whole-node pods, which pay for what their node
/// has: they share what is left. Null: all.
std::function<bool(cluster::NodeIndex)> PayableNodes(const QuotaView& view, cluster::QueueId queue,
                                                     std::span<const cluster::PodInfo* const> pods);

/// The queue that `pod` is charged to is over its cap of something that the pod takes.
bool IsOver(const QuotaView& view, const cluster::PodInfo& pod);

}  // namespace berth::policy
