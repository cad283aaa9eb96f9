#include "sim/scheduler/scheduler.h"

#include <algorithm>

#include "cluster/resources.h"
#include "kube/selector.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

using What = ClusterEvent::What;

bool NodeEventMatters(const kube::Node& before, const kube::Node& after) {
  return before.allocatable != after.allocatable || before.taints != after.taints ||
         (before.unschedulable && !after.unschedulable) ||
         before.meta.labels != after.meta.labels ||
         before.meta.annotations != after.meta.annotations || before.ready != after.ready;
}

std::string Message(std::size_t nodes, const std::map<std::string_view, int>& reasons) {
  std::string text = fmt::format("0/{} nodes are available:", nodes);
  for (const auto& [reason, count] : reasons) text += fmt::format(" {} {},", count, reason);
  text.back() = '.';
  return text;
}

/// An id beyond the end counts as 0.
std::int64_t At(const std::vector<std::int64_t>& amounts, std::size_t id) {
  return id < amounts.size() ? amounts[id] : 0;
}

void AddAt(std::vector<std::int64_t>& amounts, std::size_t id, std::int64_t amount) {
  if (id >= amounts.size()) amounts.resize(id + 1);
  amounts[id] += amount;
}

}  // namespace

Scheduler::Scheduler(Environment& env, SchedulerOptions options, Extender& extender,
                     SchedulerWrites& writes)
    : env_(env),
      options_(std::move(options)),
      extender_(extender),
      writes_(writes),
      queue_(env.timeline, options_.queue) {
  const auto synced = [this] {
    --unsynced_;
    Kick();
  };
  nodes_watch_ = std::make_unique<WatchStream>(
      env_, Kind::kNode,
      WatchStream::Sink{.upsert = [this](const Change& c) { OnNode(c); },
                        .remove = [this](const std::string&, const Change& c) { OnNode(c); },
                        .synced = synced});
  pods_watch_ = std::make_unique<WatchStream>(
      env_, Kind::kPod,
      WatchStream::Sink{
          .upsert = [this](const Change& c) { OnPod(c.pod); },
          .remove = [this](const std::string& key, const Change& last) { OnPodGone(key, last); },
          .synced = synced});
  if (env_.api.budgets().empty()) return;
  ++unsynced_;
  budgets_watch_ = std::make_unique<WatchStream>(
      env_, Kind::kBudget,
      WatchStream::Sink{
          .upsert = [this](const Change& c) { budgets_[c.key] = c.budget; },
          .remove = [this](const std::string& key, const Change&) { budgets_.erase(key); },
          .synced = synced});
}

bool Scheduler::Idle() const {
  return unsynced_ == 0 && !busy_ && queue_.Rests() && nodes_watch_->settled() &&
         pods_watch_->settled() && (budgets_watch_ == nullptr || budgets_watch_->settled());
}

// --- The cache -----------------------------------------------------------------------------------

/// Resources are few: numbering them makes a scan of 5,000 nodes cheap.
std::size_t Scheduler::IdOf(const std::string& resource) {
  const auto it = std::ranges::find(resources_, resource, &Resource::name);
  if (it != resources_.end()) return static_cast<std::size_t>(it - resources_.begin());
  resources_.push_back({.name = resource, .insufficient = "Insufficient " + resource});
  return resources_.size() - 1;
}

Scheduler::Asked Scheduler::AskedBy(const kube::Pod& pod) {
  Asked asked{.pod = pod, .requests = {}};
  for (const auto& [name, amount] : pod.spec->requests) {
    if (amount > 0) asked.requests.emplace_back(IdOf(name), amount);
  }
  return asked;
}

std::int64_t Scheduler::RequestedOn(const NodeState& state, const std::string& resource) const {
  const auto it = std::ranges::find(resources_, resource, &Resource::name);
  return At(state.requested, static_cast<std::size_t>(it - resources_.begin()));
}

void Scheduler::Account(const kube::Pod& pod, const std::string& node, std::int64_t sign) {
  NodeState& state = nodes_[node];
  for (const auto& [name, amount] : pod.spec->requests) {
    AddAt(state.requested, IdOf(name), sign * amount);
  }
  if (!pod.spec->required_pod_anti_affinity.empty()) repellers_ += sign;
  const auto level = priorities_.try_emplace(pod.priority, 0).first;
  if ((level->second += sign) == 0) priorities_.erase(level);
  state.cpu += sign * AskedCpu(pod);
  state.memory += sign * AskedMemory(pod);
}

