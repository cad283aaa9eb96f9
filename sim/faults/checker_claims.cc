// Checker, part: I9 between queues, by plain counting of one resource.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "policy/claims.h"
#include "sim/faults/checker.h"

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
Used UsedBy(const engine::Engine& engine, QueueId queue, const cluster::Workload& claimant) {
  const cluster::Store& store = engine.store();
  const std::set<std::string> later = LaterVictims(engine, claimant);
  Used used;
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
      used.after += stays ? amount : 0;
      used.before += (stays && !comes) || later.contains(uid) ? amount : 0;
    }
  }
  return used;
}

/// Whether it is known before it is placed: no pod gets a whole node, and which members of a gang
/// are its minimum does not matter.
bool HasPlainDemand(const cluster::Workload& workload) {
  const auto& demand = workload.members.front()->shape->demand;
  return std::ranges::none_of(workload.members, [&](const PodInfo* pod) {
    return pod->shape->whole_node || pod->shape->demand != demand;
  });
}

/// Whether it is known before it is placed what its user's jobs ask for: no other one waits that
/// its start keeps from starting.
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
  const auto demands = policy::QueueDemands::Of(engine.store(), fit);
  return {engine.store(), demands.TreeOf(engine.store())};
}

}  // namespace

/// I9: whoever takes room back stays within its quota or its fair share, and who loses it keeps its
/// quota and its fair share; but for one job that reaches from above them to below them, which is
/// taken within a quota only. A running gang that lacks members makes room for all of them. Queues
/// whose parents have work of their own are left to the tests of policy/claims.h; so are
/// beneficiaries whose demand, and with it the shares, is another one once they are placed.
void Checker::CheckClaim(const engine::Engine& engine, const cluster::Workload& workload) {
  const engine::Plan* plan =
      workload.members.empty() ? nullptr : engine.PlanOf(*workload.members.front());
  if (plan == nullptr || plan->evictions.stage != engine::Evicting::kDryRun) return;
  if (plan->joins && std::ssize(plan->assignments) < workload.Missing()) {
    Broken(fmt::format("I9: {} makes room for {} of the {} members that it lacks", workload.key,
                       plan->assignments.size(), workload.Missing()));
  }
  const cluster::Store& store = engine.store();
  const cluster::ResourceId gpu = store.device_ids().front();
  if (plan->reclaimed.empty()) return;
  if (!HasPlainDemand(workload) || !HasOnlyJobOfUser(store, workload)) return;
  if (store.queue(workload.queue).config.preemption.reclaim == config::Reclaim::kNever) {
    Broken(fmt::format("I9: {} takes back, and its queue never does", workload.key));
  }
  const policy::FairShareTable shares = SharesOf(engine);
  const auto quota = [&](QueueId queue) { return store.queue(queue).quota[gpu]; };
  const auto share = [&](QueueId queue) { return shares.Share(store, {.queue = queue}, gpu); };
  for (const std::string& uid : plan->reclaimed) {
    const PodInfo* victim = store.FindPod(uid);
    if (victim == nullptr || victim->charged_queue == cluster::kNoQueue) continue;
    const QueueId loser = victim->charged_queue;
    if (HasQueuesBelow(store, loser) || HasQueuesBelow(store, workload.queue)) continue;
    const auto ours = Without(store.queue(workload.queue).path, store.queue(loser).path);
    const auto theirs = Without(store.queue(loser).path, store.queue(workload.queue).path);
    const auto within = [&](const auto& most) {
      return std::ranges::all_of(ours, [&](QueueId queue) {
        const Used used = UsedBy(engine, queue, workload);
        return std::min(used.after, used.before) <= most(queue);
      });
    };
    const bool by_quota = within(quota);
    if (!by_quota && !within(share)) {
      Broken(
          fmt::format("I9: {} takes {} without a claim", workload.key, victim->object.meta.name));
    }
    std::int64_t job = 0;  // what the victim's job held; surplus goes pod by pod
    for (const PodInfo* pod : victim->workload->members) {
      if (plan->surplus.contains(uid) && pod != victim) continue;
      for (const auto& [id, amount] : pod->charged) job += id == gpu ? amount : 0;
    }
    for (const QueueId queue : theirs) {
      const Used used = UsedBy(engine, queue, workload);
      const std::int64_t left = std::max(used.after, used.before);
      const std::int64_t floor = std::max(quota(queue), share(queue));
      if (left >= floor || (by_quota && left + job > floor)) continue;
      Broken(fmt::format(
          "I9: {} takes {}, and queue {} has {} left of {} milli-GPU (quota {}, fair share {})",
          workload.key, victim->object.meta.name, store.queue(queue).config.name, left, floor,
          quota(queue), share(queue)));
    }
  }
}

}  // namespace berth::sim
