// Engine, part: the pods that an earlier process evicted, and for which work. Their marks (the
// annotation berth.dev/evicted-for) are all that is known of it: evictions.cc goes on from them.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cluster/plan_claim.h"
#include "engine/engine.h"

namespace berth::engine {

using cluster::PodInfo;
using cluster::Workload;

namespace {

/// Whether pods can have been evicted for it: it waits, or lacks members that can be placed.
bool MayBeMarkedFor(const Workload& workload) {
  return !workload.started || (workload.Missing() > 0 && !workload.Unplaced().empty());
}

bool IsMarkedSurplus(const PodInfo& pod) {
  const auto mark = cluster::EvictionMarkOf(pod.object);
  return mark && mark->surplus;
}

}  // namespace

/// At the start: notes which pods the previous process evicted, and for which work. A gang that it
/// was evicting as a whole gets no places until that work is judged (TakeMarked).
void Engine::NoteMarked() {
  const auto mark_of = [](const PodInfo& pod) {
    const auto mark = cluster::EvictionMarkOf(pod.object);
    return mark ? mark->workload : std::string();
  };
  // Only marks of pods that end count, and mostly there are none.
  for (const auto& node : store_.nodes()) {
    for (const PodInfo* pod : node->pods) {
      if (!pod->terminating()) continue;
      const Workload* workload = store_.FindWorkload(mark_of(*pod));
      if (workload != nullptr && MayBeMarkedFor(*workload)) marked_[workload->key];
    }
  }
  if (marked_.empty()) return;
  for (const auto& node : store_.nodes()) {
    for (const PodInfo* pod : node->pods) {
      const auto entry = marked_.find(mark_of(*pod));
      if (entry != marked_.end()) entry->second.insert(pod->object.meta.uid);
    }
  }
  for (const auto& [key, uids] : marked_) {
    for (const Workload* gang : GangsOf(uids)) states_[*gang].evicted = gang->started;
  }
}

/// The pods that an earlier process evicted for the workload, and that still exist, with the other
/// members of gangs that were evicted whole. They are given up: if the workload does not take their
/// room now, pods that do not end yet stay.
std::vector<const PodInfo*> Engine::TakeMarked(const Workload& workload) {
  std::vector<const PodInfo*> pods;
  const auto entry = marked_.extract(workload.key);
  if (entry.empty()) return pods;
  for (const std::string& uid : entry.mapped()) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || states_.At(*pod).victim_of == kDrain) continue;
    evictor_.Spare(*pod);
    pods.push_back(pod);
  }
  for (const Workload* gang : GangsOf(entry.mapped())) {
    states_[*gang].evicted = false;
    store_.MarkChanged(*gang);
    for (const PodInfo* pod : gang->members) {
      const bool runs =
          pod->charge != cluster::Charge::kNone && pod->charge != cluster::Charge::kPlanned;
      if (runs && std::ranges::find(pods, pod) == pods.end()) pods.push_back(pod);
    }
  }
  return pods;
}

/// The gangs that are evicted whole with these pods. Pods that end are no members any more: their
/// gang is known by the plan that they ran under.
std::vector<const Workload*> Engine::GangsOf(const std::set<std::string>& uids) const {
  std::set<const Workload*, cluster::ByKey> gangs;
  std::set<std::string> plans;
  for (const std::string& uid : uids) {
    const PodInfo* pod = store_.FindPod(uid);
    if (pod == nullptr || IsMarkedSurplus(*pod)) continue;
    if (pod->workload != nullptr && pod->workload->gang) gangs.insert(pod->workload);
    const auto claim = cluster::ClaimOf(pod->object);
    if (pod->workload == nullptr && claim) plans.insert(claim->plan);
  }
  if (!plans.empty()) {
    for (const auto& [key, workload] : store_.workloads()) {
      if (workload.gang && plans.contains(workload.incarnation)) gangs.insert(&workload);
    }
  }
  return {gangs.begin(), gangs.end()};
}

}  // namespace berth::engine