void Scheduler::Hold(const std::shared_ptr<const kube::Pod>& pod, const std::string& node,
                     bool assumed) {
  Drop(pod->meta.uid);
  Account(*pod, node, 1);
  nodes_[node].held[pod->meta.uid] = pod.get();
  held_[pod->meta.uid] = {pod, node, assumed};
}

bool Scheduler::Drop(const std::string& uid) {
  const auto it = held_.find(uid);
  if (it == held_.end()) return false;
  Account(*it->second.pod, it->second.node, -1);
  nodes_[it->second.node].held.erase(uid);
  held_.erase(it);
  return true;
}

void Scheduler::OnPod(const std::shared_ptr<const kube::Pod>& pod) {
  const std::string& uid = pod->meta.uid;
  if (!pod->node_name.empty()) {
    const auto held = held_.find(uid);
    const bool known = held != held_.end() && !held->second.assumed;
    Hold(pod, pod->node_name, /*assumed=*/false);
    queue_.Done(uid);
    queue_.Move({.what = known ? What::kAssignedPodUpdate : What::kAssignedPodAdd});
  } else if (pod->scheduler_name == kOtherScheduler) {
    return;
  } else if (pod->meta.deletion) {
    queue_.Delete(uid);
  } else {
    const auto before = queue_.Find(uid);
    // Delivered again after a relist: upstream ignores it.
    if (before != nullptr && before->meta.resource_version == pod->meta.resource_version) return;
    queue_.Update(pod);
    if (before != nullptr && before->nominated_node != pod->nominated_node) Release(*before);
  }
  Kick();
}

/// A nominated pod counted as assigned for pods of its priority and below, so its room is free now.
void Scheduler::Release(const kube::Pod& nominated) {
  if (nominated.nominated_node.empty()) return;
  queue_.Move({.what = What::kAssignedPodDelete, .up_to_priority = nominated.priority});
}

/// `last` has no pod if the deletion was found by a list that no longer contains the pod.
void Scheduler::OnPodGone(const std::string& uid, const Change& last) {
  const auto waited = queue_.Find(uid);
  queue_.Delete(uid);
  const auto held = held_.find(uid);
  // An assumed pod stays until its bind call has ended. If it is missing in a list, it is dropped
  // now: no later event would report its end (eventhandlers.go, DeletedFinalStateUnknown).
  const bool missing = last.pod == nullptr;
  if (held != held_.end() && (missing || !held->second.assumed)) {
    Drop(uid);
    queue_.Move({.what = What::kAssignedPodDelete});
  } else if (waited != nullptr) {
    Release(*waited);
  }
  Kick();
}

void Scheduler::OnNode(const Change& change) {
  NodeState& state = nodes_[change.key];
  const auto before = std::exchange(state.node, change.deleted ? nullptr : change.node);
  state.allocatable.clear();
  if (!change.deleted) {
    for (const auto& [name, amount] : change.node->allocatable) {
      AddAt(state.allocatable, IdOf(name), amount);
    }
  }
  if (change.deleted) {
    if (state.held.empty()) nodes_.erase(change.key);
    queue_.Move({.what = What::kNodeDelete});
  } else if (before == nullptr) {
    queue_.Move({.what = What::kNodeAdd, .after = change.node});
  } else if (NodeEventMatters(*before, *change.node)) {
    queue_.Move({.what = What::kNodeUpdate, .before = before, .after = change.node});
  }
  Kick();
}

// --- The cycle -----------------------------------------------------------------------------------

/// Schedules Try() for as soon as there is a pod to try.
void Scheduler::Kick() {
  if (busy_ || unsynced_ > 0) return;
  const auto due = queue_.NextDue();
  if (!due) return;
  const TimePoint at = std::max(*due, env_.now()) + env_.Latency(env_.ties, 0, 1);
  if (kicked_ >= env_.now() && kicked_ <= at) return;
  kicked_ = at;
  env_.timeline.At(at, life_.Guard([this, turn = ++kick_turn_] {
    if (turn != kick_turn_) return;
    kicked_ = -1;
    Try();
  }));
}

