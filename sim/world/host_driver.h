// Runs host::Host in virtual time: one process of Berth, with its watches, its threads as events,
// and a client whose calls take time and can fail. Like server/drivers/host_driver.h it has no
// logic of its own.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/host.h"
#include "sim/world/api_client.h"
#include "sim/world/extender.h"
#include "sim/world/process_clock.h"
#include "sim/world/watch.h"

namespace berth::sim {

/// Ends a verb's call. nullopt: 503, not ready. Empty text: the pod is bound.
using BindDone = std::function<void(const std::optional<std::string>&)>;
using PreemptDone = std::function<void(const std::optional<engine::VictimMap>&)>;

/// One process of Berth.
class HostDriver {
 public:
  /// Begins to watch. Without `left` it is the only process, and it begins to lead when all first
  /// lists have arrived. With `left` it calls on_synced then, and acts only between Lead and Resign
  /// and while `left()`, the rest of its term, is above 0. `env` must outlive it.
  HostDriver(Environment& env, std::string instance, std::function<Duration()> left = {});
  HostDriver(const HostDriver&) = delete;
  HostDriver& operator=(const HostDriver&) = delete;

  /// Verbs are answered, not refused with 503.
  bool ready() const { return host_.deciding(); }
  const std::string& instance() const { return instance_; }
  std::function<void()> on_synced;
  /// Begins to decide. REQUIRES: the watches have delivered everything that an earlier leader
  /// wrote.
  void Lead();
  /// Ends the calls to the API server that are under way. A request that was sent still arrives.
  void CutOff() { client_.CutOff(); }
  /// Whether no call to the API server is under way.
  bool WritesEnded() const { return client_.idle(); }
  /// Whether a write has ended without an answer within this time.
  bool UnknownSince(Duration ago) const;
  /// Ends its term for good: what waits is answered, what is under way goes on.
  void Stop();
  /// Becomes a follower again, see server/drivers/host_driver.h. False: it has yet to forget, and
  /// calls on_forgotten when it has.
  bool Resign();
  std::function<void()> on_forgotten;
  /// Freezes the process, at once or right before it sends its next write.
  void Freeze(Duration time) { freezer_.Freeze(time); }
  void FreezeBeforeSending(Duration time) { client_.FreezeBeforeSending(time); }
  const Freezer& freezer() const { return freezer_; }
  /// Runs `event` now, or when the process thaws.
  void WhenAwake(const Event& event) const { life_.Guard(event)(); }

  // --- Verbs. nullopt: 503.
  /// Node names as views, as server/verbs/wire.h decodes them.
  using Names = std::vector<std::string_view>;
  /// `request_pod` returns the pod that came with the call; it is decoded on first use.
  std::optional<FilterReply> Filter(const engine::PodRef& pod, const Names& offered,
                                    const std::function<const kube::Pod*()>& request_pod);
  std::optional<std::map<std::string, std::int64_t>> Prioritize(const std::string& uid,
                                                                const Names& offered);
  /// When `client` has expired, the caller has hung up.
  void Bind(const engine::PodRef& pod, const std::string& node, std::weak_ptr<const bool> client,
            BindDone done);
  void Preempt(const std::string& uid, const engine::VictimMap& candidates, PreemptDone done);

  // --- For the checker.
  /// Called when the engine has answered which pods may be evicted for `uid`.
  std::function<void(const std::string& uid, const engine::VictimMap& kept)> on_preempt;
  /// Called when the engine is about to answer a bind call.
  void OnBind(std::function<void(const std::string& uid)> then) { host_.on_bind = std::move(then); }
  /// on_unknown: the engine has been told that the outcome of a Binding to this node is unknown.
  /// on_read: it has been told what a read of the pod says.
  std::function<void(const std::string& uid, const std::string& node)> on_unknown;
  std::function<void(const std::string& uid)> on_read;
  /// The time of this process's clock, which the engine gets.
  TimePoint now() const { return clock_.now(); }
  const ProcessClock& clock() const { return clock_; }
  const host::Host& host() const { return host_; }
  const engine::Engine& engine() const { return host_.engine(); }
  engine::Counters TakeCounters() { return host_.TakeCounters(); }
  const WatchStream& stream(Kind kind) const { return *streams_[static_cast<std::size_t>(kind)]; }
  WatchStream& stream(Kind kind) { return *streams_[static_cast<std::size_t>(kind)]; }
  /// Every watch is connected, and no event is on its way.
  bool CaughtUp() const;
  /// It has caught up, no order is being carried out, and no call is parked.
  bool Idle() const;

 private:
  struct BindCall {
    std::weak_ptr<const bool> client;
    BindDone done;
  };
  struct PreemptCall {
    std::string uid;
    PreemptDone done;
  };
  using Job = std::function<void()>;

  void Watch(Kind kind, WatchStream::Sink sink);
  template <typename Object>
  void Watch(Kind kind, std::shared_ptr<const Object> Change::*object);
  void Apply(const host::Host::Change& change);
  void OnSynced();
  template <typename Work>
  void Enter(Work work);
  void Wake(Duration least);
  void Advance();
  bool ForgetMore();
  void KeepUsage();
  // Orders.
  void Collect();
  bool Deliver(host::Order& order);
  void Carry(const std::vector<host::Order>& orders);
  void Do(const host::Nominate& order);
  void Do(const host::RemoveGate& order);
  void Do(const host::MarkVictim& order);
  void Do(const host::Evict& order);
  void Do(const host::FindObject& order);
  void Do(const host::ReadJobs& order);
  void Do(const host::SuspendJob& order);
  void Do(const host::ReadPod& order);
  void Do(const host::PostBinding& order);
  void Do(const engine::EmitEvent& event);
  void Do(const engine::NodeNotice& notice);
  void Do(const engine::Decision& decision);
  void Finish(host::Id order, host::Result result);
  ApiClient::Wanted Wanted(host::Id order) const;
  void Poll(host::Id call);
  // The writers' threads.
  void Queue(const host::ApiOrder& order);
  void Push(const std::string& key, host::Id order, Job job);
  void NextJob(const std::string& key);
  std::size_t LaneOf(const std::string& key) const;

  Environment& env_;
  const std::string instance_;
  const std::function<Duration()> left_;
  const ProcessClock clock_;
  Freezer freezer_;
  host::Host host_;
  ApiClient client_;
  Life life_;
  std::array<std::unique_ptr<WatchStream>, kKinds> streams_;  ///< Of budgets only if there are any.
  int unsynced_ = 0;
  std::map<host::Id, BindCall> binds_;
  std::map<host::Id, PreemptCall> preempts_;
  TimePoint advance_at_ = -1;  ///< When the planner thread wakes; -1: not armed.
  std::uint64_t advance_turn_ = 0;
  TimePoint usage_due_ = 0;
  std::array<std::deque<Job>, 16> lanes_;
};

}  // namespace berth::sim
