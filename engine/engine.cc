#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/plan_claim.h"
#include "cluster/users.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

constexpr std::size_t kMostStale = 200;

}  // namespace

Engine::Engine(config::PolicyConfiguration policy, Options options)
    : options_(std::move(options)),
      store_(std::move(policy), options_.store, this),
      scorer_(options_.scorer ? policy::Scorer(store_, options_.scorer())
                              : policy::Scorer(store_)) {
  if (options_.expected_pods > 0) Expect(options_.expected_pods);
  if (listener() != nullptr) listener()->OnBegin(store_.policy(), options_);
}

void Engine::Expect(std::size_t pods) {
  store_.Expect(pods);
  states_.Expect(pods);
  active_.Expect(pods);
  fair_shares_.Expect(pods);
  shown_.Expect(pods);
}

bool Engine::Passthrough() const { return store_.policy().mode == config::Mode::kPassthrough; }

// --- Events ----------------------------------------------------------------------------------

void Engine::OnNode(kube::Node node, TimePoint now) {
  if (listener() != nullptr) listener()->OnNode(node, now);
  store_.SetTime(now);
  const std::string name = node.meta.name;
  if (const NodeIndex known = store_.FindNode(name); known != cluster::kNoNode) {
    const kube::Node& before = store_.node(known).object;
    const bool same = before.allocatable == node.allocatable && before.taints == node.taints &&
                      before.ready == node.ready && before.unschedulable == node.unschedulable;
    if (!same) ForgetRefusals(known);  // the refusals may no longer hold
  }
  store_.UpsertNode(std::move(node));
  RereadIfDue(now);
  if (started_) RecheckPlans(store_.FindNode(name));
}

void Engine::OnNodeDeleted(std::string_view name, TimePoint now) {
  if (listener() != nullptr) listener()->OnNodeDeleted(name, now);
  store_.SetTime(now);
  const NodeIndex node = store_.FindNode(name);
  store_.DeleteNode(name);
  if (node == cluster::kNoNode) return;
  if (started_) RecheckPlans(node);
  // A node that replaces it, under the same name or another, is another machine.
  ForgetRefusals(node);
}

void Engine::OnNamespace(kube::Namespace ns) {
  if (listener() != nullptr) listener()->OnNamespace(ns);
  store_.UpsertNamespace(std::move(ns));
}

void Engine::OnNamespaceDeleted(std::string_view name) {
  if (listener() != nullptr) listener()->OnNamespaceDeleted(name);
  store_.DeleteNamespace(name);
}

void Engine::OnDisruptionBudget(kube::PodDisruptionBudget budget) {
  if (listener() != nullptr) listener()->OnDisruptionBudget(budget);
  const auto& budgets = store_.disruption_budgets();
  const auto known = budgets.find(budget.meta.uid);
  const bool permits =
      known != budgets.end() && (known->second.disruptions_allowed < budget.disruptions_allowed ||
                                 known->second.selector != budget.selector);
  store_.UpsertDisruptionBudget(std::move(budget));
  if (permits) BudgetsPermitMore();
}

void Engine::OnDisruptionBudgetDeleted(std::string_view uid) {
  if (listener() != nullptr) listener()->OnDisruptionBudgetDeleted(uid);
  store_.DeleteDisruptionBudget(uid);
  BudgetsPermitMore();
}

void Engine::OnDialectObject(kube::DialectObject object, TimePoint now) {
  if (listener() != nullptr) listener()->OnDialectObject(object, now);
  ReadAgain(store_.UpsertDialectObject(std::move(object)), now);
}

void Engine::OnDialectObjectDeleted(std::string_view uid, TimePoint now) {
  if (listener() != nullptr) listener()->OnDialectObjectDeleted(uid, now);
  ReadAgain(store_.DeleteDialectObject(uid), now);
}

