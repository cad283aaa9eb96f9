// The demand of queues, read from the ledger: the jobs that they run, and those that wait.
#pragma once

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
  cluster::QueueId queue = cluster::kNoQueue;
  DeviceAmounts devices{};  ///< Not all 0.
  bool preemptible = true;
  /// It has not started, and its queue caps the jobs of this user.
  std::optional<std::string> capped_user{};
};

/// What of `workload` is demand. `placeable`: whether some nodes could ever hold what waits of it.
/// `given_up`: members that count as if they had no place.
///
/// A job is a pod by itself, or the minimum of a gang: what its members hold, and those that it
/// lacks, if enough of them can be placed. What members hold beyond the minimum counts pod by pod.
/// A gang that is not complete, a pod that waits for another one's scheduling gate and what waits
/// in a queue on hold are no demand. A whole-node pod that waits counts with Store::LeastDemandOf.
std::vector<QueueJob> JobsOf(const cluster::Store& store, const cluster::Workload& workload,
                             bool placeable,
                             const std::set<const cluster::PodInfo*>& given_up = {});

/// Whether nodes that match, if they were empty, could hold the members that the minimum of the
/// workload lacks: in a queue with amounts of single flavors, on nodes of one flavor. True where it
/// lacks none, or they cannot be placed yet. It is `workload` that asks `room`, which names it once
/// the answer may be another one.
bool CouldBePlaced(const cluster::Store& store, const cluster::Workload& workload, EmptyRoom& room);

/// Jobs by queue and size. Workloads are added one by one, so that those of a large cluster can be
/// read in parts; where the policy changes in between, queues and kinds are taken by their number
/// until the next reading.
///
/// Non-preemptible jobs are demand up to the quota of their queue, the smallest first; so are the
/// jobs of one user that wait in a queue that caps them, up to what the cap leaves.
class QueueDemands {
 public:
  using PodSet = std::set<const cluster::PodInfo*>;

  /// `count`: -1 takes off what was added.
  void Add(const std::vector<QueueJob>& jobs, std::int64_t count = 1);
  /// `placeable`: whether some nodes could ever hold what waits of it.
  void Add(const cluster::Store& store, const cluster::Workload& workload, bool placeable = true) {
    Add(JobsOf(store, workload, placeable));
  }
  /// The workload was added as it is now; instead it counts as if those of its members that
  /// `given_up` contains had no place.
  void GiveUp(const cluster::Store& store, const cluster::Workload& workload, bool placeable,
              const PodSet& given_up) {
    Add(JobsOf(store, workload, placeable), -1);
    Add(JobsOf(store, workload, placeable, given_up));
  }
  /// The queues in the order of Store::queues(), with these jobs. What is shared out are the
  /// devices of nodes that are ready and not cordoned, and those that queues hold elsewhere, less
  /// what pods outside queues hold. A device whose holder is about to make room for another counts
  /// once.
  FairTree TreeOf(const cluster::Store& store) const;

 private:
  using Sizes = std::map<DeviceAmounts, std::int64_t>;
  using Jobs = std::map<cluster::QueueId, Sizes>;

  void SetJobs(const cluster::Store& store, FairTree& tree) const;

  Jobs jobs_;
  Jobs non_preemptible_;
  /// By queue and user, of those that a cap concerns: by size, and whether they are preemptible.
  std::map<std::pair<cluster::QueueId, std::string>,
           std::map<std::pair<DeviceAmounts, bool>, std::int64_t>>
      capped_;
};

}  // namespace berth::policy
