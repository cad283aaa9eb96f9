// Checker, part: I9 between queues, by plain counting of one resource.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "policy/claims.h"
#include "policy/queue_demand.h"
#include "sim/checker/checker.h"

namespace berth::sim {
namespace {

using cluster::PodInfo;
using cluster::QueueId;

bool HasQueuesBelow(const cluster::Store& store, QueueId queue) {
  return std::ranges::any_of(store.queues(), [&](QueueId other) {
    const auto& path = store.queue(other).path;
    return path.size() > 1 && path[1] == queue;
  });
}

std::vector<QueueId> Without(const std::vector<QueueId>& path, const std::vector<QueueId>& other) {
  std::vector<QueueId> rest;
  std::ranges::copy_if(path, std::back_inserter(rest), [&](QueueId queue) {
    return std::ranges::find(other, queue) == other.end();
  });
  return rest;
}

/// Whether the plan, just made, exchanges work of one queue only.
bool ExchangesOwn(const engine::Plan* plan) {
  return plan != nullptr && plan->evictions.stage == engine::Evicting::kDryRun &&
         plan->reclaimed.empty();
}

/// Whether a plan was made after another one of the same process: their ids end in a running
/// number.
bool IsLater(const std::string& plan, const std::string& than) {
  const std::size_t at = plan.rfind('-');
  const bool same =
      at != std::string::npos && at == than.rfind('-') && plan.compare(0, at, than, 0, at) == 0;
  return same && std::pair(plan.size(), plan) > std::pair(than.size(), than);
}

/// The pods that plans are about to evict which were made after that of the claimant, or may have
/// been.
std::set<std::string> LaterVictims(const engine::Engine& engine,
                                   const cluster::Workload& claimant) {
  std::set<std::string> uids;
  for (const auto& [key, workload] : engine.store().workloads()) {
    if (workload.members.empty()) continue;
    const engine::Plan* plan = engine.PlanOf(*workload.members.front());
    const bool later = ExchangesOwn(plan) ||
                       (plan != nullptr && plan->evictions.stage == engine::Evicting::kDryRun &&
                        IsLater(workload.plan, claimant.plan));
    if (later) uids.insert(plan->victims.begin(), plan->victims.end());
  }
  return uids;
}

/// What the pods that stay hold of the first device of the policy, in the queue and below it: after
/// all that was decided, and before what was decided later in the same pass: the plans after that
/// of the claimant, and those exchanges inside single queues that may have come later.
struct Used {
  std::int64_t after = 0;
  std::int64_t before = 0;
};
/// By the flavor of the nodes.
using UsedByFlavor = std::map<cluster::FlavorId, Used>;

UsedByFlavor UsedBy(const engine::Engine& engine, QueueId queue,
                    const cluster::Workload& claimant) {
  const cluster::Store& store = engine.store();
  const std::set<std::string> later = LaterVictims(engine, claimant);
  UsedByFlavor flavors;
  for (const auto& [uid, pod] : store.pods()) {
    if (pod.charged_queue == cluster::kNoQueue || pod.terminating()) continue;
    const auto& path = store.queue(pod.charged_queue).path;
    if (std::ranges::find(path, queue) == path.end()) continue;
    for (const auto& [id, amount] : pod.charged) {
      if (id != store.device_ids().front()) continue;
      const bool stays = !engine.IsVictim(pod);
      const bool comes =
          pod.charge == cluster::Charge::kPlanned && pod.workload != nullptr &&
          (ExchangesOwn(engine.PlanOf(pod)) || IsLater(pod.workload->plan, claimant.plan));
      Used& used = flavors[store.node(pod.node).flavor];
      used.after += stays ? amount : 0;
      used.before += (stays && !comes) || later.contains(uid) ? amount : 0;
    }
  }
  return flavors;
}

/// What the queue is promised of the first device on nodes of one flavor.
std::int64_t PromisedOn(const cluster::Store& store, QueueId queue, cluster::FlavorId flavor) {
  if (flavor == cluster::kNoFlavor) return 0;
  const std::string& name = store.policy().flavors[static_cast<std::size_t>(flavor)].name;
  const std::string gpu(store.resources().Name(store.device_ids().front()));
  std::int64_t promised = 0;
  for (const config::FlavorQuota& amounts : store.queue(queue).config.quotas) {
    const auto quota = amounts.quota.find(gpu);
    if (amounts.flavor == name && quota != amounts.quota.end()) promised += quota->second;
  }
  return promised;
}

/// The same on nodes of all flavors.
std::int64_t PromisedByFlavor(const cluster::Store& store, QueueId queue) {
  std::int64_t promised = 0;
  for (std::size_t i = 0; i < store.policy().flavors.size(); ++i) {
    promised += PromisedOn(store, queue, static_cast<cluster::FlavorId>(i));
  }
  return promised;
}

Used InAll(const UsedByFlavor& flavors) {
  Used sum;
  for (const auto& [flavor, used] : flavors) {
    sum.after += used.after;
    sum.before += used.before;
  }
  return sum;
}

/// What the queue has in use beyond what it is promised on nodes of single flavors.
Used Beyond(const cluster::Store& store, QueueId queue, const UsedByFlavor& flavors) {
  Used beyond;
  for (const auto& [flavor, used] : flavors) {
    const std::int64_t promised = PromisedOn(store, queue, flavor);
    beyond.after += std::max<std::int64_t>(0, used.after - promised);
    beyond.before += std::max<std::int64_t>(0, used.before - promised);
  }
  return beyond;
}

/// Whether all that the plan takes is promised to the queue on nodes of just these flavors.
bool IsPromisedWhereItIs(const cluster::Store& store, const engine::Plan& plan, QueueId queue,
                         const UsedByFlavor& flavors) {
  return std::ranges::all_of(plan.assignments, [&](const engine::Assignment& place) {
    const cluster::FlavorId flavor = store.node(place.node).flavor;
    const std::int64_t promised = PromisedOn(store, queue, flavor);
    const auto used = flavors.find(flavor);
    return promised > 0 && used != flavors.end() &&
           std::min(used->second.after, used->second.before) <= promised;
  });
}

/// Whether the workload's demand is known before it is placed: no pod gets a whole node, and all
/// members of a gang ask for the same, so that it does not matter which of them are its minimum.
bool HasPlainDemand(const cluster::Workload& workload) {
  const auto& demand = workload.members.front()->shape->demand;
  return std::ranges::none_of(workload.members, [&](const PodInfo* pod) {
    return pod->shape->whole_node || pod->shape->demand != demand;
  });
}

/// Whether the demand of its user's jobs is known before it is placed: where the queue caps the
/// jobs of a user, no other job of the user waits that could start only instead of this one.
bool HasOnlyJobOfUser(const cluster::Store& store, const cluster::Workload& workload) {
  if (store.queue(workload.queue).config.max_jobs_per_user == 0) return true;
  return std::ranges::none_of(store.workloads(), [&](const auto& entry) {
    const cluster::Workload& other = entry.second;
    return &other != &workload && other.queue == workload.queue && other.user == workload.user &&
           !other.AllBound();
  });
}

policy::FairShareTable SharesOf(const engine::Engine& engine) {
  policy::FitCache fit(engine.store());
  auto demands = policy::QueueDemands::Of(engine.store(), fit);
  demands.Add(engine.AwayDemand());
  return {engine.store(), demands.TreeOf(engine.store())};
}

/// What a plan takes back from other queues for one workload, and what that may be.
class ReclaimCheck {
 public:
  /// The references must outlive it.
  ReclaimCheck(const engine::Engine& engine, const cluster::Workload& claimant,
               const engine::Plan& plan)
      : engine_(engine),
        store_(engine.store()),
        claimant_(claimant),
        plan_(plan),
        gpu_(store_.device_ids().front()),
        shares_(SharesOf(engine)) {}

