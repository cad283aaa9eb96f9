// Checker, part: I3, whole gangs. An incarnation of a gang begins with the first member that is
// bound while no other one runs, and is over when none does any more.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cluster/plan_claim.h"
#include "sim/world/checker.h"

namespace berth::sim {
namespace {

std::string PlanOf(const kube::Pod& pod) {
  const auto claim = cluster::ClaimOf(pod);
  return claim ? claim->plan : std::string();
}

}  // namespace

void Checker::OnBindCall(const cluster::Store& store, const std::string& uid) {
  // Of a pod that is gone too: Berth may not know yet.
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
  const std::string gang = GangOf(*change.pod);
  if (gang.empty()) return;
  gang_of_.emplace(change.key, gang);
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

/// A member with devices is bound, and neither has ended nor is about to.
bool Checker::Runs(const std::string& gang, const std::string& but) const {
  return std::ranges::any_of(usage_.MembersOf(gang), [&](const auto& member) {
    const kube::Pod& pod = *member.second;
    return Lives(pod) && !pod.meta.deletion && !pod.node_name.empty() &&
           pod.spec->requests.contains(kGpu) && pod.meta.uid != but;
  });
}

/// I3: none of a gang is bound, or at least its minimum has come to bind since nobody of it was.
void Checker::CheckBarrier(const kube::Pod& bound) {
  const std::string gang = GangOf(bound);
  if (gang.empty() || !bound.spec->requests.contains(kGpu)) return;
  if (Runs(gang, bound.meta.uid)) return CheckDomain(bound);
  if (joined_.contains(bound.meta.uid)) return;  // those that it joined had just ended
  ++gangs_;
  incarnations_[gang].checked = true;
  incarnations_[gang].plan = PlanOf(bound);
  CheckStart(gang, bound.meta.name);
}

/// I3: who begins to decide takes a gang of which a member runs for started, or it would hold back,
/// for a whole minimum, those who are to replace lost members.
void Checker::CheckStarted(const cluster::Store& store) {
  for (const auto& [key, workload] : store.workloads()) {
    if (!workload->gang || workload->in_tree || workload->started) continue;
    for (const cluster::PodInfo* member : workload->members) {
      const kube::Pod& pod = member->object;
      if (!Lives(pod) || pod.node_name.empty() || !pod.spec->requests.contains(kGpu)) continue;
      Broken(fmt::format("I3: {} runs, and {} is to start anew", pod.meta.name, key));
    }
  }
}

/// Members without devices never come: they count by existing.
void Checker::CheckStart(const std::string& gang, const std::string& who) {
  int min = std::numeric_limits<int>::max();
  for (const auto& [uid, pod] : usage_.MembersOf(gang)) {
    if (Lives(*pod)) min = std::min(min, MinimumOf(*pod));
  }
  // Those that are gone count as long as Berth may not know.
  const auto others =
      static_cast<int>(std::ranges::count_if(launchers_[gang], [this](const auto& launcher) {
        return env_.api.FindPod(launcher.first) != nullptr ||
               env_.now() < launcher.second + kOldNews;
      }));
  Incarnation& incarnation = incarnations_[gang];
  const auto finished =
      static_cast<int>(std::ranges::count_if(succeeded_[gang], [&](const auto& member) {
        const auto& [plan, changed] = member.second;
        return !plan.empty() && plan == incarnation.plan &&
               (env_.api.FindPod(member.first) != nullptr || env_.now() < changed + kOldNews);
      }));
  incarnation.needed = std::max(1, min - others - finished);
  const auto came = static_cast<int>(incarnation.came.size());
  if (came < incarnation.needed) {
    Broken(fmt::format("I3: {} is bound when only {} of {} members had come to bind", who, came,
                       incarnation.needed));
  }
}

/// I3: who joins a running gang shares its required domain.
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
