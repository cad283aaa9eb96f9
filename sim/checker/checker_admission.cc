// Checker, part: I1, I2 and I4, room and quota. There are two questions. Does the ledger agree with
// what the store knows? Do the API server's objects agree with what the watches had told Berth when
// it decided? The second one is checked at every Binding: information is late, but a limit that has
// arrived applies to every later decision.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "cluster/plan_claim.h"
#include "sim/checker/checker.h"

namespace berth::sim {

using cluster::Charge;

namespace {

/// What those of `uids` hold of the resource whose victims have not ended.
std::int64_t HeldForVictims(const HostDriver& host, const std::set<std::string>& uids,
                            cluster::ResourceId id) {
  std::int64_t held = 0;
  for (const std::string& uid : uids) {
    const cluster::PodInfo* pod = host.engine().store().FindPod(uid);
    const engine::Plan* plan = host.engine().PlanOf(*pod);
    if (plan == nullptr || plan->victims.empty()) continue;
    for (const auto& [resource, amount] : pod->queue_charge) held += resource == id ? amount : 0;
  }
  return held;
}

/// What the ledger says that a queue and those below it have in use.
std::int64_t GpusIn(const cluster::Store& store, const std::string& queue) {
  return store.queue(store.FindQueue(queue)).used[store.device_ids().front()];
}

/// The most that a queue keeps for itself and does not lend: of those below `ancestor` (empty:
/// of all) that are not on the path of `queue`. Queues in a line that keep something are not added
/// up: enough to find what is wrong.
std::int64_t MostKept(const cluster::Store& store, cluster::QueueId queue,
                      const std::string& ancestor) {
  const auto path = PathOf(store.queue(queue).config.name, store.policy());
  const auto contains = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::int64_t kept = 0;
  for (const config::Queue& other : store.policy().queues) {
    const auto lent = other.lending_limit.find(kGpu);
    if (lent == other.lending_limit.end() || contains(path, other.name)) continue;
    if (!ancestor.empty() && !contains(PathOf(other.name, store.policy()), ancestor)) continue;
    kept = std::max(
        kept, AmountOf(config::TotalQuota(other), kGpu) - lent->second - GpusIn(store, other.name));
  }
  return kept;
}

}  // namespace

std::int64_t Checker::CapOf(const config::PolicyConfiguration& policy, const std::string& name) {
  const auto queue = std::ranges::find(policy.queues, name, &config::Queue::name);
  if (queue == policy.queues.end()) return 0;
  // Without borrowing, the quota is the limit of a resource for which no limit is set.
  const auto limit = queue->limit.find(kGpu);
  const auto quota = queue->quota.find(kGpu);
  if (limit != queue->limit.end()) return limit->second;
  if (policy.borrowing) return cluster::kAbsurdAmount;
  return quota != queue->quota.end() ? quota->second : cluster::kAbsurdAmount;
}

void Checker::Late::Set(TimePoint now, std::int64_t value) {
  while (values_.size() > 1 && values_[1].first + kOutdatedFor < now) values_.pop_front();
  values_.emplace_back(now, value);
}

std::int64_t Checker::Late::Most(TimePoint now) const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    // A value counts from when it was set until kOutdatedFor after the next value was set.
    if (i + 1 < values_.size() && values_[i + 1].first + kOutdatedFor < now) continue;
    most = std::max(most, values_[i].second);
  }
  return most;
}

void Checker::WatchNode(const Change& change) {
  devices_.emplace_back(change.key, change.deleted ? 0 : AmountOf(change.node->allocatable, kGpu));
  for (const char* resource : {kGpu, "cpu", "memory", "pods"}) {
    allocatable_[{change.key, resource}].Set(
        env_.now(), change.deleted ? 0 : AmountOf(change.node->allocatable, resource));
  }
}

void Checker::WatchPolicy(const config::PolicyConfiguration& policy) {
  if (policy.mode == config::Mode::kPassthrough) {
    passthrough_until_ = std::numeric_limits<TimePoint>::max();
  } else if (passthrough_until_ > env_.now()) {
    passthrough_until_ = env_.now() + kOutdatedFor;
  }
  policies_.push_back(std::make_shared<const config::PolicyConfiguration>(policy));
  for (auto& [name, late] : caps_) {
    if (std::ranges::find(policy.queues, name, &config::Queue::name) == policy.queues.end()) {
      const bool group = std::ranges::any_of(
          policy.queues, [&](const config::Queue& queue) { return queue.parent == name; });
      late.Set(env_.now(), group ? cluster::kAbsurdAmount : 0);
    }
  }
  for (const config::Queue& queue : policy.queues) {
    caps_[queue.name].Set(env_.now(), CapOf(policy, queue.name));
  }
}

// --- The API server's objects --------------------------------------------------------------------