void Scheduler::Try() {
  if (busy_) return;
  auto pod = queue_.Pop();
  if (pod == nullptr) return Kick();
  busy_ = true;
  // VolumeBinding and DynamicResources refuse it before any node is looked at. No victims are
  // looked for, and the nomination stays.
  if (const kube::NeededObject* missing = env_.api.MissingOf(*pod)) {
    Fail(*pod, kVolumeBinding,
         fmt::format("0/{} nodes are available: {} \"{}\" not found.", nodes_.size(),
                     kube::ResourceOf(missing->kind).plural, missing->name),
         std::nullopt);
    return EndCycle();
  }
  auto cycle = std::make_shared<Cycle>();
  cycle->pod = std::move(pod);
  Begin(cycle);
}

void Scheduler::OnClaimAdded() {
  queue_.Move({.what = What::kClaimAdd});
  Kick();
}

void Scheduler::EndCycle() {
  busy_ = false;
  Kick();
}

bool Scheduler::Managed(const kube::Pod& pod) const {
  return std::ranges::any_of(options_.managed_resources, [&pod](const std::string& name) {
    return pod.spec->requests.contains(name);
  });
}

/// evaluateNominatedNode: tries that node alone before any scan; errors there are only logged.
void Scheduler::TryNominated(const std::shared_ptr<Cycle>& cycle) {
  const kube::Pod& pod = *cycle->pod;
  const auto it = nodes_.find(pod.nominated_node);
  if (pod.nominated_node.empty() || it == nodes_.end() || Refuse(AskedBy(pod), it->second)) {
    return Scan(cycle);
  }
  if (!Managed(pod)) return Assume(cycle, pod.nominated_node);
  extender_.Filter(pod, {pod.nominated_node},
                   life_.Guard([this, cycle](const std::expected<FilterReply, std::string>& reply) {
                     if (!reply || reply->kept.empty()) return Scan(cycle);
                     Assume(cycle, reply->kept.front());
                   }));
}

/// numFeasibleNodesToFind.
std::size_t Scheduler::SampleSize() const {
  const std::size_t all = nodes_.size();
  const bool samples = options_.percentage < 100 && env_.now() < options_.samples_end;
  if (all < options_.min_feasible || !samples) return all;
  const auto adaptive = std::max<std::int64_t>(5, 50 - static_cast<std::int64_t>(all) / 125);
  const auto percent = static_cast<std::size_t>(
      options_.percentage > 0 ? std::int64_t{options_.percentage} : adaptive);
  return std::max(all * percent / 100, options_.min_feasible);
}

void Scheduler::Scan(const std::shared_ptr<Cycle>& cycle) {
  std::vector<std::pair<const std::string*, const NodeState*>> all;
  all.reserve(nodes_.size());
  for (const auto& [name, state] : nodes_) {
    if (state.node != nullptr) all.emplace_back(&name, &state);
  }
  const Asked asked = AskedBy(*cycle->pod);
  const std::size_t wanted = SampleSize();
  std::vector<std::string> feasible;
  std::size_t processed = 0;
  const char* last = nullptr;  // nodes in a row mostly refuse for the same reason
  int* count = nullptr;
  while (processed < all.size() && feasible.size() < wanted) {
    const auto& [name, state] = all[(next_start_ + processed++) % all.size()];
    const auto refusal = Refuse(asked, *state);
    if (!refusal) {
      feasible.push_back(*name);
      continue;
    }
    if (refusal->reason.data() != last) {
      last = refusal->reason.data();
      count = &cycle->reasons[refusal->reason];
    }
    ++*count;
    cycle->rejectors |= refusal->by;
    if (refusal->evicts_help) cycle->unschedulable.push_back(*name);
  }
  if (!all.empty()) next_start_ = (next_start_ + processed) % all.size();
  if (feasible.empty()) return NoFit(cycle);
  if (!Managed(*cycle->pod)) return Choose(cycle, feasible, {});
  AskExtender(cycle, feasible);
}

