// Berth's process in virtual time: the real engine::Engine, driven and obeyed exactly as
// server/host.cc does it. Where the real host has threads there are events here, with the same
// order, the same retries and the same gaps between a decision and its being carried out.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "sim/world/api_client.h"
#include "sim/world/process_clock.h"
#include "sim/world/watch.h"

namespace berth::sim {

struct FilterReply {
  std::vector<std::string> kept;  ///< Best first.
  std::string reason;             ///< For every node not kept.
};

/// Ends a verb's call. nullopt: 503, not ready. Empty text: bound.
using BindDone = std::function<void(const std::optional<std::string>&)>;
using PreemptDone = std::function<void(const std::optional<engine::VictimMap>&)>;

class BerthHost {
 public:
  /// Begins to watch. Alone (no `left`) it leads when all first lists are in; else it calls
  /// on_synced then, and acts only between Lead and Resign and while `left()`, the rest of its
  /// term, is above 0. `env` must outlive it.
  BerthHost(Environment& env, std::string instance, std::function<Duration()> left = {});
  BerthHost(const BerthHost&) = delete;
  BerthHost& operator=(const BerthHost&) = delete;

  /// Verbs are answered.
  bool ready() const { return deciding_ && (!left_ || left_() > 0); }
  const std::string& instance() const { return instance_; }
  std::function<void()> on_synced;
  /// Begins to decide. REQUIRES: the news of all that an earlier leader wrote has arrived.
  void Lead();
  /// Follows again, see server/host.h.
  void Resign();

  // --- Verbs. nullopt: 503.
  /// Names by view, as server/wire.h decodes them.
  using Names = std::vector<std::string_view>;
  /// `request_pod` is the pod that came with the call, decoded when it is asked for.
  std::optional<FilterReply> Filter(const engine::PodRef& pod, const Names& offered,
                                    const std::function<const kube::Pod*()>& request_pod);
  std::optional<std::map<std::string, std::int64_t>> Prioritize(const std::string& uid,
                                                                const Names& offered);
  /// The caller has hung up when `client` is gone.
  void Bind(const engine::PodRef& pod, const std::string& node, std::weak_ptr<const bool> client,
            BindDone done);
  void Preempt(const std::string& uid, const engine::VictimMap& candidates, PreemptDone done);

  // --- For the checker.
  /// The engine has answered which pods may be evicted for `uid`.
  std::function<void(const std::string& uid, const engine::VictimMap& offered,
                     const engine::VictimMap& kept)>
      on_preempt;
  /// The engine is about to answer a bind call.
  std::function<void(const std::string& uid)> on_bind;
  /// The engine has heard that nobody knows whether a pod is bound to this node, and what a read
  /// says.
  std::function<void(const std::string& uid, const std::string& node)> on_unknown;
  std::function<void(const std::string& uid)> on_read;
  /// By this process's clock, as the engine is told.
  TimePoint now() const { return clock_.now(); }
  const ProcessClock& clock() const { return clock_; }
  const engine::Engine& engine() const { return *engine_; }
  engine::Engine& engine() { return *engine_; }
  const WatchStream& stream(Kind kind) const { return *streams_[static_cast<std::size_t>(kind)]; }
  WatchStream& stream(Kind kind) { return *streams_[static_cast<std::size_t>(kind)]; }
  /// Somebody will tell the engine what becomes of this pod's Binding.
  bool Owes(const std::string& uid) const { return carrying_ > 0 || owed_.contains(uid); }
  /// Bind calls that wait for the engine's word, as UID and node.
  std::vector<std::pair<std::string, std::string>> Standing() const;
  /// Nothing is being carried out, nobody stands, no news is on its way.
  bool Idle() const;

 private:
  struct Waiter {
    engine::PodRef pod;
    std::string node;
    std::weak_ptr<const bool> client;
    BindDone done;
  };
  using Job = std::function<void()>;

  void Watch(Kind kind, WatchStream::Sink sink);
  void OnSynced();
  void Apply(const std::function<void(engine::Engine&, TimePoint)>& change);
  void Changed();
  void Plan();
  void Carry();
  void Do(const engine::ReleaseMember& release);
  void Do(const engine::ResolveBind& resolution);
  void Do(const engine::SettleBind& settle);
  void Do(const engine::EmitEvent& event);
  void Do(const engine::NodeNotice& notice);
  void Do(const engine::Decision& decision);
  void TryRelease(const engine::ReleaseMember& release, int attempt);
  void TryOpenGate(const engine::ReleaseMember& release, int attempt);
  void RetryRelease(const engine::ReleaseMember& release, int attempt);
  void Settle(const engine::PodRef& pod, int attempt);
  void FinishBind(const engine::PodRef& pod, const std::string& node,
                  const engine::ResolveBind& word, const BindDone& done);
  void Poll(engine::TicketId ticket);
  void AwaitPod(const std::string& uid, std::function<void()> then);
  void Push(const std::string& key, Job job);
  void NextJob(const std::string& key);
  std::size_t LaneOf(const std::string& key) const;

  Environment& env_;
  const std::string instance_;
  const std::function<Duration()> left_;
  const ProcessClock clock_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<ApiClient> client_;
  Life life_;       ///< Of the process.
  Life term_life_;  ///< Of what an engine wants done: means nothing to the next one.
  std::array<std::unique_ptr<WatchStream>, kKinds> streams_;  ///< Of budgets: if there are any.
  int unsynced_ = 0;
  bool deciding_ = false;
  int terms_ = 0;
  std::map<engine::TicketId, Waiter> waiters_;
  TimePoint plan_at_ = -1;  ///< When the planner thread wakes; -1: not armed.
  std::uint64_t plan_turn_ = 0;
  int carrying_ = 0;
  std::multiset<std::string> owed_;
  std::multimap<std::string, std::function<void()>> awaiting_;  ///< By pod UID.
  std::map<std::uint64_t, BindDone> posting_;  ///< Bind calls whose Binding is under way.
  std::uint64_t postings_ = 0;
  std::array<std::deque<Job>, 16> lanes_;
};

}  // namespace berth::sim
