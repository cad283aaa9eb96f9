// Jobs that end, and no workload waits for their room: what runs in a queue that is drained
// (queues[].hold: holdAndDrain), or below it; and the rest of a gang of which others were evicted
// for a plan that has ended since. As for other evictions (evictions.cc), all pods of a job in a
// drained queue are tried dry first: a job with a pod whose eviction would be refused stays as a
// whole, and is tried again later. The rest of a gang is neither tried dry nor told before; what is
// refused of it is tried again. Nothing of this is remembered over a restart: of queues the policy
// says it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/store.h"
#include "engine/evictor.h"
#include "engine/workload_state.h"

namespace berth::engine {

class JobsToSuspend;

class Drains {
 public:
  /// Takes the places of the members of a gang away that are only planned.
  using GiveUpPlanned = std::function<void(const cluster::Workload&)>;

  /// All must outlive it.
  Drains(cluster::Store& store, States& states, Evictor& evictor, std::vector<Action>& actions,
         GiveUpPlanned give_up_planned)
      : store_(store),
        states_(states),
        evictor_(evictor),
        actions_(actions),
        give_up_planned_(std::move(give_up_planned)) {}

  /// The queue that is drained, if the pod holds room in it or below it; kNoQueue: none.
  cluster::QueueId QueueOf(const cluster::PodInfo& pod) const;
  /// It is to be looked at then, at the latest.
  void LookAt(TimePoint when) { due_ = std::min(due_.value_or(when), when); }
  /// When it is to be looked at; nullopt: nothing is known to be drained.
  std::optional<TimePoint> due() const { return due_; }
  /// Goes on with the drains, and begins the missing ones. Takes time in proportion to the pods if
  /// any is due.
  void GoOn(TimePoint now);
  /// Drains that the policy does not want any more end, but for gangs that were evicted in part.
  void EndNeedless();
  /// These members of a gang that runs are evicted, as others were for that work; they are no
  /// victims of other evictions. `reason`: of the Event.
  void EvictRest(const cluster::Workload& gang, const std::vector<const cluster::PodInfo*>& pods,
                 const std::string& work, const std::string& reason, TimePoint now);
  /// The same as Engine::EvictionAnswered. False: the answer was not for a drain.
  bool Answered(const std::string& id, const std::string& uid, bool dry_run, bool accepted,
                TimePoint now);
  /// Whether a job is to end by evictions of that id (EvictPod::id).
  bool IsUnderWay(const std::string& id) const;
  /// Whether an answer since the last call lets pods stay that were to be drained, so that work
  /// which waited for their room is to be judged again.
  bool TakeStays() { return std::exchange(stays_, false); }

 private:
  struct Drain {
    Evictions evictions{.stage = Evicting::kDryRun};  ///< Never kNo.
    /// Which is drained: its own, or one above. Empty: others of the gang were evicted for `work`.
    std::string queue{};
    std::string work{};    ///< The key of that work; of a drained queue, of the job itself.
    std::string reason{};  ///< Of the Event.
    std::vector<std::string> pods{};  ///< UIDs.
    /// Once they were warned: when they are evicted. Then: when the pods that do not end are
    /// evicted again.
    TimePoint due = 0;
    /// The policy does not want it any more. What was sent may be done all the same, and then the
    /// rest of the gang goes.
    bool lifted = false;
    bool refused = false;  ///< An eviction of it was: its pods may stay for long.
    bool begun() const { return !evictions.begun.empty(); }
  };
  using Pods = std::vector<const cluster::PodInfo*>;

  bool IsOff() const { return store_.policy().mode == config::Mode::kPassthrough; }
  static std::string ReasonOf(const Drain& drain);
  Pods Remaining(const Drain& drain) const;
  std::map<std::string, Pods> JobsToDrain(TimePoint now);
  void DrainJob(const std::string& key, const Pods& pods, TimePoint now);
  Drain& Begin(const std::string& key, const Pods& pods);
  Decision DecisionOn(const char* kind, const std::string& key, const Drain& drain,
                      const Pods& pods) const;
  void Order(Drain& drain, const cluster::PodInfo& pod, JobsToSuspend* jobs);
  void Warn(const cluster::PodInfo& pod, const Drain& drain, TimePoint at);
  bool TooManyForBudgets(const Pods& pods) const;
  void Try(Drain& drain);
  void PutOff(const Drain& drain, TimePoint now);
  bool MayEnd(Drain& drain, TimePoint now);
  void SendEvictions(const std::string& key, Drain& drain, TimePoint now);
  bool Ends(Drain& drain);
  std::map<std::string, Drain>::iterator Find(const std::string& id);

  cluster::Store& store_;
  States& states_;
  Evictor& evictor_;
  std::vector<Action>& actions_;
  const GiveUpPlanned give_up_planned_;
  std::map<std::string, Drain> drains_;  ///< By the key of the job.
  std::optional<TimePoint> due_;
  bool stays_ = false;  ///< See TakeStays.
};

}  // namespace berth::engine