/// The most that `told` allows of these pods, all of them bound there; nullopt: Berth has not
/// decided all of them.
std::optional<std::int64_t> Checker::ToldMost(const std::vector<std::string>& uids,
                                              const std::string& where,
                                              const std::map<std::string, Told>& told) {
  std::int64_t most = 0;
  for (const std::string& uid : uids) {
    const auto known = told.find(uid);
    if (known == told.end() || known->second.where != where) return std::nullopt;
    most = std::max(most, known->second.most);
  }
  return most;
}

/// When the last of these pods was charged, all the others were charged already, so all of them fit
/// the amount that Berth had been told by then. The limit is therefore the largest amount that it
/// had been told for any of them. If Berth has not decided all of them, the limit is the largest
/// recent value.
void Checker::CheckRoom(const kube::Pod& bound) {
  const Usage::Room& room = usage_.RoomOf(bound.node_name);
  // Two schedulers may briefly both consider a core free. Kubernetes has that risk, too.
  const auto other = other_binds_.find(bound.node_name);
  const bool other_came = other != other_binds_.end() && env_.now() < other->second + kOutdatedFor;
  if (other_came) return;
  // With passthrough, a pod may be bound to a node that a whole-node pod has for itself, or to one
  // with a Binding under way whose answer kube-scheduler has lost.
  if (env_.now() < passthrough_until_) return;
  const bool two_schedulers = env_.now() < scheduler_restarted_ + kOutdatedFor;
  // kube-scheduler binds such pods itself. Where the answer to a Binding by Berth is lost or slow,
  // it takes the room of that pod to be free.
  const bool by_scheduler = faults_ > 0 && AmountOf(bound.spec->requests, kGpu) == 0;
  for (const char* name : {kGpu, "cpu", "memory", "pods"}) {
    if (name != kGpu && (two_schedulers || by_scheduler)) continue;
    std::int64_t used = AmountOf(room.used, name);
    if (name == kGpu) used += room.whole_node * GpusOf(bound.node_name);
    std::int64_t all = allocatable_[{bound.node_name, name}].Most(env_.now());
    if (name == kGpu && room.whole_node == 0 && !told_rooms_.empty()) {  // none in large worlds
      const auto told = ToldMost(usage_.BoundTo(bound.node_name), bound.node_name, told_rooms_);
      all = std::min(all, told.value_or(all));
    }
    if (used > all) {
      Broken(fmt::format("I1/I2: {} is bound to {}, which then has {} of {} {} taken",
                         bound.meta.name, bound.node_name, used, all, name));
    }
  }
}

/// An edit of the policy removed the queue of a gang that is below its minimum. The members that it
/// lacks are bound and charged to the queue where its running members count now, even over the cap
/// of that queue, just as when an edit lowers the cap of their own queue (Engine::MustGiveWay).
bool Checker::FollowsItsGang(const kube::Pod& bound) const {
  const std::string queue = usage_.QueueOf(bound.meta.uid);
  int runs = 0;
  bool moved = false;  // its gang's queue may exist again by now
  for (const auto& [uid, member] : usage_.MembersOf(GangOf(bound))) {
    if (uid == bound.meta.uid || member->node_name.empty() || !Lives(*member)) continue;
    ++runs;
    const auto claim = cluster::ClaimOf(*member);
    moved |= claim && claim->node == member->node_name && claim->queue != queue;
  }
  return moved && runs < MinimumOf(bound);
}

/// I4, by the API objects alone.
void Checker::CheckQueues(const kube::Pod& bound) {
  if (!bound.spec->requests.contains(kGpu) || !Lives(bound)) return;
  const std::string queue = usage_.QueueOf(bound.meta.uid);
  const auto claim = cluster::ClaimOf(bound);
  // Its queue was removed while the Binding was under way: it counts in another queue, whatever the
  // room.
  if (claim && claim->node == bound.node_name && claim->queue != queue) {
    usage_.CameByEdit(bound.meta.uid);
    return;
  }
  const bool named = std::ranges::any_of(
      policies_, [&](const auto& policy) { return QueueByPolicy(bound, *policy) == queue; });
  if (!queue.empty() && !named) {
    Broken(fmt::format("I4: {} is charged to queue {}, which no policy names for it",
                       bound.meta.name, queue));
  }
  // Pods that an edit of the policy has just moved here were not counted when this was decided.
  const std::int64_t used =
      usage_.GpusOf(queue) - usage_.GpusMovedTo(queue, env_.now() - kOutdatedFor);
  const std::int64_t late = caps_[queue].Most(env_.now());
  std::optional<std::int64_t> told;
  if (!told_caps_.empty()) told = ToldMost(usage_.BoundIn(queue), queue, told_caps_);
  const std::int64_t cap = std::min(late, told.value_or(late));
  // An edit that moved queues has moved the use of pods that were there already.
  if (queue.empty() || env_.now() < usage_.tree_changed() + kOutdatedFor) return;
  if (used > cap) ReportOver(bound, queue, used, cap);
  // Of the queues above, only what they were allowed lately is known, not what Berth was told.
  for (const std::string& above : PathOf(queue, env_.api.policy())) {
    if (above == queue || !caps_.contains(above)) continue;  // a plain group has no cap
    const std::int64_t in_use =
        usage_.GpusOf(above) - usage_.GpusMovedTo(above, env_.now() - kOutdatedFor);
    const std::int64_t most = caps_[above].Most(env_.now());
    if (in_use > most) ReportOver(bound, above, in_use, most);
  }
}

