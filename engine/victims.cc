#include "engine/victims.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/engine.h"
#include "engine/min_run_time.h"
#include "kube/selector.h"
#include "policy/fit.h"
#include "policy/neighbours.h"
#include "policy/quota.h"

namespace berth::engine {

using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

bool MayPreempt(const cluster::Store& store, cluster::QueueId queue) {
  return queue == cluster::kNoQueue ||
         store.queue(queue).config.preemption.within == config::Within::kLower;
}

bool IsSpared(const PodInfo& pod) {
  const auto says_no = [](const auto& notes) {
    const auto it = notes.find("berth.dev/preemptible");
    return it != notes.end() && it->second == "false";
  };
  return pod.non_preemptible || says_no(pod.object.meta.labels) ||
         says_no(pod.object.meta.annotations);
}

namespace {

/// Priority counts only inside one queue; a pod that no queue is charged for is compared with all.
bool Below(const PodInfo& victim, cluster::QueueId queue, std::int32_t priority) {
  return victim.object.priority < priority && !IsSpared(victim) &&
         (victim.charged_queue == cluster::kNoQueue || victim.charged_queue == queue);
}

/// Whether `pod`, without what it may hold now, fits the node and its queue once the victims are
/// gone.
bool Admitted(const View& view, const PodInfo& pod, NodeIndex node,
              const std::vector<const PodInfo*>& victims) {
  const cluster::Store& store = view.store;
  policy::Overlay overlay(store);
  overlay.Remove(pod);
  for (const PodInfo* victim : victims) overlay.Remove(*victim);
  if (!policy::FitsNode(*pod.object.spec, store.node(node)) ||
      policy::Capacity(*pod.shape, overlay, node, 1) == 0 ||
      !policy::HostPortsFree(pod, overlay, node) ||
      !policy::NeighboursAllow(pod, overlay, view.scorer.neighbours(), node)) {
    return false;
  }
  if (policy::CheckHold(store, pod.queue).reason != ReasonId::kNone) return false;
  policy::QuotaView quota(store);
  for (const PodInfo* victim : victims) quota.GiveBack(*victim);
  if (policy::CheckJobs(quota, *pod.workload).reason != ReasonId::kNone) return false;
  const policy::Placed placed{.pod = &pod, .node = node};
  return policy::GrantCharge(quota, pod.queue, {&placed, 1}, /*strict=*/true).reason ==
         ReasonId::kNone;
}

bool Covers(const kube::PodDisruptionBudget& budget, const PodInfo& pod) {
  return budget.meta.ns == pod.object.meta.ns &&
         kube::Matches(budget.selector, pod.object.meta.labels);
}

/// Single pods on the node whose eviction admits the pod and breaks no budget: the lowest
/// priorities and of these the youngest, until the pod is admitted. Then drops the ones that turn
/// out not to be needed, the last first. Empty: there are none.
std::vector<const PodInfo*> FindVictims(const View& view, const PodInfo& pod, NodeIndex node) {
  std::vector<const PodInfo*> candidates;
  for (const PodInfo* other : view.store.node(node).pods) {
    const bool lone = other->workload == nullptr || !other->workload->gang;
    const bool taken = !view.states.At(*other).victim_of.empty();
    if (!other->bound() || !lone || taken || !MayGo(*other, pod)) continue;
    if (view.states.At(*other).spared_until > view.now) continue;
    // kube-scheduler gives no warning.
    const bool warns = view.store.policy().eviction.warning.count() > 0;
    if (warns && other->charged_queue != cluster::kNoQueue) continue;
    if (!IsYoung(view, *other)) candidates.push_back(other);
  }
  std::ranges::sort(candidates, {}, [](const PodInfo* p) {
    return std::tuple(p->object.priority, -p->object.meta.creation, p->object.meta.uid);
  });
  std::vector<const PodInfo*> victims;
  for (const PodInfo* candidate : candidates) {
    if (Admitted(view, pod, node, victims)) break;
    victims.push_back(candidate);
    // The budget of an app allows a number of evictions: its lowest and youngest pods come first.
    if (BreaksBudgets(victims, view.store)) victims.pop_back();
  }
  if (!Admitted(view, pod, node, victims)) return {};
  for (std::size_t i = victims.size(); i-- > 0;) {
    std::vector<const PodInfo*> fewer = victims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (Admitted(view, pod, node, fewer)) victims = std::move(fewer);
  }
  std::ranges::sort(victims, std::ranges::greater{}, [](const PodInfo* p) {
    return std::pair(p->object.priority, p->object.meta.uid);
  });
  return victims;
}

/// Whether, by counting alone, the node has room for one pod once the pods there that the preemptor
/// may evict, and for which `goes` is true, have ended.
template <typename Goes>
bool RoomWithout(const Preemptor& preemptor, NodeIndex index, const cluster::Store& store,
                 const Goes& goes) {
  const cluster::NodeInfo& node = store.node(index);
  const cluster::Demand demand = store.DemandOn(*preemptor.shape, node);
  const auto too_small = [&node](const auto& d) { return d.second > node.allocatable[d.first]; };
  if (std::ranges::any_of(demand, too_small)) return false;
  cluster::Amounts freed;
  for (const PodInfo* other : node.pods) {
    if (!Below(*other, preemptor.queue, preemptor.priority) || !goes(*other)) continue;
    for (const auto& [id, amount] : other->charged) freed.Add(id, amount);
  }
  const auto enough = [&](const auto& d) {
    return node.free(d.first) + freed[d.first] >= d.second;
  };
  return std::ranges::all_of(demand, enough) && policy::FitsNode(*preemptor.shape->spec, node);
}

/// Whether one of them is in no queue.
bool OutsideQueues(const std::vector<const PodInfo*>& victims) {
  return std::ranges::any_of(
      victims, [](const PodInfo* pod) { return pod->charged_queue == cluster::kNoQueue; });
}

}  // namespace

std::int64_t CountBroken(const std::vector<const PodInfo*>& victims, const cluster::Store& store) {
  if (store.disruption_budgets().empty()) return 0;
  std::map<std::string_view, std::int64_t> gone;
  return std::ranges::count_if(victims, [&](const PodInfo* victim) {
    bool breaks = false;
    for (const auto& [uid, budget] : store.disruption_budgets()) {
      if (Covers(budget, *victim)) breaks |= ++gone[uid] > budget.disruptions_allowed;
    }
    return breaks;
  });
}

bool IsCovered(const PodInfo& pod, const cluster::Store& store) {
  return std::ranges::any_of(store.disruption_budgets(),
                             [&](const auto& entry) { return Covers(entry.second, pod); });
}

std::optional<OwningJob> OwnerOf(const PodInfo& pod) {
  const auto& owner = pod.object.controller;
  if (!owner || owner->kind != "Job" || owner->api_version != "batch/v1") return std::nullopt;
  if (owner->name.empty() || owner->uid.empty()) return std::nullopt;
  OwningJob job{.name = owner->name, .uid = owner->uid};
  const auto set = pod.object.meta.labels.find(std::string(kube::kJobSetLabel));
  if (set != pod.object.meta.labels.end()) job.set = set->second;
  return job;
}

std::optional<OwningJob> JobsToSuspend::Of(const PodInfo& pod) {
  const bool by_delete = store_->policy().eviction.by == config::EvictBy::kDelete;
  if (!by_delete && IsCovered(pod, *store_)) return std::nullopt;
  std::optional<OwningJob> job = OwnerOf(pod);
  if (!job || pod.workload == nullptr || !pod.workload->gang) return job;
  if (counted_.insert(pod.workload).second) {
    for (const PodInfo* member : pod.workload->members) {
      if (const auto owner = OwnerOf(*member)) ++members_[{pod.workload, owner->Key()}];
    }
  }
  const auto members = members_.find({pod.workload, job->Key()});
  if (members != members_.end()) job->pods = members->second;
  return job;
}

bool BreaksBudgets(const std::vector<const PodInfo*>& pods, const cluster::Store& store) {
  if (store.policy().eviction.by == config::EvictBy::kDelete) return false;
  return CountBroken(pods, store) > 0;
}

bool EvictionApiRefuses(const std::vector<const PodInfo*>& pods, const cluster::Store& store) {
  if (store.policy().eviction.by == config::EvictBy::kDelete) return false;
  if (store.disruption_budgets().empty()) return false;
  std::map<std::string_view, std::int64_t> gone;
  return std::ranges::any_of(pods, [&](const PodInfo* pod) {
    int covering = 0;
    for (const auto& [uid, budget] : store.disruption_budgets()) {
      if (!Covers(budget, *pod)) continue;
      if (++covering > 1 || ++gone[uid] > budget.disruptions_allowed) return true;
    }
    return false;
  });
}

bool EvictionHelps(ReasonId reason) {
  return reason == ReasonId::kInsufficientDevices || reason == ReasonId::kFragmented ||
         reason == ReasonId::kInsufficientCpuOrMemory || reason == ReasonId::kWaitingForQuota;
}

bool RoomWithVictims(const Preemptor& preemptor, NodeIndex index, const cluster::Store& store) {
  return RoomWithout(preemptor, index, store, [](const PodInfo&) { return true; });
}

std::optional<Eviction> DecideEviction(const View& view, const PodInfo& pod,
                                       const VictimMap& candidates) {
  using Rank = std::tuple<std::int32_t, std::size_t, int>;
  std::optional<std::pair<Rank, Eviction>> best;
  for (const auto& [name, proposal] : candidates) {  // which pods it proposes does not matter
    const NodeIndex node = view.store.FindNode(name);
    if (node == cluster::kNoNode || !view.store.node(node).present) continue;
    // Its kubelet would reject this pod, too.
    if (view.refusals.WasRejected(*pod.shape, node)) continue;
    std::vector<const PodInfo*> victims = FindVictims(view, pod, node);
    if (victims.empty()) continue;
    // Where Berth's own plan has no victims, the pods of queues alone are none either.
    if (pod.charge == cluster::Charge::kNone && !OutsideQueues(victims)) continue;
    const Rank rank{victims.front()->object.priority, victims.size(), view.store.rank(node)};
    if (best && best->first <= rank) continue;
    best.emplace(rank, Eviction{.node = node, .victims = std::move(victims)});
  }
  if (!best) return std::nullopt;
  return std::move(best->second);
}

std::optional<Eviction> DecideResumedEviction(const View& view, const PodInfo& pod) {
  const NodeIndex node = view.store.FindNode(pod.object.nominated_node);
  if (node == cluster::kNoNode || pod.charge != cluster::Charge::kNone) return std::nullopt;
  const auto claim = cluster::ClaimOf(pod.object);
  if (claim && claim->node == pod.object.nominated_node) return std::nullopt;  // nominated by us
  Eviction eviction{.node = node, .victims = {}};
  for (const PodInfo* other : view.store.node(node).pods) {
    if (other->bound() && other->terminating() && !IsStuck(view, *other) && MayGo(*other, pod)) {
      eviction.victims.push_back(other);
    }
  }
  const std::array<const PodInfo*, 1> one{&pod};
  const auto there = [node](const policy::Avoid& avoid) { return avoid.node == node; };
  if (eviction.victims.empty() ||
      std::ranges::any_of(view.refusals.Of(*pod.workload, one), there) ||
      !Admitted(view, pod, node, eviction.victims)) {
    return std::nullopt;
  }
  return eviction;
}

bool MayGo(const PodInfo& victim, const PodInfo& preemptor) {
  return Below(victim, preemptor.queue, preemptor.object.priority);
}

bool KubeSchedulerPreempts(const View& view, const PodInfo& pod, bool outside_queues) {
  constexpr int kMaxTries = 16;
  if (pod.object.preempt_never || !MayPreempt(view.store, pod.queue)) return false;
  const Preemptor preemptor{
      .shape = pod.shape, .queue = pod.queue, .priority = pod.object.priority};
  if (!view.store.HoldsBelow(preemptor.queue, preemptor.priority)) return false;
  if (HasPayableRoom(view, pod)) return false;
  view.work += std::ssize(view.store.nodes());
  const auto fits = view.scorer.fit().Row(*pod.shape);
  const auto may_go = [&view](const PodInfo& other) {
    const bool lone = other.workload == nullptr || !other.workload->gang;
    return other.bound() && lone && !IsYoung(view, other);
  };
  int tries = 0;  // counting is cheap, and the rest is tried on a few nodes
  return std::ranges::any_of(view.store.nodes(), [&](const auto& node) {
    if (fits[static_cast<std::size_t>(node->index)] == 0 || tries == kMaxTries) return false;
    if (!RoomWithout(preemptor, node->index, view.store, may_go)) return false;
    ++tries;
    const std::vector<const PodInfo*> victims = FindVictims(view, pod, node->index);
    return !victims.empty() && (!outside_queues || OutsideQueues(victims));
  });
}

}  // namespace berth::engine
