// The workloads that wait for a place. Each of them is in one of three states:
// - In line to be judged, in this order: first the gangs that run below their minimum; then, within
//   a queue, by PriorityClass, age and key. Among the queues, the one whose first workload is the
//   oldest comes next, because priority counts only inside a queue.
// - Awake: it was judged, and any room that is given back may help it.
// - At rest: see engine/wakeups.h.
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
  kube::Millis since = 0;  ///< The age that orders it.
};

/// Operations that change the line take time logarithmic in its length.
class ActiveQueue {
 public:
  /// Puts the workload in line at the place that `turn` gives it, whatever its place was before.
  void Put(const cluster::Workload& workload, const Turn& turn);
  /// Takes the next workload out of the line and keeps it awake. Returns null if the line is empty.
  const cluster::Workload* Pop();
  /// Makes the workload awake and takes it out of the line.
  void KeepAwake(const cluster::Workload& workload);
  /// Makes the workload neither awake nor in line. Also call this before the workload is destroyed.
  void Rest(const cluster::Workload& workload);
  /// At most `most` of the awake workloads, ordered by key, starting with the first key after
  /// `after`; fewer than `most` means that there are no more. Forgets workloads whose members are
  /// all bound.
  std::vector<const cluster::Workload*> Awake(std::string_view after, std::size_t most);

  bool InLine(const cluster::Workload& workload) const { return turns_.contains(&workload); }
  /// Also true of a workload whose members are all bound.
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

  /// A round over all workloads allocates and frees entries by the hundred thousand. malloc would
  /// return them to its bins during some later call, which took 15 ms under the host's lock.
  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::unordered_map<const cluster::Workload*, Turn> turns_{&pool_};
  Line broken_{&pool_};
  std::pmr::map<cluster::QueueId, Line> lines_{&pool_};  ///< No line in it is empty.
  std::pmr::set<Head> heads_{&pool_};                    ///< The first entry of each line.
  /// None of these is in line.
  std::pmr::set<const cluster::Workload*, cluster::ByKey> awake_{&pool_};
};

}  // namespace berth::engine