/// Reads the claims (gang and queue) of these pods again. A plan that has not bound any pod yet was
/// made with the old numbers.
void Engine::ReadAgain(const std::vector<const PodInfo*>& pods, TimePoint now) {
  std::vector<kube::Pod> copies;
  copies.reserve(pods.size());
  for (const PodInfo* pod : pods) {
    copies.push_back(pod->object);
    if (pod->workload->gang) {
      Dissolve(*pod->workload, plan_ends::kRefersToElse, /*hold=*/false, now);
    }
  }
  for (kube::Pod& pod : copies) TakePod(std::move(pod), now);
}

void Engine::OnPod(kube::Pod object, TimePoint now) {
  if (listener() != nullptr) listener()->OnPod(object, now);
  TakePod(std::move(object), now);
  RereadIfDue(now);
}

void Engine::RereadIfDue(TimePoint now) {
  if (store_.reread_due()) TakePolicy(store_.policy(), now);
}

void Engine::TakePod(kube::Pod object, TimePoint now) {
  store_.SetTime(now);
  // Before the start no pass refreshes workloads: it is done in parts here, and not left to one
  // call.
  if (!started_ && store_.stale_workloads() >= kMostStale) store_.RefreshWorkloads();
  const std::string uid = object.meta.uid;
  if (const PodInfo* namesake = store_.FindPod(object.meta.ns, object.meta.name);
      namesake != nullptr && namesake->object.meta.uid != uid) {
    ForgetPod(std::string(namesake->object.meta.uid), now);  // recreated, and we missed the
                                                             // deletion
  }
  const PodInfo* known = store_.FindPod(uid);
  // The pod was read ahead of the watch (BindSettled); this watch event is older than that read.
  if (known != nullptr && known->bound() && object.node_name.empty()) return;
  const bool fresh = known == nullptr;
  const bool was_bound = !fresh && known->bound();
  const bool was_charged = !fresh && known->charge != Charge::kNone;
  const std::string key =
      !fresh && known->workload != nullptr ? known->workload->key : std::string();
  const bool leaving = object.meta.deletion.has_value() ||
                       object.phase == kube::PodPhase::kSucceeded ||
                       object.phase == kube::PodPhase::kFailed;
  if (!fresh && leaving) {
    LogEnd(*known, now);
    if (!known->terminating()) NoteEnd(*known, now);
    if (object.phase == kube::PodPhase::kSucceeded) states_[*known].succeeded = true;
  }
  NoticeRejection(object, now);
  const bool was_leaving = !fresh && known->terminating();
  const NodeIndex old_node = fresh ? cluster::kNoNode : known->node;
  const auto old_queue = fresh ? cluster::kNoQueue : known->queue;
  const auto old_shape = fresh ? nullptr : known->shape;
  const PodInfo* pod = store_.UpsertPod(std::move(object));
  if (pod == nullptr) AfterVictimGone(uid, old_node, now);
  if (pod != nullptr && leaving && !was_leaving && !states_.At(*pod).victim_of.empty()) {
    LookForHeirsOf(uid);
  }
  if (!key.empty() &&
      (leaving || pod == nullptr || pod->workload == nullptr || pod->workload->key != key)) {
    ResolveTickets(uid, ResolveBind::Resolution::kError,
                   "berth: the pod has left its gang, or ends");
    AfterMemberGone(key, old_shape->asks_device, now);
  }
  // A Binding of an earlier plan may have succeeded, on another node than the one where the pod
  // holds room now; or a pod that is not ours was nominated.
  const bool arrives = pod != nullptr && pod->charge != Charge::kNone &&
                       (pod->bound() || pod->workload == nullptr) &&
                       (!was_charged || pod->node != old_node);
  if (arrives && started_) RecheckPlans(pod->node);
  const bool comes = pod != nullptr && pod->bound() && !was_bound;
  if (comes && drains_.QueueOf(*pod) != cluster::kNoQueue) drains_.LookAt(now);
  if (pod == nullptr || pod->workload == nullptr) return;
  const Workload& workload = *pod->workload;
  WorkloadState& state = states_[workload];
  if (fresh && pod->shape->asks_device) BeginIncarnationAfterLaunchers(workload, now);
  const auto asks_for_else = [&] {
    return pod->queue != old_queue || pod->shape != old_shape ||
           pod->refusal.reason != ReasonId::kNone;
  };
  if (pod->charge == Charge::kPlanned && asks_for_else()) {
    store_.RefreshWorkloads();  // its own values may be ignored in its gang
    if (asks_for_else()) GiveUpPlace(*pod, plan_ends::kAsksForElse);
  }
  if (state.pending_since == 0) {
    state.pending_since = std::min(now, std::max<TimePoint>(workload.creation, 1));
  }
  if (fresh && !pod->bound()) {
    // All pods that wait at the start arrive at once: the mix is computed once for them.
    started_ ? scorer_.Observe(pod->shape) : scorer_.mix().Observe(pod->shape);
  }
  if (pod->bound()) {
    if (!was_bound && started_) states_[*pod].bound_at = now;
    NoticeSuccess(*pod);
    const bool elsewhere = old_node != cluster::kNoNode && old_node != pod->node;
    ResolveTickets(uid,
                   elsewhere ? ResolveBind::Resolution::kError : ResolveBind::Resolution::kBound,
                   "berth: already bound to " + pod->object.node_name);
    if (!workload.started) store_.RefreshWorkloads();  // its minimum may have changed, too
    PruneBound(*pod, now);
    // Workers may have come while it was on its way.
    if (!was_bound && !pod->shape->asks_device) BeginIncarnationAfterLaunchers(workload, now);
    if (!was_bound && started_) JoinEviction(*pod);
    return;
  }
  const auto& condition = pod->object.pod_scheduled;
  if (condition && !condition->status && condition->reason == "Unschedulable" &&
      pod->charge == Charge::kNone && !states_[*pod].asked) {
    // kube-scheduler's own filters left no node, so it never asked us. The pod waits all the same,
    // and its turn comes in queue order.
    states_[*pod].asked = true;
    store_.MarkChanged(workload);
  }
  if (!started_) return;
  NoticeRefusal(*pod, now);
  // Our nomination was only seen after its plan was gone.
  if (pod->charge == Charge::kNone) Withdraw(*pod);
}

