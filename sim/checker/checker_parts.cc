// Checker, part: I4 for amounts of single flavors and for work that may not be evicted, by the
// labels of pods and nodes and the claims of bound pods.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/plan_claim.h"
#include "sim/checker/checker.h"

namespace berth::sim {
namespace {

/// Empty: none.
std::string FlavorByLabels(const cluster::NodeInfo& node,
                           const config::PolicyConfiguration& policy) {
  if (!node.present) return {};
  for (const config::Flavor& flavor : policy.flavors) {
    const bool matches = std::ranges::all_of(flavor.node_selector, [&](const auto& wanted) {
      const auto& labels = node.object.meta.labels;
      return labels.contains(wanted.first) && labels.at(wanted.first) == wanted.second;
    });
    if (matches) return flavor.name;
  }
  return {};
}

bool MayNotBeEvicted(const cluster::PodInfo& pod, const config::PolicyConfiguration& policy) {
  const auto& labels = pod.object.meta.labels;
  const auto claim = cluster::ClaimOf(pod.object);
  if (pod.bound() && claim && claim->node == pod.object.node_name && claim->preemptible) {
    return !*claim->preemptible;
  }
  // Its Binding is under way, and says what held when it was posted.
  if (pod.charge == cluster::Charge::kBinding) return pod.non_preemptible;
  if (pod.exempt) return true;
  if (labels.contains("berth.dev/preemptible")) {
    return labels.at("berth.dev/preemptible") == "false";
  }
  const auto found = !labels.contains("berth.dev/class")
                         ? policy.classes.end()
                         : std::ranges::find(policy.classes, labels.at("berth.dev/class"),
                                             &config::WorkloadClass::name);
  return found != policy.classes.end() && !found->preemptible;
}

std::int64_t ChargedGpus(const cluster::Store& store, const cluster::PodInfo& pod) {
  for (const auto& [id, amount] : pod.charged) {
    if (id == store.device_ids().front()) return amount;
  }
  return 0;
}

/// Its quota, or that of its flavors together.
std::int64_t PromisedTo(const config::Queue& queue) {
  if (queue.quota.contains(kGpu)) return queue.quota.at(kGpu);
  std::int64_t sum = 0;
  for (const config::FlavorQuota& amounts : queue.quotas) sum += AmountOf(amounts.quota, kGpu);
  return sum;
}

/// What the policy lets a queue use on the nodes of one flavor; nullopt: no cap.
std::optional<std::int64_t> CapOfFlavor(const config::Queue& queue, const std::string& flavor,
                                        bool borrowing) {
  const auto amounts = std::ranges::find(queue.quotas, flavor, &config::FlavorQuota::flavor);
  if (amounts == queue.quotas.end()) return std::nullopt;
  if (const auto limit = amounts->limit.find(kGpu); limit != amounts->limit.end()) {
    return limit->second;
  }
  const auto quota = amounts->quota.find(kGpu);
  if (borrowing || quota == amounts->quota.end()) return std::nullopt;
  return quota->second;
}

/// Beside its victims, which have not ended, what is planned may be over the cap.
bool AwaitsVictims(const engine::Engine& engine, const cluster::PodInfo& pod) {
  const engine::Plan* plan = engine.PlanOf(pod);
  return pod.charge == cluster::Charge::kPlanned && plan != nullptr && !plan->victims.empty();
}

}  // namespace

/// I4 for amounts of single flavors and for non-preemptible work, by the labels of pods and nodes.
/// `fresh`: pods for which room was reserved just now.
void Checker::CheckParts(const engine::Engine& engine, const std::set<std::string>& fresh) {
  const cluster::Store& store = engine.store();
  if (store.policy().flavors.empty() || store.reading()) return;
  for (const std::string& uid : fresh) {
    const cluster::PodInfo& pod = *store.FindPod(uid);
    if (!AwaitsVictims(engine, pod)) CheckPartsOf(engine, pod);
  }
}

void Checker::CheckPartsOf(const engine::Engine& engine, const cluster::PodInfo& fresh) {
  const cluster::Store& store = engine.store();
  const config::PolicyConfiguration& policy = store.policy();
  if (fresh.charged_queue == cluster::kNoQueue || !fresh.object.spec->requests.contains(kGpu))
    return;
  const auto path_of = [&](const cluster::PodInfo& pod) {
    return PathOf(store.queue(pod.charged_queue).config.name, policy);
  };
  const std::string flavor = FlavorByLabels(store.node(fresh.node), policy);
  const bool kept = MayNotBeEvicted(fresh, policy);
  for (const std::string& name : path_of(fresh)) {
    const auto queue = std::ranges::find(policy.queues, name, &config::Queue::name);
    if (queue == policy.queues.end()) continue;
    std::int64_t of_flavor = 0;
    std::int64_t not_evictable = 0;
    std::int64_t of_both = 0;
    for (const auto& [uid, pod] : store.pods()) {
      if (pod.charge == cluster::Charge::kNone || pod.charged_queue == cluster::kNoQueue) continue;
      if (AwaitsVictims(engine, pod)) continue;
      const auto path = path_of(pod);
      if (std::ranges::find(path, name) == path.end()) continue;
      const std::int64_t gpus = ChargedGpus(store, pod);
      const bool there = FlavorByLabels(store.node(pod.node), policy) == flavor;
      const bool stays = MayNotBeEvicted(pod, policy);
      of_flavor += there ? gpus : 0;
      not_evictable += stays ? gpus : 0;
      of_both += there && stays ? gpus : 0;
    }
    const auto amounts = std::ranges::find(queue->quotas, flavor, &config::FlavorQuota::flavor);
    const std::int64_t promised =
        amounts == queue->quotas.end() ? 0 : AmountOf(amounts->quota, kGpu);
    if (kept && promised > 0 && of_both > promised) {
      Broken(fmt::format("I4: {} may not be evicted; with it queue {} has {} of {} of {} so",
                         fresh.object.meta.name, name, of_both, promised, flavor));
    }
    if (const std::int64_t quota = PromisedTo(*queue); kept && quota > 0 && not_evictable > quota) {
      Broken(fmt::format("I4: {} may not be evicted; with it queue {} has {} of {} milli-GPU so",
                         fresh.object.meta.name, name, not_evictable, quota));
    }
    const auto cap = CapOfFlavor(*queue, flavor, policy.borrowing);
    if (cap && of_flavor > *cap) {
      Broken(fmt::format("I4: with {} queue {} has {} of {} milli-GPU of flavor {}",
                         fresh.object.meta.name, name, of_flavor, *cap, flavor));
    }
  }
}

/// I4 for the jobs of a user, by the labels of pods: when a job takes its first room in a queue
/// that caps them, its user has no more jobs there than that. `held`: UIDs that held room one step
/// ago.
void Checker::CheckJobs(const engine::Engine& engine, const std::set<std::string>& fresh,
                        const std::set<std::string>& held) {
  const cluster::Store& store = engine.store();
  if (store.reading()) return;
  const auto job_of = [](const cluster::PodInfo& pod) {
    const std::string gang = GangOf(pod.object);
    return gang.empty() ? pod.object.meta.uid : gang;
  };
  const auto user_of = [](const cluster::PodInfo& pod) {
    if (pod.workload != nullptr && pod.workload->gang) return pod.workload->user;  // of all members
    const auto label = pod.object.meta.labels.find("berth.dev/user");
    return label == pod.object.meta.labels.end() ? pod.object.meta.ns : label->second;
  };
  for (const std::string& uid : fresh) {
    const cluster::PodInfo& pod = *store.FindPod(uid);
    if (pod.charged_queue == cluster::kNoQueue || !pod.object.spec->requests.contains(kGpu)) {
      continue;
    }
    const int most = store.queue(pod.charged_queue).config.max_jobs_per_user;
    const engine::Plan* plan = engine.PlanOf(pod);
    // Beside its victims, which have not ended, it may be one too many.
    if (most == 0 || (plan != nullptr && !plan->victims.empty())) continue;
    std::set<std::string> jobs;
    bool goes_on = false;
    for (const auto& [other_uid, other] : store.pods()) {
      if (other.charge == cluster::Charge::kNone || other.charged_queue != pod.charged_queue ||
          !other.object.spec->requests.contains(kGpu) || user_of(other) != user_of(pod)) {
        continue;
      }
      const engine::Plan* its = engine.PlanOf(other);
      if (other.charge == cluster::Charge::kPlanned && its != nullptr && !its->victims.empty()) {
        continue;  // it takes the place of its victims, which are counted
      }
      jobs.insert(job_of(other));
      goes_on |= held.contains(other_uid) && job_of(other) == job_of(pod);
    }
    if (!goes_on && std::ssize(jobs) > most) {
      Broken(fmt::format("I4: with {} user {} has {} of {} jobs in queue {}", pod.object.meta.name,
                         user_of(pod), jobs.size(), most,
                         store.queue(pod.charged_queue).config.name));
    }
  }
}

}  // namespace berth::sim
