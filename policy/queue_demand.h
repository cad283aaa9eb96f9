// The demand of queues, read from the ledger: the jobs that they run, and those that wait.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "policy/fair_share.h"

namespace berth::policy {

/// Jobs by queue and size. Workloads are added one by one, so that those of a large cluster can be
/// read in parts; where the policy changes in between, queues and kinds are taken by their number
/// until the next reading.
///
/// A job is a pod by itself, or the minimum of a gang: what its members hold, and those that it
/// lacks, if enough of them can be placed. What members hold beyond the minimum counts pod by pod.
/// A gang that is not complete, a pod that waits for another one's scheduling gate and what waits
/// in a queue on hold are no demand. A whole-node pod that waits counts with what it asks for.
/// Non-preemptible jobs are demand up to the quota of their queue, the smallest first; so are the
/// jobs of one user that wait in a queue that caps them, up to what the cap leaves.
class QueueDemands {
 public:
  using PodSet = std::set<const cluster::PodInfo*>;

  /// `placeable`: whether some nodes could ever hold what waits of it.
  void Add(const cluster::Store& store, const cluster::Workload& workload, bool placeable = true) {
    Count(store, workload, placeable, {}, 1);
  }
  /// The workload was added as it is now; instead it counts as if those of its members that
  /// `given_up` contains had no place.
  void GiveUp(const cluster::Store& store, const cluster::Workload& workload, bool placeable,
              const PodSet& given_up) {
    Count(store, workload, placeable, {}, -1);
    Count(store, workload, placeable, given_up, 1);
  }
  /// Sets the jobs of the tree's queues.
  void SetJobs(FairTree& tree) const;

 private:
  using Jobs = std::map<cluster::QueueId, std::map<DeviceAmounts, std::int64_t>>;

  /// Jobs of one user that wait in a queue that caps them.
  struct Capped {
    std::int64_t left = 0;  ///< How many of them could start before one that runs ends.
    /// By size and whether they are preemptible.
    std::map<std::pair<DeviceAmounts, bool>, std::int64_t> jobs{};
  };

  /// Each job counts `count` times.
  void Count(const cluster::Store& store, const cluster::Workload& workload, bool placeable,
             const PodSet& given_up, std::int64_t count);
  static void AddJob(Jobs& jobs, cluster::QueueId queue, const DeviceAmounts& devices,
                     std::int64_t count);
  bool AddCapped(const cluster::Store& store, const cluster::Workload& workload,
                 const DeviceAmounts& devices, bool preemptible, std::int64_t count);

  Jobs jobs_;
  Jobs non_preemptible_;
  std::map<std::pair<cluster::QueueId, std::string>, Capped> capped_;
};

/// The queues in the order of Store::queues(), without their jobs. What is shared out are the
/// devices of nodes that are ready and not cordoned, and those that queues hold elsewhere, less
/// what pods outside queues hold. A device whose holder is about to make room for another counts
/// once.
FairTree FairTreeOf(const cluster::Store& store);

}  // namespace berth::policy
