// A small world around the engine alone, without a host: a virtual clock, an API server that keeps
// objects and notifies the engine of changes (at once or late), and the calls that kube-scheduler
// makes, one at a time, when a test wants them. How kube-scheduler itself behaves (its queue, what
// it tries when) is modelled in sim/scheduler/. Deterministic; nothing sleeps.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "tests/support/builders.h"

namespace berth::testing {

/// What the API server does with a Binding.
enum class Posting { kBinds, kRefuses, kLosesAnswer, kLosesRequest, kHangs };

struct FilterResult {
  bool keep_all = false;
  std::vector<std::string> kept;
  std::string reason;  ///< Reason token of the nodes not kept.
  std::string node() const { return kept.empty() ? std::string() : kept.front(); }
};

struct BindResult {
  bool parked = false;
  engine::TicketId ticket = 0;
  bool posted = false;  ///< The engine has ordered the Binding to be sent at once.
  bool bound = false;   ///< Success without a Binding.
  std::string error;
};

class World {
 public:
  explicit World(config::PolicyConfiguration policy = {}, engine::Options options = {});

  engine::Engine& engine() { return *engine_; }
  const cluster::Store& store() const { return engine_->store(); }
  engine::TimePoint now() const { return now_; }

  // --- The API server.
  void Add(const kube::Node& node);
  void Add(const kube::Pod& pod);  ///< Created or replaced.
  void Remove(const std::string& node);
  void Delete(const std::string& pod);
  void Terminate(const std::string& pod);
  void Change(const std::string& pod, const std::function<void(kube::Pod&)>& change);
  const kube::Pod& pod(const std::string& name) const { return pods_.at(name); }
  bool Exists(const std::string& name) const { return pods_.contains(name); }
  const std::map<std::string, kube::Pod>& pods() const { return pods_; }
  const std::map<std::string, kube::Node>& nodes() const { return nodes_; }
  std::string NodeOf(const std::string& pod) const { return pods_.at(pod).node_name; }
  int BoundPods() const;
  /// Events reach the engine after this delay (Advance delivers them); 0: at once.
  void SetWatchDelay(engine::TimePoint delay) { delay_ = delay; }
  /// A PodDisruptionBudget that the engine does not know of forbids the eviction of this pod.
  void Protect(const std::string& pod) { protected_.insert(pod); }
  /// There is no object of that key (engine::KeyOf), in no namespace; or there is again.
  void SetMissing(const std::string& key, bool missing) {
    missing ? void(missing_.insert(key)) : void(missing_.erase(key));
  }
  /// Evictions, and what is asked before them, are carried out only by CarryOutEvictions.
  void HoldEvictions() { holds_evictions_ = true; }
  void CarryOutEvictions();
  /// The pods that are being deleted are gone.
  void EndVictims();
  /// The API server refuses what releases this pod; or takes it again.
  void SetReleasable(const std::string& pod, bool may) {
    may ? void(refused_.erase(pod)) : void(refused_.insert(pod));
  }
  /// What happens to Bindings from now on.
  void SetPosting(Posting posting) { posting_ = posting; }

  // --- The host.
  void Start();
  /// Steps the engine and carries out its actions until it is quiet.
  void Tick();
  /// Lets time pass, stopping at every deadline and every late event.
  void Advance(engine::TimePoint ms);
  /// Starts a new process: the engine is replaced, the API server stays.
  void Restart();
  void Reload(config::PolicyConfiguration policy);
  /// Every action so far, one line each.
  const std::vector<std::string>& log() const { return log_; }
  std::vector<std::string> LogOf(std::string_view prefix) const;
  /// Every decision so far, with its time.
  const std::vector<std::pair<engine::TimePoint, engine::Decision>>& decisions() const {
    return decisions_;
  }
  const std::map<engine::TicketId, engine::ResolveBind>& resolved() const { return resolved_; }

  // --- kube-scheduler, one call at a time. Pods are given by name.
  FilterResult Filter(const std::string& pod);  ///< All nodes offered.
  FilterResult Filter(const std::string& pod, const std::vector<std::string>& offered);
  BindResult Bind(const std::string& pod, const std::string& node);
  /// Sets PodScheduled=False, Unschedulable, with this message, and clears the nomination, as after
  /// a failed attempt.
  void Refuse(const std::string& pod, const std::string& message = "0/1 nodes are available");
  /// filter (nominated node first, then all), then bind. Returns whether the pod was bound or its
  /// bind call is parked.
  bool Attempt(const std::string& pod);
  /// Attempts every pending, ungated pod in name order, over and over, until nothing changes: no
  /// queue and no back-off, so that time stands still meanwhile.
  void Schedule();
  /// A bind call of this pod is parked.
  bool IsParked(const std::string& pod) const;
  /// A pod without devices was bound to another node than the engine holds for it.
  bool strayed() const { return strayed_; }

  /// GPUs that are charged on `node`, or on all nodes, in whole devices.
  std::int64_t UsedGpus(const std::string& node) const;
  std::int64_t UsedGpus() const;
  std::string Planned(const std::string& pod) const;  ///< Node, or empty.
  cluster::Verdict VerdictOf(const std::string& pod);
  std::string Why(const std::string& pod);  ///< The verdict's token.

 private:
  struct Event {
    engine::TimePoint due;
    std::function<void()> deliver;
  };

  void Publish(const kube::Pod& pod);
  void Queue(std::function<void()> deliver);
  void DeliverDue();
  void CarryOut(const engine::Action& action);
  void Evict(const engine::EvictPod& eviction);
  void Find(const engine::FindNeeded& question);
  void Post(const std::string& uid, const std::string& node,
            const std::map<std::string, std::string>& annotations);
  kube::Pod* ByUid(std::string_view uid);
  std::vector<std::string> NodeNames() const;
  void PlaceUnmanaged(const std::string& name);

  config::PolicyConfiguration policy_;
  engine::Options options_;
  std::unique_ptr<engine::Engine> engine_;
  engine::TimePoint now_ = 1'000'000;
  engine::TimePoint delay_ = 0;
  Posting posting_ = Posting::kBinds;
  std::set<std::string> refused_;  ///< Pods that are not released.
  std::set<std::string> protected_;
  bool holds_evictions_ = false;
  std::vector<engine::EvictPod> held_evictions_;
  std::set<std::string> missing_;
  std::vector<engine::FindNeeded> held_questions_;
  std::map<std::string, kube::Pod> pods_;  ///< By name: names are unique over all namespaces in
                                           ///< tests.
  std::map<std::string, kube::Node> nodes_;
  std::deque<Event> events_;
  std::map<engine::TicketId, std::pair<std::string, std::string>> parked_;  ///< UID, node.
  std::map<engine::TicketId, engine::ResolveBind> resolved_;
  std::vector<std::string> log_;
  std::vector<std::pair<engine::TimePoint, engine::Decision>> decisions_;
  bool strayed_ = false;
};

}  // namespace berth::testing
