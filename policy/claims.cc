#include "policy/claims.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <set>

namespace berth::policy {

using cluster::PodInfo;
using cluster::QueueId;
using cluster::QueueInfo;
using cluster::ResourceId;

namespace {

bool IsDevice(const cluster::Store& store, ResourceId id) {
  return std::ranges::find(store.device_ids(), id) != store.device_ids().end();
}

/// Of `path`, the claimants that are not on `other`: those below the lowest common ancestor.
std::vector<Claimant> BelowAncestor(const std::vector<Claimant>& path,
                                    const std::vector<Claimant>& other) {
  std::vector<Claimant> below;
  std::ranges::copy_if(path, std::back_inserter(below), [&](const Claimant& claimant) {
    return std::ranges::find(other, claimant) == other.end();
  });
  return below;
}

/// Devices, and the parts of devices that quotas of single flavors count. Amounts for
/// non-preemptible work alone promise nothing more.
bool IsPromised(const cluster::Store& store, ResourceId id) {
  const cluster::Part* part = store.resources().FindPart(id);
  return part == nullptr ? IsDevice(store, id)
                         : !part->non_preemptible && IsDevice(store, part->whole);
}

std::int64_t AmountOf(const cluster::Demand& demand, ResourceId id) {
  const auto found = std::ranges::find(demand, id, &cluster::Demand::value_type::first);
  return found == demand.end() ? 0 : found->second;
}

/// What the pods are charged in their queue, of what queues are promised, in the order of ids.
cluster::Demand ChargedDevices(const cluster::Store& store, std::span<const PodInfo* const> pods) {
  cluster::Demand charged;
  for (const PodInfo* pod : pods) {
    for (const auto& [id, amount] : pod->queue_charge) {
      if (amount == 0 || !IsPromised(store, id)) continue;
      const auto at =
          std::ranges::lower_bound(charged, id, {}, &cluster::Demand::value_type::first);
      if (at == charged.end() || at->first != id) {
        charged.emplace(at, id, amount);
      } else {
        at->second += amount;
      }
    }
  }
  return charged;
}

/// What queues have in use by that view once these have ended.
QuotaView Without(QuotaView view, std::span<const Loss> losses) {
  for (const Loss& loss : losses) {
    for (const PodInfo* pod : loss.pods) view.GiveBack(*pod);
  }
  return view;
}

}  // namespace

std::vector<Claimant> Exchange::OursBeside(QueueId other) const {
  return BelowAncestor(shares_->PathOf(store(), claimant_), shares_->PathOf(store(), other));
}

std::vector<Claimant> Exchange::TheirsBeside(QueueId other) const {
  return BelowAncestor(shares_->PathOf(store(), other), shares_->PathOf(store(), claimant_));
}

std::int64_t Exchange::PromisedByFlavor(Claimant of, ResourceId id) const {
  std::int64_t promised = 0;
  if (of.own) return promised;
  for (const auto& quota : store().queue(of.queue).flavor_quotas) {
    if (quota.whole == id) promised += quota.amount;
  }
  return promised;
}

std::int64_t Exchange::Quota(Claimant of, ResourceId id) const {
  return of.own ? 0 : store().queue(of.queue).quota[id];
}

std::int64_t Exchange::Share(Claimant of, ResourceId id) const {
  return shares_->Share(store(), of, id);
}

std::int64_t Exchange::Floor(Claimant of, ResourceId id) const {
  const std::int64_t floor = std::max(Quota(of, id), Share(of, id));
  return std::max<std::int64_t>(0, floor - PromisedByFlavor(of, id));
}

std::int64_t Exchange::Beyond(const QuotaView& view, Claimant of, ResourceId id,
                              const cluster::Demand& less) const {
  const auto used = [&](ResourceId part) {
    return shares_->Used(view, of, part) - AmountOf(less, part);
  };
  std::int64_t beyond = used(id);
  if (of.own) return beyond;
  for (const auto& quota : store().queue(of.queue).flavor_quotas) {
    if (quota.whole == id) beyond -= std::min(quota.amount, used(quota.part));
  }
  return beyond;
}

bool Exchange::HasQuota(Claimant of, ResourceId id) const { return Quota(of, id) > 0; }

std::optional<int> Exchange::Straddlers(std::span<const Loss> losses) const {
  const std::vector<Claimant> ours = shares_->PathOf(store(), claimant_);
  // The jobs that each claimant would lose, by the amount that it is charged for them.
  struct Lost {
    std::size_t job = 0;
    std::int64_t amount = 0;
    std::int64_t of_job = 0;  ///< Without the surplus of a gang.
  };
  std::map<std::pair<std::pair<QueueId, bool>, ResourceId>, std::vector<Lost>> lost;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (losses[i].queue == claimant_) continue;
    const auto charged = ChargedDevices(store(), losses[i].pods);
    const auto of_job = ChargedDevices(store(), losses[i].job());
    for (const Claimant& claimant :
         BelowAncestor(shares_->PathOf(store(), losses[i].queue), ours)) {
      for (const auto& [id, amount] : charged) {
        lost[{{claimant.queue, claimant.own}, id}].push_back(
            {.job = i, .amount = amount, .of_job = AmountOf(of_job, id)});
      }
    }
  }
  std::set<std::size_t> straddlers;
  for (const auto& [key, jobs] : lost) {
    const Claimant claimant{.queue = key.first.first, .own = key.first.second};
    const std::int64_t floor = Floor(claimant, key.second);
    std::int64_t left = shares_->Used(running_, claimant, key.second);
    for (const Lost& job : jobs) left -= job.amount;
    if (PromisedByFlavor(claimant, key.second) > 0) {
      const std::optional<bool> flavored = StraddlesBeyond(claimant, key.second, losses);
      if (!flavored) return std::nullopt;
      if (*flavored) straddlers.insert(jobs.front().job);
      continue;
    }
    if (left >= floor) continue;
    const auto straddles = [&](const Lost& job) { return left + job.of_job > floor; };
    const auto known = std::ranges::find_if(
        jobs, [&](const Lost& job) { return straddles(job) && straddlers.contains(job.job); });
    // A job that would fit below the floor is covered by it.
    if (!std::ranges::all_of(jobs, straddles)) return std::nullopt;
    straddlers.insert(known != jobs.end() ? known->job : jobs.front().job);
  }
  return static_cast<int>(straddlers.size());
}

