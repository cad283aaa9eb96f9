// Checker, part: I9, what kube-scheduler evicts and what Berth permits.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "cluster/plan_claim.h"
#include "engine/min_run_time.h"
#include "kube/selector.h"
#include "sim/checker/checker.h"

namespace berth::sim {
namespace {

/// Whether one Job, or Jobs of one JobSet, control both pods, which are of one namespace.
bool SameOwner(const kube::Pod& a, const kube::Pod& b) {
  const auto owner = [](const kube::Pod& pod) {
    const auto set = pod.meta.labels.find(std::string(kube::kJobSetLabel));
    if (set != pod.meta.labels.end()) return "set " + set->second;
    return pod.controller ? pod.controller->uid : std::string();
  };
  return !owner(a).empty() && owner(a) == owner(b);
}

/// Counts pods whose eviction some budget forbids after the pods before them.
std::int64_t Violations(const cluster::Store& store, const std::vector<std::string>& uids) {
  std::map<std::string, std::int64_t> gone;
  return std::ranges::count_if(uids, [&](const std::string& uid) {
    const cluster::PodInfo* pod = store.FindPod(uid);
    bool broken = false;
    for (const auto& [key, budget] : store.disruption_budgets()) {
      if (pod == nullptr || budget.meta.ns != pod->object.meta.ns ||
          !kube::Matches(budget.selector, pod->object.meta.labels)) {
        continue;
      }
      broken |= ++gone[key] > budget.disruptions_allowed;
    }
    return broken;
  });
}

Duration RunTimeIn(const config::PolicyConfiguration& policy, const config::Queue& queue,
                   const kube::Pod& pod) {
  return engine::MinRunTimeIn(policy, queue, LabelOf(pod, "berth.dev/class")).count();
}

/// The least minRunTime that the pod had in the queue under these policies.
Duration LeastRunTime(const auto& policies, const std::string& name, const kube::Pod& pod) {
  Duration least = policies.empty() ? 0 : std::numeric_limits<Duration>::max();
  for (const auto& policy : policies) {
    const auto& queues = policy->queues;
    const auto queue = std::ranges::find(queues, name, &config::Queue::name);
    least = std::min(least, queue == queues.end() ? 0 : RunTimeIn(*policy, *queue, pod));
  }
  return least;
}

/// Without faults Berth knows of every Binding after this time.
constexpr Duration kFresh = 2'000;

/// How long the pod has been bound; 0: the API server does not say.
Duration RanFor(const kube::Pod& pod, TimePoint now) {
  const bool known = pod.pod_scheduled && pod.pod_scheduled->since != 0;
  return known ? now - pod.pod_scheduled->since : 0;
}

/// The single pod has not run for the minRunTime of its queue, or of its class.
bool IsYoung(const cluster::Store& store, const cluster::PodInfo& pod, TimePoint now) {
  return pod.charged_queue != cluster::kNoQueue &&
         RanFor(pod.object, now) <
             RunTimeIn(store.policy(), store.queue(pod.charged_queue).config, pod.object);
}

}  // namespace

std::string WorkloadKey(const kube::Pod& pod) {
  const bool gang = !LabelOf(pod, "berth.dev/gang").empty();
  return gang ? GangKey(pod) : pod.meta.ns + "/pod/" + pod.meta.name;
}

std::string GangKey(const kube::Pod& pod) {
  return pod.meta.ns + "/gang/" + LabelOf(pod, "berth.dev/gang");
}

/// I9: Berth evicts for work that waits: for members that all have a higher priority in the
/// victim's queue, or, with borrowing, from another queue (CheckClaim).
void Checker::OnEviction(const kube::Pod& victim) {
  ++evicted_;
  const auto mark = cluster::EvictionMarkOf(victim);
  const bool just_bound = faults_ > 0 || RanFor(victim, env_.now()) < kFresh;
  if (!mark && just_bound && GoesWithItsJob(victim)) return;
  if (!mark) {
    return Broken(fmt::format("I9: {} is evicted for nobody", victim.meta.name));
  }
  if (mark->workload.starts_with("drain/")) {
    CheckDrained(victim);
    CheckWarning(victim);
    return NotePartlyEvicted(victim);
  }
  if (LabelOf(victim, "berth.dev/preemptible") == "false") {
    Broken(fmt::format("I9: {} may not be evicted", victim.meta.name));
  }
  CheckRunTime(victim);
  CheckWarning(victim);
  const auto claim = cluster::ClaimOf(victim);
  if (claim && claim->node == victim.node_name && claim->preemptible == false) {
    Broken(fmt::format("I9: {} was bound as a pod that may not be evicted", victim.meta.name));
  }
  int waiting = 0;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (WorkloadKey(*pod) != mark->workload || !pod->node_name.empty() || pod->meta.deletion)
      continue;
    if (const auto* missing = env_.api.MissingOf(*pod); missing != nullptr && faults_ == 0) {
      Broken(fmt::format("I9: {} is evicted for {}, whose claim {} does not exist",
                         victim.meta.name, key, missing->name));
    }
    if (++waiting == 1 && Runs(GangOf(*pod), "")) ++for_running_;
    const auto [room, first] = in_vain_.try_emplace(mark->workload);
    if (first) {
      room->second = {.victim = victim.meta.name,
                      .nodes = {},
                      .queue = QueueByPolicy(*pod, env_.api.policy()),
                      .priority = pod->priority};
    }
    room->second.nodes.insert(victim.node_name);
    const std::string queue = LabelOf(*pod, "berth.dev/queue");
    const bool may_borrow = env_.api.policy().borrowing || policies_.size() > 1;
    const bool other = queue.empty() || !claim || claim->queue != queue;
    if (may_borrow && other) continue;
    if (pod->priority <= victim.priority) {
      Broken(fmt::format("I9: {} is evicted for {}, of no higher priority", victim.meta.name, key));
    }
    // After an edit of the policy, bound pods may be charged to another queue than they claim.
    if (!queue.empty() && claim && claim->queue != queue && policies_.size() <= 1) {
      Broken(fmt::format("I9: {} is evicted from queue {} for {} of queue {}", victim.meta.name,
                         claim->queue, key, queue));
    }
  }
  // Its members may have been deleted since it was decided.
  const auto left = left_.find(mark->workload);
  const bool just_left = left != left_.end() && left->second + kOutdatedFor > env_.now();
  if (waiting == 0 && !just_left && faults_ == 0) {
    Broken(fmt::format("I9: {} is evicted for {}, which does not wait", victim.meta.name,
                       mark->workload));
  }
  if (mark->surplus) return CheckSurplus(victim);
  NotePartlyEvicted(victim);
}

