// Store, continued: the queues that pods are charged to, and what a new policy changes.
#include <algorithm>

#include "cluster/plan_claim.h"
#include "cluster/queue_refusal.h"
#include "cluster/store.h"

namespace berth::cluster {
namespace {

/// Whether pods mean the same under both: what they ask for, whose they are, and which queue they
/// name.
bool ReadsAlike(const config::PolicyConfiguration& a, const config::PolicyConfiguration& b) {
  const auto same_queue = [](const config::Queue& x, const config::Queue& y) {
    return x.name == y.name && x.namespaces == y.namespaces;
  };
  return a.scheduler_names == b.scheduler_names && a.dialects == b.dialects &&
         a.devices == b.devices && a.levels == b.levels &&
         std::ranges::equal(a.queues, b.queues, same_queue);
}

/// Whether a quota names a resource that pods asked for when it could not be distinguished from
/// other unknown ones.
bool NamesWhatWasUnknown(const config::PolicyConfiguration& policy,
                         const ResourceTable& resources) {
  const auto news = [&](const auto& amount) {
    return !resources.Find(amount.first) && resources.WasAskedFor(amount.first);
  };
  return std::ranges::any_of(policy.queues, [&](const config::Queue& queue) {
    return std::ranges::any_of(queue.quota, news) || std::ranges::any_of(queue.limit, news);
  });
}

}  // namespace

QueueId Store::FindQueue(std::string_view name) const {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (queues_[i].config.name == name) return static_cast<QueueId>(i);
  }
  return kNoQueue;
}

bool Store::QueueAdmits(QueueId queue, std::string_view ns) const {
  return Admits(queues_[static_cast<std::size_t>(queue)].config, ns);
}

QueueId Store::ResolveQueue(const PodInfo& pod, const PodClaims& claims, Verdict& refusal) const {
  const std::string& ns = pod.object.meta.ns;
  if (pod.bound()) {
    // What was charged at binding, if the claim belongs to this Binding and names a queue that this
    // namespace may use.
    if (const auto claim = ClaimOf(pod.object); claim && claim->node == pod.object.node_name) {
      const QueueId queue = FindQueue(claim->queue);
      if (queue != kNoQueue && QueueAdmits(queue, ns)) return queue;
    }
  }
  if (!claims.queue.empty()) {
    const QueueId queue = FindQueue(claims.queue);
    if (queue == kNoQueue) {
      refusal = {.reason = ReasonId::kUnknownQueue, .subject = claims.queue};
      return kNoQueue;
    }
    if (!QueueAdmits(queue, ns)) {
      refusal = {.reason = ReasonId::kQueueNotAllowed,
                 .subject = QueueRefusal(queues_, ns, claims.queue)};
      return kNoQueue;
    }
    return queue;
  }
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const auto& names = queues_[i].config.namespaces;
    if (names && std::ranges::find(*names, ns) != names->end()) return static_cast<QueueId>(i);
  }
  const QueueId fallback = FindQueue("default");
  if (fallback != kNoQueue && QueueAdmits(fallback, ns)) return fallback;
  refusal = {.reason = ReasonId::kQueueNotAllowed, .subject = QueueRefusal(queues_, ns, {})};
  return kNoQueue;
}

void Store::BuildQueues() {
  queues_.clear();
  queue_news_.clear();
  for (const config::Queue& queue : policy_.queues) ReadQueue(queue, queues_.emplace_back());
}

/// Leaves what the queue has in use unchanged.
void Store::ReadQueue(const config::Queue& queue, QueueInfo& info) {
  info.config = queue;
  info.caps.clear();
  kube::ResourceList caps = queue.quota;
  for (const auto& [name, amount] : queue.limit) caps[name] = amount;
  for (const auto& [name, amount] : caps) info.caps.emplace_back(resources_.Intern(name), amount);
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

bool Store::SetPolicy(config::PolicyConfiguration policy) {
  const bool reads_alike =
      !reread_due_ && ReadsAlike(policy_, policy) && !NamesWhatWasUnknown(policy, resources_);
  policy_ = std::move(policy);
  ++policy_generation_;
  ++free_generation_;
  if (reads_alike) {
    for (std::size_t i = 0; i < queues_.size(); ++i) ReadQueue(policy_.queues[i], queues_[i]);
  } else {
    ReadAllAnew();
  }
  return !reads_alike;
}

/// Queue ids and shapes change meaning: gives every charge back, then takes it again as it was.
void Store::ReadAllAnew() {
  struct Held {
    PodInfo* pod;
    NodeIndex node;
    Charge charge;
    topology::DeviceMask devices;
    Demand fixed;
    std::string workload;
    std::string queue;  ///< Its name; empty: none.
  };
  std::vector<Held> held;
  for (auto& [uid, pod] : pods_) {
    if (pod.charge == Charge::kNone) continue;
    // For pods that are planned, or about to be bound: they return to their first queue when it
    // exists again. A bound pod has its queue in its annotation.
    std::string queue = pod.held_queue;
    if (queue.empty() && pod.queue != kNoQueue) {
      queue = queues_[static_cast<std::size_t>(pod.queue)].config.name;
    }
    held.push_back({&pod, pod.node, pod.charge, pod.devices, pod.fixed,
                    pod.workload == nullptr ? std::string() : pod.workload->key, std::move(queue)});
  }
  for (const Held& h : held) GiveBack(*h.pod);
  dialects_ = peers_.Decide(policy_.dialects);
  reread_due_ = false;
  shapes_.clear();
  IndexDevices();
  for (const auto& node : nodes_) {
    ReadHardware(*node);
    ReconcileDevices(*node);
  }
  BuildQueues();
  for (auto& [uid, pod] : pods_) {
    pod.queue = kNoQueue;
    if (pod.bound()) pod.said_devices = SaidDevices(pod.object);
    File(pod);
  }
  ended_keys_.clear();
  for (const auto& [id, pod] : std::exchange(ended_, {})) KeepEnded(pod.object, "");
  for (const Held& h : held) {
    if (!h.pod->bound()) h.pod->held_queue = h.queue;
    const bool fixed = h.charge != Charge::kPlanned;
    if (fixed || !h.pod->held_queue.empty()) h.pod->queue = QueueOfHeld(*h.pod);
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
  for (auto& [key, workload] : workloads_) RefreshWorkload(workload);
  for (const Held& h : held) {  // a member of a running gang is charged where its gang is
    PodInfo& pod = *h.pod;
    if (pod.charge != Charge::kPlanned || pod.charged_queue == pod.queue) continue;
    SetCharge(pod, pod.node, Charge::kPlanned, pod.devices);
  }
  topology_.Reset(policy_.levels);
  topology_.Refresh(nodes_);  // later reads must not find domains of levels that no longer exist
}

}  // namespace berth::cluster
