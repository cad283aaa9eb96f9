// Whether a job may take room that other queues occupy: its claim, and the floors of the queues
// that would lose. A claim ends with the claimant at or under what it is promised or its fair
// share, and with each queue that loses at or above both of its own, so no exchange is ever undone
// by another one (docs/queues.md, "Why there is no loop").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "policy/fair_share_table.h"
#include "policy/placement.h"
#include "policy/queue_order.h"
#include "policy/quota.h"

namespace berth::policy {

/// A job of another queue whose room a claim would take: all of these pods end.
struct Loss {
  cluster::QueueId queue = cluster::kNoQueue;
  std::span<const cluster::PodInfo* const> pods;
  /// The pods of the minimum of an elastic gang, which alone may straddle a floor; empty: all of
  /// `pods`.
  std::span<const cluster::PodInfo* const> minimum{};
  std::span<const cluster::PodInfo* const> job() const { return minimum.empty() ? pods : minimum; }
};

/// A floor below which the loss of a straddler leaves a claimant (Exchange::Straddlers).
struct Undercut {
  Claimant of;
  cluster::ResourceId id = 0;
  std::int64_t floor = 0;  ///< The larger of its quota and its fair share, thousandths.
};

enum class Claim : std::uint8_t {
  kNone,       ///< It would have more than its quota and more than its fair share.
  kFairShare,  ///< It stays within its fair share.
  kQuota,      ///< It stays within its quota.
};

/// The exchange of room between the queue of a waiting job and others.
class Exchange {
 public:
  /// `shares` must outlive it. `now`: the use of queues, without what ends in any case. `running`:
  /// the same without what is only planned; this is what queues that lose are judged by.
  Exchange(const FairShareTable& shares, QuotaView now, QuotaView running,
           cluster::QueueId claimant)
      : shares_(&shares), now_(std::move(now)), running_(std::move(running)), claimant_(claimant) {}

  /// The same by other fair shares, which must outlive it.
  Exchange With(const FairShareTable& shares) const {
    Exchange other = *this;
    other.shares_ = &shares;
    return other;
  }

  /// How many of the jobs leave a queue below its floor, the larger of its quota and its fair
  /// share, at some level below the common ancestor with the claimant. Only a job that reaches from
  /// above a floor to below it may do that, one at each floor, and only together with others that
  /// do not fit below the floor either, so that what the quota covers stays whole. nullopt: they
  /// may not be taken. Jobs of the claimant's own queue count towards no floor.
  std::optional<int> Straddlers(std::span<const Loss> losses) const;

  /// The floors, at the same levels, below which claimants are left by these jobs.
  std::vector<Undercut> UndercutBy(std::span<const Loss> losses) const;

  /// The use of queues once these have ended, with what ends in any case.
  QuotaView UseWithout(std::span<const Loss> losses) const;

  /// The claim of a job that would be placed so once the others have ended; `use`: UseWithout them.
  /// With losses in the own queue alone it needs none: kQuota. For a fair share alone nothing is
  /// exchanged among equals: next to each queue that loses, the claimant must rank higher with the
  /// job than that queue does now (queue_order.h, without priorities), unless that one is over a
  /// limit.
  Claim ClaimOf(std::span<const Placed> placed, std::span<const Loss> losses, QuotaView use) const;

  /// Whether the claimant stays within its fair share, also where it ranks no higher than a queue
  /// that loses.
  bool IsEntitled(std::span<const Placed> placed, std::span<const Loss> losses,
                  QuotaView use) const;

  /// The best that it could be, wherever the job is placed. `wants`: the least that it is charged.
  Claim BestClaimOf(const cluster::Demand& wants, std::span<const Loss> losses,
                    QuotaView use) const;

  /// Whether the queue could have a claim to `wants` more, whichever queues lose it.
  bool MayClaim(const cluster::Demand& wants) const;

  /// Whether the claimant has less in use of some device than its quota or its fair share.
  bool Lacks() const;

  /// How much the queue has in use above its floor, of the kind of devices of which that is most;
  /// at least 0. Thousandths.
  std::int64_t Excess(cluster::QueueId queue) const;
  /// The same of one kind.
  std::int64_t Excess(cluster::QueueId queue, cluster::ResourceId id) const;

