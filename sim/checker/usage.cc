#include "sim/checker/usage.h"

#include <algorithm>
#include <utility>

#include "cluster/plan_claim.h"
#include "cluster/queue_refusal.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

/// A whole-node pod counts at least what it was charged at binding, by its own annotation: its node
/// may list fewer devices for a while, and they are not free for other pods of its queue.
std::int64_t ChargedGpus(const kube::Pod& pod) {
  std::int64_t gpus = AmountOf(pod.spec->requests, kGpu);
  if (!WholeNode(pod)) return gpus;
  const auto claim = cluster::ClaimOf(pod);
  if (claim && claim->node == pod.node_name && claim->charge.contains(kGpu)) {
    gpus = std::max(gpus, claim->charge.at(kGpu));
  }
  return gpus;
}

/// The queue that a bound pod is charged to: the one that Berth wrote when it bound the pod there,
/// otherwise by the policy. Empty: none, since no such queue admits its namespace.
std::string ChargedQueue(const kube::Pod& pod, const config::PolicyConfiguration& policy) {
  const auto admits = [&](const std::string& name) {
    const auto queue = std::ranges::find(policy.queues, name, &config::Queue::name);
    return queue != policy.queues.end() && cluster::Admits(*queue, pod.meta.ns);
  };
  const auto claim = cluster::ClaimOf(pod);
  if (claim && claim->node == pod.node_name && admits(claim->queue)) return claim->queue;
  const std::string name = QueueByPolicy(pod, policy);
  return admits(name) ? name : std::string();
}

}  // namespace

std::string QueueByPolicy(const kube::Pod& pod, const config::PolicyConfiguration& policy) {
  const auto& schedulers = policy.scheduler_names;
  if (std::ranges::find(schedulers, pod.scheduler_name) == schedulers.end()) return {};
  std::string label = LabelOf(pod, "berth.dev/queue");
  if (!label.empty()) return label;
  for (const config::Queue& queue : policy.queues) {
    if (queue.namespaces &&
        std::ranges::find(*queue.namespaces, pod.meta.ns) != queue.namespaces->end()) {
      return queue.name;
    }
  }
  return "default";
}

std::vector<std::string> PathOf(const std::string& queue,
                                const config::PolicyConfiguration& policy) {
  std::vector<std::string> path;
  for (std::string name = queue; !name.empty();) {
    path.push_back(name);
    const auto found = std::ranges::find(policy.queues, name, &config::Queue::name);
    name = found == policy.queues.end() ? std::string() : found->parent;
  }
  return path;
}

Usage::Usage(Environment& env) : env_(env) {
  env_.api.Subscribe(Kind::kPod, life_.alive(),
                     [this] { OnPod(env_.api.at(Kind::kPod, env_.api.end(Kind::kPod) - 1)); });
  env_.api.Subscribe(Kind::kPolicy, life_.alive(), [this] { OnPolicy(); });
}

const Usage::Room& Usage::RoomOf(const std::string& node) const {
  static const Room kEmpty;
  const auto it = rooms_.find(node);
  return it == rooms_.end() ? kEmpty : it->second;
}

std::int64_t Usage::GpusOf(const std::string& queue) const {
  std::int64_t gpus = 0;
  for (const auto& [name, amount] : queues_) {
    if (IsBelow(name, queue)) gpus += amount;
  }
  return gpus;
}

bool Usage::IsBelow(const std::string& queue, const std::string& top) const {
  const std::vector<std::string> path = PathOf(queue, env_.api.policy());
  return std::ranges::find(path, top) != path.end();
}

std::int64_t Usage::GpusMovedTo(const std::string& queue, TimePoint since) const {
  std::int64_t gpus = 0;
  for (const auto& [uid, when] : moved_) {
    const Counted& counted = bound_.at(uid);
    if (when >= since && IsBelow(counted.queue, queue)) gpus += ChargedGpus(*counted.pod);
  }
  return gpus;
}

std::string Usage::QueueOf(const std::string& uid) const {
  const auto it = bound_.find(uid);
  return it == bound_.end() ? std::string() : it->second.queue;
}

std::vector<std::string> Usage::BoundTo(const std::string& node) const {
  std::vector<std::string> uids;
  for (const auto& [uid, counted] : bound_) {
    if (counted.pod->node_name == node && AmountOf(counted.pod->spec->requests, kGpu) > 0) {
      uids.push_back(uid);
    }
  }
  return uids;
}

std::vector<std::string> Usage::BoundIn(const std::string& queue) const {
  std::vector<std::string> uids;
  for (const auto& [uid, counted] : bound_) {
    if (counted.queue == queue && AmountOf(counted.pod->spec->requests, kGpu) > 0) {
      uids.push_back(uid);
    }
  }
  return uids;
}

const Usage::Members& Usage::MembersOf(const std::string& gang) const {
  static const Members kNone;
  const auto it = gangs_.find(gang);
  return it == gangs_.end() ? kNone : it->second;
}

void Usage::OnPod(const Change& change) {
  const kube::Pod& pod = *change.pod;
  if (const std::string gang = GangOf(pod); !gang.empty()) {
    Members& members = gangs_[gang];
    if (change.deleted) {
      members.erase(change.key);
      if (members.empty()) gangs_.erase(gang);
    } else {
      members[change.key] = change.pod;
    }
  }
  const auto known = bound_.find(change.key);
  const bool takes_room = !change.deleted && !pod.node_name.empty() && Lives(pod);
  if (known != bound_.end()) {
    Count(known->second, -1);
    if (!takes_room) {
      bound_.erase(known);
      moved_.erase(change.key);
      return;
    }
    known->second.pod = change.pod;
    Count(known->second, 1);
  } else if (takes_room) {
    Counted& counted = bound_[change.key];
    counted = {
        .pod = change.pod, .as_bound = change.pod, .queue = ChargedQueue(pod, env_.api.policy())};
    Count(counted, 1);
  }
}

void Usage::OnPolicy() {
  std::map<std::string, std::string> parents;
  for (const config::Queue& queue : env_.api.policy().queues) {
    if (!queue.parent.empty()) parents[queue.name] = queue.parent;
  }
  if (parents != std::exchange(parents_, parents)) tree_changed_ = env_.now();
  for (auto& [uid, counted] : bound_) {
    std::string queue = ChargedQueue(*counted.as_bound, env_.api.policy());
    if (queue == counted.queue) continue;
    Count(counted, -1);
    counted.queue = std::move(queue);
    Count(counted, 1);
    moved_[uid] = env_.now();
  }
}

void Usage::Count(const Counted& counted, std::int64_t sign) {
  const kube::Pod& pod = *counted.pod;
  Room& room = rooms_[pod.node_name];
  const bool whole = WholeNode(pod);
  for (const auto& [name, amount] : pod.spec->requests) {
    if (name != kGpu || !whole) room.used[name] += sign * amount;
  }
  room.used["pods"] += sign;
  if (whole) room.whole_node += static_cast<int>(sign);
  queues_[counted.queue] += sign * ChargedGpus(pod);
}

}  // namespace berth::sim
