// Checker, part: I9, what kube-scheduler evicts and what Berth permits.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kube/selector.h"
#include "policy/quota.h"
#include "sim/faults/checker.h"

namespace berth::sim {
namespace {

/// Counts pods whose eviction some budget forbids after the pods before them.
std::int64_t Violations(const cluster::Store& store, const std::vector<std::string>& uids) {
  std::map<std::string, std::int64_t> gone;
  return std::ranges::count_if(uids, [&](const std::string& uid) {
    const cluster::PodInfo* pod = store.FindPod(uid);
    bool broken = false;
    for (const auto& [key, budget] : store.disruption_budgets()) {
      if (pod == nullptr || budget.meta.ns != pod->object.meta.ns ||
          !kube::Matches(budget.selector, pod->object.meta.labels)) {
        continue;
      }
      broken |= ++gone[key] > budget.disruptions_allowed;
    }
    return broken;
  });
}

/// By plain counting of the node and of the queue: the pod could be admitted, and all the victims
/// are lone pods of lower priority. Other reasons against the pod are not checked: the caller must
/// know that there are none.
bool RoomAfter(const cluster::Store& store, const cluster::PodInfo& pod, const std::string& name,
               const std::vector<std::string>& uids) {
  const cluster::NodeIndex index = store.FindNode(name);
  if (index == cluster::kNoNode || !store.node(index).present) return false;
  const cluster::NodeInfo& node = store.node(index);
  std::map<cluster::ResourceId, std::int64_t> freed;
  for (const std::string& uid : uids) {
    const cluster::PodInfo* victim = store.FindPod(uid);
    if (victim == nullptr || victim->node != index || !victim->bound() ||
        victim->object.priority >= pod.object.priority || victim->charged_queue != pod.queue ||
        (victim->workload != nullptr && victim->workload->gang)) {
      return false;
    }
    for (const auto& [id, amount] : victim->charged) freed[id] += amount;
  }
  const bool plain = pod.object.spec->host_ports.empty() && !pod.shape->has_pod_constraints &&
                     !pod.shape->whole_node && store.repellers().empty();
  const bool apart = std::ranges::none_of(
      node.pods, [](const cluster::PodInfo* other) { return other->shape->whole_node; });
  const bool open = node.object.taints.empty() && !node.object.unschedulable && node.object.ready;
  if (!plain || !apart || !open) return false;
  const cluster::Demand demand = store.DemandOn(*pod.shape, node);
  const bool fits = std::ranges::all_of(demand, [&](const auto& ask) {
    return node.free(ask.first) + freed[ask.first] >= ask.second;
  });
  return fits &&
         (pod.queue == cluster::kNoQueue || policy::QuotaView(store).Along(pod.queue).empty());
}

}  // namespace

/// I9: every victim has a lower priority.
void Checker::OnPreemption(const kube::Pod& preemptor, const std::string& node,
                           const std::vector<const kube::Pod*>& victims) {
  for (const kube::Pod* victim : victims) {
    if (victim->priority < preemptor.priority) continue;
    Broken(fmt::format("I9: {} evicts {} of no lower priority from {}", preemptor.meta.name,
                       victim->meta.name, node));
  }
}

/// I9: no gang loses only some of its members, and no budget is violated if kube-scheduler offered
/// a way that violates none, as far as Berth can know.
void Checker::OnPreemptAnswer(const cluster::Store& store, const std::string& uid,
                              const engine::VictimMap& offered, const engine::VictimMap& kept) {
  const cluster::PodInfo* preemptor = store.FindPod(uid);
  if (preemptor == nullptr || preemptor->workload == nullptr ||
      store.policy().mode == config::Mode::kPassthrough) {
    return;  // Berth does not decide this
  }
  evictions_ +=
      std::ranges::any_of(kept, [](const auto& entry) { return !entry.second.uids.empty(); });
  for (const auto& [node, set] : kept) {
    const std::set<std::string> goes(set.uids.begin(), set.uids.end());
    for (const std::string& victim_uid : goes) {
      const cluster::PodInfo* victim = store.FindPod(victim_uid);
      if (victim == nullptr || victim->workload == nullptr || !victim->workload->gang) continue;
      for (const cluster::PodInfo* mate : victim->workload->members) {
        if (!mate->bound() || goes.contains(mate->object.meta.uid)) continue;
        Broken(fmt::format("I9: {} may evict {} and leave {} of its gang",
                           preemptor->object.meta.name, victim->object.meta.name,
                           mate->object.meta.name));
      }
    }
  }
  for (const auto& [node, set] : kept) CheckBudgets(store, *preemptor, offered, node, set);
}

void Checker::CheckBudgets(const cluster::Store& store, const cluster::PodInfo& preemptor,
                           const engine::VictimMap& offered, const std::string& node,
                           const engine::VictimSet& set) {
  const std::int64_t broken = Violations(store, set.uids);
  if (broken != set.pdb_violations) {
    Broken(fmt::format("I9: {} breaks {} budgets on {} and says {}", preemptor.object.meta.name,
                       broken, node, set.pdb_violations));
  }
  for (const auto& [other, gentle] : offered) {
    if (other == node || gentle.uids.empty() || Violations(store, gentle.uids) >= broken) continue;
    if (!RoomAfter(store, preemptor, other, gentle.uids)) continue;
    Broken(fmt::format("I9: {} breaks {} budgets on {}, and need not on {}",
                       preemptor.object.meta.name, broken, node, other));
  }
}

}  // namespace berth::sim