std::vector<Undercut> Exchange::UndercutBy(std::span<const Loss> losses) const {
  const QuotaView after = Without(running_, losses);
  std::vector<Claimant> theirs;
  for (const Loss& loss : losses) {
    if (loss.queue == claimant_) continue;
    for (const Claimant& of : TheirsBeside(loss.queue)) {
      if (std::ranges::find(theirs, of) == theirs.end()) theirs.push_back(of);
    }
  }
  std::vector<Undercut> undercut;
  for (const Claimant& of : theirs) {
    for (const ResourceId id : store().device_ids()) {
      if (shares_->Used(after, of, id) == shares_->Used(running_, of, id)) continue;
      if (Beyond(after, of, id) >= Floor(of, id)) continue;
      undercut.push_back({.of = of, .id = id, .floor = std::max(Quota(of, id), Share(of, id))});
    }
  }
  return undercut;
}

/// The same at the floor of a claimant with quotas for single flavors: whether a job straddles it.
std::optional<bool> Exchange::StraddlesBeyond(Claimant of, ResourceId id,
                                              std::span<const Loss> losses) const {
  // Not on the path of the claimant, and so none of its own jobs is below it.
  const auto concerns = [&](const Loss& loss) {
    const auto path = shares_->PathOf(store(), loss.queue);
    return std::ranges::find(path, of) != path.end() &&
           AmountOf(ChargedDevices(store(), loss.pods), id) != 0;
  };
  const QuotaView after = Without(running_, losses);
  const std::int64_t floor = Floor(of, id);
  if (Beyond(after, of, id) >= floor) return false;
  const auto straddles = [&](const Loss& loss) {
    auto stays = ChargedDevices(store(), loss.job());
    for (auto& [part, amount] : stays) amount = -amount;
    return Beyond(after, of, id, stays) > floor;
  };
  const bool all = std::ranges::all_of(
      losses, [&](const Loss& loss) { return !concerns(loss) || straddles(loss); });
  return all ? std::optional(true) : std::nullopt;
}

