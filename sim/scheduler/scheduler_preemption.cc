// Scheduler, part: DefaultPreemption.
#include <algorithm>
#include <tuple>

#include "kube/selector.h"
#include "sim/scheduler/scheduler.h"

namespace berth::sim {

/// Which of `pods`, ordered by falling importance, PodDisruptionBudgets do not allow to be evicted
/// along with the earlier ones (filterPodsWithPDBViolation).
std::vector<bool> Scheduler::Violates(const Victims& pods) const {
  std::map<std::string, std::int64_t> gone;
  std::vector<bool> violates(pods.size(), false);
  for (std::size_t i = 0; i < pods.size(); ++i) {
    for (const auto& [uid, budget] : budgets_) {
      if (budget->meta.ns != pods[i]->meta.ns ||
          !kube::Matches(budget->selector, pods[i]->meta.labels)) {
        continue;
      }
      if (++gone[uid] > budget->disruptions_allowed) violates[i] = true;
    }
  }
  return violates;
}

/// Victims by plugins alone: all pods of lower priority are removed, then as many as possible are
/// reprieved, first those that a budget protects, and in order of falling importance. Empty: no
/// room even then, or no pod needs to be evicted.
Scheduler::Eviction Scheduler::DryRun(const Asked& asked, const NodeState& state) const {
  Victims lower;
  for (const auto& [uid, other] : state.held) {
    if (other->priority < asked.pod.priority) lower.push_back(other);
  }
  if (lower.empty() || Refuse(asked, state, lower)) return {};
  const auto importance = [](const kube::Pod* p) {
    return std::tuple(-p->priority, p->meta.creation, p->meta.uid);
  };
  std::ranges::sort(lower, {}, importance);
  Victims kept;  // protected by a budget
  Victims others;
  const std::vector<bool> violates = Violates(lower);
  for (std::size_t i = 0; i < lower.size(); ++i) (violates[i] ? kept : others).push_back(lower[i]);
  const auto violators = std::ssize(kept);
  lower = std::move(kept);
  lower.insert(lower.end(), others.begin(), others.end());
  Eviction eviction;
  for (std::ptrdiff_t i = 0; i < std::ssize(lower); ++i) {
    Victims gone = eviction.victims;  // except the one that is tried; includes those that are tried
                                      // later
    gone.insert(gone.end(), lower.begin() + i + 1, lower.end());
    if (!Refuse(asked, state, gone)) continue;
    eviction.victims.push_back(lower[static_cast<std::size_t>(i)]);
    if (i < violators) ++eviction.violations;
  }
  std::ranges::sort(eviction.victims, {}, importance);
  return eviction;
}

/// Starts at a random node and ends when enough are found: minCandidateNodesPercentage 10,
/// minCandidateNodesAbsolute 100.
engine::VictimMap Scheduler::Candidates(const Cycle& cycle) {
  const std::size_t all = cycle.unschedulable.size();
  const std::size_t wanted = std::max<std::size_t>(all / 10, 100);
  // If all nodes are examined, the starting point does not matter.
  const std::size_t start =
      all <= wanted
          ? 0
          : static_cast<std::size_t>(env_.ties.Between(0, std::ssize(cycle.unschedulable) - 1));
  engine::VictimMap candidates;
  if (priorities_.empty() || priorities_.begin()->first >= cycle.pod->priority) return candidates;
  const Asked asked = AskedBy(*cycle.pod);
  for (std::size_t i = 0; i < all && candidates.size() < wanted; ++i) {
    const std::string& node = cycle.unschedulable[(start + i) % all];
    const auto it = nodes_.find(node);
    if (it == nodes_.end()) continue;
    const Eviction eviction = DryRun(asked, it->second);
    if (eviction.victims.empty()) continue;
    engine::VictimSet& set = candidates[node];
    set.pdb_violations = eviction.violations;
    for (const kube::Pod* victim : eviction.victims) set.uids.push_back(victim->meta.uid);
  }
  return candidates;
}

void Scheduler::Preempt(const std::shared_ptr<Cycle>& cycle, const std::string& message) {
  const kube::Pod& pod = *cycle->pod;
  // Victims of an earlier attempt are still terminating: wait for them and keep the nomination.
  const auto nominated = nodes_.find(pod.nominated_node);
  const bool waiting = nominated != nodes_.end() &&
                       std::ranges::any_of(nominated->second.held, [&](const auto& held) {
                         const kube::Pod& other = *held.second;
                         return other.priority < pod.priority && other.meta.deletion.has_value();
                       });
  if (waiting && std::ranges::count(cycle->unschedulable, pod.nominated_node) > 0) {
    Fail(pod, cycle->rejectors, message, std::nullopt);
    return EndCycle();
  }
  const engine::VictimMap candidates = Candidates(*cycle);
  const auto settle = [this, cycle, message](const engine::VictimMap& kept) {
    const std::string node = PickVictims(kept);
    if (!node.empty()) Evict(*cycle->pod, node, kept.at(node).uids);
    Fail(*cycle->pod, cycle->rejectors, message, node);
    EndCycle();
  };
  if (candidates.empty() || !Managed(pod)) return settle(candidates);
  extender_.Preempt(
      pod, candidates,
      life_.Guard([settle](const std::expected<engine::VictimMap, std::string>& kept) {
        settle(kept.value_or(engine::VictimMap{}));
      }));
}

/// Fewest violations, lowest top priority, lowest sum of priorities, fewest victims, and then the
/// node whose most important victims started last. A UID that is not on its node fails the whole
/// call.
std::string Scheduler::PickVictims(const engine::VictimMap& candidates) const {
  using Rank = std::tuple<std::int64_t, std::int32_t, std::int64_t, std::size_t, kube::Millis>;
  std::string best;
  Rank top{};
  for (const auto& [node, set] : candidates) {
    if (set.uids.empty()) return "";
    std::int32_t highest = std::numeric_limits<std::int32_t>::min();
    std::int64_t sum = 0;
    kube::Millis started = 0;  // a pod's creation is used as its start
    for (const std::string& uid : set.uids) {
      const auto it = held_.find(uid);
      if (it == held_.end() || it->second.node != node) return "";
      const kube::Pod& victim = *it->second.pod;
      // Upstream's offset, so that many pods of a negative priority do not count as few.
      sum += std::int64_t{victim.priority} + std::numeric_limits<std::int32_t>::max() + 1LL;
      if (victim.priority < highest) continue;
      if (victim.priority > highest || victim.meta.creation < started) {
        started = victim.meta.creation;
      }
      highest = victim.priority;
    }
    const Rank rank{set.pdb_violations, highest, sum, set.uids.size(), -started};
    if (!best.empty() && rank >= top) continue;
    best = node;
    top = rank;
  }
  return best;
}

void Scheduler::Evict(const kube::Pod& preemptor, const std::string& node,
                      const std::vector<std::string>& uids) {
  std::vector<const kube::Pod*> victims;
  for (const std::string& uid : uids) victims.push_back(held_.at(uid).pod.get());
  if (on_preemption) on_preemption(preemptor, node, victims);
  for (const kube::Pod* victim : victims) {
    env_.log.Say("scheduler: {} evicts {}", preemptor.meta.name, victim->meta.name);
    const engine::PodRef ref{victim->meta.ns, victim->meta.name, victim->meta.uid};
    env_.timeline.After(env_.Latency(env_.ties, 1, 10),
                        [&writes = writes_, ref] { writes.DeletePod(ref); });
  }
}

}  // namespace berth::sim