void Scheduler::AskExtender(const std::shared_ptr<Cycle>& cycle,
                            const std::vector<std::string>& feasible) {
  const auto filtered = [this, cycle,
                         feasible](const std::expected<FilterReply, std::string>& reply) {
    if (!reply) {
      Fail(*cycle->pod, /*rejectors=*/0, reply.error());
      return EndCycle();
    }
    const auto refused = static_cast<int>(feasible.size() - reply->kept.size());
    if (refused > 0) {
      cycle->reasons[cycle->extender_reason = reply->reason] += refused;
      cycle->rejectors |= kExtender;
    }
    if (reply->kept.empty()) return NoFit(cycle);
    if (reply->kept.size() == 1) return Assume(cycle, reply->kept.front());
    using Scores = std::map<std::string, std::int64_t>;
    extender_.Prioritize(*cycle->pod, reply->kept,
                         life_.Guard([this, cycle, kept = reply->kept](
                                         const std::expected<Scores, std::string>& scores) {
                           Choose(cycle, kept, scores.value_or(Scores{}));  // errors of prioritize
                                                                            // are ignored
                         }));
  };
  extender_.Filter(*cycle->pod, feasible, life_.Guard(filtered));
}

/// The best score, ties broken at random as upstream does.
void Scheduler::Choose(const std::shared_ptr<Cycle>& cycle,
                       const std::vector<std::string>& feasible,
                       const std::map<std::string, std::int64_t>& extender_scores) {
  std::vector<std::string> names;
  std::vector<const NodeState*> states;
  for (const std::string& name : feasible) {
    const auto it = nodes_.find(name);
    if (it == nodes_.end() || it->second.node == nullptr) continue;
    names.push_back(name);
    states.push_back(&it->second);
  }
  const std::vector<std::int64_t> scores = Scores(*cycle->pod, states);
  std::string best;
  std::int64_t top = -1;
  std::int64_t equals = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::int64_t score = scores[i];
    const auto extra = extender_scores.find(names[i]);
    if (extra != extender_scores.end()) score += extra->second * options_.extender_weight * 10;
    if (score < top) continue;
    equals = score > top ? 1 : equals + 1;
    top = score;
    if (env_.ties.Between(1, equals) == 1) best = names[i];
  }
  if (best.empty()) return NoFit(cycle);
  Assume(cycle, best, equals);
}

void Scheduler::Assume(const std::shared_ptr<Cycle>& cycle, const std::string& node,
                       std::int64_t equals) {
  const auto pod = cycle->pod;
  if (on_attempt) on_attempt(*pod, node, equals);
  const std::string& uid = pod->meta.uid;
  // Deleted, or assigned by another scheduler meanwhile: the cache refuses to assume it.
  if (queue_.InFlight(uid) && !held_.contains(uid)) {
    Hold(pod, node, /*assumed=*/true);
    const auto bind = [this, pod, node] {
      const auto done = [this, pod](const std::string& error) {
        if (!error.empty()) BindFailed(pod, error);
        Kick();
      };
      if (Managed(*pod)) {
        extender_.Bind(RefOf(*pod), node,
                       life_.Guard([done](const std::expected<std::string, std::string>& result) {
                         done(result ? *result : result.error());
                       }));
        return;
      }
      env_.timeline.After(env_.Latency(env_.ties, 1, 5), life_.Guard([this, pod, node, done] {
        const Reply reply = writes_.Bind(RefOf(*pod), node, {});
        done(reply.ok() ? std::string() : reply.message);
      }));
    };
    env_.timeline.After(env_.Latency(env_.ties, 0, 2), life_.Guard(bind));
  }
  EndCycle();
}

void Scheduler::BindFailed(const std::shared_ptr<const kube::Pod>& pod, const std::string& error) {
  const std::string& uid = pod->meta.uid;
  const auto held = held_.find(uid);
  if (held != held_.end() && !held->second.assumed) return;  // the watch says that it is bound
  Drop(uid);
  queue_.Move({.what = What::kAssignedPodDelete});
  Fail(*pod, /*rejectors=*/0, error);
}

void Scheduler::NoFit(const std::shared_ptr<Cycle>& cycle) {
  if (on_attempt) on_attempt(*cycle->pod, "", 0);
  const std::string message = Message(nodes_.size(), cycle->reasons);
  if (options_.preempts && !cycle->pod->preempt_never && !cycle->unschedulable.empty()) {
    return Preempt(cycle, message);
  }
  Fail(*cycle->pod, cycle->rejectors, message);
  EndCycle();
}

