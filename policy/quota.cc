#include "policy/quota.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "policy/workload_mix.h"

namespace berth::policy {

using cluster::NodeIndex;
using cluster::PodInfo;
using cluster::QueueId;
using cluster::ReasonId;
using cluster::Verdict;

namespace {

/// More than the cap can never be granted, whatever ends.
Verdict Denied(const QuotaView& view, QueueId queue, const QuotaView::Allowance& allowance,
               std::int64_t want) {
  const cluster::Store& store = view.store();
  const bool never = want > allowance.cap;
  return {.reason = never ? ReasonId::kExceedsLimit : ReasonId::kWaitingForQuota,
          .want = want,
          .have = never ? allowance.cap : std::max<std::int64_t>(0, allowance.left),
          .subject = store.resources().Name(allowance.id),
          .queue = allowance.queue == queue ? "" : store.queue(allowance.queue).config.name};
}

/// Of several denials the first one counts, and one that nothing can end before all others.
void Note(Verdict verdict, Verdict& denied) {
  const bool first = denied.reason == ReasonId::kNone;
  const bool never = verdict.reason == ReasonId::kExceedsLimit;
  if (first || (never && denied.reason != ReasonId::kExceedsLimit)) denied = std::move(verdict);
}

/// How much of one resource, or of one part of a resource, pods take on nodes of one flavor.
class Counted {
 public:
  Counted(const cluster::Store& store, cluster::ResourceId id, cluster::FlavorId flavor)
      : part_(store.resources().FindPart(id)), whole_(part_ == nullptr ? id : part_->whole) {
    if (part_ == nullptr || part_->flavor.empty()) return;
    elsewhere_ = flavor == cluster::kNoFlavor ||
                 store.policy().flavors[static_cast<std::size_t>(flavor)].name != part_->flavor;
  }

  /// False: these take none of it, for certain.
  bool Concerns(std::span<const PodInfo* const> pods) const {
    if (elsewhere_) return false;
    return part_ == nullptr || !part_->non_preemptible ||
           std::ranges::any_of(pods, &PodInfo::non_preemptible);
  }
  /// REQUIRES: it may concern the pod.
  std::int64_t Of(const PodInfo& pod) const {
    if (part_ != nullptr && part_->non_preemptible && !pod.non_preemptible) return 0;
    return DemandOf(*pod.shape, whole_);
  }