/// Of one kind of devices. A quota holds at each queue that has one; a queue without one, of this
/// or another kind that is asked for, promises nothing and forbids nothing, and there the fair
/// share holds.
bool Exchange::IsWithin(const QuotaView& view, Claimant of, const cluster::Demand& asked,
                        ResourceId id, Claim claim, bool placed) const {
  if (claim == Claim::kFairShare || !HasQuota(of, id)) {
    // A quota of another kind that is asked for promises the job as a whole.
    const bool comes_along =
        claim == Claim::kQuota && std::ranges::any_of(asked, [&](const auto& part) {
          return part.second > 0 && IsDevice(store(), part.first) && HasQuota(of, part.first);
        });
    return comes_along || shares_->Used(view, of, id) <= Share(of, id);
  }
  std::int64_t elsewhere = 0;  // what is asked for beside the flavors that the quota promises
  for (const auto& [part, amount] : asked) elsewhere += part == id ? amount : 0;
  std::int64_t beyond = Beyond(view, of, id);
  for (const auto& quota : store().queue(of.queue).flavor_quotas) {
    if (quota.whole != id) continue;
    const std::int64_t used = shares_->Used(view, of, quota.part);
    // Where the nodes are not known yet, as much as there is a promise for is on this flavor.
    const std::int64_t free = placed ? 0 : std::max<std::int64_t>(0, quota.amount - used);
    std::int64_t taken = std::min(free, elsewhere);
    beyond -= taken;
    for (const auto& [part, amount] : asked) taken += part == quota.part ? amount : 0;
    if (taken > 0 && used > quota.amount) return false;
    elsewhere -= taken;
  }
  return elsewhere == 0 || beyond <= Quota(of, id) - PromisedByFlavor(of, id);
}

bool Exchange::IsWithin(const QuotaView& view, std::span<const Claimant> path,
                        const cluster::Demand& asked, Claim claim, bool placed) const {
  bool promised = claim != Claim::kQuota;
  bool asks = false;
  for (const auto& [id, amount] : asked) {
    if (!IsDevice(store(), id)) continue;
    asks = true;
    const bool within = std::ranges::all_of(path, [&](const Claimant& claimant) {
      return IsWithin(view, claimant, asked, id, claim, placed);
    });
    if (!within) return false;
    // A quota of one of the kinds promises the job as a whole.
    promised |= std::ranges::any_of(path, [&](const auto& of) { return HasQuota(of, id); });
  }
  return promised || !asks;
}

