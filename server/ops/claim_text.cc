#include "server/ops/claim_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "config/policy_warnings.h"
#include "engine/victims.h"
#include "policy/claims.h"
#include "policy/queue_demand.h"
#include "policy/quota.h"
#include "policy/workload_mix.h"
#include "server/ops/queue_numbers.h"

namespace berth::server {
namespace {

using cluster::QueueId;
using cluster::ResourceId;
using cluster::Workload;

/// Thousandths of a device.
std::string Devices(std::int64_t amount) {
  return amount % 1000 == 0 ? std::to_string(amount / 1000)
                            : fmt::format("{}.{:03}", amount / 1000, amount % 1000);
}

/// What the minimum of the workload still needs, of each kind of devices that it asks for.
cluster::Demand AllWantedBy(const cluster::Store& store, const Workload& workload) {
  cluster::Demand wanted;
  const auto pods = workload.Unplaced();
  for (const ResourceId id : store.device_ids()) {
    std::int64_t sum = 0;
    int missing = std::max(1, workload.Missing());
    for (const cluster::PodInfo* pod : pods) {
      if (missing-- > 0) sum += policy::DemandOf(*pod->shape, id);
    }
    if (sum > 0) wanted.emplace_back(id, sum);
  }
  return wanted;
}

/// The same of the first kind; 0: it asks for none.
std::pair<ResourceId, std::int64_t> WantedBy(const cluster::Store& store,
                                             const Workload& workload) {
  const cluster::Demand wanted = AllWantedBy(store, workload);
  return wanted.empty() ? std::pair(store.device_ids().front(), std::int64_t{0}) : wanted.front();
}

/// Queues with thousandths of devices.
using QueueAmounts = std::vector<std::pair<std::int64_t, QueueId>>;

/// The first few queues, those with the most first; `before` is between their names and devices.
/// `shares`: the amounts are of the work in the queues themselves; null: also of queues below.
std::string Listed(const cluster::Store& store, QueueAmounts queues, std::string_view before,
                   const policy::FairShareTable* shares = nullptr) {
  constexpr std::size_t kMost = 3;
  std::ranges::sort(queues, {}, [](const auto& of) { return std::pair(-of.first, of.second); });
  std::string text;
  for (std::size_t i = 0; i < std::min(queues.size(), kMost); ++i) {
    const QueueId queue = queues[i].second;
    const bool own = shares != nullptr && shares->PathOf(store, queue).front().own;
    text +=
        fmt::format("{}queue {}{}{}{}", text.empty() ? "" : ", ", store.queue(queue).config.name,
                    own ? " (without those below it)" : "", before, Devices(queues[i].first));
  }
  if (queues.size() > kMost) text += fmt::format(" and {} more", queues.size() - kMost);
  return text;
}

/// The other queues that use more of that kind of devices than they are entitled to, and by how
/// much.
QueueAmounts Borrowers(const cluster::Store& store, const policy::Exchange& exchange, QueueId own,
                       ResourceId id) {
  QueueAmounts borrowers;
  for (const QueueId queue : store.queues()) {
    const std::int64_t excess = queue == own ? 0 : exchange.Excess(queue, id);
    if (excess > 0) borrowers.emplace_back(excess, queue);
  }
  return borrowers;
}

/// Which other queues use devices, as a sentence; empty: none does.
std::string Holders(const cluster::Store& store, ResourceId id, QueueId own) {
  QueueAmounts holders;
  for (const QueueId queue : store.queues()) {
    const std::int64_t used = queue == own ? 0 : store.queue(queue).own[id];
    if (used > 0) holders.emplace_back(used, queue);
  }
  if (holders.empty()) return {};
  return fmt::format(" In use elsewhere: {}.", Listed(store, std::move(holders), " "));
}

/// Whether the workload waits in a queue for what an eviction could give it.
bool MayBeHelped(const engine::Engine& engine, const Workload& workload) {
  const engine::WorkloadState& state = engine.StateOf(workload);
  return workload.queue != cluster::kNoQueue && !workload.started && !state.plan &&
         engine::EvictionHelps(state.verdict.reason);
}

/// That the quotas promise more than there is; empty: they do not.
std::string Overcommitted(const cluster::Store& store, ResourceId id) {
  const std::string& name = store.resources().Name(id);
  const std::int64_t promised = config::PromisedInAll(store.policy(), name);
  const std::int64_t total = store.total_devices()[id];
  if (promised <= total) return {};
  return fmt::format(" All quotas together promise {} of {}; the nodes have {}.", Devices(promised),
                     name, Devices(total));
}

/// Whether a member must not preempt.
bool NeverPreempts(const Workload& workload) {
  return std::ranges::any_of(workload.members,
                             [](const auto* pod) { return pod->object.preempt_never; });
}

bool TakesNothingBack(const cluster::Store& store, const Workload& workload) {
  return NeverPreempts(workload) ||
         store.queue(workload.queue).config.preemption.reclaim == config::Reclaim::kNever;
}

/// By which rules it evicts nobody, as sentences; empty: by none.
std::string RulesOf(const cluster::Store& store, const Workload& workload) {
  if (NeverPreempts(workload)) {
    return " Its PriorityClass takes no room of running work (preemptionPolicy: Never).";
  }
  const config::Preemption& preemption = store.queue(workload.queue).config.preemption;
  std::string text;
  if (preemption.reclaim == config::Reclaim::kNever) {
    text += " Its queue takes nothing back (preemption.reclaim: never).";
  }
  const bool lower = store.HoldsBelow(workload.queue, workload.priority);
  if (preemption.within == config::Within::kNever && lower) {
    text += " Its queue evicts no work of its own (preemption.within: never).";
  }
  return text;
}

/// What other queues keep free for themselves, where that is why it waits, as a sentence; empty: it
/// is not.
std::string KeptByOthers(const cluster::Store& store, const Workload& workload, ResourceId id,
                         std::int64_t wanted) {
  const auto loans = policy::QuotaView(store).Loans(workload.queue);
  const bool short_of_loans = std::ranges::any_of(
      loans, [&](const auto& loan) { return loan.id == id && loan.left < wanted; });
  if (!short_of_loans) return {};
  const std::vector<QueueId>& path = store.queue(workload.queue).path;
  QueueAmounts kept;
  for (const QueueId keeper : store.keepers()) {
    const cluster::QueueInfo& info = store.queue(keeper);
    const std::int64_t own = info.idle[id] - info.idle_below[id];
    if (own > 0 && std::ranges::find(path, keeper) == path.end()) kept.emplace_back(own, keeper);
  }
  if (kept.empty()) return {};
  return fmt::format(" Kept free for queues that do not lend it (lendingLimit): {}.",
                     Listed(store, std::move(kept), " "));
}

/// The fair shares of this moment, if that takes little time. No decision has needed them yet.
std::optional<policy::FairShareTable> SharesOfFew(const engine::Engine& engine) {
  constexpr std::size_t kFew = 1'000;
  const cluster::Store& store = engine.store();
  if (store.workloads().size() > kFew || store.queues().size() > kFew) return std::nullopt;
  policy::QueueDemands demands;
  for (const auto& [key, workload] : store.workloads()) {
    demands.Add(store, workload, !IsNeverPlaced(engine, workload));
  }
  demands.Add(engine.AwayDemand());
  return policy::FairShareTable(store, demands.TreeOf(store));
}

/// What the queue uses, and what it is entitled to. Beside the queues below it, its own work is a
/// queue without a quota.
std::string EntitledTo(const cluster::Store& store, const policy::FairShareTable& shares,
                       const policy::QuotaView& now, QueueId queue, ResourceId id) {
  const policy::Claimant claimant = shares.PathOf(store, queue).front();
  const std::string uses =
      fmt::format("{} {}", Devices(shares.Used(now, claimant, id)), store.resources().Name(id));
  const std::string share = Devices(shares.Share(store, claimant, id));
  if (claimant.own) {
    return fmt::format(
        "Without the queues below it, its queue uses {}, has no quota and a fair share of {}.",
        uses, share);
  }
  return fmt::format("Its queue uses {}, has a quota of {} and a fair share of {}.", uses,
                     Devices(store.queue(queue).quota[id]), share);
}

/// Empty also where there are so many budgets and pods that to compare each with each takes long.
std::set<std::string_view> NamespacesWithBudgets(const cluster::Store& store) {
  constexpr std::size_t kMostComparisons = 1'000'000;
  std::set<std::string_view> names;
  if (store.disruption_budgets().size() * store.pods().size() > kMostComparisons) return names;
  for (const auto& [uid, budget] : store.disruption_budgets()) names.insert(budget.meta.ns);
  return names;
}

}  // namespace

std::string ClaimText(const engine::Engine& engine, const Workload& workload) {
  const cluster::Store& store = engine.store();
  if (!store.policy().borrowing || !MayBeHelped(engine, workload)) return {};
  const auto [id, wanted] = WantedBy(store, workload);
  if (wanted == 0) return {};
  const std::string rules = RulesOf(store, workload) + KeptByOthers(store, workload, id, wanted) +
                            Overcommitted(store, id);
  const policy::FairShareTable* last = engine.last_fair_shares();
  const std::optional<policy::FairShareTable> computed =
      last == nullptr ? SharesOfFew(engine) : std::nullopt;
  if (last == nullptr && !computed) {
    const cluster::QueueInfo& queue = store.queue(workload.queue);
    return fmt::format("Its queue uses {} {}, and has a quota of {}.{}", Devices(queue.used[id]),
                       store.resources().Name(id), Devices(queue.quota[id]), rules);
  }
  const policy::FairShareTable& shares = last == nullptr ? *computed : *last;
  const policy::QuotaView now(store);
  const policy::Exchange exchange(shares, now, now, workload.queue);
  std::string text = EntitledTo(store, shares, now, workload.queue, id);
  const cluster::Demand asked = AllWantedBy(store, workload);
  policy::Reach reach(exchange, asked, {});
  QueueAmounts borrowers;  // of the first kind that has any
  ResourceId of = id;
  bool reaches = false;
  for (const auto& [kind, amount] : asked) {
    QueueAmounts by_kind = Borrowers(store, exchange, workload.queue, kind);
    reaches |= std::ranges::any_of(
        by_kind, [&](const auto& by) { return reach.Of(by.second) != policy::Claim::kNone; });
    if (!borrowers.empty()) continue;
    of = kind;
    borrowers = std::move(by_kind);
  }
  if (borrowers.empty()) {
    return text +
           fmt::format(" No other queue uses more{} than it is entitled to.",
                       store.device_ids().size() > 1 ? " of these devices" : "") +
           Holders(store, id, workload.queue) + rules;
  }
  const std::string kind =
      store.device_ids().size() > 1 ? " " + store.resources().Name(of) : std::string();
  text += fmt::format(" Queues that use more{} than they are entitled to: {}.", kind,
                      Listed(store, std::move(borrowers), " by ", &shares));
  if (TakesNothingBack(store, workload)) return text + rules;
  if (!exchange.MayClaim(asked)) {
    return text +
           fmt::format(
               " With the {} that this workload asks for, its queue would exceed both, so "
               "it takes nothing back for it.",
               Devices(wanted)) +
           rules;
  }
  if (!reaches) {
    return text +
           fmt::format(
               " With the {} that this workload asks for, its queue, or one above it, would exceed "
               "its quota and its fair share, or have as much beyond its quota, by weight, as "
               "these "
               "have now: nothing is taken back among equals.",
               Devices(wanted)) +
           rules;
  }
  return text +
         " No set of jobs that they could lose now was found to make room for it. (With more than "
         "8 such jobs, not all sets are tried.)" +
         rules;
}

namespace {

/// Whether it is a gang that can only be evicted whole, since no more than its minimum runs, and
/// PodDisruptionBudgets do not permit that.
bool IsGuardedWhole(const cluster::Store& store, const Workload& gang) {
  if (!gang.gang) return false;
  std::vector<const cluster::PodInfo*> running;
  std::ranges::copy_if(
      gang.members, std::back_inserter(running),
      [](const cluster::PodInfo* member) { return member->bound() && !member->terminating(); });
  return std::ssize(running) + gang.finished <= gang.min_member &&
         engine::EvictionApiRefuses(running, store);
}

}  // namespace

std::string SparedText(const engine::Engine& engine, const Workload& workload,
                       engine::TimePoint now) {
  const cluster::Store& store = engine.store();
  if (!MayBeHelped(engine, workload)) return {};
  const auto [id, wanted] = WantedBy(store, workload);
  if (wanted == 0) return {};
  std::set<QueueId> beyond;
  const config::Preemption& preemption = store.queue(workload.queue).config.preemption;
  const policy::FairShareTable* shares = engine.last_fair_shares();
  if (shares != nullptr && preemption.reclaim == config::Reclaim::kAny) {
    const policy::QuotaView use(store);
    const policy::Exchange exchange(*shares, use, use, workload.queue);
    for (const auto& [kind, amount] : AllWantedBy(store, workload)) {
      for (const auto& [excess, queue] : Borrowers(store, exchange, workload.queue, kind)) {
        beyond.insert(queue);
      }
    }
  }
  const auto is_lower = [&](const cluster::PodInfo& pod) {
    return pod.charged_queue == workload.queue && pod.workload->priority < workload.priority &&
           preemption.within == config::Within::kLower;
  };
  std::int64_t kept = 0;
  std::int64_t young = 0;
  std::int64_t guarded = 0;
  const std::set<std::string_view> with_budgets = NamespacesWithBudgets(store);
  const auto is_guarded = [&](const cluster::PodInfo& pod, std::optional<bool>& whole) {
    if (!pod.bound() || pod.terminating()) return false;
    if (!with_budgets.contains(pod.object.meta.ns)) return false;
    if (!whole) whole = IsGuardedWhole(store, *pod.workload);
    return *whole || engine::EvictionApiRefuses({&pod}, store);
  };
  for (const auto& [key, other] : store.workloads()) {
    std::optional<bool> is_young;  // of all its members
    std::optional<bool> guarded_whole;
    for (const cluster::PodInfo* pod : other.members) {
      if (pod->charge == cluster::Charge::kNone) continue;
      if (!beyond.contains(pod->charged_queue) && !is_lower(*pod)) continue;
      const auto charge =
          std::ranges::find(pod->queue_charge, id, &cluster::Demand::value_type::first);
      if (charge == pod->queue_charge.end()) continue;
      if (engine::IsSpared(*pod)) {
        kept += charge->second;
        continue;
      }
      if (!is_young) is_young = engine.OfAgeAt(other, now) > now;
      if (*is_young) {
        young += charge->second;
      } else if (is_guarded(*pod, guarded_whole)) {
        guarded += charge->second;
      }
    }
  }
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t amount, std::string_view of) {
    if (amount > 0) parts.push_back(fmt::format("{} of pods {}", Devices(amount), of));
  };
  add(kept, "that are not preemptible");
  add(young, "that have not run for the minRunTime of their queue or class");
  add(guarded, "that PodDisruptionBudgets keep");
  if (parts.empty()) return {};
  const std::string last = std::move(parts.back());
  parts.pop_back();
  return fmt::format(" Devices that evictions cannot free for it yet, or at all: {}{}{}.",
                     fmt::join(parts, ", "), parts.empty() ? "" : ", and ", last);
}

}  // namespace berth::server