 private:
  friend class Floors;
  friend class Losable;
  friend class Reach;
  const cluster::Store& store() const { return now_.store(); }
  /// Of the path of the claimant, and of that of the other queue: those below the lowest common
  /// ancestor of both.
  std::vector<Claimant> OursBeside(cluster::QueueId other) const;
  std::vector<Claimant> TheirsBeside(cluster::QueueId other) const;
  std::int64_t Quota(Claimant of, cluster::ResourceId id) const;
  std::int64_t Share(Claimant of, cluster::ResourceId id) const;
  /// What a quota promises of a single flavor is had on nodes of that flavor alone. So the floor of
  /// a kind of devices is what is left without these promises, and what is in use beyond them is
  /// compared with it. `less`: as if so much of each were given back.
  std::int64_t Floor(Claimant of, cluster::ResourceId id) const;
  std::int64_t Beyond(const QuotaView& view, Claimant of, cluster::ResourceId id,
                      const cluster::Demand& less = {}) const;
  std::optional<bool> StraddlesBeyond(Claimant of, cluster::ResourceId id,
                                      std::span<const Loss> losses) const;
  std::int64_t PromisedByFlavor(Claimant of, cluster::ResourceId id) const;
  bool HasQuota(Claimant of, cluster::ResourceId id) const;
  bool IsOverCap(cluster::QueueId loser, const cluster::Demand& asked) const;
  /// What the claimant is charged for these.
  cluster::Demand AskedBy(std::span<const Placed> placed) const;
  Standing StandingOf(const QuotaView& view, Claimant of, const cluster::Demand& asked) const;
  bool IsWithin(const QuotaView& view, std::span<const Claimant> path, const cluster::Demand& asked,
                Claim claim, bool placed) const;
  bool IsWithin(const QuotaView& view, Claimant of, const cluster::Demand& asked,
                cluster::ResourceId id, Claim claim, bool placed) const;
  Standing HighestStandingOf(Claimant of) const;
  /// Whether the claim holds against that queue. `after`: use once all is done. `asked`: what the
  /// job is charged. `lost`: what that queue would lose, of which the kinds of devices count for
  /// its rank; null: not known yet. `placed`: the job is charged on known nodes; otherwise on nodes
  /// of whatever flavor is best.
  bool Holds(Claim claim, cluster::QueueId loser, const QuotaView& after,
             const cluster::Demand& asked, const cluster::Demand* lost, bool placed) const;
  Claim ClaimOf(const QuotaView& after, std::span<const Loss> losses, const cluster::Demand& asked,
                bool placed) const;
  /// Whether the queues that lose keep their quota and fair share in total, on nodes of whatever
  /// flavor.
  bool KeepsTotals(std::span<const Loss> losses) const;

  const FairShareTable* shares_;
  QuotaView now_;
  QuotaView running_;
  cluster::QueueId claimant_;
};

/// Whether any queue has devices in use above its floor: otherwise no other queue finds anything to
/// take from it. Takes a time in proportion to the number of queues.
bool AnyMayLose(const cluster::Store& store, const FairShareTable& shares);

/// Jobs each of which Exchange::Straddlers permits alone. What it takes of a queue is computed
/// once.
class Losable {
 public:
  /// The exchange must outlive it.
  explicit Losable(const Exchange& exchange) : exchange_(&exchange) {}
  bool operator()(const Loss& loss);
  /// Whether it is no straddler.
  bool IsWhole(const Loss& loss);

 private:
  std::int64_t AboveFloor(cluster::QueueId queue, cluster::ResourceId id);

  const Exchange* exchange_;
  std::map<std::pair<cluster::QueueId, cluster::ResourceId>, std::int64_t> above_;
};

/// By what claim, at best, a job could take something from a queue, whichever others lose besides.
class Reach {
 public:
  /// The exchange must outlive it. `wants`: the least that the job is charged. `all`: whatever may
  /// be taken for it.
  Reach(const Exchange& exchange, cluster::Demand wants, std::span<const Loss> all);
  Claim Of(cluster::QueueId loser);

 private:
  const Exchange* exchange_;
  cluster::Demand wants_;
  QuotaView after_;  ///< Once all of it is gone, and the job runs.
  std::map<cluster::QueueId, Claim> known_;
};

/// Jobs that are taken one after the other, as long as Exchange::Straddlers permits them all.
class Floors {
 public:
  /// The exchange must outlive it.
  explicit Floors(const Exchange& exchange);
  /// Takes the job, or leaves it: it would go below a floor. `may_straddle`: it may do so as the
  /// only one at that floor.
  bool Take(const Loss& loss, bool may_straddle);

 private:
  bool Fits(const Loss& loss, bool may_straddle);

  const Exchange* exchange_;
  QuotaView left_;
  std::map<cluster::QueueId, std::vector<Claimant>> theirs_;  ///< Below the common ancestor.
  std::set<std::tuple<cluster::QueueId, bool, cluster::ResourceId>> straddled_;
};

}  // namespace berth::policy