Standing Exchange::StandingOf(const QuotaView& view, Claimant of,
                              const cluster::Demand& asked) const {
  Standing standing{.weight = of.own ? 1'000 : store().queue(of.queue).config.weight};
  BeyondQuota beyond(store().device_ids().size());
  for (const auto& [id, amount] : asked) {
    if (IsDevice(store(), id)) beyond.See(shares_->Used(view, of, id), Quota(of, id));
  }
  for (const auto& [id, amount] : asked) {
    const std::int64_t used = shares_->Used(view, of, id);
    if (!IsDevice(store(), id) || !beyond.Is(used, Quota(of, id))) continue;
    standing.beyond = true;
    standing.excess =
        std::max(standing.excess, beyond.Part(used, Quota(of, id), store().total_devices()[id]));
  }
  return standing;
}

/// However much of each kind it would lose.
Standing Exchange::HighestStandingOf(Claimant of) const {
  Standing highest = StandingOf(running_, of, {});
  for (const ResourceId id : store().device_ids()) {
    const Standing by_kind = StandingOf(running_, of, {{id, 0}});
    highest.beyond |= by_kind.beyond;
    highest.excess = std::max(highest.excess, by_kind.excess);
  }
  return highest;
}

bool Exchange::Holds(Claim claim, QueueId loser, const QuotaView& after,
                     const cluster::Demand& asked, const cluster::Demand* lost, bool placed) const {
  const std::vector<Claimant> ours = OursBeside(loser);
  if (!IsWithin(after, ours, asked, claim, placed)) return false;
  if (claim == Claim::kQuota || IsOverCap(loser, asked)) return true;
  const Claimant of = TheirsBeside(loser).back();
  return StandingOf(after, ours.back(), asked) <
         (lost == nullptr ? HighestStandingOf(of) : StandingOf(running_, of, *lost));
}

/// Whether a queue that the claimant is not charged to, on the path of `loser`, has more in use
/// than its limit, which it is entitled to by no weight.
bool Exchange::IsOverCap(QueueId loser, const cluster::Demand& asked) const {
  const std::vector<QueueId>& ours = store().queue(claimant_).path;
  const auto is_asked = [&](ResourceId id) {
    return std::ranges::any_of(
        asked, [&](const auto& part) { return part.first == id && part.second > 0; });
  };
  return std::ranges::any_of(store().queue(loser).path, [&](QueueId queue) {
    return std::ranges::find(ours, queue) == ours.end() && IsOverCapOf(running_, queue, is_asked);
  });
}

Claim Exchange::ClaimOf(const QuotaView& after, std::span<const Loss> losses,
                        const cluster::Demand& asked, bool placed) const {
  std::map<QueueId, cluster::Demand> losers;  // with what they lose
  for (const Loss& loss : losses) {
    if (loss.queue == claimant_) continue;
    cluster::Demand& lost = losers[loss.queue];
    for (const auto& part : ChargedDevices(store(), loss.pods)) {
      if (AmountOf(lost, part.first) == 0) lost.push_back(part);
    }
  }
  for (auto& [queue, lost] : losers) {
    if (lost.empty()) lost = asked;  // it loses no devices, or only what is planned
  }
  for (const Claim claim : {Claim::kQuota, Claim::kFairShare}) {
    if (claim == Claim::kFairShare && !losers.empty() && !KeepsTotals(losses)) break;
    const bool holds = std::ranges::all_of(losers, [&](const auto& loser) {
      return Holds(claim, loser.first, after, asked, &loser.second, placed);
    });
    if (holds) return claim;
  }
  return Claim::kNone;
}

bool Exchange::KeepsTotals(std::span<const Loss> losses) const {
  const auto has_flavors = [&](const Loss& loss) {
    return loss.queue != claimant_ && store().queue(loss.queue).by_flavor;
  };
  if (std::ranges::none_of(losses, has_flavors)) return true;  // the floors are of totals
  const QuotaView after = Without(running_, losses);
  return std::ranges::all_of(losses, [&](const Loss& loss) {
    return std::ranges::all_of(TheirsBeside(loss.queue), [&](const Claimant& of) {
      return std::ranges::all_of(store().device_ids(), [&](ResourceId id) {
        const std::int64_t left = shares_->Used(after, of, id);
        return left == shares_->Used(running_, of, id) ||
               left >= std::max(Quota(of, id), Share(of, id));
      });
    });
  });
}

QuotaView Exchange::UseWithout(std::span<const Loss> losses) const { return Without(now_, losses); }

cluster::Demand Exchange::AskedBy(std::span<const Placed> placed) const {
  std::map<ResourceId, std::int64_t> sums;
  for (const Placed& member : placed) {
    for (const auto& [id, amount] : store().QueueChargeOn(*member.pod, store().node(member.node))) {
      if (amount != 0) sums[id] += amount;
    }
  }
  return {sums.begin(), sums.end()};
}

Claim Exchange::ClaimOf(std::span<const Placed> placed, std::span<const Loss> losses,
                        QuotaView use) const {
  const cluster::Demand asked = AskedBy(placed);
  use.Take(claimant_, asked);
  return ClaimOf(use, losses, asked, /*placed=*/true);
}

bool Exchange::IsEntitled(std::span<const Placed> placed, std::span<const Loss> losses,
                          QuotaView use) const {
  const cluster::Demand asked = AskedBy(placed);
  use.Take(claimant_, asked);
  return std::ranges::all_of(losses, [&](const Loss& loss) {
    return loss.queue == claimant_ ||
           IsWithin(use, OursBeside(loss.queue), asked, Claim::kFairShare, /*placed=*/true);
  });
}

Claim Exchange::BestClaimOf(const cluster::Demand& wants, std::span<const Loss> losses,
                            QuotaView use) const {
  use.Take(claimant_, wants);
  return ClaimOf(use, losses, wants, /*placed=*/false);
}

bool Exchange::MayClaim(const cluster::Demand& wants) const {
  QuotaView after = now_;
  after.Take(claimant_, wants);
  const std::vector<Claimant> path = shares_->PathOf(store(), claimant_);
  const std::array<Claimant, 1> narrowest{path.front()};
  const auto is_within = [&](Claim claim) {
    return IsWithin(after, narrowest, wants, claim, /*placed=*/false);
  };
  return is_within(Claim::kQuota) || is_within(Claim::kFairShare);
}

Floors::Floors(const Exchange& exchange) : exchange_(&exchange), left_(exchange.running_) {}

bool Floors::Take(const Loss& loss, bool may_straddle) {
  const bool taken = loss.queue == exchange_->claimant_ || Fits(loss, may_straddle);
  if (!taken) return false;
  for (const PodInfo* pod : loss.pods) left_.GiveBack(*pod);
  return true;
}

/// Whether it may be taken as well. Remembers at which floors it is the straddler.
bool Floors::Fits(const Loss& loss, bool may_straddle) {
  const auto [known, fresh] = theirs_.try_emplace(loss.queue);
  if (fresh) known->second = exchange_->TheirsBeside(loss.queue);
  const auto charged = ChargedDevices(exchange_->store(), loss.pods);
  const auto without_surplus = [&](const Claimant& claimant, ResourceId id) {
    auto surplus = charged;
    const auto minimum = ChargedDevices(exchange_->store(), loss.job());
    for (auto& [part, amount] : surplus) amount -= AmountOf(minimum, part);
    return exchange_->Beyond(left_, claimant, id, surplus);
  };
  std::vector<std::tuple<QueueId, bool, ResourceId>> straddles;
  for (const Claimant& claimant : known->second) {
    for (const auto& [id, amount] : charged) {
      const std::int64_t left = exchange_->Beyond(left_, claimant, id, charged);
      const std::int64_t floor = exchange_->Floor(claimant, id);
      if (left >= floor) continue;
      straddles.emplace_back(claimant.queue, claimant.own, id);
      const bool may = may_straddle && without_surplus(claimant, id) > floor;
      if (!may || straddled_.contains(straddles.back())) return false;
    }
  }
  straddled_.insert(straddles.begin(), straddles.end());
  return true;
}

/// How much is in use above the highest floor. Of what no queue is promised, anything may go.
std::int64_t Losable::AboveFloor(QueueId queue, ResourceId id) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const auto [known, fresh] = above_.try_emplace({queue, id}, kAll);
  if (!fresh || !IsPromised(exchange_->store(), id)) return known->second;
  for (const Claimant& claimant : exchange_->TheirsBeside(queue)) {
    const std::int64_t above =
        exchange_->Beyond(exchange_->running_, claimant, id) - exchange_->Floor(claimant, id);
    known->second = std::min(known->second, above);
  }
  return known->second;
}

