// Store, continued: which queue a pod belongs to, and what a new policy changes.
#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "cluster/plan_claim.h"
#include "cluster/queue_refusal.h"
#include "cluster/store.h"

namespace berth::cluster {
namespace {

/// Of which parts of resources the policy has amounts: resource, flavor, and whether for
/// non-preemptible work, whose cap is the quota.
std::set<std::tuple<std::string, std::string, bool>> PartsOf(
    const config::PolicyConfiguration& policy) {
  std::set<std::tuple<std::string, std::string, bool>> parts;
  for (const config::Queue& queue : policy.queues) {
    for (const auto& [name, quota] : queue.quota) parts.emplace(name, "", true);
    for (const config::FlavorQuota& amounts : queue.quotas) {
      for (const auto& [name, quota] : amounts.quota) {
        parts.emplace(name, "", true);  // see config::TotalQuota
        parts.emplace(name, amounts.flavor, true);
        parts.emplace(name, amounts.flavor, false);
      }
      for (const auto& [name, limit] : amounts.limit) parts.emplace(name, amounts.flavor, false);
    }
  }
  return parts;
}

/// Whether pods mean the same under both: what they ask for, whether they are ours, and which queue
/// they name.
bool ReadsAlike(const config::PolicyConfiguration& a, const config::PolicyConfiguration& b) {
  const auto same_queue = [](const config::Queue& x, const config::Queue& y) {
    return x.name == y.name && x.namespaces == y.namespaces && x.classes == y.classes &&
           x.priority_classes == y.priority_classes && x.non_preemptible == y.non_preemptible &&
           // Use is counted by user or namespace, and by job, as these say.
           x.fair_within == y.fair_within &&
           (x.max_jobs_per_user == 0) == (y.max_jobs_per_user == 0);
  };
  return a.scheduler_names == b.scheduler_names && a.dialects == b.dialects &&
         a.devices == b.devices && a.levels == b.levels && a.classes == b.classes &&
         a.flavors == b.flavors && PartsOf(a) == PartsOf(b) &&
         std::ranges::equal(a.queues, b.queues, same_queue);
}

/// Whether a quota names a resource that pods asked for when it could not be distinguished from
/// other unknown ones.
bool NamesWhatWasUnknown(const config::PolicyConfiguration& policy,
                         const ResourceTable& resources) {
  const auto news = [&](const auto& amount) {
    return !resources.Find(amount.first) && resources.WasAskedFor(amount.first);
  };
  const auto any_news = [&](const auto& amounts) {
    return std::ranges::any_of(amounts.quota, news) || std::ranges::any_of(amounts.limit, news);
  };
  return std::ranges::any_of(policy.queues, [&](const config::Queue& queue) {
    return any_news(queue) || std::ranges::any_of(queue.quotas, any_news);
  });
}

}  // namespace

QueueId Store::FindQueue(std::string_view name) const {
  const auto it = queue_ids_.find(name);
  return it == queue_ids_.end() || !queue(it->second).present ? kNoQueue : it->second;
}

bool Store::QueueAdmits(QueueId queue, std::string_view ns) const {
  return Admits(this->queue(queue).config, ns);
}

QueueId Store::ResolveQueue(const PodInfo& pod, const PodClaims& claims, Verdict& refusal) const {
  const std::string& ns = pod.object.meta.ns;
  const auto claim = BoundClaimOf(pod.object);
  if (const auto queue =
          directory_.Find(ns, claim ? claim->queue : std::string_view(), claims.queue)) {
    return AdmitWork(queue_order_[*queue], pod, claims, refusal);
  }
  if (!claims.queue.empty() && FindQueue(claims.queue) == kNoQueue) {
    refusal = {.reason = ReasonId::kUnknownQueue, .subject = claims.queue};
  } else {
    refusal = {.reason = ReasonId::kQueueNotAllowed,
               .subject = QueueRefusal(policy_.queues, ns, claims.queue)};
  }
  return kNoQueue;
}

/// `queue`, if it admits such work. A bound pod is not refused any more.
QueueId Store::AdmitWork(QueueId queue, const PodInfo& pod, const PodClaims& claims,
                         Verdict& refusal) const {
  if (pod.bound()) return queue;
  std::string why = WorkRefusal(this->queue(queue).config,
                                {.priority_class = pod.object.priority_class,
                                 .workload_class = claims.workload_class,
                                 .non_preemptible = !pod.exempt && MayNotBeEvicted(pod, claims)});
  if (why.empty()) return queue;
  refusal = {.reason = ReasonId::kQueueNotAllowed, .subject = std::move(why)};
  return kNoQueue;
}

/// Once the pod is bound, as its Binding says.
bool Store::MayNotBeEvicted(const PodInfo& pod, const PodClaims& claims) const {
  const auto claim = BoundClaimOf(pod.object);
  if (claim && claim->preemptible) return !*claim->preemptible;
  if (pod.exempt) return true;
  if (claims.preemptible) return !*claims.preemptible;
  return IsNonPreemptible(policy_, claims.workload_class);
}

/// The slot of a queue that is gone, or one more.
QueueId Store::NewQueue() {
  auto vacant = std::ranges::find_if(
      queues_, [](const QueueInfo& info) { return !info.present && info.config.name.empty(); });
  if (vacant == queues_.end()) vacant = queues_.emplace(queues_.end());
  return static_cast<QueueId>(vacant - queues_.begin());
}

/// Queues that the policy no longer has keep their ids, for the pods that are yet to be read.
void Store::ReadQueues() {
  InternParts();
  for (const QueueId id : queue_order_) {
    queues_[static_cast<std::size_t>(id)].present = false;
    queues_[static_cast<std::size_t>(id)].kept.clear();
  }
  directory_ = QueueDirectory(policy_.queues);
  queue_order_.clear();
  queue_news_.clear();
  for (const config::Queue& queue : policy_.queues) {
    auto [it, fresh] = queue_ids_.try_emplace(queue.name, kNoQueue);
    if (fresh) it->second = NewQueue();
    QueueInfo& info = queues_[static_cast<std::size_t>(it->second)];
    ReadQueue(queue, info);
    info.present = true;
    queue_order_.push_back(it->second);
  }
  FindPaths();
}

/// Quotas, caps of single flavors, and what non-preemptible work may use: a quota that is not 0, of
/// all or of one flavor, is its cap.
void Store::ReadQuotas(const config::Queue& queue, QueueInfo& info) {
  const auto cap_non_preemptible = [&](ResourceId id, FlavorId flavor, std::int64_t quota) {
    if (quota <= 0) return;
    info.non_preemptible_caps.emplace_back(*FindPart(id, flavor, true), quota);
  };
  for (const auto& [name, quota] : config::TotalQuota(queue)) {
    const ResourceId id = resources_.Intern(name);
    info.quota.Set(id, quota);
    cap_non_preemptible(id, kNoFlavor, quota);
  }
  for (const config::FlavorQuota& amounts : queue.quotas) {
    const auto found = std::ranges::find(policy_.flavors, amounts.flavor, &config::Flavor::name);
    if (found == policy_.flavors.end()) continue;  // decoding refuses it
    const auto flavor = static_cast<FlavorId>(found - policy_.flavors.begin());
    kube::ResourceList caps = policy_.borrowing ? kube::ResourceList() : amounts.quota;
    for (const auto& [name, amount] : amounts.limit) caps[name] = amount;
    for (const auto& [name, amount] : caps) {
      info.caps.emplace_back(*FindPart(resources_.Intern(name), flavor, false), amount);
    }
    for (const auto& [name, quota] : amounts.quota) {
      const ResourceId id = resources_.Intern(name);
      const ResourceId part = *FindPart(id, flavor, false);
      info.quota.Set(part, quota);
      cap_non_preemptible(id, flavor, quota);
      if (quota <= 0) continue;
      // Sums must not overflow, and no cluster has more.
      info.flavor_quotas.push_back(
          {.whole = id, .part = part, .amount = std::min(quota, kAbsurdAmount)});
    }
  }
}

/// Pods are charged for these parts from now on. REQUIRES: all pods are read again if they are
/// others than before.
void Store::InternParts() {
  parts_.clear();
  for (const auto& [name, flavor, non_preemptible] : PartsOf(policy_)) {
    const auto found = std::ranges::find(policy_.flavors, flavor, &config::Flavor::name);
    if (found == policy_.flavors.end() && !flavor.empty()) continue;  // decoding refuses it
    const Part part{
        .whole = resources_.Intern(name), .flavor = flavor, .non_preemptible = non_preemptible};
    const FlavorId id = found == policy_.flavors.end()
                            ? kNoFlavor
                            : static_cast<FlavorId>(found - policy_.flavors.begin());
    parts_[{part.whole, id, non_preemptible}] = resources_.InternPart(part);
  }
}

void Store::ReadFlavor(NodeInfo& node) {
  const auto matches = [&](const config::Flavor& flavor) {
    return std::ranges::all_of(flavor.node_selector, [&](const auto& wanted) {
      const auto it = node.object.meta.labels.find(wanted.first);
      return it != node.object.meta.labels.end() && it->second == wanted.second;
    });
  };
  const auto found = std::ranges::find_if(policy_.flavors, matches);
  const FlavorId flavor = !node.present || found == policy_.flavors.end()
                              ? kNoFlavor
                              : static_cast<FlavorId>(found - policy_.flavors.begin());
  if (std::exchange(node.flavor, flavor) == flavor) return;
  for (const PodInfo* pod : std::vector<const PodInfo*>(node.pods)) RechargeQueue(Own(*pod));
}

/// Leaves what the queue has in use unchanged.
void Store::ReadQueue(const config::Queue& queue, QueueInfo& info) {
  info.config = queue;
  info.caps.clear();
  info.kept.clear();
  info.quota = {};
  info.flavor_quotas.clear();
  info.non_preemptible_caps.clear();
  kube::ResourceList caps = policy_.borrowing ? kube::ResourceList() : queue.quota;
  for (const auto& [name, amount] : queue.limit) caps[name] = amount;
  for (const auto& [name, amount] : caps) info.caps.emplace_back(resources_.Intern(name), amount);
  ReadQuotas(queue, info);
  if (!policy_.borrowing) return;
  for (const auto& [name, most] : queue.lending_limit) {
    const ResourceId id = resources_.Intern(name);
    // No cluster has more than kAbsurdAmount, and sums of what many queues keep must not overflow.
    const std::int64_t kept = std::min(info.quota[id] - most, kAbsurdAmount);
    if (kept > 0) info.kept.emplace_back(id, kept);
  }
}

/// While the queue that it was charged to is gone, or no longer admits it, a pod counts as one
/// whose queue is not fixed, as it would after a restart.
QueueId Store::QueueOfHeld(const PodInfo& pod) const {
  const QueueId held = FindQueue(pod.held_queue);
  if (held != kNoQueue && QueueAdmits(held, pod.object.meta.ns)) return held;
  Verdict ignored;
  // A pod without claims has been resolved in File.
  return pod.claims == nullptr ? pod.queue : ResolveQueue(pod, *pod.claims, ignored);
}

bool Store::BeginPolicy(config::PolicyConfiguration policy) {
  const bool reads_alike =
      !reread_due_ && ReadsAlike(policy_, policy) && !NamesWhatWasUnknown(policy, resources_);
  const bool same_devices = policy_.devices == policy.devices;
  const bool same_levels = policy_.levels == policy.levels;
  const bool same_flavors = policy_.flavors == policy.flavors;
  policy_ = std::move(policy);
  ++policy_generation_;
  ++free_generation_;
  if (reads_alike) {
    for (std::size_t i = 0; i < queue_order_.size(); ++i) {
      ReadQueue(policy_.queues[i], queues_[static_cast<std::size_t>(queue_order_[i])]);
    }
    FindPaths();
    return false;
  }
  dialects_ = peers_.Decide(policy_.dialects);
  reread_due_ = false;
  shapes_.clear();
  if (!same_devices) {
    IndexDevices();
    free_devices_ = total_devices_ = {};
    node_sizes_.clear();
    for (const auto& node : nodes_) {
      node->counted_free = node->counted_total = {};
      node->counted_size.clear();
      CountDevices(*node);
      CountSize(*node);
    }
  }
  ReadQueues();
  if (!same_levels) {
    topology_.Reset(policy_.levels);
    // Later reads must not find domains of levels that are gone.
    for (const auto& node : nodes_) node->domains.assign(policy_.levels.size(), kNoDomain);
  }
  BeginReading(/*nodes=*/!same_devices || !same_flavors);
  return true;
}

bool Store::SetPolicy(config::PolicyConfiguration policy) {
  const bool reads = BeginPolicy(std::move(policy));
  while (reading()) ReadMore(std::numeric_limits<std::size_t>::max());
  return reads;
}

void Store::BeginReading(bool nodes) {
  const std::size_t nodes_left = reading_ ? reading_->nodes : 0;
  reading_ = Reading{.nodes = nodes ? nodes_.size() : nodes_left, .pods = pod_list_.size()};
  reading_generation_ = policy_generation_;
}

void Store::ReadNow(const Workload& workload) {
  if (reading_) ReadAgain(MembersOf(workload));
}

std::vector<std::string> Store::ReadMore(std::size_t most) {
  std::vector<std::string> started;
  if (!reading_) return started;
  Reading& left = *reading_;
  if (!topology_.complete()) {
    topology_.ReadSome(nodes_, most);
    if (most == 0) return started;
    RefreshTopology();
    most = 0;  // that took as long as reading some
  }
  for (; left.nodes > 0 && most > 0; --most) {
    NodeInfo& node = *nodes_[--left.nodes];
    ReadHardware(node);
    ReadFlavor(node);
    ReconcileDevices(node);
  }
  while (left.pods > 0 && most > 0) {
    // The last pod takes the place of one that is deleted, so the list may have become shorter.
    left.pods = std::min(left.pods, pod_list_.size());
    if (left.pods == 0) break;
    PodInfo& pod = *pod_list_[--left.pods];
    if (pod.read_at == reading_generation_) continue;
    const Workload* workload = pod.workload;
    if (workload != nullptr && workload->gang && workload->started) {
      started.push_back(workload->key);
    }
    const auto pods = workload == nullptr ? std::vector{&pod} : MembersOf(*workload);
    ReadAgain(pods);
    most -= std::min(most, pods.size());
  }
  for (; most > 0; --most) {
    const auto next = ended_.upper_bound(left.ended);
    if (next == ended_.end()) {
      DropGoneQueues();
      reading_.reset();
      break;
    }
    left.ended = next->first;
    const kube::Pod object = next->second.object;
    ForgetEnded(object.meta.uid);
    KeepEnded(object, "");
  }
  return started;
}

/// No pod is in them any more.
void Store::DropGoneQueues() {
  for (QueueInfo& info : queues_) {
    if (info.present || info.config.name.empty()) continue;
    queue_ids_.erase(info.config.name);
    info = {};
    info.present = false;
  }
  if (meter_) meter_->Prune(now_);
}

/// They are read together: one by one, members that are read would contradict members that are not.
std::vector<PodInfo*> Store::MembersOf(const Workload& workload) {
  std::vector<PodInfo*> pods;
  for (const PodInfo* member : workload.members) pods.push_back(&Own(*member));
  for (const PodInfo* member : workload.faulty) pods.push_back(&Own(*member));
  return pods;
}

/// Queue and shape change meaning: gives every charge back, then takes it again as it was.
void Store::ReadAgain(const std::vector<PodInfo*>& pods) {
  struct Held {
    PodInfo* pod;
    NodeIndex node;
    Charge charge;
    topology::DeviceMask devices;
    Demand fixed;
    bool non_preemptible;
    std::string workload;
    std::string queue;  ///< Its name; empty: none.
  };
  std::vector<Held> held;
  for (PodInfo* pod : pods) {
    pod->read_at = reading_generation_;
    if (pod->charge == Charge::kNone) continue;
    // For pods that are planned, or about to be bound: they return to their first queue when it
    // exists again. A bound pod has its queue in its annotation.
    std::string queue = pod->held_queue;
    if (queue.empty() && pod->queue != kNoQueue) {
      queue = this->queue(pod->queue).config.name;
    }
    held.push_back({pod, pod->node, pod->charge, pod->devices, pod->fixed, pod->non_preemptible,
                    pod->workload == nullptr ? std::string() : pod->workload->key,
                    std::move(queue)});
  }
  for (const Held& h : held) GiveBack(*h.pod);
  for (PodInfo* pod : pods) {
    pod->queue = kNoQueue;
    if (pod->bound()) pod->said_devices = SaidDevices(pod->object);
    File(*pod);
  }
  for (const Held& h : held) {
    if (!h.pod->bound()) h.pod->held_queue = h.queue;
    const bool fixed = h.charge != Charge::kPlanned;
    if (fixed || !h.pod->held_queue.empty()) h.pod->queue = QueueOfHeld(*h.pod);
    // Its Binding, which is under way, says so.
    if (h.charge == Charge::kBinding) h.pod->non_preemptible = h.non_preemptible;
    h.pod->fixed = h.pod->bound() ? ClaimedCharge(*h.pod) : h.fixed;
    const bool stays = h.pod->workload != nullptr && h.pod->workload->key == h.workload;
    if (h.charge != Charge::kPlanned || stays) {
      SetCharge(*h.pod, h.node, h.charge, h.devices);
    } else {
      ChargeBound(*h.pod);  // its plan was removed with its workload; a nomination that is not ours
                            // stays
    }
    if (!h.pod->bound() && h.pod->charge != Charge::kNone) h.pod->held_queue = h.queue;
  }
  for (const PodInfo* pod : pods) {
    if (pod->workload != nullptr) stale_.insert(pod->workload);
  }
  RefreshWorkloads();
  for (const Held& h : held) {  // a member of a running gang is charged where its gang is
    PodInfo& pod = *h.pod;
    if (pod.charge != Charge::kPlanned || pod.charged_queue == pod.queue) continue;
    SetCharge(pod, pod.node, Charge::kPlanned, pod.devices);
  }
}

}  // namespace berth::cluster
