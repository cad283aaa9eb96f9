// Engine, part: members of in-tree PodGroups (spec.schedulingGroup). kube-scheduler itself starts
// such a gang all or nothing: it tries the members one after the other on placements that we cannot
// see, many of which are never carried out. So nothing is planned or held for them, and a filter
// answer does not depend on any sibling that is not bound. It says which nodes have room and would
// suit best, and whether the queue can pay for the whole gang. Quota is charged at the Binding.
#include <algorithm>
#include <array>

#include "cluster/plan_claim.h"
#include "cluster/users.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "kube/device_notes.h"

namespace berth::engine {

using cluster::Charge;
using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using cluster::Workload;

namespace {

using Resolution = ResolveBind::Resolution;

/// Whether the node has room if the pods running there are ignored. kube-scheduler offered the
/// node, so it may be trying which pods it could preempt. Room planned there for other pods stays
/// reserved.
bool RoomButForRunning(const PodInfo& pod, const cluster::Store& store, NodeIndex index) {
  const cluster::NodeInfo& node = store.node(index);
  return std::ranges::all_of(store.DemandOn(*pod.shape, node), [&](const auto& demand) {
    std::int64_t held = 0;
    for (const PodInfo* other : node.pods) {
      if (other->charge == Charge::kBound) continue;
      const auto it =
          std::ranges::find(other->charged, demand.first, &cluster::Demand::value_type::first);
      if (it != other->charged.end()) held += it->second;
    }
    return demand.second + held <= node.allocatable[demand.first];
  });
}

}  // namespace

/// Groups that are complete, or gone, hold nothing.
void Engine::NoteInTreeStart(const Workload& workload) {
  std::erase_if(in_tree_started_, [this](const std::string& key) {
    const Workload* known = store_.FindWorkload(key);
    return known == nullptr || !known->in_tree || known->BoundCount() == 0 ||
           known->BoundCount() >= known->min_member;
  });
  if (workload.BoundCount() < workload.min_member) in_tree_started_.insert(workload.key);
}

/// Gates wait only for the quota of the whole minimum; kube-scheduler waits for the members.
void Engine::JudgeInTree(const Workload& workload, std::span<const PodInfo* const> pods,
                         TimePoint now) {
  if (Verdict verdict = InTreeQuota(Now(now), workload, pods); verdict.reason != ReasonId::kNone) {
    SetVerdict(workload, std::move(verdict));
    return;
  }
  SetVerdict(workload, {.reason = ReasonId::kStarting,
                        .want = workload.min_member,
                        .have = workload.BoundCount(),
                        .subject = "kube-scheduler itself starts the gang of a schedulingGroup; "
                                   "its queue has the quota."});
  for (const PodInfo* pod : pods) Ungate(*pod);
}

FilterAnswer Engine::FilterInTree(const PodInfo& pod, const FilterQuery& query, TimePoint now) {
  const Workload& workload = *pod.workload;
  if (const Verdict verdict = InTreeQuota(Now(now), workload, workload.Unplaced());
      verdict.reason != ReasonId::kNone) {
    states_[pod].asked = true;
    SetVerdict(workload, verdict);
    return {.reason = verdict.reason};
  }
  const policy::Overlay overlay(store_);
  std::vector<std::pair<policy::Score, std::size_t>> room;
  FilterAnswer answer{.reason = ReasonId::kInsufficientDevices};
  const bool by_flavor =
      workload.queue != cluster::kNoQueue && store_.queue(workload.queue).by_flavor;
  const std::array<const PodInfo*, 1> one{&pod};
  const auto payable =
      by_flavor
          ? policy::PayableNodes(QuotaFor(store_, in_tree_started_, workload), workload.queue, one)
          : nullptr;
  for (std::size_t i = 0; i < query.offered.size(); ++i) {
    const NodeIndex node = store_.FindNode(query.offered[i]);
    if (node == cluster::kNoNode) continue;
    if (payable && !payable(pod, node)) {
      answer.reason = ReasonId::kWaitingForQuota;
      continue;
    }
    if (const auto score = scorer_.Of(pod.shape, overlay, node)) {
      room.emplace_back(*score, i);
    } else if (RoomButForRunning(pod, store_, node)) {
      answer.kept.push_back(i);
    }
  }
  if (!room.empty()) {
    std::ranges::stable_sort(room, std::ranges::greater{}, &decltype(room)::value_type::first);
    answer.kept.clear();
    for (const auto& [score, index] : room) answer.kept.push_back(index);
  }
  if (answer.kept.empty()) return answer;
  live_answers_.Note(pod.object.meta.uid, {std::string(query.offered[answer.kept.front()])}, now);
  return answer;
}

/// The placement is real now: fit and quota are judged exactly.
BindAnswer Engine::BindInTree(const PodInfo& pod, NodeIndex node, TimePoint now) {
  const Workload& workload = *pod.workload;
  live_answers_.Forget(pod.object.meta.uid);
  const auto decision = DecideDelegated(Now(now), pod, node);
  if (!decision) {
    return {.now = {.resolution = Resolution::kError,
                    .error = std::string(cluster::RefusalText(decision.error())),
                    .annotations = {}}};
  }
  Commit(workload, *decision, &pod, now);
  const cluster::PlanClaim claim{.plan = NextPlanId(workload),
                                 .node = store_.node(node).name,
                                 .queue = QueueName(pod.queue),
                                 .rank = 0,
                                 .charge = store_.WholeNodeCharge(pod),
                                 .preemptible = !pod.non_preemptible,
                                 .user = cluster::ClaimedUser(pod.object, pod.user)};
  std::map<std::string, std::string> annotations{
      {std::string(cluster::kPlanAnnotation), cluster::EncodePlanClaim(claim)}};
  if (std::string note = store_.DevicesNote(pod); !note.empty()) {
    annotations.emplace(kube::kDevicesAnnotation, std::move(note));
  }
  return {.now = {.resolution = Resolution::kPost, .annotations = std::move(annotations)}};
}

}  // namespace berth::engine