/// A job that is taken alone fits above each floor, or reaches from above it to below it, where
/// more is in use than the floor.
bool Losable::operator()(const Loss& loss) {
  if (loss.queue == exchange_->claimant_) return true;
  return std::ranges::all_of(loss.pods, [&](const PodInfo* pod) {
    return std::ranges::all_of(pod->queue_charge, [&](const auto& part) {
      return part.second == 0 || AboveFloor(loss.queue, part.first) > 0;
    });
  });
}

bool Losable::IsWhole(const Loss& loss) {
  if (loss.queue == exchange_->claimant_) return true;
  const auto charged = ChargedDevices(exchange_->store(), loss.pods);
  return std::ranges::all_of(
      charged, [&](const auto& part) { return part.second <= AboveFloor(loss.queue, part.first); });
}

Reach::Reach(const Exchange& exchange, cluster::Demand wants, std::span<const Loss> all)
    : exchange_(&exchange), wants_(std::move(wants)), after_(Without(exchange.now_, all)) {
  after_.Take(exchange.claimant_, wants_);
}

Claim Reach::Of(QueueId loser) {
  const auto [known, fresh] = known_.try_emplace(loser, Claim::kNone);
  if (!fresh) return known->second;
  for (const Claim claim : {Claim::kFairShare, Claim::kQuota}) {
    if (exchange_->Holds(claim, loser, after_, wants_, /*lost=*/nullptr, /*placed=*/false))
      known->second = claim;
  }
  return known->second;
}

bool Exchange::Lacks() const {
  const Claimant narrowest = shares_->PathOf(store(), claimant_).front();
  const auto lacks = [&](ResourceId id) {
    return Beyond(now_, narrowest, id) < Floor(narrowest, id);
  };
  const auto& flavors = store().queue(claimant_).flavor_quotas;
  return std::ranges::any_of(store().device_ids(), lacks) ||
         (!narrowest.own && std::ranges::any_of(flavors, lacks, &QueueInfo::FlavorQuota::part));
}

std::int64_t Exchange::Excess(QueueId queue) const {
  std::int64_t most = 0;
  for (const ResourceId id : store().device_ids()) most = std::max(most, Excess(queue, id));
  return most;
}

std::int64_t Exchange::Excess(QueueId queue, ResourceId id) const {
  const Claimant narrowest = shares_->PathOf(store(), queue).front();
  return std::max<std::int64_t>(0, Beyond(running_, narrowest, id) - Floor(narrowest, id));
}

bool AnyMayLose(const cluster::Store& store, const FairShareTable& shares) {
  const QuotaView use(store);
  const Exchange exchange(shares, use, use, cluster::kNoQueue);
  return std::ranges::any_of(store.queues(),
                             [&](QueueId queue) { return exchange.Excess(queue) > 0; });
}

}  // namespace berth::policy