  /// What is wrong with taking this pod; empty: nothing.
  std::string FaultOf(const PodInfo& victim) const {
    const auto& path = store_.queue(claimant_.queue).path;
    const auto& losing = store_.queue(victim.charged_queue).path;
    const auto ours = Without(path, losing);
    const bool by_quota =
        std::ranges::any_of(ours, [this](QueueId queue) { return Quota(queue) > 0; }) &&
        std::ranges::all_of(ours, [this](QueueId queue) { return IsWithinQuota(queue); });
    if (!by_quota &&
        !std::ranges::all_of(ours, [this](QueueId queue) { return IsWithinShare(queue); })) {
      return fmt::format("I9: {} takes {} without a claim", claimant_.key, victim.object.meta.name);
    }
    const UsedByFlavor job = JobOf(victim);
    for (const QueueId queue : Without(losing, path)) {
      if (auto fault = FaultOfLoss(victim, queue, job, by_quota); !fault.empty()) return fault;
    }
    return {};
  }

 private:
  std::int64_t Quota(QueueId queue) const { return store_.queue(queue).quota[gpu_]; }
  std::int64_t Share(QueueId queue) const { return shares_.Share(store_, {.queue = queue}, gpu_); }

  bool IsWithinShare(QueueId queue) const {
    const Used used = InAll(UsedBy(engine_, queue, claimant_));
    return std::min(used.after, used.before) <= Share(queue);
  }