/// A pod of the same gang and Job, or JobSet, is evicted whole. This one may have been bound since
/// that was decided: kube-scheduler binds members without devices itself.
bool Checker::GoesWithItsJob(const kube::Pod& victim) const {
  return std::ranges::any_of(env_.api.pods(), [&](const auto& entry) {
    const kube::Pod& mate = *entry.second;
    const auto mark = cluster::EvictionMarkOf(mate);
    return mark && !mark->surplus && SameOwner(mate, victim) &&
           WorkloadKey(mate) == WorkloadKey(victim);
  });
}

/// I9: some policy of late drains the queue that the victim runs in, or one above.
void Checker::CheckDrained(const kube::Pod& victim) {
  const auto claim = cluster::ClaimOf(victim);
  const auto drains = [&](const config::PolicyConfiguration& policy) {
    const auto ends = [](const config::Queue& queue) {
      return queue.hold == config::Hold::kHoldAndDrain;
    };
    // Without a claim, and after an edit, the queue may be another one than it says.
    if (!claim || policies_.size() > 1) return std::ranges::any_of(policy.queues, ends);
    const std::vector<std::string> path = PathOf(claim->queue, policy);
    return std::ranges::any_of(policy.queues, [&](const config::Queue& queue) {
      return ends(queue) && std::ranges::find(path, queue.name) != path.end();
    });
  };
  if (std::ranges::any_of(policies_, [&](const auto& policy) { return drains(*policy); })) return;
  Broken(fmt::format("I9: {} is evicted from a queue that is not drained", victim.meta.name));
}

