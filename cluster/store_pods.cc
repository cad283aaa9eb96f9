// Store, continued: pods, and the workloads they form.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/plan_claim.h"
#include "cluster/queue_refusal.h"
#include "cluster/store.h"
#include "cluster/users.h"

namespace berth::cluster {
namespace {

std::string NameKey(std::string_view ns, std::string_view name) {
  return std::string(ns) + '/' + std::string(name);
}

bool Ended(const kube::Pod& pod) {
  return pod.phase == kube::PodPhase::kSucceeded || pod.phase == kube::PodPhase::kFailed;
}

std::string WorkloadKey(const kube::Pod& pod, const PodClaims& claims) {
  if (claims.gang.name.empty()) return pod.meta.ns + "/pod/" + pod.meta.name;
  return pod.meta.ns + "/gang/" + claims.gang.name;
}

bool FirstMemberOrder(const PodInfo* a, const PodInfo* b) {
  if (a->object.meta.creation != b->object.meta.creation) {
    return a->object.meta.creation < b->object.meta.creation;
  }
  return a->object.meta.uid < b->object.meta.uid;
}

/// The member whose claims are the gang's, in order of age. First choice is a member that runs, so
/// that the queue and the terms of a started gang do not depend on pods that wait to join it, and
/// are the same after a restart; otherwise the first that is valid in itself. A launcher without
/// devices may run ahead of its gang: it comes before others only if no member asks for devices.
/// End: there is none.
std::vector<const PodInfo*>::const_iterator FindRepresentative(
    const std::vector<const PodInfo*>& members) {
  const bool devices =
      std::ranges::any_of(members, [](const PodInfo* pod) { return pod->shape->asks_device; });
  const auto runs = std::ranges::find_if(members, [devices](const PodInfo* pod) {
    return (pod->bound() || pod->charge == Charge::kBinding) && pod->shape->asks_device == devices;
  });
  if (runs != members.end()) return runs;
  return std::ranges::find_if(members, [](const PodInfo* pod) {
    return pod->bound() || pod->refusal.reason == ReasonId::kNone ||
           pod->refusal.reason == ReasonId::kGangConflict;
  });
}

/// `first` is the workload's representative.
void TakeClaims(Workload& workload, const PodInfo& first) {
  const PodClaims& claims = *first.claims;
  if (!workload.started) {
    workload.size = std::max(1, claims.gang.size);
    workload.min_member = std::clamp(claims.gang.min_member, 1, workload.size);
    workload.topology_required = claims.topology_required;
    workload.topology_preferred = claims.topology_preferred;
  }
  workload.in_tree = claims.in_tree;
  workload.queue = first.queue;
  workload.priority = first.object.priority;
  workload.user = first.user.empty() ? UserOf(first.object) : first.user;
  workload.creation = first.object.meta.creation;
  workload.expected_duration = claims.expected_duration;
}

/// Launchers do not start a gang by themselves: where members without devices could be its minimum,
/// one with devices is needed as well.
void CountLaunchers(Workload& workload) {
  if (!workload.gang || workload.in_tree || workload.started) return;
  const auto launchers = std::ranges::count_if(
      workload.members, [](const PodInfo* pod) { return !pod->shape->asks_device; });
  if (launchers == std::ssize(workload.members) || launchers < workload.min_member) return;
  workload.min_member = static_cast<int>(std::min<std::int64_t>(launchers + 1, workload.size));
}

}  // namespace

std::vector<const PodInfo*> Workload::Unplaced() const {
  std::vector<const PodInfo*> unplaced;
  for (const PodInfo* pod : members) {
    if (pod->charge == Charge::kNone && !pod->bound()) unplaced.push_back(pod);
  }
  return unplaced;
}

bool Workload::AllBound() const {
  return std::ranges::all_of(members, &PodInfo::bound) &&
         std::ranges::all_of(faulty, &PodInfo::bound);
}

int Workload::BoundCount() const {
  return static_cast<int>(std::ranges::count_if(
      members, [](const PodInfo* pod) { return pod->bound() || pod->charge == Charge::kBinding; }));
}

bool Workload::AsksDevices() const {
  return std::ranges::any_of(members, [](const PodInfo* pod) { return pod->shape->asks_device; });
}

bool Workload::Runs() const {
  return std::ranges::any_of(members, [](const PodInfo* pod) {
    return pod->shape->asks_device && (pod->bound() || pod->charge == Charge::kBinding);
  });
}

bool Workload::SeenRunning() const {
  const bool managed = AsksDevices();
  const auto bound = std::ranges::count_if(members, [managed](const PodInfo* pod) {
    return pod->bound() && (!managed || pod->shape->asks_device);
  });
  return bound >= (managed ? 1 : min_member);
}

bool Store::Ours(const kube::Pod& pod) const {
  return std::ranges::find(policy_.scheduler_names, pod.scheduler_name) !=
         policy_.scheduler_names.end();
}

const PodInfo* Store::FindPod(std::string_view uid) const {
  const auto it = pods_.find(uid);
  return it == pods_.end() ? nullptr : &it->second;
}

const PodInfo* Store::FindPod(std::string_view ns, std::string_view name) const {
  const auto it = pods_by_name_.find(NameKey(ns, name));
  return it == pods_by_name_.end() ? nullptr : it->second;
}

const Workload* Store::FindWorkload(const std::string& key) const {
  const auto it = workloads_.find(key);
  return it == workloads_.end() ? nullptr : &it->second;
}

const PodInfo* Store::UpsertPod(kube::Pod object) {
  // A pod was recreated under its name and we missed the deletion: the old one is gone.
  if (const PodInfo* old = FindPod(object.meta.ns, object.meta.name);
      old != nullptr && old->object.meta.uid != object.meta.uid) {
    DeletePod(std::string(old->object.meta.uid));
  }
  if (Ended(object)) {
    const PodInfo* known = FindPod(object.meta.uid);
    std::string key = known == nullptr || known->workload == nullptr ? "" : known->workload->key;
    DeletePod(object.meta.uid);
    KeepEnded(object, std::move(key));
    return nullptr;
  }
  ++generation_;
  auto [it, fresh] = pods_.try_emplace(object.meta.uid);
  PodInfo& pod = it->second;
  const std::string old_node = pod.object.node_name;
  const bool was_terminating = !fresh && pod.terminating();
  // A status update decodes to an equal spec in an object of its own.
  if (!fresh && pod.object.spec != object.spec && *pod.object.spec == *object.spec) {
    object.spec = pod.object.spec;
  }
  const bool relabelled = !fresh && pod.object.meta.labels != object.meta.labels;
  const bool refiled =
      fresh || relabelled || pod.object.meta.annotations != object.meta.annotations ||
      pod.object.spec != object.spec || pod.object.scheduling_gates != object.scheduling_gates ||
      old_node != object.node_name || pod.object.priority != object.priority ||
      pod.object.invalid_request != object.invalid_request ||
      pod.object.nominated_node != object.nominated_node ||
      was_terminating != object.meta.deletion.has_value() || std::exchange(pod.reread, false);
  pod.object = std::move(object);
  if (fresh) {
    pod.place = pod_list_.size();
    pod_list_.push_back(&pod);
    pod.read_at = reading_generation_;
    CountPeer(pod.object, 1);
  }
  if (fresh) pods_by_name_[NameKey(pod.object.meta.ns, pod.object.meta.name)] = &pod;
  if (refiled) {
    File(pod);
    ChargeBound(pod);
    RechargeQueue(pod);
    if (pod.charge != Charge::kNone) {
      room_changes_.Add(pod.node);
      neighbour_changes_.Add(pod.node);
    }
    if (pod.charge != Charge::kNone && (relabelled || was_terminating != pod.terminating())) {
      relabelled_ |= relabelled;
      // The terms may select other pods by the pod's own labels.
      if (relabelled && pod.repels) ++free_generation_;
      NoteMoved(pod);
    }
    if (pod.workload != nullptr) {
      stale_.insert(pod.workload);
      MarkChanged(*pod.workload);
    }
  }
  return &pod;
}

void Store::ChargeBound(PodInfo& pod) {
  if (pod.bound()) {
    pod.said_devices = SaidDevices(pod.object);
    pod.fixed = ClaimedCharge(pod);
    SetCharge(pod, NodeSlot(pod.object.node_name).index, Charge::kBound);
  } else if (pod.charge == Charge::kPlanned && pod.terminating()) {
    Unreserve(pod);
  } else if (pod.workload == nullptr && pod.charge != Charge::kBinding) {
    // Preemption by kube-scheduler promised it this node. (Pods that we plan ourselves have a
    // plan.)
    const NodeIndex node =
        pod.object.nominated_node.empty() ? kNoNode : FindNode(pod.object.nominated_node);
    if (node == kNoNode && !pod.object.nominated_node.empty()) nominated_nowhere_.insert(&pod);
    if (node != kNoNode && !pod.terminating()) {
      SetCharge(pod, node, Charge::kPlanned);
    } else {
      Unreserve(pod);
    }
  }
}

void Store::DeletePod(std::string_view uid) {
  ForgetEnded(uid);
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  PodInfo& pod = it->second;
  CountPeer(pod.object, -1);
  Unreserve(pod);
  Unfile(pod);
  if (listener_ != nullptr) listener_->OnPodGone(pod);
  moved_.erase(&pod);
  nominated_nowhere_.erase(&pod);
  const auto named = pods_by_name_.find(NameKey(pod.object.meta.ns, pod.object.meta.name));
  if (named != pods_by_name_.end() && named->second == &pod) pods_by_name_.erase(named);
  pod_list_.back()->place = pod.place;
  std::swap(pod_list_[pod.place], pod_list_.back());
  pod_list_.pop_back();
  pods_.erase(it);
  ++generation_;
}

// --- Workloads -----------------------------------------------------------------------------------

/// What the pod says, and whether it is ours to place.
struct Store::PodReading {
  std::shared_ptr<const PodClaims> claims;
  bool asks = false;  ///< For a device, or to be in a gang.
  bool concerns_us = false;
};

PodClaims Store::ClaimsOf(const kube::Pod& pod) const {
  return ReadClaims(
      pod, {.switches = dialects_, .levels = policy_.levels, .objects = dialect_objects_.get()});
}

/// The workload that it is, or was, a member of. A pod that was already ending when it was first
/// seen never was: then, what its labels say.
std::string Store::JobOf(const PodInfo& pod) const {
  if (pod.workload != nullptr) return pod.workload->key;
  return pod.job.empty() ? WorkloadKey(pod.object, ClaimsOf(pod.object)) : pod.job;
}

Store::PodReading Store::Read(PodInfo& pod) {
  PodReading reading{.claims = std::make_shared<const PodClaims>(ClaimsOf(pod.object))};
  pod.shape = ShapeOf(pod.object, reading.claims->whole_node);
  pod.object.spec = pod.shape->spec;  // one copy for all pods of this shape
  // A pod with only our gate waits for nothing but us.
  const auto& gates = pod.object.scheduling_gates;
  const bool gated = std::ranges::find(gates, kAdmissionGate) != gates.end();
  reading.asks = pod.shape->asks_device || !reading.claims->gang.name.empty();
  reading.concerns_us = Ours(pod.object) && !pod.terminating() && (reading.asks || gated);
  return reading;
}

/// Sets the pod's queue and, if it is refused, the reason.
void Store::TakeReading(PodInfo& pod, const PodReading& reading) {
  const PodClaims& claims = *reading.claims;
  pod.claims = reading.claims;
  pod.refusal = {};
  pod.queue = ResolveQueue(pod, claims, pod.refusal);
  const bool started = pod.workload != nullptr && pod.workload->started;
  if (!pod.object.invalid_request.empty()) {
    pod.refusal = {.reason = ReasonId::kInvalidRequest, .subject = pod.object.invalid_request};
  } else if (!claims.error.empty()) {
    pod.refusal = {.reason = ReasonId::kInvalidRequest, .subject = claims.error};
  } else if (!KnowsClass(policy_, claims.workload_class)) {
    pod.refusal = {.reason = ReasonId::kInvalidRequest,
                   .subject = fmt::format("berth.dev/class: the policy has no class {:?}.",
                                          claims.workload_class)};
  } else if (!claims.waits_for.empty() && !started) {
    pod.refusal = {.reason = ReasonId::kWaitingForMembers, .subject = claims.waits_for};
  }
}

std::unique_ptr<PodInfo> Store::Appraise(kube::Pod object) {
  auto pod = std::make_unique<PodInfo>();
  pod->object = std::move(object);
  const PodReading reading = Read(*pod);
  if (!reading.concerns_us) return nullptr;
  pod->non_preemptible = MayNotBeEvicted(*pod, *reading.claims);
  TakeReading(*pod, reading);
  return pod;
}

void Store::File(PodInfo& pod) {
  const PodReading reading = Read(pod);
  const PodClaims& claims = *reading.claims;
  // A plan was granted for what the pod said, and its Binding will say so.
  const bool planned = pod.charge == Charge::kPlanned && pod.workload != nullptr;
  if (pod.bound() || (pod.charge != Charge::kBinding && !planned)) {
    pod.non_preemptible = MayNotBeEvicted(pod, claims);
  }
  // Gang and queue are fixed once a Binding is out, whatever the labels say later.
  const bool fixed = pod.workload != nullptr && (pod.bound() || pod.charge == Charge::kBinding);
  if (!reading.concerns_us) {
    // A bound pod that is ending still counts against its queue, after a restart too. One that
    // only had our gate never does.
    if (pod.charge == Charge::kNone) {
      Verdict ignored;
      const bool counts = pod.bound() && Ours(pod.object) && reading.asks;
      pod.queue = counts ? ResolveQueue(pod, claims, ignored) : kNoQueue;
    }
    Unfile(pod);
    return;
  }
  const std::string key = fixed ? pod.workload->key : WorkloadKey(pod.object, claims);
  if (pod.workload != nullptr && pod.workload->key != key) Unfile(pod);
  if (pod.workload == nullptr) {
    Workload& workload = workloads_[key];
    if (workload.key.empty()) {
      workload.key = key;
      workload.ns = pod.object.meta.ns;
      workload.gang = !claims.gang.name.empty();
      workload.name = workload.gang ? claims.gang.name : pod.object.meta.name;
    }
    pod.workload = &workload;
    workload.members.push_back(&pod);
    workload.sorted = false;
    // kube-scheduler had nominated a pod that was not ours to plan; now it is ours.
    if (pod.charge == Charge::kPlanned) {
      GiveBack(pod);
      pod.user.clear();
    }
  }
  if (pod.shape->has_pod_constraints) neighbourly_.insert(pod.workload);
  if (!fixed) {
    TakeReading(pod, reading);
    return;
  }
  if (!pod.claims->waits_for.empty() && claims.waits_for.empty()) {
    pod.claims = reading.claims;  // bound before we knew its group
  }
  if (pod.bound() && pod.charge != Charge::kBound) {
    Verdict ignored;  // a running pod is not refused
    pod.queue = ResolveQueue(pod, *pod.claims, ignored);
  }
}

void Store::Unfile(PodInfo& pod) {
  if (pod.workload == nullptr) return;
  Workload* workload = &Own(*pod.workload);
  pod.workload = nullptr;
  pod.claims.reset();
  std::erase(workload->members, &pod);
  std::erase(workload->faulty, &pod);
  if (listener_ != nullptr) listener_->OnMemberLeft(*workload, pod);
  if (pod.charge == Charge::kPlanned && !workload->plan.empty()) Unreserve(pod);
  if (workload->members.empty() && workload->faulty.empty()) {
    if (listener_ != nullptr) listener_->OnWorkloadGone(*workload);
    changed_.erase(workload);
    open_.erase(workload);
    demand_news_.erase(workload);
    neighbourly_.erase(workload);
    stale_.erase(workload);
    workloads_.erase(workload->key);
    return;
  }
  if (workload->members.empty()) {
    BeginIncarnation(*workload);  // only refused pods are left under its name
  }
  stale_.insert(workload);
  MarkChanged(*workload);
}

void Store::RefreshWorkload(Workload& workload) {
  std::vector<const PodInfo*> all = std::move(workload.members);
  all.insert(all.end(), workload.faulty.begin(), workload.faulty.end());
  if (!workload.sorted || !workload.faulty.empty()) std::ranges::sort(all, FirstMemberOrder);
  workload.sorted = true;
  workload.members.clear();
  workload.faulty.clear();
  const auto first = FindRepresentative(all);
  // Without a representative, the first refused member: messages then say what it asked for.
  if (!all.empty()) TakeClaims(workload, first == all.end() ? *all.front() : **first);
  if (first != all.end()) {
    for (const PodInfo* member : all) CheckMember(workload, Own(*member), **first);
  }
  for (const PodInfo* pod : all) {
    const bool faulty = pod->refusal.reason != ReasonId::kNone && !pod->bound();
    (faulty ? workload.faulty : workload.members).push_back(pod);
  }
  CountLaunchers(workload);
  CountFinished(workload);
  MarkChanged(workload);
}

void Store::CheckMember(const Workload& workload, PodInfo& pod, const PodInfo& first) const {
  // Its queue is written in the Binding, which may be under way.
  if (!workload.gang || pod.bound() || pod.charge == Charge::kBinding) return;
  const GangClaim& gang = pod.claims->gang;
  const GangClaim& wanted = first.claims->gang;
  const auto label_of = [&](const std::string& level) {
    const auto it = std::ranges::find(policy_.levels, level, &config::TopologyLevel::name);
    return it == policy_.levels.end() ? level : it->node_label;
  };
  // The gang runs: later changes of its group object, or its deletion, change nothing.
  const bool joins = workload.started && pod.claims->by_group;
  const bool of_the_gang = pod.refusal.reason == ReasonId::kGangConflict ||
                           (joins && pod.refusal.reason == ReasonId::kWaitingForMembers);
  if (pod.refusal.reason != ReasonId::kNone && !of_the_gang) return;
  pod.refusal = {};
  const bool other_numbers = gang.size != wanted.size || gang.min_member != wanted.min_member;
  std::string conflict;
  if (joins || (workload.started && !other_numbers)) {
    pod.queue = workload.queue;  // the gang's, under a new policy, too
  } else if (other_numbers) {
    conflict = fmt::format("says size {} and minimum {}, this pod {} and {}", wanted.size,
                           wanted.min_member, gang.size, gang.min_member);
  } else if (pod.queue != workload.queue) {
    conflict = "is in another queue";
  } else if (label_of(pod.claims->topology_required) != label_of(first.claims->topology_required) ||
             label_of(pod.claims->topology_preferred) !=
                 label_of(first.claims->topology_preferred)) {
    conflict = "asks for another topology";
  }
  if (conflict.empty()) return;
  pod.refusal = {
      .reason = ReasonId::kGangConflict,
      .subject = fmt::format("The gang's first member, {}, {}.", first.object.meta.name, conflict)};
}

void Store::MarkChanged(const Workload& workload) {
  changed_.insert(&workload);
  open_.insert(&workload);
  NoteDemand(&workload);
  ++generation_;
}

Store::OpenPart Store::TakeOpen(std::string_view after, std::size_t most) {
  OpenPart part;
  auto it = open_.upper_bound(after);
  for (std::size_t looked = 0; it != open_.end() && looked < most; ++looked) {
    const Workload* workload = *it;
    part.upto = workload->key;
    if (workload->AllBound()) {
      it = open_.erase(it);
      continue;
    }
    changed_.erase(workload);
    part.workloads.push_back(workload);
    ++it;
  }
  part.more = it != open_.end();
  return part;
}

std::vector<const Workload*> Store::NeighbourlyWorkloads() {
  std::erase_if(neighbourly_, [](const Workload* workload) { return workload->AllBound(); });
  return {neighbourly_.begin(), neighbourly_.end()};
}

/// For workloads that wait now; workloads that come later look at the store themselves.
void Store::NoteMoved(const PodInfo& pod) {
  ++neighbour_generation_;
  if (!neighbourly_.empty()) moved_.insert(&pod);
}

Store::NeighbourNews Store::TakeNeighbourNews() {
  NeighbourNews news{.moved = {moved_.begin(), moved_.end()}, .relabelled = relabelled_};
  moved_.clear();
  relabelled_ = false;
  return news;
}

std::vector<const Workload*> Store::TakeChanged(std::size_t most) {
  const auto end =
      std::ranges::next(changed_.begin(), static_cast<std::ptrdiff_t>(most), changed_.end());
  std::vector<const Workload*> changed(changed_.begin(), end);
  changed_.erase(changed_.begin(), end);
  return changed;
}

}  // namespace berth::cluster