void Checker::ReportOver(const kube::Pod& bound, const std::string& queue, std::int64_t used,
                         std::int64_t cap) {
  if (FollowsItsGang(bound)) {
    usage_.CameByEdit(bound.meta.uid);
  } else {
    Broken(fmt::format("I4: {} is bound, and queue {} uses {} of {} milli-GPU", bound.meta.name,
                       queue, used, cap));
  }
}

// --- The ledger ----------------------------------------------------------------------------------

/// A new charge is a decision, and so is a Binding that is about to be sent, unless a watch brought
/// it (a pod that appears bound) or it comes from a claim of an earlier process. The decision is
/// checked against what the watches have delivered so far.
void Checker::RememberTold(const HostDriver& host, const cluster::PodInfo& pod, bool decided) {
  const std::string& uid = pod.object.meta.uid;
  // A plan that was made with a larger known value remains valid.
  const auto keep = [&uid](std::map<std::string, Told>& told, Told now) {
    const auto [it, fresh] = told.try_emplace(uid, now);
    if (!fresh && it->second.where == now.where) now.most = std::max(now.most, it->second.most);
    it->second = std::move(now);
  };
  if (pod.charge != Charge::kBinding || !decided) {
    told_caps_.erase(uid);
    told_rooms_.erase(uid);
  }
  if (!decided) return;
  const cluster::Store& store = host.engine().store();
  if (pod.charged_queue != cluster::kNoQueue) {
    const auto& queue = store.queue(pod.charged_queue).config.name;
    const WatchStream& stream = host.stream(Kind::kPolicy);
    // After a list from before the first edit the process has the policy that it began with.
    const std::size_t seen = std::max<std::size_t>(stream.seen(), 1);
    std::int64_t cap = CapOf(*policies_.at(seen - 1), queue);
    for (std::size_t i = stream.seen(); i < stream.told(); ++i) {
      cap = std::max(cap, CapOf(*policies_.at(i), queue));
    }
    keep(told_caps_, {queue, cap});
  }
  const std::string& node = store.node(pod.node).name;
  const WatchStream& stream = host.stream(Kind::kNode);
  for (; told_until_ < stream.seen(); ++told_until_) {
    const auto& [name, gpus] = devices_.at(told_until_);
    told_gpus_[name] = gpus;
  }
  std::int64_t gpus = told_gpus_[node];
  for (std::size_t i = stream.seen(); i < stream.told(); ++i) {
    if (devices_.at(i).first == node) gpus = std::max(gpus, devices_.at(i).second);
  }
  keep(told_rooms_, {node, gpus});
}

/// I4: what was reserved in this step, if it was for one workload only, starts in no queue that is
/// held, and leaves others what they keep for themselves. (What waits for victims of its own queue
/// is counted beside them until they are gone.)
void Checker::CheckStarts(const engine::Engine& engine, const std::set<std::string>& fresh) {
  const cluster::Store& store = engine.store();
  std::set<const cluster::Workload*> workloads;
  bool takes = false;
  for (const std::string& uid : fresh) {
    const cluster::PodInfo& pod = *store.FindPod(uid);
    workloads.insert(pod.workload);
    const engine::Plan* plan = engine.PlanOf(pod);
    const bool for_victims = plan != nullptr && !plan->victims.empty();
    takes |= !for_victims && pod.object.spec->requests.contains(kGpu);
  }
  if (workloads.size() != 1 || *workloads.begin() == nullptr) return;
  const cluster::Workload& workload = **workloads.begin();
  if (workload.queue == cluster::kNoQueue) return;
  CheckClaim(engine, workload);
  std::optional<std::string> promised;  // by the narrowest queue with a quota
  bool beyond = false;
  for (const std::string& name : PathOf(store.queue(workload.queue).config.name, store.policy())) {
    const auto& queues = store.policy().queues;
    const auto queue = std::ranges::find(queues, name, &config::Queue::name);
    if (queue == queues.end()) continue;
    if (queue->hold != config::Hold::kNone && !workload.started) {
      Broken(fmt::format("I4: {} starts in {}, which is held", workload.key, name));
    }
    // A queue without a quota promises nothing, and forbids nothing.
    const std::int64_t quota = AmountOf(config::TotalQuota(*queue), kGpu);
    if (quota == 0) continue;
    const std::int64_t kept = promised ? 0 : MostKept(store, workload.queue, name);
    beyond |= GpusIn(store, name) + kept > quota;
    if (!promised) promised = name;
  }
  if (!store.policy().borrowing || !takes) return;
  CheckLoan(engine, workload, beyond ? std::string() : promised.value_or(""));
}