/// Logs what a learned policy needs to know about a placement, when the placement ends.
void Engine::LogEnd(const PodInfo& pod, TimePoint now) {
  if (pod.workload == nullptr || states_.At(pod).bound_at == 0) return;
  const TimePoint bound_at = std::exchange(states_[pod].bound_at, 0);
  actions_.push_back(
      Decision{.kind = "end",
               .workload = pod.workload->key,
               .queue = QueueName(pod.charged_queue),
               .generation = store_.generation(),
               .placed = {{pod.object.meta.name, pod.object.node_name}},
               .ran_ms = now - bound_at,
               .waited_ms = std::max<std::int64_t>(0, bound_at - pod.object.meta.creation)});
}

void Engine::OnPodDeleted(std::string_view uid, TimePoint now) {
  if (listener() != nullptr) listener()->OnPodDeleted(uid, now);
  ForgetPod(uid, now);
  RereadIfDue(now);
}

void Engine::BeginUsage(const cluster::UsageRecord& record, TimePoint now) {
  if (listener() != nullptr) listener()->OnBeginUsage(record, now);
  store_.SetTime(now);
  store_.BeginUsage(record);
  past_use_due_ = now;
}

void Engine::ForgetPod(std::string_view uid, TimePoint now) {
  store_.SetTime(now);
  const PodInfo* pod = store_.FindPod(uid);
  if (pod == nullptr) {
    const std::string gang = store_.EndedKey(uid);
    store_.DeletePod(uid);
    if (!gang.empty()) AfterMemberGone(gang, /*asked_device=*/false, now);
    return;
  }
  LogEnd(*pod, now);
  NoteEnd(*pod, now);
  const std::string key = pod->workload == nullptr ? std::string() : pod->workload->key;
  const bool asked_device = pod->shape->asks_device;
  ResolveTickets(uid, ResolveBind::Resolution::kError, "the pod was deleted");
  live_answers_.Forget(uid);
  const NodeIndex node = pod->node;
  const std::string id(uid);
  store_.DeletePod(id);
  AfterVictimGone(id, node, now);
  if (!key.empty()) AfterMemberGone(key, asked_device, now);
}

