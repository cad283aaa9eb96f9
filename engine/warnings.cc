// Engine, part: pods are told of their eviction some time before it (eviction.warning), so that
// they can write a checkpoint. Meanwhile the plan holds their room and no pod is evicted. The plan
// ends as soon as there is enough free room, or when the time is over; then all is judged again, in
// its order, and pods that were warned go before pods that were not.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/eviction_texts.h"
#include "engine/victim_choice.h"
#include "kube/time.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

namespace {

/// Whether the pod is to be evicted for a plan which may come to nothing before that.
bool MayBeSpared(const View& view, const PodInfo& pod) {
  return !pod.terminating() && IsUnsent(StageOf(view, pod));
}

}  // namespace

/// When the gang of `victim`, which ends whole, was told that it is to be evicted, the last time: a
/// member that came later has no more time than the others. 0: it was not, or only surplus was, or
/// the member was there already.
TimePoint Engine::ToldBefore(const Plan& plan, const PodInfo& victim) const {
  if (victim.workload == nullptr || plan.surplus.contains(victim.object.meta.uid)) return 0;
  int told = 0;
  TimePoint last = 0;
  for (const PodInfo* pod : victim.workload->members) {
    const TimePoint at = states_.At(*pod).evict_at;
    if (at == 0) continue;
    if (pod->object.meta.creation >= victim.object.meta.creation) return 0;
    ++told;
    last = std::max(last, at);
  }
  return told + 1 < victim.workload->min_member ? 0 : last;
}

/// When the victim of the plan is to be evicted: as it was told, or is to be told now. 0: at once.
TimePoint Engine::EvictionTimeOf(const Plan& plan, const PodInfo& victim, TimePoint now) const {
  const TimePoint warning = store_.policy().eviction.warning.count();
  const TimePoint told = states_.At(victim).evict_at;
  if (told != 0 || warning == 0) return told;
  const TimePoint before = ToldBefore(plan, victim);
  return before != 0 ? before : now + warning;
}

/// When the evictions for the workload's plan are sent, as far as it is known: once its victims
/// were told and their time is over. `now` at the earliest.
TimePoint Engine::DueOf(const Workload& workload, TimePoint now) const {
  const Plan& plan = *states_.At(workload).plan;
  if (plan.evictions.stage == Evicting::kWarned) return std::max(now, plan.expires);
  TimePoint due = now;
  if (plan.evictions.stage != Evicting::kDryRun) return due;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating()) continue;
    if (states_.At(*pod).victim_of != workload.key) continue;
    due = std::max(due, EvictionTimeOf(plan, *pod, now));
  }
  return due;
}

/// Members on the node that are only planned, of other workloads whose evictions are not sent yet.
std::vector<const PodInfo*> Engine::LaterPlacesOn(cluster::NodeIndex node,
                                                  const Workload& workload) const {
  std::vector<const PodInfo*> pods;
  for (const PodInfo* pod : store_.node(node).pods) {
    if (pod->charge != cluster::Charge::kPlanned || pod->workload == nullptr) continue;
    const Plan* plan = pod->workload == &workload ? nullptr : PlanOf(*pod);
    if (plan != nullptr && IsUnsent(plan->evictions.stage)) pods.push_back(pod);
  }
  return pods;
}

/// Whether the plan's places are too many for the room, or for the quota, once its own victims have
/// ended and all that ends for certain: it needs pods too that were only told of their eviction for
/// other plans, which may still be spared. Such plans come after this one, with their places.
bool Engine::NeedsPodsOfOthers(const Workload& workload, TimePoint now) {
  const View view = Now(now);
  const Plan& plan = *states_.At(workload).plan;
  Ended ended(store_);
  bool any = false;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr) continue;
    const bool own = states_.At(*pod).victim_of == workload.key;
    const bool certain = own || !MayBeSpared(view, *pod);
    if (certain) ended.Add(*pod);
    any |= !certain;
  }
  if (!any) return false;
  std::set<cluster::NodeIndex> nodes;
  for (const Assignment& place : plan.assignments) nodes.insert(place.node);
  for (const cluster::NodeIndex node : nodes) {
    for (const PodInfo* pod : LaterPlacesOn(node, workload)) ended.Add(*pod);
  }
  const auto lacks_room = [&](const Assignment& place) {
    return std::ranges::any_of(place.pod->shape->demand, [&](const auto& part) {
      return ended.room().Free(place.node, part.first) < 0;
    });
  };
  return std::ranges::any_of(plan.assignments, lacks_room) ||
         std::ranges::any_of(ended.quota().Along(workload.queue),
                             [](const auto& allowance) { return allowance.left < 0; });
}

