// The demand of queues, read from the ledger: the jobs that they run, and the jobs that wait.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "policy/empty_room.h"
#include "policy/fair_share.h"

namespace berth::policy {

/// A job that a queue runs, or that waits in it; or a pod that a gang holds beyond its minimum.
struct QueueJob {
  /// Where not all jobs count, the least come first: running jobs, then by priority and age.
  struct Precedence {
    bool waits = false;
    std::int64_t below = 0;  ///< The negated priority.
    kube::Millis creation = 0;
    auto operator<=>(const Precedence&) const = default;
  };

  cluster::QueueId queue = cluster::kNoQueue;
  DeviceAmounts devices{};          ///< Not all 0.
  DeviceAmounts non_preemptible{};  ///< Of these, the devices of non-preemptible pods; empty: none.
  /// It has not started, and its queue caps the jobs of this user.
  std::optional<std::string> capped_user{};
  Precedence precedence{};  ///< Of jobs with either of these.

  bool IsLimited() const { return capped_user || !non_preemptible.empty(); }
  bool operator==(const QueueJob&) const = default;
};

/// What of `workload` is demand: a job is a pod by itself, or the minimum of a gang, which is what
/// its members hold and what waiting members ask for in the places that it lacks, if so many wait.
/// What members hold beyond the minimum counts pod by pod. These are no demand: a gang that is not
/// complete, a pod with another controller's scheduling gate, what waits in a queue on hold, and
/// what no nodes, or no limit, could ever hold. Whole-node pods that wait count with the smallest
/// nodes that match.
///
/// `room`: tells whether nodes that match could hold what waits if they were empty; in a queue with
/// amounts of single flavors, nodes of one flavor. `workload` asks it, so that it is named by
/// EmptyRoom::TakeChanged once this may have changed with the nodes.
/// `given_up`: members that count as if they had no place.
std::vector<QueueJob> JobsOf(const cluster::Store& store, const cluster::Workload& workload,
                             EmptyRoom& room,
                             const std::set<const cluster::PodInfo*>& given_up = {});
/// The same for callers that do not look at nodes. `placeable`: whether some could hold what waits.
/// Whole-node pods that wait count with Store::LeastDemandOf.
std::vector<QueueJob> JobsOf(const cluster::Store& store, const cluster::Workload& workload,
                             bool placeable);

/// Jobs by queue and size. Workloads are added one by one, so that a large cluster can be read in
/// parts; where the policy changes in between, queues and kinds are taken by their number until the
/// next reading.
///
/// Non-preemptible jobs are demand up to the quotas of their queue and of the queues above it; the
/// jobs of one user that wait in a queue that caps them, up to what the cap leaves.
/// QueueJob::Precedence says which of them count.
class QueueDemands {
 public:
  using PodSet = std::set<const cluster::PodInfo*>;

  /// Of all workloads, read at once.
  static QueueDemands Of(const cluster::Store& store, FitCache& fit);

  /// `count`: -1 takes off what was added.
  void Add(const std::vector<QueueJob>& jobs, std::int64_t count = 1);
  /// `placeable`: whether some nodes could ever hold what waits of it.
  void Add(const cluster::Store& store, const cluster::Workload& workload, bool placeable = true) {
    Add(JobsOf(store, workload, placeable));
  }
  /// The queues in the order of Store::queues(), with these jobs. What is shared out are the
  /// devices of nodes that are ready and not cordoned, and the devices that queues hold elsewhere,
  /// less what pods outside queues hold. A device whose holder is about to make room for another
  /// counts once, and one that its node no longer has does not count; nor does one whose holder
  /// ends on a node that is not ready, or cordoned.
  FairTree TreeOf(const cluster::Store& store) const;

 private:
  using Sizes = std::map<DeviceAmounts, std::int64_t>;
  /// A job of which it depends on the others whether it counts.
  struct Limited {
    QueueJob::Precedence precedence;
    cluster::QueueId queue;
    std::optional<std::string> capped_user;
    DeviceAmounts devices;
    DeviceAmounts non_preemptible;
    auto operator<=>(const Limited&) const = default;
  };

  void SetJobs(const cluster::Store& store, FairTree& tree) const;

  std::map<cluster::QueueId, Sizes> jobs_;
  std::map<Limited, std::int64_t> limited_;
};

}  // namespace berth::policy