 private:
  const cluster::Part* part_;
  cluster::ResourceId whole_;
  bool elsewhere_ = false;  ///< It is a part on nodes of another flavor.
};

/// Whether what `pod` holds is charged to `queue`, too.
bool IsChargedTo(const cluster::Store& store, const PodInfo& pod, QueueId queue) {
  return pod.charged_queue != cluster::kNoQueue &&
         std::ranges::find(store.queue(pod.charged_queue).path, queue) !=
             store.queue(pod.charged_queue).path.end();
}

/// What the pods take of a resource, on nodes that are not known: whole-node pods what the smallest
/// nodes have.
std::int64_t AskedOf(const QuotaView& view, cluster::ResourceId id,
                     std::span<const PodInfo* const> pods) {
  const Counted counted(view.store(), id, cluster::kNoFlavor);
  std::int64_t asked = 0;
  for (const PodInfo* pod : pods) {
    std::int64_t least = counted.Of(*pod);
    if (pod->shape->whole_node) {
      for (const auto& [of, amount] : view.store().LeastDemandOf(*pod->shape)) {
        if (of == id) least = std::max(least, amount);
      }
    }
    asked += least;
  }
  return asked;
}

}  // namespace

void QuotaView::Charge(QueueId queue, const cluster::Demand& demand, int sign) {
  for (const QueueId charged : store_->queue(queue).path) {
    for (const auto& [id, amount] : demand) TakenOf(charged, id) += sign * amount;
  }
}

std::int32_t QuotaView::Find(QueueId queue, cluster::ResourceId id) const {
  const auto index = static_cast<std::size_t>(queue);
  std::int32_t at = index < first_.size() ? first_[index] : kNone;
  while (at != kNone && taken_[static_cast<std::size_t>(at)].id != id) {
    at = taken_[static_cast<std::size_t>(at)].next;
  }
  return at;
}

std::int64_t& QuotaView::TakenOf(QueueId queue, cluster::ResourceId id) {
  if (const std::int32_t at = Find(queue, id); at != kNone) {
    return taken_[static_cast<std::size_t>(at)].amount;
  }
  const auto index = static_cast<std::size_t>(queue);
  if (index >= first_.size()) first_.resize(index + 1, kNone);
  const auto end = static_cast<std::int32_t>(taken_.size());
  taken_.push_back({.id = id, .next = std::exchange(first_[index], end), .amount = 0});
  return taken_.back().amount;
}

std::int64_t QuotaView::Used(QueueId queue, cluster::ResourceId id) const {
  const std::int32_t at = Find(queue, id);
  return store_->queue(queue).used[id] +
         (at == kNone ? 0 : taken_[static_cast<std::size_t>(at)].amount);
}

void QuotaView::Take(QueueId queue, const cluster::Demand& charge) {
  if (queue == cluster::kNoQueue) return;
  Charge(queue, charge, 1);
  for (const auto& [id, amount] : charge) free_taken_.Add(id, amount);
}

void QuotaView::GiveBack(const PodInfo& pod) {
  if (pod.charged_queue == cluster::kNoQueue) return;
  Charge(pod.charged_queue, pod.queue_charge, -1);
  for (const auto& [id, amount] : pod.queue_charge) {
    if (pod.node != cluster::kNoNode) {
      FreeOn(store_->node(pod.node), id, amount);
    } else {
      free_taken_.Add(id, -amount);
    }
  }
  if (pod.job_counted) ++left_jobs_[{pod.charged_queue, pod.user, pod.job}];
}

/// As Store::free_devices counts it: nothing on a node that is cordoned or not ready.
void QuotaView::FreeOn(const cluster::NodeInfo& node, cluster::ResourceId id, std::int64_t amount) {
  if (!node.open()) return;
  const std::int64_t free = node.free(id);
  if (free >= 0) return free_taken_.Add(id, -amount);
  std::int64_t& given = overfull_[{node.index, id}];
  const std::int64_t before = std::max<std::int64_t>(0, free + given);
  given += amount;
  free_taken_.Add(id, before - std::max<std::int64_t>(0, free + given));
}

std::int64_t QuotaView::Jobs(QueueId queue, std::string_view user) const {
  const auto& users = store_->queue(queue).jobs;
  const auto jobs = users.find(user);
  if (jobs == users.end()) return 0;
  if (left_jobs_.empty()) return std::ssize(jobs->second);
  return std::ranges::count_if(jobs->second,
                               [&](const auto& job) { return HasJob(queue, user, job.first); });
}

bool QuotaView::HasJob(QueueId queue, std::string_view user, std::string_view job) const {
  const auto& users = store_->queue(queue).jobs;
  const auto jobs = users.find(user);
  if (jobs == users.end()) return false;
  const auto pods = jobs->second.find(job);
  if (pods == jobs->second.end()) return false;
  if (left_jobs_.empty()) return true;
  const auto left = left_jobs_.find({queue, std::string(user), std::string(job)});
  return left == left_jobs_.end() || pods->second > left->second;
}

void QuotaView::AppendOf(QueueId queue, std::vector<Allowance>& allowances) const {
  const cluster::QueueInfo& info = store_->queue(queue);
  for (const auto* caps : {&info.caps, &info.non_preemptible_caps}) {
    for (const auto& [id, cap] : *caps) {
      allowances.push_back({.queue = queue, .id = id, .cap = cap, .left = cap - Used(queue, id)});
    }
  }
}

/// By how much a decision changes what queues keep and do not use: of each queue that it concerns,
/// without those below it, and of all together (kNoQueue).
std::map<QueueId, std::int64_t> QuotaView::IdleChanges(cluster::ResourceId id) const {
  std::map<QueueId, std::int64_t> changes;
  std::vector<QueueId> touched;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    if (first_[i] != kNone) touched.push_back(static_cast<QueueId>(i));
  }
  std::ranges::sort(touched, std::ranges::greater{},
                    [&](QueueId queue) { return store_->queue(queue).path.size(); });
  std::map<QueueId, std::int64_t> below;
  for (const QueueId queue : touched) {
    const cluster::QueueInfo& info = store_->queue(queue);
    const std::int64_t idle = info.Idle(id, Used(queue, id), info.idle_below[id] + below[queue]);
    const std::int64_t change = idle - info.idle[id];
    below[info.path.size() > 1 ? info.path[1] : cluster::kNoQueue] += change;
    changes[queue] = change - below[queue];
  }
  changes[cluster::kNoQueue] = below[cluster::kNoQueue];
  return changes;
}

