#include "server/demo/demo_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace berth::server {
namespace {

constexpr std::size_t kMaxViolations = 20;

}  // namespace

void Auditor::AddNode(const std::string& name, std::int64_t gpus) {
  const std::scoped_lock lock(mutex_);
  nodes_[name].gpus = gpus;
}

void Auditor::AddQueue(const std::string& name, AuditedQueue amounts) {
  const std::scoped_lock lock(mutex_);
  queues_[name].amounts = amounts;
}

void Auditor::AddPod(AuditedPod pod) {
  const std::scoped_lock lock(mutex_);
  if (!pod.gang.empty()) gangs_[pod.gang].insert(pod.uid);
  jobs_.try_emplace(pod.workload,
                    Job{.queue = pod.queue, .priority = pod.priority, .since = ++moment_});
  const std::string uid = pod.uid;
  pods_[uid] = {.facts = std::move(pod), .node = {}};
}

void Auditor::OnBindCall(const std::string& uid) {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(uid);
  if (it == pods_.end() || std::exchange(it->second.called, true)) return;
  it->second.called_at = ++moment_;
  AddClaimed(it->second.facts.queue, Claimed(it->second));
}

/// A whole-node pod has every GPU of its node.
std::int64_t Auditor::Charge(const Pod& pod) const {
  const auto node = nodes_.find(pod.node);
  return pod.facts.whole_node && node != nodes_.end() ? node->second.gpus : pod.facts.gpus;
}

/// The most that it may be charged, wherever it is bound.
std::int64_t Auditor::Claimed(const Pod& pod) const {
  if (!pod.facts.whole_node) return pod.facts.gpus;
  std::int64_t most = 0;
  for (const auto& [name, node] : nodes_) most = std::max(most, node.gpus);
  return most;
}

void Auditor::AddClaimed(const std::string& queue, std::int64_t gpus) {
  QueueUse& use = queues_[queue];
  use.claimed += gpus;
  use.history[++moment_] = use.claimed;
}

std::int64_t Auditor::MostClaimed(const std::string& queue, int since) const {
  const auto& history = queues_.at(queue).history;
  auto it = history.upper_bound(since);
  if (it != history.begin()) --it;  // what it was at `since`
  std::int64_t most = 0;
  for (; it != history.end(); ++it) most = std::max(most, it->second);
  return most;
}

void Auditor::OnBound(const std::string& uid, const std::string& node) {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(uid);
  if (it == pods_.end() || it->second.node == node) return;
  Pod& pod = it->second;
  ++binds_;
  if (!pod.node.empty()) violations_.push_back(uid + " was moved from " + pod.node + " to " + node);
  if (!nodes_.contains(node)) violations_.push_back(uid + " is bound to an unknown node " + node);
  pod.node = node;
  nodes_[node].pods.insert(uid);
  CheckNode(node);
  QueueUse& queue = queues_[pod.facts.queue];
  queue.used += Charge(pod);
  if (queue.amounts && queue.used > queue.amounts->limit) {
    violations_.push_back(fmt::format("queue {} has {} GPUs, its limit is {}", pod.facts.queue,
                                      queue.used, queue.amounts->limit));
  }
  if (!pod.facts.gang.empty()) CheckGang(pod.facts.gang);
  violations_.resize(std::min(violations_.size(), kMaxViolations));
}

void Auditor::CheckNode(const std::string& name) {
  const NodeUse& node = nodes_[name];
  std::int64_t used = 0;
  bool alone = false;
  for (const std::string& uid : node.pods) {
    used += pods_[uid].facts.gpus;
    alone |= pods_[uid].facts.whole_node;
  }
  if (used > node.gpus) {
    violations_.push_back(fmt::format("node {} gave {} of {} GPUs", name, used, node.gpus));
  }
  if (alone && node.pods.size() > 1) {
    violations_.push_back("node " + name + " is shared by a whole-node pod");
  }
}

/// Called when the first pod of a gang is bound: by then its minimum must have come to the barrier.
void Auditor::CheckGang(const std::string& gang) {
  if (!started_.insert(gang).second) return;
  const auto& members = gangs_[gang];
  const auto came =
      std::ranges::count_if(members, [this](const std::string& uid) { return pods_[uid].called; });
  const int min = members.empty() ? 0 : pods_[*members.begin()].facts.min_member;
  if (came < min) {
    violations_.push_back(fmt::format("gang {} started with {} of {} members", gang, came, min));
  }
}

/// The rules of docs/queues.md, as far as pods alone tell. When the service decided is not known:
/// what is required must have been true at some moment since both jobs were there.
void Auditor::OnEvicted(const std::string& uid, const std::string& workload) {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  ++evicted_;
  const Pod& pod = it->second;
  const auto job = jobs_.find(workload);
  if (job == jobs_.end()) {
    violations_.push_back(fmt::format("{} was evicted for {}, which is unknown", uid, workload));
  } else if (job->second.queue == pod.facts.queue) {
    if (job->second.priority > pod.facts.priority) return;
    violations_.push_back(fmt::format("{} of priority {} was evicted for {} of priority {}", uid,
                                      pod.facts.priority, workload, job->second.priority));
  } else if (const auto& queue = queues_[pod.facts.queue]; queue.amounts) {
    const auto most = MostClaimed(pod.facts.queue, std::max(pod.called_at, job->second.since));
    if (most > queue.amounts->quota) return;
    violations_.push_back(
        fmt::format("{} was evicted for {}, and queue {} had {} of its quota of {}", uid, workload,
                    pod.facts.queue, most, queue.amounts->quota));
  }
  violations_.resize(std::min(violations_.size(), kMaxViolations));
}

void Auditor::OnGone(const std::string& uid) {
  const std::scoped_lock lock(mutex_);
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  Pod& pod = it->second;
  if (!pod.node.empty()) {
    queues_[pod.facts.queue].used -= Charge(pod);
    nodes_[pod.node].pods.erase(uid);
  }
  if (pod.called) AddClaimed(pod.facts.queue, -Claimed(pod));
  if (!pod.facts.gang.empty()) gangs_[pod.facts.gang].erase(uid);
  pods_.erase(it);
}

std::vector<std::string> Auditor::PartlyBound() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> partly;
  for (const auto& [gang, members] : gangs_) {
    if (members.empty()) continue;
    const auto bound = std::ranges::count_if(
        members, [this](const std::string& uid) { return !pods_.at(uid).node.empty(); });
    const int min = pods_.at(*members.begin()).facts.min_member;
    // A gang that ends loses its members one by one; it was complete before.
    const bool ends = std::cmp_less(members.size(), min) && started_.contains(gang);
    if (bound > 0 && bound < min && !ends) partly.push_back(gang);
  }
  return partly;
}

std::vector<std::string> Auditor::violations() const {
  const std::scoped_lock lock(mutex_);
  return violations_;
}

int Auditor::binds() const {
  const std::scoped_lock lock(mutex_);
  return binds_;
}

int Auditor::evicted() const {
  const std::scoped_lock lock(mutex_);
  return evicted_;
}

int Auditor::gangs_started() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(started_.size());
}

}  // namespace berth::server