void Engine::OnPolicy(config::PolicyConfiguration policy, TimePoint now) {
  if (listener() != nullptr) listener()->OnPolicy(policy, now);
  TakePolicy(std::move(policy), now);
}

void Engine::TakePolicy(config::PolicyConfiguration policy, TimePoint now) {
  store_.SetTime(now);
  store_.Refresh();
  // Plans were made under the old policy: plans that have not bound any pod yet are made again.
  const std::vector<const Workload*> planned(planned_.begin(), planned_.end());
  for (const Workload* workload : planned) {
    // Pods are evicted for it already, or their evictions are on the way: the room is its own.
    if (states_[*workload].plan->evictions.stage == Evicting::kSent) continue;
    Dissolve(*workload, plan_ends::kPolicyChanged, /*hold=*/false, now);
  }
  const bool reads = store_.BeginPolicy(std::move(policy));
  drains_.EndNeedless();
  active_.ForgetOwed();
  active_.SetPastUse({});  // until the next pass
  past_use_due_ = now;
  drains_.LookAt(now);
  active_.ReorderAll();
  if (reads) ReadPlanned(now);
  refusals_.Clear();
  const std::vector<const Workload*> still_planned(planned_.begin(), planned_.end());
  for (const Workload* workload : still_planned) {
    if (Passthrough()) {
      GiveUpPlaces(*workload);
      continue;
    }
    for (const PodInfo* pod : std::vector<const PodInfo*>(workload->members)) {
      if (MustGiveWay(*pod)) GiveUpPlace(*pod, plan_ends::kPolicyChanged);
    }
  }
  if (!store_.reading()) RecheckEvicting(now);
  StartSweep(SweepOf::kAll);
  if (started_ && store_.reading()) ReadMore(now);
}

/// Calls about members that have a place must not wait until all pods are read.
void Engine::ReadPlanned(TimePoint now) {
  std::vector<std::string> keys;
  for (const Workload* workload : planned_) keys.push_back(workload->key);
  for (const std::string& key : keys) {
    const Workload* workload = store_.FindWorkload(key);
    if (workload == nullptr) continue;  // it has ceased to be while another one was read
    store_.ReadNow(*workload);
    BeginIncarnationIfNoneRuns(key, now);
  }
}

/// A started gang that asks for devices starts again where no member that asks for any runs: under
/// a new policy, running members may not count any more; or the gang had nothing but launchers so
/// far.
void Engine::BeginIncarnationIfNoneRuns(const std::string& gang, TimePoint now) {
  const Workload* workload = store_.FindWorkload(gang);
  if (workload == nullptr || !workload->started || !workload->gang) return;
  if (workload->AsksDevices() && !workload->Runs()) BeginIncarnation(*workload, now);
}

/// The same for a gang that had nothing but launchers, once none of them is on its way.
void Engine::BeginIncarnationAfterLaunchers(const Workload& workload, TimePoint now) {
  const bool launched = workload.started && !workload.in_tree && !workload.Runs();
  if (!launched || states_[workload].plan) return;
  store_.RefreshWorkloads();  // finds the members
  BeginIncarnationIfNoneRuns(workload.key, now);
}

