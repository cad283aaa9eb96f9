// Engine, part: pods are told of their eviction some time before it (eviction.warning), so that
// they can write a checkpoint. Meanwhile the plan holds their room and nobody is evicted. The plan
// ends as soon as there is enough free room, or when the time is over; then all is judged again, in
// its order, and who was warned goes before who was not.
#include <fmt/format.h>

#include <algorithm>
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

/// Whether victims of the plan have to be told first, or have some time left. Then nobody is
/// evicted yet.
bool Engine::Warns(const Workload& workload, TimePoint now) {
  const TimePoint warning = store_.policy().eviction.warning.count();
  if (warning == 0) return false;
  Plan& plan = *states_[workload].plan;
  TimePoint last = now;
  for (const std::string& uid : plan.victims) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating() || states_[*pod].victim_of != workload.key) continue;
    if (states_[*pod].evict_at == 0) {
      states_[*pod].evict_at = now + warning;
      Announce(*pod, workload);
    }
    last = std::max(last, states_[*pod].evict_at);
  }
  if (last == now) return false;
  plan.evicting = Evicting::kWarned;
  plan.expires = last;
  timers_.emplace(last, workload.key);
  SetVerdict(workload,
             {.reason = ReasonId::kWaitingForVictims,
              .want = std::ssize(plan.victims),
              .subject = fmt::format("{} pods were told that they are to be evicted for it at {}.",
                                     plan.victims.size(), kube::FormatTime(last))});
  return true;
}

void Engine::Announce(const PodInfo& victim, const Workload& workload) {
  const auto& meta = victim.object.meta;
  const std::string time = kube::FormatTime(states_[victim].evict_at);
  warned_.insert(meta.uid);
  actions_.push_back(WarnVictim{.pod = {meta.ns, meta.name, meta.uid}, .time = time});
  actions_.push_back(
      EmitEvent{.pod = {meta.ns, meta.name, meta.uid},
                .warning = true,
                .reason = "EvictionWarning",
                .note = fmt::format("To be evicted at {}: {}", time, ReasonFor(victim, workload))});
}

/// Tells the pods that are not to be evicted any more. Call when nothing is left to be judged.
void Engine::WithdrawWarnings() {
  std::erase_if(warned_, [this](const std::string& uid) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || pod->terminating()) return true;
    if (!states_[*pod].victim_of.empty()) return false;
    states_[*pod].evict_at = 0;
    const auto& meta = pod->object.meta;
    actions_.push_back(WarnVictim{.pod = {meta.ns, meta.name, meta.uid}});
    actions_.push_back(EmitEvent{.pod = {meta.ns, meta.name, meta.uid},
                                 .reason = "EvictionWithdrawn",
                                 .note = "It is not to be evicted any more."});
    return true;
  });
}

/// For a new process: who was told by the last one. A time that is later than a warning given now
/// is not believed; what cannot be read is no warning.
void Engine::NoteWarned(TimePoint now) {
  for (const auto& node : store_.nodes()) {
    for (const PodInfo* pod : node->pods) {
      const auto& notes = pod->object.meta.annotations;
      const auto note = notes.find(cluster::kEvictionTimeAnnotation);
      if (note == notes.end() || !pod->bound()) continue;
      warned_.insert(pod->object.meta.uid);
      const TimePoint at = kube::ParseTime(note->second).value_or(0);
      states_[*pod].evict_at = std::min(at, now + store_.policy().eviction.warning.count());
    }
  }
}

/// Room was given back: plans whose victims still have time end where that is enough for them. They
/// are judged again then, in their order. Looks at as many as the budget of a pass permits.
void Engine::FindRoomForWarned(TimePoint now) {
  for (const Workload* workload :
       std::vector<const Workload*>(awaiting_.begin(), awaiting_.end())) {
    const Plan& plan = *states_[*workload].plan;
    if (plan.evicting != Evicting::kWarned) continue;
    if (spent_ > options_.pass_budget) return;
    std::vector<const PodInfo*> pods;
    for (const Assignment& place : plan.assignments) pods.push_back(place.pod);
    if (!HasRoom(Now(now), *pods.front())) continue;
    View without = Now(now);
    without.ended = &pods;  // its places are where the victims are
    const int min = std::max(1, workload->Missing());
    if (DecideStart(without, *workload, pods, min, nullptr).reserve) {
      Dissolve(*workload, "it needs no evictions any more", /*hold=*/false, now);
    }
  }
}

}  // namespace berth::engine
