// Berth's logic without threads, sockets and clock: the driver tells it what happens and when, and
// it says what to send, which calls to answer, and when to look again. Around one engine it does
// what the protocol needs: calls that wait for their pod or for their gang, releases with their
// retries, Bindings whose outcome must be found out, and terms of leadership.
//
// A driver carries out its orders: server/drivers/host_driver.h with threads and the real API
// server, sim/world/host_driver.h in virtual time. Start reading at Apply, Bind and Advance.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/succession.h"
#include "host/evictions.h"
#include "host/orders.h"
#include "host/releases.h"
#include "host/suspensions.h"
#include "host/warnings.h"

namespace berth::host {

/// A driver leaves at least this long between two calls of Advance, counted from the end of the
/// first one, and gives its lock up meanwhile: verbs and events get their turn between two passes
/// of one round of planning.
inline constexpr Duration kBetweenPasses = 1;

/// Not thread-safe. After each call take the orders; `now` never goes back.
class Host {
 public:
  /// Whether this process may act as the leader at this moment.
  using Leads = std::function<bool()>;
  using Change = std::function<void(engine::Engine&, TimePoint)>;

  /// Follows until Lead is called.
  Host(config::PolicyConfiguration policy, engine::Options options, Leads leads);

  // --- Terms. Outside a term the host follows: it takes in cluster events, and does nothing else.
  /// Begins to decide, unless Stop was called. REQUIRES: all first lists have been delivered, no
  /// write of an earlier term is under way, and nothing is left to be forgotten.
  void Lead(TimePoint now);
  /// Stops deciding, and answers the calls that wait. Forget must follow.
  void Resign();
  /// Forgets plans, holds and everything under way. The known cluster state is kept, so that Lead
  /// begins as a new process would. Forgets a part at a time, so that events need not wait long.
  /// True: call it again. REQUIRES: Resign was called.
  bool Forget(TimePoint now);
  /// Between the first call of Forget and the last.
  bool forgetting() const { return succession_ != nullptr; }
  /// Resigns, and never leads again.
  void Stop();
  /// True between Lead and Resign.
  bool in_term() const { return in_term_; }
  /// Whether verbs are answered: the host is in a term, and this process still leads.
  bool deciding() const { return in_term_ && leads_(); }

  // --- What happens.
  /// An event of the cluster.
  void Apply(const Change& change, TimePoint now);
  /// nullopt: 503.
  std::optional<engine::FilterAnswer> Filter(const engine::FilterQuery& query, TimePoint now);
  /// The node that is planned for a pod, to be scored best; empty: none. nullopt: 503.
  std::optional<std::string_view> PlannedNode(std::string_view uid) const;
  /// Bind and Preempt return the id of the call; an order with this id answers it, now or later.
  Id Bind(engine::PodRef pod, std::string node, TimePoint now);
  Id Preempt(std::string uid, engine::VictimMap candidates, TimePoint now);
  /// The caller of Bind has hung up. The call is answered, unless its Binding is being posted.
  void CallerGone(Id call, TimePoint now);
  /// Reports the outcome of an order.
  void Finished(Id order, Result result, TimePoint now);
  /// Plans what has changed, and does what is due.
  void Advance(TimePoint now);

  // --- What is to be done.
  std::vector<Order> TakeOrders() { return out_.Take(); }
  /// When to call Advance; a time in the past means at once. nullopt: not before something happens.
  std::optional<TimePoint> due() const;
  /// Whether an ordered write must still be made. Ask right before each attempt.
  bool Wants(Id order) const;

  // --- Reads.
  /// Until all is forgotten it still has the plans of the last term, to no effect.
  const engine::Engine& engine() const { return *engine_; }
  /// What the engine has counted since the last call.
  engine::Counters TakeCounters() { return engine_->TakeCounters(); }
  /// True while nothing is under way and no call waits.
  bool idle() const {
    return calls_.empty() && reads_.empty() && releases_.empty() && evictions_.empty() &&
           warnings_.empty() && suspensions_.empty();
  }
  /// Whether the engine will be told the outcome of this pod's Binding.
  bool FindsOut(std::string_view uid) const;
  /// Bind calls that wait for the engine's resolution, as UID and node.
  std::vector<std::pair<std::string, std::string>> ParkedBinds() const;
  /// For checks: the engine is about to answer a bind call.
  std::function<void(const std::string& uid)> on_bind{};

 private:
  enum class Stage : std::uint8_t {
    kAwaitsPod,  ///< Our watch has not delivered the pod yet.
    kParked,     ///< Waits for the engine's resolution.
    kPosts,      ///< Its Binding is under way.
  };
  /// A bind or preempt call that is not answered yet.
  struct Call {
    Stage stage = Stage::kAwaitsPod;
    engine::PodRef pod{};
    std::string node{};
    std::optional<engine::VictimMap> candidates{};  ///< Of a preempt call.
    engine::TicketId ticket = 0;                    ///< While it is parked.
    bool of_past_term = false;                      ///< Of stage kPosts, in an earlier term.
  };
  using Calls = std::map<Id, Call>;
  /// A pod that is read until the API server says where it is.
  struct Reading {
    engine::PodRef pod{};
    int attempt = 1;
  };

  void Changed(TimePoint now);
  void Collect(TimePoint now);
  void Evict(std::vector<engine::EvictPod> evictions, TimePoint now);
  void EndTerm(const std::optional<std::string>& answer);
  void Expire(TimePoint now);
  // Calls, in calls.cc.
  Id Await(Call call, TimePoint now);
  void ServeArrived(TimePoint now);
  void Serve(Id id, TimePoint now);
  void Resolve(Id id, const engine::ResolveBind& resolve);
  void Answer(Calls::iterator at, const std::optional<std::string>& answer);
  void FinishPost(Calls::iterator at, Result result, TimePoint now);
  // Reads.
  void BeginRead(engine::PodRef pod);
  void FinishRead(std::map<Id, Reading>::iterator at, Result result, TimePoint now);

  const engine::Options options_;
  const Leads leads_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<engine::Succession> succession_;  ///< While it forgets.
  Outbox out_;
  Releases releases_;
  Evictions evictions_;
  Warnings warnings_;
  Suspensions suspensions_;
  bool in_term_ = false;
  bool stopped_ = false;
  int terms_ = 0;
  std::optional<TimePoint> changed_at_{};  ///< The first change not planned yet.
  TimePoint last_pass_ = 0;
  Calls calls_;
  std::set<Id> awaiting_;  ///< Of calls_.
  std::unordered_map<engine::TicketId, Id> tickets_;
  std::map<Id, Reading> reads_;
  std::multimap<TimePoint, Id> timers_;  ///< Of calls that await their pod, and reads that failed.
};

}  // namespace berth::host