void Engine::Step(TimePoint now) {
  if (listener() != nullptr) listener()->OnStep(now);
  if (!started_) return;
  FireTimers(now);
  ReleaseFromSpared(now);
  PlanPass(/*caller=*/nullptr, now);
  if (!unfinished()) evictor_.WithdrawWarnings(now);
}

std::optional<TimePoint> Engine::NextDeadline() const {
  if (started_ && unfinished()) return passed_at_;
  std::optional<TimePoint> next = claims_due_;
  const auto at = [&](TimePoint when) { next = std::min(next.value_or(when), when); };
  if (drains_.due()) at(*drains_.due());
  if (shown_.due()) at(*shown_.due());
  if (timers_.next()) at(*timers_.next());
  if (fair_shares_.away_until()) at(*fair_shares_.away_until());
  return next;
}

// --- Small helpers -----------------------------------------------------------------------------

const Plan* Engine::PlanOf(const PodInfo& pod) const {
  if (pod.workload == nullptr || pod.workload->plan.empty()) return nullptr;
  return &*states_.At(*pod.workload).plan;
}

const Assignment* Engine::FindAssignment(const PodInfo& pod) const {
  const Plan* plan = PlanOf(pod);
  if (plan == nullptr) return nullptr;
  return plan->assignments.Find(pod);
}

Assignment* Engine::FindAssignment(const PodInfo& pod) {
  return const_cast<Assignment*>(std::as_const(*this).FindAssignment(pod));
}

NodeIndex Engine::PlannedNode(std::string_view uid) const {
  const PodInfo* pod = store_.FindPod(uid);
  if (pod == nullptr) return cluster::kNoNode;
  if (pod->workload == nullptr) return cluster::kNoNode;
  if (pod->workload->in_tree && pod->charge == Charge::kNone) {
    const std::string* live = live_answers_.First(pod->object.meta.uid);
    return live == nullptr ? cluster::kNoNode : store_.FindNode(*live);
  }
  return pod->node;
}

/// All members of one incarnation of a gang run under one plan, whenever they join it.
std::string Engine::NextPlanId(const Workload& workload) {
  ++plan_counter_;
  const bool goes_on = workload.started || workload.finished > 0;
  if (goes_on && !workload.incarnation.empty()) return workload.incarnation;
  return fmt::format("{}-{}", options_.instance, plan_counter_);
}

std::string Engine::QueueName(cluster::QueueId queue) const {
  return queue == cluster::kNoQueue ? std::string() : store_.queue(queue).config.name;
}

std::string Engine::ClaimText(const Workload& workload, const Assignment& a) const {
  const Evicted& before = states_.At(workload).before;
  return cluster::EncodePlanClaim({.plan = workload.plan,
                                   .node = store_.node(a.node).name,
                                   .queue = QueueName(a.pod->queue),
                                   .rank = a.rank,
                                   .charge = store_.WholeNodeCharge(*a.pod),
                                   .preemptible = !a.pod->non_preemptible,
                                   .user = cluster::ClaimedUser(a.pod->object, a.pod->user),
                                   .evictions = before.times,
                                   .since = before.since});
}

std::vector<Action> Engine::TakeActions() {
  for (const NodeIndex index : store_.TakeDeviceNews()) {
    const cluster::NodeInfo& node = store_.node(index);
    const bool refused = !node.hardware_problem.empty();
    actions_.push_back(
        NodeNotice{.node = node.name,
                   .kept = node.track == cluster::DeviceTrack::kKept,
                   .problem = refused ? node.hardware_problem : node.device_problem});
  }
  return std::exchange(actions_, {});
}

Counters Engine::TakeCounters() {
  Counters taken = counters_;
  counters_.gang_waits_ms.clear();
  return taken;
}

std::pair<int, int> Engine::PlanCounts() const {
  std::pair<int, int> counts;
  for (const Workload* workload : planned_) {
    ++(states_.At(*workload).plan->started ? counts.second : counts.first);
  }
  return counts;
}

}  // namespace berth::engine
