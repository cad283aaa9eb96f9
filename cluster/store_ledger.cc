// Part of Store: the ledger, which says what each pod holds, where, and charged to which queue.
#include <algorithm>
#include <utility>

#include "cluster/plan_claim.h"
#include "cluster/store.h"
#include "cluster/users.h"

namespace berth::cluster {

Demand Store::WholeDevices(const Demand& demand) const {
  Demand devices;
  std::ranges::copy_if(demand, std::back_inserter(devices),
                       [this](const auto& entry) { return IsWholeDevice(entry.first); });
  return devices;
}

/// What a whole-node pod is charged from now on, whatever its node lists. A device plugin that
/// restarts removes all devices from the node for a while: they do not become free for other pods,
/// and the queue's charge does not shrink.
Demand Store::FixedCharge(const PodInfo& pod, const Demand& demand, Charge charge) const {
  if (!pod.shape->whole_node || charge == Charge::kPlanned) return {};
  return charge == Charge::kBinding && pod.fixed.empty() ? WholeDevices(demand) : pod.fixed;
}

/// The same for a bound pod, from its own annotation: a process that has just started knows no
/// more.
Demand Store::ClaimedCharge(const PodInfo& pod) const {
  if (!pod.shape->whole_node) return {};
  const auto claim = ClaimOf(pod.object);
  if (!claim || claim->node != pod.object.node_name) return {};
  Demand charge;
  for (const ResourceId device : whole_device_ids_) {
    const auto it = claim->charge.find(resources_.Name(device));
    if (it != claim->charge.end() && it->second > 0) charge.emplace_back(device, it->second);
  }
  std::ranges::sort(charge);
  return charge;
}

std::map<std::string, std::int64_t, std::less<>> Store::WholeNodeCharge(const PodInfo& pod) const {
  std::map<std::string, std::int64_t, std::less<>> charge;
  if (!pod.shape->whole_node) return charge;
  for (const auto& [id, amount] : WholeDevices(pod.charged)) charge[resources_.Name(id)] = amount;
  return charge;
}

void Store::SetCharge(const PodInfo& charged_pod, NodeIndex index, Charge charge,
                      topology::DeviceMask devices) {
  PodInfo& pod = Own(charged_pod);
  FixUser(pod, charge);
  // Same pod, same node: planned becomes binding becomes bound without a gap that other pods could
  // use. The pod's queue is written with the Binding.
  if (charge == Charge::kBinding && pod.charge != Charge::kBinding) pod.held_queue.clear();
  NodeInfo& target = *nodes_[static_cast<std::size_t>(index)];
  Demand demand = DemandOn(*pod.shape, target);
  Demand fixed = FixedCharge(pod, demand, charge);
  for (const auto& [id, amount] : fixed) {
    const auto it = std::ranges::find(demand, id, &Demand::value_type::first);
    if (it != demand.end()) {
      it->second = std::max(it->second, amount);
    } else {
      demand.insert(std::ranges::upper_bound(demand, std::pair(id, amount)), {id, amount});
    }
  }
  Demand queue_charge = QueueCharge(pod, demand, target.flavor);
  if (pod.charge != Charge::kNone && pod.node == index && pod.charged == demand &&
      pod.charged_queue == pod.queue && pod.queue_charge == queue_charge &&
      (devices == 0 || devices == pod.devices)) {
    const bool comes_to_run = pod.charge != Charge::kBound && charge == Charge::kBound;
    pod.charge = charge;
    if (comes_to_run) CountUsage(pod, 1, now_);
    pod.fixed = std::move(fixed);
    ++generation_;
    TrackDevices(target);
    return;
  }
  // Fixed devices stay, whatever else about its room changed.
  const topology::DeviceMask kept = pod.node == index && !options_.shares ? pod.devices : 0;
  std::string held_queue = std::move(pod.held_queue);
  GiveBack(pod);
  pod.held_queue = std::move(held_queue);
  pod.fixed = std::move(fixed);
  pod.node = index;
  pod.charge = charge;
  pod.charged = std::move(demand);
  pod.charged_queue = pod.queue;
  pod.queue_charge = std::move(queue_charge);
  target.pods.push_back(&pod);
  for (const auto& [id, amount] : pod.charged) {
    target.used.Add(id, amount);
    if (options_.shares && !device_ids_.empty() && id == device_ids_.front()) {
      pod.devices = TakeDevices(target.devices, *pod.shape, amount, devices);
    }
  }
  if (!options_.shares) pod.devices = devices != 0 ? devices : kept;
  ReconcileDevices(target);
  ChargeQueue(pod, 1);
  pod.repels = !pod.object.spec->required_pod_anti_affinity.empty();
  if (pod.repels) repellers_.Add(pod);
  NoteMoved(pod);
  neighbour_changes_.Add(index);
  Touch(target);
}

void Store::Unreserve(const PodInfo& released) {
  PodInfo& pod = Own(released);
  GiveBack(pod);
  pod.user.clear();
  pod.job.clear();
  NoteDemand(pod.workload);
  const bool sound = pod.refusal.reason == ReasonId::kNone ||
                     pod.refusal.reason == ReasonId::kGangConflict;  // judged again at Refresh
  if (pod.workload == nullptr || pod.bound() || !sound) return;
  // The queue that it was charged to while it held room may differ from the one that it asks for
  // under the present policy.
  const QueueId before = pod.queue;
  pod.non_preemptible = MayNotBeEvicted(pod, *pod.claims);
  pod.queue = ResolveQueue(pod, *pod.claims, pod.refusal);
  if (pod.queue == before && UserOf(pod.object) == pod.workload->user) return;
  stale_.insert(pod.workload);
  MarkChanged(*pod.workload);
}

void Store::GiveBack(const PodInfo& giving) {
  PodInfo& pod = Own(giving);
  if (pod.charge == Charge::kNone) return;
  NodeInfo& node = *nodes_[static_cast<std::size_t>(pod.node)];
  for (const auto& [id, amount] : pod.charged) {
    node.used.Add(id, -amount);
    if (options_.shares && pod.devices != 0 && id == device_ids_.front()) {
      // If it cannot, the devices are rebuilt from the counts.
      node.devices.GiveBack(pod.devices, static_cast<int>(amount / std::popcount(pod.devices)));
    }
  }
  pod.devices = 0;
  std::erase(node.pods, &pod);
  if (!node.present && node.pods.empty()) vacant_.insert(node.index);
  ReconcileDevices(node);
  ChargeQueue(pod, -1);
  room_changes_.Add(node.index);
  neighbour_changes_.Add(node.index);
  if (std::exchange(pod.repels, false)) repellers_.Remove(pod);
  pod.charge = Charge::kNone;
  pod.node = kNoNode;
  pod.charged.clear();
  pod.fixed.clear();
  pod.held_queue.clear();
  pod.charged_queue = kNoQueue;
  pod.queue_charge.clear();
  Touch(node);
  ++free_generation_;
}

void Store::AdoptQueue(const PodInfo& pod) { Own(pod).queue = pod.workload->queue; }

void Store::Exempt(const PodInfo& pod) {
  Own(pod).exempt = true;
  Own(pod).non_preemptible = true;
  NoteDemand(pod.workload);
  ++generation_;
}

void Store::SetTerms(const PodInfo& pod, Demand fixed, QueueId queue, bool non_preemptible,
                     std::string user) {
  NoteDemand(pod.workload);
  ChargeUser(Own(pod), std::move(user));
  Own(pod).fixed = std::move(fixed);
  Own(pod).non_preemptible = non_preemptible;
  Own(pod).queue = queue;
}

std::string Store::LedgerString() const {
  std::map<std::string, std::string> lines;
  for (const auto& [uid, pod] : pods_) {
    if (pod.charge == Charge::kNone) continue;
    std::string& line = lines["pod " + uid];
    line = node(pod.node).name + ' ' + std::to_string(static_cast<int>(pod.charge)) + ' ' +
           (pod.charged_queue == kNoQueue ? "-" : queue(pod.charged_queue).config.name);
    for (const auto& [id, amount] : pod.charged) {
      line += ' ' + resources_.Name(id) + '=' + std::to_string(amount);
    }
    const bool told_apart = node(pod.node).track == DeviceTrack::kKept && pod.devices != 0;
    if (told_apart) line += " devices=" + std::to_string(pod.devices);
  }
  const auto amounts = [this](const Amounts& used) {
    std::map<std::string, std::int64_t> sorted;
    for (std::size_t id = 0; id < used.size(); ++id) {
      const auto rid = static_cast<ResourceId>(id);
      if (used[rid] != 0) sorted[resources_.Name(rid)] = used[rid];
    }
    std::string text;
    for (const auto& [name, amount] : sorted) text += ' ' + name + '=' + std::to_string(amount);
    return text;
  };
  for (const auto& n : nodes_) {
    std::string text = amounts(n->used);
    if (n->track == DeviceTrack::kCountOnly) text += " count-only";
    if (!text.empty()) lines["node " + n->name] = text;
  }
  for (const QueueId id : queue_order_) {
    std::string& line = lines["queue " + queue(id).config.name];
    line = amounts(queue(id).used);
    for (const auto& [sharer, share] : queue(id).shares) {
      line += " share " + sharer + amounts(share.used);
    }
    for (const auto& [user, jobs] : queue(id).jobs) {
      line += " jobs of " + user;
      for (const auto& [job, pods] : jobs) line += ' ' + job + '=' + std::to_string(pods);
    }
  }
  std::string all;
  for (const auto& [key, text] : lines) all += key + ':' + text + '\n';
  return all;
}

}  // namespace berth::cluster