/// What the workload was given leaves to others what they keep: those below `within`, whose quota
/// covers it, or, if that is empty, all others. A plan that was made in the same step may have
/// taken what was free, and evict others.
void Checker::CheckLoan(const engine::Engine& engine, const cluster::Workload& workload,
                        const std::string& within) {
  const cluster::Store& store = engine.store();
  std::int64_t free = 0;
  for (const auto& [uid, pod] : store.pods()) {
    const bool ends = engine.IsVictim(pod) || pod.terminating();
    if (pod.charge == cluster::Charge::kNone || !ends) continue;
    free += AmountOf(pod.object.spec->requests, kGpu);
  }
  for (const auto& node : store.nodes()) {
    if (!node->present || !node->object.ready || node->object.unschedulable) continue;
    free += std::max<std::int64_t>(0, node->free(store.device_ids().front()));
  }
  const std::int64_t kept = MostKept(store, workload.queue, within);
  if (kept <= free) return;
  Broken(fmt::format("I4: {} borrows, {} milli-GPU are free, and another queue keeps {}",
                     workload.key, free, kept));
}

/// I4 in the ledger: a queue over its cap (the policy was changed, a whole node grew, outdated
/// information arrived) gets no further pods.
void Checker::CheckCaps(const HostDriver& host) {
  const cluster::Store& store = host.engine().store();
  std::map<std::string, std::set<std::string>> charged;
  std::set<std::string> holding;
  std::set<std::string> fresh;  // UIDs for which room was reserved in this step
  for (const auto& [uid, pod] : store.pods()) {
    if (pod.charge == Charge::kNone) continue;
    holding.insert(uid);
    if (pod.charge == Charge::kPlanned && !holding_.contains(uid)) fresh.insert(uid);
    if (pod.charge != Charge::kBinding) posting_.erase(uid);
    const bool posts = pod.charge == Charge::kBinding && posting_.insert(uid).second;
    if (looked_ && (posts || !holding_.contains(uid))) {
      RememberTold(host, pod, pod.charge != Charge::kBound);
    }
    if (pod.charged_queue == cluster::kNoQueue) continue;
    for (const cluster::QueueId queue : store.queue(pod.charged_queue).path) {
      charged[store.queue(queue).config.name].insert(uid);
    }
  }
  holding.swap(holding_);
  if (looked_) CheckStarts(host.engine(), fresh);
  const bool settles =
      env_.now() < berth_started_ + kOutdatedFor || env_.now() < passthrough_until_;
  if (looked_ && !settles) CheckParts(host.engine(), fresh);
  if (looked_) CheckJobs(host.engine(), fresh, holding);
  looked_ = true;
  const bool settling =
      env_.now() < berth_started_ + kOutdatedFor || env_.now() < passthrough_until_;
  for (const cluster::QueueId queue_id : store.queues()) {
    const cluster::QueueInfo& queue = store.queue(queue_id);
    const auto before = charged_.find(queue.config.name);
    if (settling || before == charged_.end()) continue;
    auto caps = queue.caps;
    caps.insert(caps.end(), queue.non_preemptible_caps.begin(), queue.non_preemptible_caps.end());
    for (const auto& [id, cap] : caps) {
      if (queue.used[id] <= cap) continue;
      // What waits for victims is counted beside them, and may be planned behind others.
      if (queue.used[id] - HeldForVictims(host, charged[queue.config.name], id) <= cap) continue;
      for (const std::string& uid : charged[queue.config.name]) {
        const cluster::PodInfo* pod = store.FindPod(uid);
        const bool takes = std::ranges::any_of(
            pod->queue_charge, [id = id](const auto& part) { return part.first == id; });
        const engine::Plan* plan = host.engine().PlanOf(*pod);
        const bool for_victims = plan != nullptr && !plan->victims.empty();
        const bool held = holding.contains(uid);  // an edit of the policy moved it here
        // A late event may briefly restore a pod that had already ended when the outcome of its
        // Binding was read.
        const bool news = pod->charge == Charge::kBound;
        if (!takes || for_victims || held || news || before->second.contains(uid)) continue;
        Broken(fmt::format("I4: queue {} takes {} and is at {} of {} milli-GPU", queue.config.name,
                           pod->object.meta.name, queue.used[id], cap));
      }
    }
  }
  charged_ = std::move(charged);
}

}  // namespace berth::sim