/// What the queues below this one, without it, keep and do not use.
std::int64_t QuotaView::KeptBelow(QueueId queue, cluster::ResourceId id,
                                  const std::map<QueueId, std::int64_t>& changes) const {
  std::int64_t kept = store_->queue(queue).idle_below[id];
  for (const auto& [changed, change] : changes) {
    if (changed == cluster::kNoQueue || changed == queue) continue;
    const std::vector<QueueId>& path = store_->queue(changed).path;
    if (std::ranges::find(path, queue) != path.end()) kept += change;
  }
  return kept;
}

/// Beyond its quota, a queue may use what is free but for what queues that are not on its path keep
/// for themselves. A keeper that is on the path of another one keeps what is kept below it, too.
void QuotaView::AppendLoans(QueueId queue, std::vector<Allowance>& allowances) const {
  for (const cluster::ResourceId id : store_->kept_ids()) {
    std::map<QueueId, std::int64_t> changes = IdleChanges(id);
    std::int64_t kept = store_->idle()[id] + changes[cluster::kNoQueue];
    const std::int64_t free = store_->free_devices()[id] - free_taken_[id];
    std::optional<std::int64_t> promised;
    std::int64_t usable = 0;  // what the queues so far keep, which it may use itself
    for (const QueueId charged : store_->queue(queue).path) {
      const cluster::QueueInfo& info = store_->queue(charged);
      if (info.quota[id] > 0) {
        std::int64_t left = info.quota[id] - Used(charged, id);
        // What the queue has no quota for itself it shares with others below this one.
        const std::int64_t others = promised ? 0 : KeptBelow(charged, id, changes) - usable;
        if (others > 0) left = std::min(left, free) - others;
        promised = std::min(promised.value_or(left), left);
      }
      usable += info.idle[id] - info.idle_below[id] + changes[charged];
    }
    // Queues without a quota promise nothing and forbid nothing.
    if (!promised) promised = -Used(queue, id);
    kept -= usable;
    if (kept <= 0) continue;  // it may have what is free
    const std::int64_t lent = free - kept;
    allowances.push_back({.queue = queue,
                          .id = id,
                          .cap = std::numeric_limits<std::int64_t>::max(),
                          .left = std::max(*promised, lent),
                          .overlent = lent < 0,
                          .promised = *promised});
  }
}

std::vector<QuotaView::Allowance> QuotaView::Of(QueueId queue) const {
  std::vector<Allowance> allowances;
  if (queue != cluster::kNoQueue) AppendOf(queue, allowances);
  return allowances;
}

std::vector<QuotaView::Allowance> QuotaView::Loans(QueueId queue) const {
  std::vector<Allowance> allowances;
  if (queue != cluster::kNoQueue && !store_->keepers().empty()) AppendLoans(queue, allowances);
  return allowances;
}