/// If one member of a gang is evicted, all the others must end as well: see CheckPartlyEvicted.
void Checker::NotePartlyEvicted(const kube::Pod& victim) {
  if (LabelOf(victim, "berth.dev/gang").empty()) return;
  const auto [part, first] =
      partly_evicted_.try_emplace(GangKey(victim), PartlyEvicted{.since = env_.now()});
  if (first) {
    for (const auto& [key, pod] : env_.api.pods()) {
      const bool runs = !pod->node_name.empty() && !pod->meta.deletion && Lives(*pod);
      if (runs && GangKey(*pod) == GangKey(victim)) part->second.left.insert(pod->meta.uid);
    }
  }
  part->second.left.erase(victim.meta.uid);
  if (part->second.left.empty()) partly_evicted_.erase(part);
}

/// I9, where nothing went wrong: a gang that loses surplus keeps its minimum. Not for a gang of
/// which some have just left.
void Checker::CheckSurplus(const kube::Pod& victim) {
  ++surplus_;
  const std::string gang = GangKey(victim);
  const auto lost = lost_.find(gang);
  if (faults_ > 0 || (lost != lost_.end() && lost->second + kOutdatedFor > env_.now())) return;
  const auto said = victim.meta.annotations.find("berth.dev/gang-min-member");
  if (said == victim.meta.annotations.end()) return;
  int min = 0;
  const char* end = said->second.data() + said->second.size();
  if (std::from_chars(said->second.data(), end, min).ptr != end) return;
  int stay = 0;
  for (const auto& [key, pod] : env_.api.pods()) {
    if (GangKey(*pod) != gang || pod->meta.uid == victim.meta.uid) continue;
    stay += !pod->node_name.empty() && !pod->meta.deletion && Lives(*pod) ? 1 : 0;
  }
  const auto claim = cluster::ClaimOf(victim);
  for (const auto& [uid, succeeded] : succeeded_[GangOf(victim)]) {
    stay += claim && succeeded.first == claim->plan ? 1 : 0;
  }
  if (stay >= min) return;
  Broken(
      fmt::format("I9: {} leaves {} of the {} that its gang needs", victim.meta.name, stay, min));
}

/// I9: the job of the victim has run for the minRunTime of its queue and class, unless clocks are
/// fast or slow. Not for a gang of which some may be gone since it was decided.
void Checker::CheckRunTime(const kube::Pod& victim) {
  if (env_.clocks_drift) return;
  const auto claim = cluster::ClaimOf(victim);
  const bool gang = !LabelOf(victim, "berth.dev/gang").empty();
  if (!claim || (gang && (faults_ > 0 || partly_evicted_.contains(GangKey(victim))))) return;
  Duration ran = RanFor(victim, env_.now());
  for (const auto& [key, pod] : env_.api.pods()) {
    const bool mate = gang && !pod->node_name.empty() && GangKey(*pod) == GangKey(victim);
    if (mate) ran = std::max(ran, RanFor(*pod, env_.now()));
  }
  if (ran >= LeastRunTime(policies_, claim->queue, victim)) return;
  Broken(fmt::format("I9: {} is evicted after {} ms of running", victim.meta.name, ran));
}

