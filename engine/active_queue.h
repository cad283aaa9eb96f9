// The workloads that wait for a place. Some are in line to be judged, in the order of their turns:
// gangs that run below their minimum first; then, queue by queue in the order of PriorityClass, age
// and key, always the queue whose first workload is oldest, since priority counts inside a queue
// only. Some are awake: they were judged, and any room that is given back may help them. All others
// rest (engine/wakeups.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory_resource>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cluster/model.h"

namespace berth::engine {

/// What decides when a workload is judged.
struct Turn {
  bool broken = false;  ///< It runs below its minimum.
  cluster::QueueId queue = cluster::kNoQueue;
  std::int32_t priority = 0;
  kube::Millis since = 0;  ///< The age that counts.
};

/// What changes the line takes time in the logarithm of its length.
class ActiveQueue {
 public:
  /// In line where `turn` says, wherever it stood before.
  void Put(const cluster::Workload& workload, const Turn& turn);
  /// Takes the next one out of the line, and keeps it awake; null: there is none.
  const cluster::Workload* Pop();
  /// Awake, and not in line.
  void KeepAwake(const cluster::Workload& workload);
  /// Neither awake nor in line. Call before the workload is destroyed, too.
  void Rest(const cluster::Workload& workload);
  /// At most `most` of those that are awake, by key, from the first after `after`; fewer: there are
  /// no more. Forgets those whose members are all bound.
  std::vector<const cluster::Workload*> Awake(std::string_view after, std::size_t most);

  bool InLine(const cluster::Workload& workload) const { return turns_.contains(&workload); }
  /// True of a workload whose members are all bound as well.
  bool Rests(const cluster::Workload& workload) const {
    return !InLine(workload) && !awake_.contains(&workload);
  }
  bool empty() const { return turns_.empty(); }

 private:
  struct Place {
    std::int64_t descending_priority;
    kube::Millis since;
    const cluster::Workload* workload;
    bool operator<(const Place& other) const;
  };
  struct Head {
    kube::Millis since;
    const cluster::Workload* workload;
    cluster::QueueId queue;
    bool operator<(const Head& other) const;
  };
  using Line = std::pmr::set<Place>;

  static Place PlaceOf(const cluster::Workload& workload, const Turn& turn);
  static Head HeadOf(cluster::QueueId queue, const Line& line);
  void LeaveLine(const cluster::Workload& workload);
  template <typename Change>
  void ChangeLine(cluster::QueueId queue, const Change& change);

  /// A round over all takes and frees entries by the hundred thousand. From malloc they would be
  /// sorted back into its bins in the midst of some later call: 15 ms under the host's lock.
  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::unordered_map<const cluster::Workload*, Turn> turns_{&pool_};
  Line broken_{&pool_};
  std::pmr::map<cluster::QueueId, Line> lines_{&pool_};  ///< None is empty.
  std::pmr::set<Head> heads_{&pool_};                    ///< Of each line.
  /// None is in line.
  std::pmr::set<const cluster::Workload*, cluster::ByKey> awake_{&pool_};
};

}  // namespace berth::engine