std::vector<QuotaView::Allowance> QuotaView::Along(QueueId queue) const {
  std::vector<Allowance> allowances;
  if (queue == cluster::kNoQueue) return allowances;
  for (const QueueId charged : store_->queue(queue).path) AppendOf(charged, allowances);
  if (!store_->keepers().empty()) AppendLoans(queue, allowances);
  return allowances;
}

std::optional<bool> QuotaCovers(const QuotaView& view, QueueId queue,
                                const cluster::Demand& charge) {
  const cluster::Store& store = view.store();
  const auto is_device = [&](cluster::ResourceId id) {
    return std::ranges::find(store.device_ids(), id) != store.device_ids().end();
  };
  const bool asks_device = std::ranges::any_of(
      charge, [&](const auto& part) { return part.second > 0 && is_device(part.first); });
  bool concerned = false;
  for (const auto& [id, amount] : charge) {
    if (amount <= 0) continue;
    for (const QueueId charged : store.queue(queue).path) {
      const std::int64_t quota = store.queue(charged).quota[id];
      if (quota <= 0) continue;
      if (view.Used(charged, id) + amount > quota) return false;
      concerned |= !asks_device || is_device(id);
    }
  }
  return concerned ? std::optional(true) : std::nullopt;
}

Verdict CheckHold(const cluster::Store& store, QueueId queue) {
  if (queue == cluster::kNoQueue) return {};
  const QueueId held = store.queue(queue).held_by;
  if (held == cluster::kNoQueue) return {};
  return {.reason = ReasonId::kQueueHeld, .subject = store.queue(held).config.name};
}

Verdict CheckJobs(const QuotaView& view, const cluster::Workload& workload) {
  if (workload.queue == cluster::kNoQueue || !workload.AsksDevices()) return {};
  const std::int64_t most = view.store().queue(workload.queue).config.max_jobs_per_user;
  if (most == 0 || view.HasJob(workload.queue, workload.user, workload.key)) return {};
  const std::int64_t jobs = view.Jobs(workload.queue, workload.user);
  if (jobs < most) return {};
  return {.reason = ReasonId::kWaitingForQuota, .want = most, .have = jobs, .user = workload.user};
}

bool HasTooManyJobs(const QuotaView& view, const PodInfo& pod) {
  if (!pod.job_counted) return false;
  const std::int64_t most = view.store().queue(pod.charged_queue).config.max_jobs_per_user;
  return most > 0 && view.Jobs(pod.charged_queue, pod.user) > most;
}

Verdict GrantMembers(const QuotaView& view, QueueId queue, std::span<const PodInfo* const> pods,
                     int min, int& fit, cluster::FlavorId flavor) {
  fit = static_cast<int>(pods.size());
  Verdict denied;
  for (const QuotaView::Allowance& allowance : view.Along(queue)) {
    const Counted counted(view.store(), allowance.id, flavor);
    if (!counted.Concerns(pods)) continue;
    std::int64_t sum = 0;
    std::int64_t minimum = 0;  // what the first `min` members take
    int count = 0;
    for (int i = 0; i < fit; ++i) {
      sum += counted.Of(*pods[static_cast<std::size_t>(i)]);
      if (i < min) minimum = sum;
      // A member that asks for none of it passes, even in a queue that is over its cap.
      if (sum == 0 || sum <= allowance.left) count = i + 1;
    }
    if (count < min) {
      Note(Denied(view, queue, allowance, minimum), denied);
    } else {
      fit = std::min(fit, count);
    }
  }
  return denied;
}

