// Engine, part: pods are told of their eviction some time before it (eviction.warning), so that
// they can write a checkpoint. Meanwhile the plan holds their room and nobody is evicted. The plan
// ends as soon as there is enough free room, or when the time is over; then all is judged again, in
// its order, and who was warned goes before who was not.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cluster/plan_claim.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "kube/time.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Workload;

/// When the gangs that end whole were told that they are to be evicted, the last time. A member
/// that came later has no more time than the others.
std::map<const Workload*, TimePoint> Engine::ToldOf(const Plan& plan) const {
  std::map<const Workload*, TimePoint> told;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->workload == nullptr || plan.surplus.contains(uid)) continue;
    TimePoint& last = told[pod->workload];
    last = std::max(last, states_.At(*pod).evict_at);
  }
  return told;
}

/// Whether victims of the plan have to be told first, or have some time left. Then nobody is
/// evicted yet. What was told holds whatever the policy has become.
bool Engine::Warns(const Workload& workload, TimePoint now) {
  const TimePoint warning = store_.policy().eviction.warning.count();
  Plan& plan = *states_[workload].plan;
  const std::map<const Workload*, TimePoint> told = ToldOf(plan);
  TimePoint last = now;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating() || states_[*pod].victim_of != workload.key) continue;
    TimePoint& at = states_[*pod].evict_at;
    if (at == 0 && warning > 0) {
      const auto others = told.find(pod->workload);
      at = others != told.end() && others->second != 0 ? others->second : now + warning;
      evictor_.Announce(*pod, ReasonFor(*pod, workload));
    }
    last = std::max(last, at);
  }
  if (last == now) return false;
  plan.evictions.stage = Evicting::kWarned;
  plan.expires = last;
  timers_.At(last, workload.key);
  SetVerdict(workload,
             {.reason = ReasonId::kWaitingForVictims,
              .want = std::ssize(plan.victims),
              .subject = fmt::format("{} pods were told that they are to be evicted for it at {}.",
                                     plan.victims.size(), kube::FormatTime(last))});
  return true;
}

/// Room was given back: notes the plans whose victims still have time, which it may be enough for.
void Engine::LookForRoom() {
  for (const Workload* workload : awaiting_) {
    const bool waits = states_.At(*workload).plan->evictions.stage == Evicting::kWarned;
    if (waits) looks_for_room_.insert(workload->key);
  }
}

/// Ends those of these plans that find enough room, as many as half of the budget of a pass
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