/// Whether victims of the plan have to be told first, or have some time left; also victims of other
/// plans, if it needs their room, too. Then no pod is evicted yet. What was told holds whatever the
/// policy has become.
bool Engine::Warns(const Workload& workload, TimePoint now) {
  Plan& plan = *states_[workload].plan;
  const bool needs_others = NeedsPodsOfOthers(workload, now);
  if (!needs_others) {
    std::erase_if(plan.victims, [&](const std::string& uid) {
      const PodInfo* pod = store_.FindPod(uid);
      return pod != nullptr && states_.At(*pod).victim_of != workload.key &&
             MayBeSpared(Now(now), *pod);
    });
  }
  std::vector<std::pair<const PodInfo*, TimePoint>> told;  // now
  TimePoint last = now;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating()) continue;
    const MemberState& state = states_.At(*pod);
    if (state.victim_of != workload.key) {
      const Workload* other = needs_others ? store_.FindWorkload(state.victim_of) : nullptr;
      if (other != nullptr && states_.At(*other).plan) last = std::max(last, DueOf(*other, now));
      continue;
    }
    const TimePoint at = EvictionTimeOf(plan, *pod, now);
    if (at != state.evict_at) told.emplace_back(pod, at);
    last = std::max(last, at);
  }
  for (const auto& [pod, at] : told) {
    states_[*pod].evict_at = at;
    const bool surplus = plan.surplus.contains(pod->object.meta.uid);
    evictor_.Announce(*pod, WhyEvicted(store_, *pod, workload, surplus));
  }
  if (last == now) return false;
  plan.evictions.stage = Evicting::kWarned;
  plan.expires = last;
  timers_.At(last, workload.key);
  SetVerdict(workload,
             {.reason = ReasonId::kWaitingForVictims,
              .want = std::ssize(plan.victims),
              .subject = fmt::format("{} pods were warned that they will be evicted for it at {}.",
                                     plan.victims.size(), kube::FormatTime(last))});
  return true;
}

/// Whether the workload, whose own victims have had their time, would only have to wait now for
/// pods that were told of their eviction for other plans. These may still be spared: two plans
/// could count on each other's victims in turn, and evict nobody ever. So such plans end, and are
/// judged again after the workload; pods that were told keep the time that they were told.
bool Engine::CountsOnWarned(const Workload& workload, TimePoint now) {
  const View view = Now(now);
  const Ending& ending = ending_.Of(view);
  View after = view;
  after.ended = &ending.ended;
  const int min = std::max(1, workload.Missing());
  const StartDecision start = DecideStart(after, workload, Placeable(workload), min, nullptr);
  if (!start.reserve) return false;
  std::set<std::string> plans;
  for (const PodInfo* pod : AwaitedOf(view, workload, start.reserve->placed, ending.pods, {})) {
    const bool told = !pod->terminating() && states_.At(*pod).evict_at != 0 &&
                      StageOf(view, *pod) == Evicting::kWarned;
    if (told) plans.insert(states_.At(*pod).victim_of);
  }
  for (const std::string& key : plans) {
    Dissolve(*store_.FindWorkload(key), plan_ends::kComesAfter, /*hold=*/false, now);
  }
  return !plans.empty();
}

/// Room was given back: notes the plans whose victims still have time, which it may be enough for.
void Engine::LookForRoom() {
  for (const Workload* workload : awaiting_) {
    const bool waits = states_.At(*workload).plan->evictions.stage == Evicting::kWarned;
    if (waits) looks_for_room_.insert(workload->key);
  }
}

/// Ends the plans among these that find enough room, as many as half of the budget of a pass
/// permits. They are judged again then, in their order.
void Engine::FindRoomForWarned(TimePoint now) {
  while (!looks_for_room_.empty() && spent_ <= options_.pass_budget / 2) {
    const std::string key = std::move(looks_for_room_.extract(looks_for_room_.begin()).value());
    const Workload* workload = store_.FindWorkload(key);
    if (workload == nullptr || !states_[*workload].plan) continue;
    const Plan& plan = *states_[*workload].plan;
    if (plan.evictions.stage != Evicting::kWarned || plan.assignments.empty()) continue;
    std::vector<const PodInfo*> pods;
    for (const Assignment& place : plan.assignments) pods.push_back(place.pod);
    if (!HasRoom(Now(now), *pods.front())) continue;
    const Ended own(store_, pods);  // its places are where the victims are
    View without = Now(now);
    without.ended = &own;
    const int min = std::min(std::max(1, workload->Missing()), static_cast<int>(pods.size()));
    if (DecideStart(without, *workload, pods, min, nullptr).reserve) {
      Dissolve(*workload, plan_ends::kNoneNeeded, /*hold=*/false, now);
    }
  }
}

}  // namespace berth::engine