Verdict GrantCharge(const QuotaView& view, QueueId queue, std::span<const Placed> placed,
                    bool strict) {
  const cluster::Store& store = view.store();
  cluster::Amounts asked;
  for (const Placed& member : placed) {
    for (const auto& [id, amount] : store.QueueChargeOn(*member.pod, store.node(member.node))) {
      asked.Add(id, amount);
    }
  }
  Verdict denied;
  for (const QuotaView::Allowance& allowance : view.Along(queue)) {
    std::int64_t want = asked[allowance.id];
    if (want == 0) continue;
    for (const Placed& member : placed) {
      if (!IsChargedTo(store, *member.pod, allowance.queue)) continue;
      for (const auto& [id, amount] : member.pod->queue_charge)
        want -= id == allowance.id ? amount : 0;
    }
    if ((strict || want > 0) && want > allowance.left) {
      Note(Denied(view, queue, allowance, want), denied);
    }
  }
  return denied;
}

std::function<bool(const PodInfo&, NodeIndex)> PayableNodes(const QuotaView& view, QueueId queue,
                                                            std::span<const PodInfo* const> pods) {
  const bool by_flavor = queue != cluster::kNoQueue && view.store().queue(queue).by_flavor;
  const std::int64_t whole =
      std::ranges::count_if(pods, [](const PodInfo* pod) { return pod->shape->whole_node; });
  if (whole == 0 && !by_flavor) return {};
  std::vector<QuotaView::Allowance> allowances = view.Along(queue);
  if (allowances.empty()) return {};
  return [&store = view.store(), allowances = std::move(allowances), whole](const PodInfo& pod,
                                                                            NodeIndex node) {
    const std::int64_t members = pod.shape->whole_node ? whole : 1;
    const cluster::Demand demand = store.QueueChargeOn(pod, store.node(node));
    return std::ranges::all_of(allowances, [&](const QuotaView::Allowance& allowance) {
      const auto it = std::ranges::find(demand, allowance.id, &cluster::Demand::value_type::first);
      return it == demand.end() || it->second <= allowance.left / members;
    });
  };
}

bool IsOverCap(const QuotaView& view, QueueId queue, std::span<const PodInfo* const> pods) {
  if (queue == cluster::kNoQueue) return false;
  const auto asks = [&](cluster::ResourceId id) { return AskedOf(view, id, pods) > 0; };
  return std::ranges::any_of(view.store().queue(queue).path,
                             [&](QueueId charged) { return IsOverCapOf(view, charged, asks); });
}

bool IsOverCapOf(const QuotaView& view, QueueId queue,
                 const std::function<bool(cluster::ResourceId)>& which) {
  return std::ranges::any_of(view.Of(queue), [&](const QuotaView::Allowance& allowance) {
    return allowance.left < 0 && which(allowance.id);
  });
}

std::vector<cluster::ResourceId> LentTooMuch(const QuotaView& view, QueueId queue,
                                             std::span<const PodInfo* const> pods) {
  std::vector<cluster::ResourceId> ids;
  for (const QuotaView::Allowance& allowance : view.Loans(queue)) {
    if (!allowance.overlent) continue;
    const std::int64_t asked = AskedOf(view, allowance.id, pods);
    if (asked > 0 && asked > allowance.left) ids.push_back(allowance.id);
  }
  return ids;
}

bool IsPromised(const QuotaView& view, QueueId queue, std::span<const PodInfo* const> pods,
                std::span<const cluster::ResourceId> ids) {
  return std::ranges::all_of(view.Loans(queue), [&](const QuotaView::Allowance& loan) {
    return std::ranges::find(ids, loan.id) == ids.end() ||
           AskedOf(view, loan.id, pods) <= loan.promised;
  });
}

bool IsOver(const QuotaView& view, const PodInfo& pod) {
  return std::ranges::any_of(
      view.Along(pod.charged_queue), [&](const QuotaView::Allowance& allowance) {
        const auto takes = [&](const auto& part) { return part.first == allowance.id; };
        return allowance.left < 0 && std::ranges::any_of(pod.queue_charge, takes);
      });
}

}  // namespace berth::policy