/// I9, where nothing went wrong: no gang lost only some of its members.
void Checker::CheckPartlyEvicted() {
  if (faults_ > 0) return;
  for (const auto& [gang, part] : partly_evicted_) {
    if (env_.now() < part.since + 20'000) continue;
    const bool runs = std::ranges::any_of(part.left, [&](const std::string& uid) {
      const kube::Pod* pod = env_.api.FindPod(uid);
      return pod != nullptr && !pod->meta.deletion && Lives(*pod);
    });
    if (runs) Broken(fmt::format("I9: {} was evicted in part", gang));
  }
}

/// The pod uses the room that was made for its workload, or room that was made for work of lower
/// priority in its queue.
void Checker::NoteUse(const kube::Pod& bound) {
  in_vain_.erase(WorkloadKey(bound));
  const std::string queue = QueueByPolicy(bound, env_.api.policy());
  std::erase_if(in_vain_, [&](const auto& entry) {
    const Room& room = entry.second;
    return room.queue == queue && room.priority < bound.priority &&
           room.nodes.contains(bound.node_name);
  });
}

/// I9, where nothing went wrong: the workload for which pods were evicted has started.
void Checker::CheckBeneficiaries() {
  if (faults_ > 0) return;
  for (const auto& [key, room] : in_vain_) {
    Broken(fmt::format("I9: {} was evicted for {}, which did not start", room.victim, key));
  }
}

/// I9: every victim has a lower priority.
void Checker::OnPreemption(const kube::Pod& preemptor, const std::string& node,
                           const std::vector<const kube::Pod*>& victims) {
  for (const kube::Pod* victim : victims) {
    if (victim->priority < preemptor.priority) continue;
    Broken(fmt::format("I9: {} evicts {} of no lower priority from {}", preemptor.meta.name,
                       victim->meta.name, node));
  }
}

/// I9: no gang loses only some of its members, single pods have run for their time, and no budget
/// is violated, as far as Berth can know.
void Checker::OnPreemptAnswer(const engine::Engine& engine, const std::string& uid,
                              const engine::VictimMap& kept) {
  const cluster::Store& store = engine.store();
  const cluster::PodInfo* preemptor = store.FindPod(uid);
  if (preemptor == nullptr || preemptor->workload == nullptr ||
      store.policy().mode == config::Mode::kPassthrough) {
    return;  // Berth does not decide this
  }
  evictions_ +=
      std::ranges::any_of(kept, [](const auto& entry) { return !entry.second.uids.empty(); });
  for (const auto& [node, set] : kept) {
    const std::set<std::string> goes(set.uids.begin(), set.uids.end());
    for (const std::string& victim_uid : goes) {
      const cluster::PodInfo* victim = store.FindPod(victim_uid);
      if (victim == nullptr || victim->workload == nullptr) continue;
      if (!victim->workload->gang) {
        if (env_.clocks_drift || !IsYoung(store, *victim, env_.now())) continue;
        Broken(fmt::format("I9: {} may evict {} before it has run for its time",
                           preemptor->object.meta.name, victim->object.meta.name));
        continue;
      }
      for (const cluster::PodInfo* mate : victim->workload->members) {
        if (!mate->bound() || goes.contains(mate->object.meta.uid)) continue;
        Broken(fmt::format("I9: {} may evict {} and leave {} of its gang",
                           preemptor->object.meta.name, victim->object.meta.name,
                           mate->object.meta.name));
      }
    }
  }
  for (const auto& [node, set] : kept) CheckBudgets(store, *preemptor, node, set);
}

void Checker::CheckBudgets(const cluster::Store& store, const cluster::PodInfo& preemptor,
                           const std::string& node, const engine::VictimSet& set) {
  const std::int64_t broken = Violations(store, set.uids);
  if (broken != set.pdb_violations) {
    Broken(fmt::format("I9: {} breaks {} budgets on {} and says {}", preemptor.object.meta.name,
                       broken, node, set.pdb_violations));
  }
  if (broken > 0 && store.policy().eviction.by == config::EvictBy::kEviction) {
    Broken(fmt::format("I9: {} breaks {} budgets on {}", preemptor.object.meta.name, broken, node));
  }
}

}  // namespace berth::sim
