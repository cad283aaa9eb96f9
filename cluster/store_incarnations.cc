// Store, continued: the incarnations of a gang, each from its first bound member to the last one
// that runs, and which of its members still count (docs/pods.md).
#include <algorithm>
#include <ranges>
#include <set>
#include <tuple>

#include "cluster/plan_claim.h"
#include "cluster/store.h"

namespace berth::cluster {
namespace {

/// The plan that the pod was bound under; empty: Berth did not bind it.
std::string IncarnationOf(const kube::Pod& pod) {
  const auto claim = ClaimOf(pod);
  return claim ? claim->plan : std::string();
}

std::string ControllerOf(const kube::Pod& pod) {
  return pod.controller ? pod.controller->uid : std::string();
}

bool Succeeded(const Store::EndedPod& pod) {
  return pod.object.phase == kube::PodPhase::kSucceeded;
}

}  // namespace

void Store::SetStarted(const Workload& workload, bool started) {
  Own(workload).started = started;
  NoteDemand(&workload);  // in a queue on hold, only what has started is demand
}

void Store::SetPlan(const Workload& workload, std::string plan) {
  // While it had the plan, members that had succeeded under an earlier one did not count.
  if (plan.empty() && workload.gang) stale_.insert(&workload);
  Own(workload).plan = std::move(plan);
}

void Store::BeginIncarnation(const Workload& workload) {
  SetStarted(workload, false);
  if (listener_ != nullptr) listener_->OnNewIncarnation(workload);
  std::vector<const PodInfo*> all = workload.members;
  all.insert(all.end(), workload.faulty.begin(), workload.faulty.end());
  for (const PodInfo* member : all) {
    PodInfo& pod = Own(*member);
    // So far it had the queue of the running gang.
    if (pod.charge != Charge::kNone || pod.refusal.reason != ReasonId::kNone) continue;
    pod.queue = ResolveQueue(pod, *pod.claims, pod.refusal);
  }
  stale_.insert(&workload);
  MarkChanged(workload);
}

/// `key` is empty if the pod is known to belong to no workload.
void Store::KeepEnded(const kube::Pod& pod, std::string key) {
  if (pod.node_name.empty() || pod.meta.deletion || !Ours(pod)) return;
  const DialectContext context{
      .switches = dialects_, .levels = policy_.levels, .objects = dialect_objects_.get()};
  const PodClaims claims = ReadClaims(pod, context);
  if (claims.gang.name.empty() || claims.in_tree) return;
  if (key.empty()) key = pod.meta.ns + "/gang/" + claims.gang.name;
  static const auto kNoSpec = std::make_shared<const kube::PodSpec>();
  EndedPod& kept = ended_[{key, pod.meta.uid}];
  kept = {.object = pod, .incarnation = IncarnationOf(pod), .rank = claims.rank};
  kept.object.spec = kNoSpec;
  kept.object.device_requests.clear();
  kept.object.pod_scheduled.reset();
  ended_keys_[pod.meta.uid] = key;
  if (const Workload* workload = FindWorkload(key)) {
    stale_.insert(workload);
    MarkChanged(*workload);
  }
}

std::string Store::EndedKey(std::string_view uid) const {
  const auto key = ended_keys_.find(std::string(uid));
  return key == ended_keys_.end() ? std::string() : key->second;
}

void Store::ForgetEnded(std::string_view uid) {
  const auto key = ended_keys_.find(std::string(uid));
  if (key == ended_keys_.end()) return;
  if (const Workload* workload = FindWorkload(key->second)) {
    stale_.insert(workload);
    MarkChanged(*workload);
  }
  ended_.erase({key->second, key->first});
  ended_keys_.erase(key);
}

/// For a gang without a running member: the last ended member of the incarnation that the waiting
/// pods continue. They are retries if their controller had a member in it. Pods without a
/// controller are retries if each has an index of which no other pod has succeeded. Null: a fresh
/// set.
const Store::EndedPod* Store::GoesOnWith(const Workload& workload) const {
  const auto from = ended_.lower_bound({workload.key, ""});
  if (from == ended_.end() || from->first.first != workload.key) return nullptr;
  std::set<std::string> controllers;
  for (const PodInfo* pod : workload.members) controllers.insert(ControllerOf(pod->object));
  const EndedPod* last = nullptr;
  for (auto it = from; it != ended_.end() && it->first.first == workload.key; ++it) {
    const kube::Pod& pod = it->second.object;
    if (it->second.incarnation.empty() || !controllers.contains(ControllerOf(pod))) continue;
    const bool later =
        last == nullptr || std::tie(last->object.meta.creation, last->object.meta.uid) <
                               std::tie(pod.meta.creation, pod.meta.uid);
    if (later) last = &it->second;
  }
  if (last == nullptr || last->object.controller) return last;
  std::set<std::optional<int>> done{std::nullopt};
  for (auto it = from; it != ended_.end() && it->first.first == workload.key; ++it) {
    const EndedPod& pod = it->second;
    if (Succeeded(pod) && pod.incarnation == last->incarnation) done.insert(pod.rank);
  }
  const bool retries = std::ranges::none_of(
      workload.members, [&](const PodInfo* pod) { return done.contains(pod->claims->rank); });
  return retries ? last : nullptr;
}

/// Members that have succeeded count towards the minimum of the incarnation that they ran in.
void Store::CountFinished(Workload& workload) const {
  workload.incarnation.clear();
  workload.finished = 0;
  if (!workload.gang || workload.in_tree) return;
  const bool devices = workload.AsksDevices();
  const auto newest = std::ranges::find_if(
      workload.members | std::views::reverse,
      [devices](const PodInfo* pod) { return pod->bound() && pod->shape->asks_device == devices; });
  if (newest != workload.members.rend()) {
    workload.incarnation = IncarnationOf((*newest)->object);
  } else if (!workload.plan.empty()) {
    workload.incarnation = workload.plan;
  } else {
    const EndedPod* last = GoesOnWith(workload);
    if (last == nullptr) return;
    workload.incarnation = last->incarnation;
  }
  if (workload.incarnation.empty()) return;  // a launcher that ran ahead does not start a gang
  for (auto it = ended_.lower_bound({workload.key, ""});
       it != ended_.end() && it->first.first == workload.key; ++it) {
    const EndedPod& pod = it->second;
    if (Succeeded(pod) && pod.incarnation == workload.incarnation) ++workload.finished;
  }
}

}  // namespace berth::cluster
