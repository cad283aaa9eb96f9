// Store, continued: the ledger of queues. What a pod holds is charged to each queue on the path of
// its own.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "cluster/store.h"

namespace berth::cluster {

/// Charges what is in use along the new paths. A queue that the policy no longer has is on no path
/// but its own.
void Store::FindPaths() {
  for (QueueInfo& info : queues_) info.used = Amounts();
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    QueueInfo& info = queues_[i];
    info.path = {static_cast<QueueId>(i)};
    QueueId parent = info.present ? FindQueue(info.config.parent) : kNoQueue;
    for (; parent != kNoQueue; parent = FindQueue(queue(parent).config.parent)) {
      info.path.push_back(parent);
    }
    info.by_flavor = std::ranges::any_of(
        info.path, [this](QueueId id) { return !queue(id).config.quotas.empty(); });
    const auto nearest = [&](const auto& that) {
      const auto found =
          std::ranges::find_if(info.path, [&](QueueId id) { return that(queue(id).config.hold); });
      return found == info.path.end() ? kNoQueue : *found;
    };
    info.held_by = nearest([](config::Hold hold) { return hold != config::Hold::kNone; });
    info.drained_by =
        nearest([](config::Hold hold) { return hold == config::Hold::kHoldAndDrain; });
    for (const QueueId id : info.path) {
      Amounts& used = queues_[static_cast<std::size_t>(id)].used;
      for (std::size_t rid = 0; rid < info.own.size(); ++rid) {
        used.Add(static_cast<ResourceId>(rid), info.own[static_cast<ResourceId>(rid)]);
      }
    }
  }
  FindKeepers();
  CountUsageAlongPaths();
}

void Store::FindKeepers() {
  keepers_.clear();
  std::set<ResourceId> kept;
  for (const QueueId id : queue_order_) {
    if (queue(id).kept.empty()) continue;
    keepers_.push_back(id);
    for (const auto& [resource, most] : queue(id).kept) kept.insert(resource);
  }
  std::ranges::stable_sort(keepers_, std::ranges::greater{},
                           [this](QueueId id) { return queue(id).path.size(); });
  kept_ids_.assign(kept.begin(), kept.end());
  idle_ = {};
  for (QueueInfo& info : queues_) info.idle = info.idle_below = {};
  for (const QueueId id : keepers_) CountIdle(id);
}

/// What `queue` and the queues above it have in use has changed, so what they keep may have
/// changed, too.
void Store::CountIdle(QueueId queue) {
  for (const ResourceId id : kept_ids_) {
    std::int64_t change = 0;
    for (const QueueId charged : this->queue(queue).path) {
      QueueInfo& info = queues_[static_cast<std::size_t>(charged)];
      info.idle_below.Add(id, change);
      const std::int64_t idle = info.Idle(id, info.used[id], info.idle_below[id]);
      change = idle - info.idle[id];
      info.idle.Set(id, idle);
    }
    idle_.Add(id, change);
  }
}

std::optional<ResourceId> Store::FindPart(ResourceId whole, FlavorId flavor,
                                          bool non_preemptible) const {
  const auto it = parts_.find({whole, flavor, non_preemptible});
  return it == parts_.end() ? std::nullopt : std::optional(it->second);
}

Demand Store::QueueCharge(const PodInfo& pod, const Demand& demand, FlavorId flavor) const {
  Demand charge = demand;
  if (parts_.empty() || (flavor == kNoFlavor && !pod.non_preemptible)) return charge;
  const auto add = [&](ResourceId whole, std::int64_t amount, FlavorId of, bool non_preemptible) {
    const auto part = FindPart(whole, of, non_preemptible);
    if (part) charge.emplace_back(*part, amount);
  };
  for (const auto& [id, amount] : demand) {
    if (flavor != kNoFlavor) add(id, amount, flavor, false);
    if (!pod.non_preemptible) continue;
    add(id, amount, kNoFlavor, true);
    if (flavor != kNoFlavor) add(id, amount, flavor, true);
  }
  std::ranges::sort(charge);
  return charge;
}

/// The pod, or the flavor of its node, has changed.
void Store::RechargeQueue(PodInfo& pod) {
  if (pod.charge == Charge::kNone) return;
  Demand charge = QueueCharge(pod, pod.charged, node(pod.node).flavor);
  if (charge == pod.queue_charge && pod.charged_priority == pod.object.priority) return;
  ChargeQueue(pod, -1);
  pod.queue_charge = std::move(charge);
  ChargeQueue(pod, 1);
  ++generation_;
  ++free_generation_;
}

/// Adds what the pod is charged to each queue on its queue's path, or takes it off again.
void Store::ChargeQueue(PodInfo& pod, int sign) {
  if (sign > 0) pod.charged_priority = pod.object.priority;
  NoteDemand(pod.workload);
  const auto like = std::pair(pod.charged_queue, pod.charged_priority);
  if ((priorities_[like] += sign) == 0) priorities_.erase(like);
  if (pod.charged_queue == kNoQueue) return;
  QueueInfo& info = queues_[static_cast<std::size_t>(pod.charged_queue)];
  for (const auto& [id, amount] : pod.queue_charge) {
    info.own.Add(id, sign * amount);
    for (const QueueId queue : info.path) {
      queues_[static_cast<std::size_t>(queue)].used.Add(id, sign * amount);
    }
  }
  CountIdle(pod.charged_queue);
  CountShare(pod, sign);
  CountJob(pod, sign);
  if (pod.charge == Charge::kBound) CountUsage(pod, sign, now_);
  if (sign < 0) queue_news_.insert(info.path.begin(), info.path.end());
  if (policy_.borrowing) use_news_.insert(info.path.begin(), info.path.end());
}

/// Null: it is in none.
void Store::NoteDemand(const Workload* workload) {
  if (workload != nullptr) demand_news_.insert(workload);
}

std::vector<const Workload*> Store::TakeDemandNews() {
  std::vector<const Workload*> news(demand_news_.begin(), demand_news_.end());
  demand_news_.clear();  // keeps its table: to make it larger again would take some ms
  return news;
}

bool Store::HoldsBelow(QueueId queue, std::int32_t priority) const {
  return std::ranges::any_of(std::array{kNoQueue, queue}, [&](QueueId id) {
    const auto lowest = priorities_.lower_bound({id, std::numeric_limits<std::int32_t>::min()});
    return lowest != priorities_.end() && lowest->first.first == id &&
           lowest->first.second < priority;
  });
}

}  // namespace berth::cluster
