// Checker, part: I3, whole gangs. An incarnation of a gang begins with the first member that is
// bound while no other one runs, and ends when no member runs any more.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cluster/plan_claim.h"
#include "sim/checker/checker.h"

namespace berth::sim {
namespace {

std::string PlanOf(const kube::Pod& pod) {
  const auto claim = cluster::ClaimOf(pod);
  return claim ? claim->plan : std::string();
}

}  // namespace

void Checker::OnBindCall(const cluster::Store& store, const std::string& uid) {
  // Also finds pods that are gone: Berth may not know it yet.
  const auto gang = gang_of_.find(uid);
  if (gang == gang_of_.end()) return;
  incarnations_[gang->second].came.insert(uid);
  const cluster::PodInfo* pod = store.FindPod(uid);
  if (pod == nullptr || pod->workload == nullptr || pod->charge == cluster::Charge::kBinding)
    return;
  const bool others = std::ranges::any_of(pod->workload->members, [&](const auto* mate) {
    return mate != pod && mate->shape->asks_device &&
           (mate->bound() || mate->charge == cluster::Charge::kBinding);
  });
  if (others) {
    joined_.insert(uid);
  } else {
    joined_.erase(uid);
  }
}

void Checker::WatchGang(const Change& change) {
  const kube::Pod& pod = *change.pod;
  const bool left = change.deleted || pod.meta.deletion || pod.phase == kube::PodPhase::kSucceeded;
  if (left) {  // an eviction for the workload as it was need not have an effect any more
    in_vain_.erase(WorkloadKey(pod));
    left_[WorkloadKey(pod)] = env_.now();
  }
  const std::string gang = GangOf(pod);
  if (!gang.empty()) gang_of_.emplace(change.key, gang);
  WatchWarning(pod);
  if (gang.empty()) return;
  const bool succeeded = pod.phase == kube::PodPhase::kSucceeded;
  if (left && !succeeded && !cluster::EvictionMarkOf(pod)) lost_[GangKey(pod)] = env_.now();
  if (!change.pod->spec->requests.contains(kGpu)) launchers_[gang][change.key] = env_.now();
  if (change.pod->phase == kube::PodPhase::kSucceeded) {
    succeeded_[gang][change.key] = {PlanOf(*change.pod), env_.now()};
  }
  const auto known = incarnations_.find(gang);
  const bool runs = Runs(gang, "");
  if (known != incarnations_.end() && known->second.runs && !runs) {
    // A Binding of these may be under way.
    joined_.insert(known->second.came.begin(), known->second.came.end());
    incarnations_.erase(known);
  }
  if (runs) incarnations_[gang].runs = true;
}

/// Another member than `but`, with devices, is bound and has neither ended nor been deleted.
bool Checker::Runs(const std::string& gang, const std::string& but) const {
  return std::ranges::any_of(usage_.MembersOf(gang), [&](const auto& member) {
    const kube::Pod& pod = *member.second;
    return Lives(pod) && !pod.meta.deletion && !pod.node_name.empty() &&
           pod.spec->requests.contains(kGpu) && pod.meta.uid != but;
  });
}

/// I3: no member of a gang is bound, or bind calls for at least its minimum have arrived since none
/// was.
void Checker::CheckBarrier(const kube::Pod& bound) {
  const std::string gang = GangOf(bound);
  if (gang.empty() || !bound.spec->requests.contains(kGpu)) return;
  if (Runs(gang, bound.meta.uid)) return CheckDomain(bound);
  if (joined_.contains(bound.meta.uid)) return;  // the members that it joined have just ended
  ++gangs_;
  incarnations_[gang].checked = true;
  incarnations_[gang].plan = PlanOf(bound);
  CheckStart(gang, bound.meta.name);
}

/// I3: a process that begins to decide must consider a gang as started if a member runs. Otherwise
/// it would hold back the replacements of lost members until a whole minimum is there.
void Checker::CheckStarted(const cluster::Store& store) {
  for (const auto& [key, workload] : store.workloads()) {
    if (!workload.gang || workload.in_tree || workload.started) continue;
    for (const cluster::PodInfo* member : workload.members) {
      const kube::Pod& pod = member->object;
      if (!Lives(pod) || pod.node_name.empty() || !pod.spec->requests.contains(kGpu)) continue;
      Broken(fmt::format("I3: {} runs, and {} has to start again", pod.meta.name, key));
    }
  }
}

/// Members without devices make no bind calls: they count because they exist.
void Checker::CheckStart(const std::string& gang, const std::string& who) {
  int min = std::numeric_limits<int>::max();
  for (const auto& [uid, pod] : usage_.MembersOf(gang)) {
    if (Lives(*pod)) min = std::min(min, MinimumOf(*pod));
  }
  // Members that are gone count for as long as Berth may not know it.
  const auto others =
      static_cast<int>(std::ranges::count_if(launchers_[gang], [this](const auto& launcher) {
        return env_.api.FindPod(launcher.first) != nullptr ||
               env_.now() < launcher.second + kOutdatedFor;
      }));
  Incarnation& incarnation = incarnations_[gang];
  const auto finished =
      static_cast<int>(std::ranges::count_if(succeeded_[gang], [&](const auto& member) {
        const auto& [plan, changed] = member.second;
        return !plan.empty() && plan == incarnation.plan &&
               (env_.api.FindPod(member.first) != nullptr || env_.now() < changed + kOutdatedFor);
      }));
  incarnation.needed = std::max(1, min - others - finished);
  const auto came = static_cast<int>(incarnation.came.size());
  if (came < incarnation.needed) {
    Broken(fmt::format("I3: {} is bound when only {} of {} members had come to bind", who, came,
                       incarnation.needed));
  }
}

/// I3: a pod that joins a running gang must be in the gang's required domain.
void Checker::CheckDomain(const kube::Pod& bound) {
  const auto level = bound.meta.annotations.find("berth.dev/topology-required");
  if (level == bound.meta.annotations.end()) return;
  std::string label = level->second;
  for (const config::TopologyLevel& known : env_.api.policy().levels) {
    if (known.name == level->second) label = known.node_label;
  }
  const auto domain = [&](const kube::Pod& pod) -> std::string {
    const auto node = env_.api.nodes().find(pod.node_name);
    if (node == env_.api.nodes().end()) return {};
    const auto value = node->second->meta.labels.find(label);
    return value == node->second->meta.labels.end() ? std::string() : value->second;
  };
  const std::string own = domain(bound);
  for (const auto& [uid, pod] : usage_.MembersOf(GangOf(bound))) {
    const bool runs = Lives(*pod) && !pod->meta.deletion && !pod->node_name.empty() &&
                      pod->spec->requests.contains(kGpu) && !anywhere_.contains(uid);
    const std::string other = runs ? domain(*pod) : std::string();
    if (other.empty() || own.empty() || other == own) continue;
    Broken(fmt::format("I3: {} is bound in {} {}, {} in {}", bound.meta.name, level->second, own,
                       pod->meta.name, other));
  }
}

}  // namespace berth::sim