  bool IsWithinQuota(QueueId queue) const {
    // A queue without a quota promises nothing and forbids nothing.
    if (Quota(queue) <= 0) return IsWithinShare(queue);
    const UsedByFlavor flavors = UsedBy(engine_, queue, claimant_);
    const Used used = Beyond(store_, queue, flavors);
    return std::min(used.after, used.before) <= Quota(queue) - PromisedByFlavor(store_, queue) ||
           IsPromisedWhereItIs(store_, plan_, queue, flavors);
  }

  /// What the victim's job held; surplus goes pod by pod.
  UsedByFlavor JobOf(const PodInfo& victim) const {
    UsedByFlavor job;
    for (const PodInfo* pod : victim.workload->members) {
      if (plan_.surplus.contains(victim.object.meta.uid) && pod != &victim) continue;
      for (const auto& [id, amount] : pod->charged) {
        if (id == gpu_) job[store_.node(pod->node).flavor].after += amount;
      }
    }
    return job;
  }

  /// The queue keeps its quota and its fair share, or without this job it would still have more.
  std::string FaultOfLoss(const PodInfo& victim, QueueId queue, const UsedByFlavor& job,
                          bool by_quota) const {
    const UsedByFlavor flavors = UsedBy(engine_, queue, claimant_);
    // For a claim by quota what is promised on nodes of single flavors counts on these alone.
    const Used used = by_quota ? Beyond(store_, queue, flavors) : InAll(flavors);
    const std::int64_t left = std::max(used.after, used.before);
    const std::int64_t floor =
        std::max(Quota(queue), Share(queue)) - (by_quota ? PromisedByFlavor(store_, queue) : 0);
    UsedByFlavor with_job = flavors;
    for (const auto& [flavor, used_by_job] : job) {
      with_job[flavor].after += used_by_job.after;
      with_job[flavor].before += used_by_job.after;
    }
    const Used with = Beyond(store_, queue, with_job);
    if (left >= floor || (by_quota && std::max(with.after, with.before) > floor)) return {};
    return fmt::format(
        "I9: {} takes {}, and queue {} has {} left of {} milli-GPU (quota {}, fair share {})",
        claimant_.key, victim.object.meta.name, store_.queue(queue).config.name, left, floor,
        Quota(queue), Share(queue));
  }

  const engine::Engine& engine_;
  const cluster::Store& store_;
  const cluster::Workload& claimant_;
  const engine::Plan& plan_;
  const cluster::ResourceId gpu_;
  const policy::FairShareTable shares_;
};

}  // namespace

/// I9: the queue that takes room back stays within its quota or its fair share, and the queue that
/// loses it keeps both. One exception: a claim by quota may take a job without which the losing
/// queue falls below them although with it the queue is above them. A running gang that lacks
/// members makes room for all of them. Queues whose parents have work of their own are left to the
/// tests of policy/claims.h; so are beneficiaries whose demand, and with it the shares, changes
/// once they are placed.
void Checker::CheckClaim(const engine::Engine& engine, const cluster::Workload& workload) {
  const engine::Plan* plan =
      workload.members.empty() ? nullptr : engine.PlanOf(*workload.members.front());
  if (plan == nullptr || plan->evictions.stage != engine::Evicting::kDryRun) return;
  if (plan->joins && std::ssize(plan->assignments) < workload.Missing()) {
    Broken(fmt::format("I9: {} makes room for {} of the {} members that it lacks", workload.key,
                       plan->assignments.size(), workload.Missing()));
  }
  const cluster::Store& store = engine.store();
  if (plan->reclaimed.empty()) return;
  if (!HasPlainDemand(workload) || !HasOnlyJobOfUser(store, workload)) return;
  if (store.queue(workload.queue).config.preemption.reclaim == config::Reclaim::kNever) {
    Broken(fmt::format("I9: {} takes back, and its queue never does", workload.key));
  }
  const ReclaimCheck check(engine, workload, *plan);
  for (const std::string& uid : plan->reclaimed) {
    const PodInfo* victim = store.FindPod(uid);
    if (victim == nullptr || victim->charged_queue == cluster::kNoQueue) continue;
    if (HasQueuesBelow(store, victim->charged_queue) || HasQueuesBelow(store, workload.queue)) {
      continue;
    }
    if (std::string fault = check.FaultOf(*victim); !fault.empty()) Broken(std::move(fault));
  }
}

}  // namespace berth::sim