/// Puts the pod back into the queue, and writes the condition and the nomination if they change.
void Scheduler::Fail(const kube::Pod& pod, Rejectors rejectors, const std::string& message,
                     std::optional<std::string> nominate) {
  if (!queue_.InFlight(pod.meta.uid)) return;  // gone, or assigned
  if (nominate == "" && !options_.clears_nomination) nominate.reset();
  queue_.Failed(pod.meta.uid, rejectors, nominate);
  const auto& known = pod.pod_scheduled;
  const kube::PodScheduled condition{.status = false,
                                     .reason = rejectors == 0 ? "SchedulerError" : "Unschedulable",
                                     .message = message,
                                     .since = known && !known->status ? known->since : 0};
  // What was written before has been seen, so a write without effect can be left out.
  if (env_.fidelity == Fidelity::kInstant && pod.pod_scheduled == condition &&
      pod.nominated_node == nominate.value_or(pod.nominated_node)) {
    return;
  }
  env_.timeline.After(env_.Latency(env_.ties, 1, 5),
                      [&writes = writes_, ref = RefOf(pod), condition, nominate] {
                        writes.Patch(ref, [&](kube::Pod& changed) {
                          if (!changed.node_name.empty()) return false;
                          if (changed.pod_scheduled == condition &&
                              (!nominate || changed.nominated_node == *nominate)) {
                            return false;
                          }
                          changed.pod_scheduled = condition;
                          if (nominate) changed.nominated_node = *nominate;
                          return true;
                        });
                      });
}

// --- Plugins -------------------------------------------------------------------------------------

std::optional<Scheduler::Refusal> Scheduler::Refuse(const Asked& asked, const NodeState& state,
                                                    const Victims& without) const {
  const kube::Pod& pod = asked.pod;
  if (state.node == nullptr) return Refusal{kNodeUnschedulable, "node(s) are gone"};
  const kube::Node& node = *state.node;
  if (node.unschedulable && !kube::ToleratesUnschedulable(pod.spec->tolerations)) {
    return Refusal{kNodeUnschedulable, "node(s) were unschedulable"};
  }
  if (kube::FindUntoleratedTaint(pod.spec->tolerations, node.taints) != nullptr) {
    return Refusal{kTaintToleration, "node(s) had untolerated taint(s)"};
  }
  if (!kube::MatchesNode(*pod.spec, node)) {
    return Refusal{kNodeAffinity, "node(s) didn't match Pod's node affinity/selector"};
  }
  if (auto refusal = RefuseByRoom(asked, state, without)) return refusal;
  if (auto refusal = RefuseByNeighbours(asked, state, without)) return refusal;
  const Fault* hidden = env_.faults.Find(FaultKind::kHiddenRefusal);
  if (hidden != nullptr && (cluster::NodeHash(node.meta.name) ^ hidden->choice) % 3 == 0) {
    env_.faults.TookEffect(FaultKind::kHiddenRefusal);
    return Refusal{kVolumeBinding, "node(s) had volume node affinity conflict"};
  }
  return std::nullopt;
}

std::optional<Scheduler::Refusal> Scheduler::RefuseByRoom(const Asked& asked,
                                                          const NodeState& state,
                                                          const Victims& without) const {
  const kube::Node& node = *state.node;
  kube::ResourceList shift;  // amounts to add to those of `state`; nearly always empty
  std::int64_t pods = std::ssize(state.held) - std::ssize(without);
  for (const kube::Pod* victim : without) {
    for (const auto& [name, amount] : victim->spec->requests) shift[name] -= amount;
  }
  // Nominated pods of equal or higher priority count as if they were bound; gated ones do not.
  queue_.ForEachNominated(node.meta.name, [&](const kube::Pod& other) {
    if (other.meta.uid == asked.pod.meta.uid || other.priority < asked.pod.priority ||
        held_.contains(other.meta.uid)) {
      return;
    }
    for (const auto& [name, amount] : other.spec->requests) shift[name] += amount;
    ++pods;
  });
  for (const auto& [id, amount] : asked.requests) {
    std::int64_t used = At(state.requested, id);
    if (!shift.empty()) used += AmountOf(shift, resources_[id].name);
    if (used + amount <= At(state.allocatable, id)) continue;
    return Refusal{kNodeResourcesFit, resources_[id].insufficient, true};
  }
  const auto most = node.allocatable.find("pods");
  if (most != node.allocatable.end() && pods + 1 > most->second) {
    return Refusal{kNodeResourcesFit, "Too many pods", true};
  }
  return std::nullopt;
}

}  // namespace berth::sim
