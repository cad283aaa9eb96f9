// kube-scheduler's scheduling queue (v1.36, pkg/scheduler/backend/queue): active, backoff, error
// backoff, unschedulable and gated pods. The source of each rule is named where it is applied.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kube/objects.h"
#include "sim/scheduler/scheduler_hints.h"
#include "sim/world/timeline.h"

namespace berth::sim {

/// The periods of the queue.
struct QueueOptions {
  Duration initial_backoff = 1'000;   ///< podInitialBackoffSeconds; doubles with every failure.
  Duration max_backoff = 10'000;      ///< podMaxBackoffSeconds.
  Duration leftover_after = 300'000;  ///< A pod that is unschedulable for longer is tried again in
                                      ///< any case.
  Duration leftover_every = 30'000;
};

/// The pods that wait to be scheduled.
class SchedulingQueue {
 public:
  SchedulingQueue(const Timeline& timeline, QueueOptions options)
      : timeline_(timeline), options_(options) {}

  /// An unassigned pod that is new or changed. A gated pod waits for its gates to be removed, and
  /// keeps its timestamp meanwhile.
  void Update(const std::shared_ptr<const kube::Pod>& pod);
  void Delete(const std::string& uid);

  /// Takes the next pod to try, the active ones by (priority, timestamp). A pod that backs off is
  /// taken only if none is active (SchedulerPopFromBackoffQ); one that backs off from an error is
  /// never taken early. The pod stays in flight until Done or Failed. nullptr: no pod at present.
  std::shared_ptr<const kube::Pod> Pop();
  /// When Pop() will return a pod if nothing else happens. nullopt: time alone makes no pod
  /// available.
  std::optional<TimePoint> NextDue() const;

  /// The attempt failed. No `rejectors`: with an error. If an event during the attempt may help the
  /// pod, it backs off; otherwise it becomes unschedulable. `nominate` is its nomination from now
  /// on, before the API server has it; nullopt leaves the nomination unchanged.
  void Failed(const std::string& uid, Rejectors rejectors,
              const std::optional<std::string>& nominate = std::string());
  /// The pod is assigned: removes it from the queue.
  void Done(const std::string& uid) { Delete(uid); }

  /// Moves the unschedulable pods that the event may help.
  void Move(const ClusterEvent& event);

  /// Visits waiting pods without gates that are nominated to `node`.
  template <typename Visit>
  void ForEachNominated(const std::string& node, Visit visit) const {
    const auto [from, to] = nominated_.equal_range(node);
    for (auto it = from; it != to; ++it) {
      const Entry& entry = entries_.at(it->second);
      if (entry.place != Place::kGated) visit(*entry.pod);
    }
  }

  bool InFlight(const std::string& uid) const;
  std::shared_ptr<const kube::Pod> Find(const std::string& uid) const;
  /// All pods without gates, by UID.
  std::vector<std::shared_ptr<const kube::Pod>> Ungated() const;
  /// No pod is active or backs off.
  bool Rests() const { return active_.empty() && backoff_.empty() && error_backoff_.empty(); }
  std::size_t size() const { return entries_.size(); }

 private:
  enum class Place : std::uint8_t { kGated, kActive, kBackoff, kErrorBackoff, kAsleep, kInFlight };
  struct Entry {
    std::shared_ptr<const kube::Pod> pod;
    Place place = Place::kGated;
    /// Start of its wait: refreshed by every failure, not by the removal of its gates.
    TimePoint timestamp = 0;
    TimePoint due = 0;      ///< End of its backoff, on a whole second.
    int unschedulable = 0;  ///< Attempts in which plugins refused it.
    int errors = 0;         ///< Consecutive attempts that failed with an error.
    Rejectors rejectors = 0;
    std::string nominated{};
    std::vector<ClusterEvent> events{};  ///< Events while it was in flight.
    std::uint64_t sequence = 0;
  };
  using ActiveKey = std::tuple<std::int64_t, TimePoint, std::uint64_t, std::string>;
  /// Pods whose backoff ends in the same second are ordered by priority.
  using DueKey = std::pair<TimePoint, ActiveKey>;

  void Put(const std::string& uid, Entry& entry, Place place);
  void TakeOut(const std::string& uid, const Entry& entry);
  void Wake(const std::string& uid, Entry& entry);
  TimePoint BackoffEnd(const Entry& entry) const;
  TimePoint LeftoverAt(TimePoint timestamp) const;
  void Flush();
  void Nominate(const std::string& uid, Entry& entry, const std::string& node);
  void Happened(const ClusterEvent& event);
  static ActiveKey KeyOf(const std::string& uid, const Entry& entry);
  static DueKey DueOf(const std::string& uid, const Entry& entry);

  const Timeline& timeline_;
  const QueueOptions options_;
  std::unordered_map<std::string, Entry> entries_;  ///< By UID.
  std::set<ActiveKey> active_;
  std::set<DueKey> backoff_;
  std::set<DueKey> error_backoff_;
  std::set<std::pair<TimePoint, std::string>> asleep_;  ///< Timestamp, UID.
  std::set<std::string> in_flight_;
  std::multimap<std::string, std::string> nominated_;  ///< Node to UIDs, gated pods included.
  std::uint64_t sequence_ = 0;
};

}  // namespace berth::sim
