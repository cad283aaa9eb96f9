// The quota of queues, over the ledger: what a queue may still take, and why it may take no more.
// Queues are a tree: what a queue takes is charged to each queue on its path
// (cluster::QueueInfo::path), and the cap of each of them holds. Whether something may start within
// the caps is decided here alone; queue_demand.h also reads them, as limits of fair shares.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "policy/placement.h"

namespace berth::policy {

/// What the queues have in use, with what a decision would take and give back: the counterpart of
/// Overlay for queues. Valid until the store's next change.
class QuotaView {
 public:
  explicit QuotaView(const cluster::Store& store) : store_(&store) {}

  /// As if `charge` (Store::QueueCharge) were charged to `queue`; kNoQueue: changes nothing.
  void Take(cluster::QueueId queue, const cluster::Demand& charge);
  /// As if `pod` gave back what it is charged.
  void GiveBack(const cluster::PodInfo& pod);
  /// How many jobs of `user` hold devices of `queue` itself, where it caps them.
  std::int64_t Jobs(cluster::QueueId queue, std::string_view user) const;
  /// Whether this job (Workload::key) is one of them.
  bool HasJob(cluster::QueueId queue, std::string_view user, std::string_view job) const;
  /// What the queue and the queues below it have in use.
  std::int64_t Used(cluster::QueueId queue, cluster::ResourceId id) const;

  struct Allowance {
    cluster::QueueId queue;
    cluster::ResourceId id;
    std::int64_t cap;
    std::int64_t left;  ///< Negative: the queue is over its cap.
    /// More is lent already than other queues would lend: after an edit, or where devices are gone.
    bool overlent = false;
    std::int64_t promised = 0;  ///< Of Loans: what the quotas still cover. 0 for caps.
  };
  /// One entry for each cap on the path of `queue`, its own first, and one for each resource of
  /// which other queues keep something for themselves now; none for kNoQueue.
  std::vector<Allowance> Along(cluster::QueueId queue) const;
  /// The entries for the caps of `queue` itself.
  std::vector<Allowance> Of(cluster::QueueId queue) const;
  /// The entries for what other queues keep for themselves.
  std::vector<Allowance> Loans(cluster::QueueId queue) const;

  const cluster::Store& store() const { return *store_; }

 private:
  void Charge(cluster::QueueId queue, const cluster::Demand& demand, int sign);
  void AppendOf(cluster::QueueId queue, std::vector<Allowance>& allowances) const;
  void AppendLoans(cluster::QueueId queue, std::vector<Allowance>& allowances) const;
  std::map<cluster::QueueId, std::int64_t> IdleChanges(cluster::ResourceId id) const;
  std::int64_t KeptBelow(cluster::QueueId queue, cluster::ResourceId id,
                         const std::map<cluster::QueueId, std::int64_t>& changes) const;

  const cluster::Store* store_;
  /// What a queue uses more of a resource than the ledger says. A view is copied for each set of
  /// victims that is tried, and each pod of these is charged along the path of its queue: so all is
  /// in two blocks of memory, and the few entries of a queue are found by its number.
  struct Taken {
    cluster::ResourceId id;
    std::int32_t next;  ///< Of the same queue, as an index; kNone: it is the last.
    std::int64_t amount;
  };
  static constexpr std::int32_t kNone = -1;
  std::int32_t Find(cluster::QueueId queue, cluster::ResourceId id) const;
  std::int64_t& TakenOf(cluster::QueueId queue, cluster::ResourceId id);

  std::vector<Taken> taken_;
  std::vector<std::int32_t>
      first_;  ///< By QueueId, as far as needed: the index of its first entry.
  /// The pods that gave back what they held, by the job that they are counted in.
  using Job = std::tuple<cluster::QueueId, std::string, std::string>;
  std::map<Job, int> left_jobs_;
  void FreeOn(const cluster::NodeInfo& node, cluster::ResourceId id, std::int64_t amount);

  cluster::Amounts free_taken_;  ///< Of what is free on nodes that are open.
  /// What was given back on nodes that hold more than they have, because plans wait there for
  /// others to end: less of that becomes free.
  std::map<std::pair<cluster::NodeIndex, cluster::ResourceId>, std::int64_t> overfull_;
};

/// Whether quotas cover `charge` (Store::QueueCharge) on top of what is in use: the quotas of
/// `queue` and of the queues above it, as far as they have one. nullopt: none of them has a quota
/// of any of its devices, or of anything else if it has no devices.
std::optional<bool> QuotaCovers(const QuotaView& view, cluster::QueueId queue,
                                const cluster::Demand& charge);

/// kQueueHeld if nothing new may start in `queue`.
cluster::Verdict CheckHold(const cluster::Store& store, cluster::QueueId queue);

/// Why one more job of the workload's user may not start in its queue: it has as many there as the
/// queue allows each user. A job that holds devices of the queue is not one more.
cluster::Verdict CheckJobs(const QuotaView& view, const cluster::Workload& workload);

/// Whether the user of `pod` has more jobs in the pod's queue than that allows.
bool HasTooManyJobs(const QuotaView& view, const cluster::PodInfo& pod);

/// Sets `fit` to how many of `pods`, in order, `queue` has room for; if fewer than `min`, returns
/// why. Counts what the pods ask for, on nodes of `flavor`. (What a whole-node pod is charged
/// depends on its node, see GrantCharge.)
cluster::Verdict GrantMembers(const QuotaView& view, cluster::QueueId queue,
                              std::span<const cluster::PodInfo* const> pods, int min, int& fit,
                              cluster::FlavorId flavor = cluster::kNoFlavor);

/// Whether `queue` has room for the exact charge of a placement; if not, why. As with GrantMembers,
/// a cap of what the members do not ask for does not matter. Members that move give back what they
/// hold: a charge that is no larger than before is granted even over a cap, unless `strict`.
cluster::Verdict GrantCharge(const QuotaView& view, cluster::QueueId queue,
                             std::span<const Placed> placed, bool strict);

/// Whether `queue` can pay for one of `pods` on a node, if that depends on the node: for whole-node
/// pods, which pay for everything that their node has, and share what is left; and where there are
/// amounts of single flavors. Null: it does not depend on the node.
std::function<bool(const cluster::PodInfo&, cluster::NodeIndex)> PayableNodes(
    const QuotaView& view, cluster::QueueId queue, std::span<const cluster::PodInfo* const> pods);

/// Whether `queue`, or one above it, is over its cap of something that the pods take: after an
/// edit, or because nodes have grown. Nothing starts there until enough has ended.
bool IsOverCap(const QuotaView& view, cluster::QueueId queue,
               std::span<const cluster::PodInfo* const> pods);

/// The same of caps of the queue itself, on resources of which `which` is true.
bool IsOverCapOf(const QuotaView& view, cluster::QueueId queue,
                 const std::function<bool(cluster::ResourceId)>& which);

/// The resources that the pods need a loan of, while more of them is lent than other queues would
/// lend.
std::vector<cluster::ResourceId> LentTooMuch(const QuotaView& view, cluster::QueueId queue,
                                             std::span<const cluster::PodInfo* const> pods);
/// Whether the quotas on the path of `queue` cover what the pods take of these resources, which
/// other queues keep for themselves.
bool IsPromised(const QuotaView& view, cluster::QueueId queue,
                std::span<const cluster::PodInfo* const> pods,
                std::span<const cluster::ResourceId> ids);

/// Whether the queue that `pod` is charged to is over its cap of a resource that the pod takes.
bool IsOver(const QuotaView& view, const cluster::PodInfo& pod);

}  // namespace berth::policy
