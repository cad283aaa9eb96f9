// Fair shares of random trees: what any of them must satisfy, and a comparison with a search and
// with the definition told in another way.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "policy/fair_share.h"
#include "policy/queue_demand.h"
#include "tests/support/builders.h"
#include "tests/support/catch.h"
#include "tests/support/draw.h"
#include "tests/support/world.h"

namespace berth::policy {
namespace {

using testing::In;

struct Shape {
  int kinds = 1;
  bool unit_jobs = false;
  bool promises_hold = false;  ///< Quotas fit into their parent's and into the pool.
  bool keeps = true;
  bool flat = false;
  int most_queues = 6;
};

/// Amounts that add up to no more than `of`, for promises that hold.
DeviceAmounts Quota(const Shape& shape, DeviceAmounts& of) {
  DeviceAmounts quota;
  for (std::int64_t& left : of) {
    const int most = shape.promises_hold ? static_cast<int>(std::min<std::int64_t>(8, left)) : 8;
    quota.push_back(In(0, 1) == 0 ? 0 : In(0, most));
    left -= quota.back();
  }
  return quota;
}

std::vector<JobSize> SomeJobs(const Shape& shape) {
  std::vector<JobSize> jobs;
  for (int i = In(0, 3); i > 0; --i) {
    JobSize job{.count = In(1, 4)};
    for (int kind = 0; kind < shape.kinds; ++kind) {
      job.devices.push_back(shape.unit_jobs ? 1 : In(kind == 0 ? 1 : 0, 6));
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

FairTree SomeTree(const Shape& shape) {
  FairTree tree;
  for (int kind = 0; kind < shape.kinds; ++kind) {
    tree.pool.push_back(In(0, 30));
    tree.total.push_back(tree.pool.back() + In(0, 4));
  }
  std::vector<DeviceAmounts> left{tree.pool};  // of the top, then of each queue's quota
  const int count = In(1, shape.most_queues);
  for (int i = 0; i < count; ++i) {
    FairQueue queue{.name = std::string(1, static_cast<char>('a' + i)),
                    .parent = shape.flat ? -1 : In(-1, i - 1)};
    queue.quota = Quota(shape, left[static_cast<std::size_t>(queue.parent + 1)]);
    left.push_back(queue.quota);
    for (int kind = 0; kind < shape.kinds; ++kind) {
      const std::int64_t quota = queue.quota[static_cast<std::size_t>(kind)];
      queue.limit.push_back(In(0, 2) == 0 ? quota + In(0, 8) : kNoLimit);
      queue.kept.push_back(shape.keeps && In(0, 2) == 0 ? In(0, static_cast<int>(quota)) : 0);
      queue.used.push_back(0);
    }
    queue.weight = std::array{0, 1000, 1000, 2000, 3000}[static_cast<std::size_t>(In(0, 4))];
    queue.priority = In(0, 1);
    queue.jobs = SomeJobs(shape);
    tree.queues.push_back(std::move(queue));
  }
  return tree;
}

FairTree SomeTree() {
  return SomeTree({.kinds = In(1, 2), .unit_jobs = In(0, 3) == 0, .keeps = In(0, 1) == 0});
}

std::int64_t OwnDemand(const FairQueue& queue, std::size_t kind) {
  std::int64_t sum = 0;
  for (const JobSize& job : queue.jobs) sum += job.count * job.devices[kind];
  return sum;
}

/// Of the queue and those below it. Queues come after their parents.
std::vector<std::int64_t> Demands(const FairTree& tree, std::size_t kind) {
  std::vector<std::int64_t> demands;
  for (const FairQueue& queue : tree.queues) demands.push_back(OwnDemand(queue, kind));
  for (std::size_t i = demands.size(); i > 0; --i) {
    const int parent = tree.queues[i - 1].parent;
    if (parent >= 0) demands[static_cast<std::size_t>(parent)] += demands[i - 1];
  }
  return demands;
}

bool HasChildren(const FairTree& tree, std::size_t queue) {
  return std::ranges::any_of(
      tree.queues, [&](const FairQueue& other) { return other.parent == static_cast<int>(queue); });
}

void Bounds() {
  const FairTree tree = SomeTree();
  const std::vector<Entitlement> shares = Entitlements(tree);
  const bool weighty =
      std::ranges::all_of(tree.queues, [](const FairQueue& queue) { return queue.weight > 0; });
  for (std::size_t kind = 0; kind < tree.pool.size(); ++kind) {
    std::vector<std::int64_t> below(shares.size() + 1);  // of the top, then of each queue
    const std::vector<std::int64_t> demands = Demands(tree, kind);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const FairQueue& queue = tree.queues[i];
      const std::int64_t share = shares[i].share[kind];
      below[static_cast<std::size_t>(queue.parent + 1)] += share;
      below[i + 1] += shares[i].own[kind];
      RC_ASSERT(share >= 0);
      RC_ASSERT(share <= demands[i]);
      RC_ASSERT(share <= queue.limit[kind]);
      // Of a kind that its quota does not name it has what comes with one that it names.
      const auto promises = [](std::int64_t quota) { return quota > 0; };
      const bool follows = queue.quota[kind] == 0 && std::ranges::any_of(queue.quota, promises);
      if (queue.weight == 0 && !follows) RC_ASSERT(share <= queue.quota[kind]);
    }
    RC_ASSERT(below[0] <= tree.pool[kind]);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (!HasChildren(tree, i)) continue;
      RC_ASSERT(shares[i].own[kind] >= 0);
      RC_ASSERT(shares[i].own[kind] <= OwnDemand(tree.queues[i], kind));
      const std::int64_t share = shares[i].share[kind];
      RC_ASSERT(below[i + 1] <= share);
      // More than that is what its quota, or one further up, covers of queues of weight 0.
      RC_ASSERT(below[i + 1] == share || !weighty);
    }
  }
}

/// Where jobs of one device ask for quotas that hold, each queue has its quota.
void Promises() {
  const FairTree tree =
      SomeTree({.unit_jobs = true, .promises_hold = true, .keeps = In(0, 1) == 0});
  const std::vector<DeviceAmounts> shares = FairShares(tree);
  const std::vector<std::int64_t> demands = Demands(tree, 0);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (HasChildren(tree, i)) continue;  // its own work is promised nothing
    RC_ASSERT(shares[i][0] >= std::min(tree.queues[i].quota[0], demands[i]));
  }
}

/// Where nothing is kept and everybody has weight, jobs of one device leave nothing that somebody
/// may have.
void NothingIsWasted() {
  FairTree tree = SomeTree({.unit_jobs = true, .keeps = false, .flat = true});
  std::int64_t most = 0;
  for (FairQueue& queue : tree.queues) {
    queue.weight = std::max<std::int64_t>(queue.weight, 1000);
    most += std::min(queue.limit[0], OwnDemand(queue, 0));
  }
  std::int64_t sum = 0;
  for (const DeviceAmounts& share : FairShares(tree)) sum += share[0];
  RC_ASSERT(sum == std::min(most, tree.pool[0]));
}

void Scale(DeviceAmounts& amounts, std::int64_t factor) {
  for (std::int64_t& amount : amounts) amount = amount == kNoLimit ? amount : amount * factor;
}

void Scales() {
  const FairTree tree = SomeTree();
  const std::int64_t factor = std::array{2, 3, 7, 1000}[static_cast<std::size_t>(In(0, 3))];
  FairTree scaled = tree;
  Scale(scaled.total, factor);
  Scale(scaled.pool, factor);
  for (FairQueue& queue : scaled.queues) {
    for (auto* amounts : {&queue.quota, &queue.limit, &queue.kept}) Scale(*amounts, factor);
    for (JobSize& job : queue.jobs) Scale(job.devices, factor);
  }
  std::vector<DeviceAmounts> expected = FairShares(tree);
  for (DeviceAmounts& share : expected) Scale(share, factor);
  RC_ASSERT(FairShares(scaled) == expected);
}

void IdleQueuesChangeNothing() {
  FairTree tree = SomeTree();
  const std::vector<DeviceAmounts> before = FairShares(tree);
  const int parent = In(-1, static_cast<int>(tree.queues.size()) - 1);
  // Below a queue without others below it, its work would no longer have the queue's quota.
  RC_PRE(parent < 0 || HasChildren(tree, static_cast<std::size_t>(parent)));
  const DeviceAmounts none(tree.pool.size());
  tree.queues.push_back({.name = std::string(In(0, 1) == 0 ? "A" : "z"),
                         .parent = parent,
                         .quota = none,
                         .limit = DeviceAmounts(tree.pool.size(), kNoLimit),
                         .kept = none,
                         .used = none,
                         .weight = 1000 * In(0, 3)});
  std::vector<DeviceAmounts> after = FairShares(tree);
  RC_ASSERT(after.back() == none);
  after.pop_back();
  RC_ASSERT(after == before);
}

/// The order of the queues in the policy never matters. Their names do not, where priority decides
/// all ties.
void OrderAndNames() {
  FairTree tree = SomeTree();
  const bool rename = In(0, 1) == 0;
  std::int64_t priority = 1;
  if (rename) {
    for (FairQueue& queue : tree.queues) queue.priority = priority++;
  }
  const std::vector<DeviceAmounts> before = FairShares(tree);
  std::vector<int> order(tree.queues.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(In(0, static_cast<int>(i) - 1))]);
  }
  FairTree shuffled = tree;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto place = static_cast<std::size_t>(order[i]);
    shuffled.queues[place] = tree.queues[i];
    if (rename) shuffled.queues[place].name = std::string(1, static_cast<char>('z' - i));
    const int parent = tree.queues[i].parent;
    if (parent >= 0) shuffled.queues[place].parent = order[static_cast<std::size_t>(parent)];
  }
  const std::vector<DeviceAmounts> after = FairShares(shuffled);
  for (std::size_t i = 0; i < order.size(); ++i) {
    RC_ASSERT(after[static_cast<std::size_t>(order[i])] == before[i]);
  }
}

/// By trying all: of the ways to share out as much as can be, first those with most within quotas,
/// and of these the one in which the devices above quota are on the lowest levels, the highest ones
/// compared first. A queue's n-th device above quota is on level n / weight. With jobs of one
/// device and without limits.
class Search {
 public:
  explicit Search(const FairTree& tree) : tree_(tree) {
    std::vector<std::int64_t> shares;
    Try(shares, 0);
  }
  /// What all have, and within quotas, negated; then the levels, the highest first, times 6 to be
  /// whole. The less is better.
  std::vector<std::int64_t> Levels(const std::vector<std::int64_t>& shares) const {
    std::vector<std::int64_t> levels;
    std::int64_t within = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const FairQueue& queue = tree_.queues[i];
      within += std::min(shares[i], queue.quota[0]);
      for (std::int64_t n = 1; n <= shares[i] - queue.quota[0]; ++n) {
        levels.push_back(6 * n * 1000 / queue.weight);
      }
    }
    std::ranges::sort(levels, std::greater());
    levels.insert(levels.begin(), -within);
    levels.insert(levels.begin(), -std::accumulate(shares.begin(), shares.end(), std::int64_t{0}));
    return levels;
  }
  const std::vector<std::int64_t>& best() const { return best_; }

 private:
  void Try(std::vector<std::int64_t>& shares, std::int64_t sum) {
    if (sum > tree_.pool[0]) return;
    if (shares.size() == tree_.queues.size()) {
      std::vector<std::int64_t> levels = Levels(shares);
      if (best_.empty() || levels < best_) best_ = std::move(levels);
      return;
    }
    const std::int64_t most = OwnDemand(tree_.queues[shares.size()], 0);
    for (std::int64_t share = 0; share <= most; ++share) {
      shares.push_back(share);
      Try(shares, sum + share);
      shares.pop_back();
    }
  }

  const FairTree& tree_;
  std::vector<std::int64_t> best_;
};

void AsSearched() {
  FairTree tree = SomeTree({.unit_jobs = true, .keeps = false, .flat = true, .most_queues = 4});
  for (FairQueue& queue : tree.queues) {
    queue.weight = std::max<std::int64_t>(queue.weight, 1000);
    queue.limit[0] = kNoLimit;
    queue.jobs = {{{1}, In(0, 8)}};
  }
  tree.pool[0] = In(0, 20);
  std::vector<std::int64_t> shares;
  for (const DeviceAmounts& share : FairShares(tree)) shares.push_back(share[0]);
  const Search search(tree);
  RC_ASSERT(search.Levels(shares) == search.best());
}

/// The definition, for one kind of devices and nothing kept: at each step all candidates are looked
/// at again, and a queue's next amount is looked for device by device.
class Told {
 public:
  explicit Told(const FairTree& tree)
      : tree_(tree), shares_(tree.queues.size()), unearned_(tree.queues.size()) {
    for (std::size_t i = 0; i < tree.queues.size(); ++i) {
      own_.push_back({});
      for (const JobSize& job : tree.queues[i].jobs) {
        if (job.devices[0] > Most(i)) continue;
        own_.back().jobs.insert(own_.back().jobs.end(), static_cast<std::size_t>(job.count),
                                job.devices[0]);
      }
      std::ranges::sort(own_.back().jobs, std::greater());
    }
    while (Step()) {
    }
  }
  std::vector<std::int64_t> shares() const {
    std::vector<std::int64_t> shares = shares_;
    for (std::size_t i = 0; i < shares.size(); ++i) shares[i] -= unearned_[i];
    return shares;
  }

 private:
  struct Own {
    std::vector<std::int64_t> jobs;
    std::int64_t has = 0;
    bool done = false;
  };

  /// The most that the queue may have, as far as itself is concerned.
  std::int64_t LimitOf(std::size_t queue) const {
    const FairQueue& q = tree_.queues[queue];
    if (q.weight > 0) return q.limit[0];
    std::int64_t covered = q.quota[0];
    if (q.parent >= 0 && !HasChildren(tree_, queue)) {
      covered = std::max(covered, tree_.queues[static_cast<std::size_t>(q.parent)].quota[0]);
    }
    return std::min(q.limit[0], covered);
  }
  std::int64_t Most(std::size_t queue) const {
    std::int64_t most = tree_.pool[0];
    for (int at = static_cast<int>(queue); at >= 0;
         at = tree_.queues[static_cast<std::size_t>(at)].parent) {
      most = std::min(most, LimitOf(static_cast<std::size_t>(at)));
    }
    return most;
  }
  /// Whether only its parent's quota may cover the step.
  bool IsBeyond(std::size_t queue, std::int64_t step) const {
    return tree_.queues[queue].weight == 0 && !HasChildren(tree_, queue) &&
           shares_[queue] + step > tree_.queues[queue].quota[0];
  }
  static std::int64_t FirstFit(const std::vector<std::int64_t>& jobs, std::int64_t room) {
    std::int64_t sum = 0;
    for (const std::int64_t job : jobs) sum += sum + job <= room ? job : 0;
    return sum;
  }
  /// What the own work of a queue has next; what it has already: nothing.
  std::int64_t NextOf(std::size_t queue) const {
    const Own& own = own_[queue];
    const std::int64_t all = std::accumulate(own.jobs.begin(), own.jobs.end(), std::int64_t{0});
    for (std::int64_t room = own.has + 1; room <= all && !own.done; ++room) {
      if (const std::int64_t sum = FirstFit(own.jobs, room); sum > own.has) return sum;
    }
    return own.has;
  }

  /// A child of a queue, or its own work, with its next step.
  struct Candidate {
    std::size_t worker;  ///< Whose own work the step is.
    std::int64_t step = 0;
    std::int64_t amount = 0;  ///< With the step.
    std::int64_t quota = 0;
    std::int64_t weight = 1000;
    std::int64_t priority = 0;
    std::string name{};
  };
  static bool Before(const Candidate& a, const Candidate& b) {
    const bool a_beyond = a.amount > a.quota;
    const bool b_beyond = b.amount > b.quota;
    if (a_beyond != b_beyond) return b_beyond;
    const std::int64_t mine = (a.amount - a.quota) * std::max<std::int64_t>(1, b.weight);
    const std::int64_t its = (b.amount - b.quota) * std::max<std::int64_t>(1, a.weight);
    if (a_beyond && (a.weight == 0) != (b.weight == 0)) return b.weight == 0;
    if (a_beyond && mine != its) return mine < its;
    if (a.priority != b.priority) return a.priority > b.priority;
    const std::int64_t my_part = a_beyond ? 0 : a.amount * b.quota;
    const std::int64_t its_part = a_beyond ? 0 : b.amount * a.quota;
    return my_part != its_part ? my_part < its_part : a.name < b.name;
  }

  /// The best candidate among the children of a queue and its own work; -1: those at the top.
  /// `worker`: tree_.queues.size() if there is none.
  Candidate Best(int parent) const {
    Candidate best{.worker = tree_.queues.size(), .step = 0};
    const auto consider = [&](Candidate candidate) {
      if (candidate.worker == tree_.queues.size() || candidate.step == 0) return;
      if (best.step == 0 || Before(candidate, best)) best = std::move(candidate);
    };
    for (std::size_t i = 0; i < tree_.queues.size(); ++i) {
      const FairQueue& queue = tree_.queues[i];
      if (queue.parent != parent) continue;
      Candidate candidate{.worker = i, .step = NextOf(i) - own_[i].has};
      if (HasChildren(tree_, i)) candidate = Best(static_cast<int>(i));
      candidate.amount = shares_[i] + candidate.step;
      candidate.quota = queue.quota[0];
      candidate.weight = queue.weight;
      candidate.priority = queue.priority;
      candidate.name = queue.name;
      consider(std::move(candidate));
    }
    if (parent >= 0) {
      const auto i = static_cast<std::size_t>(parent);
      const std::int64_t next = NextOf(i);
      consider(
          {.worker = i, .step = next - own_[i].has, .amount = next, .name = tree_.queues[i].name});
    }
    return best;
  }

  bool Step() {
    const Candidate best = Best(-1);
    if (best.worker == tree_.queues.size()) return false;
    bool fits = sum_ + best.step <= tree_.pool[0];
    std::vector<std::size_t> path;
    for (int at = static_cast<int>(best.worker); at >= 0; at = tree_.queues[path.back()].parent) {
      path.push_back(static_cast<std::size_t>(at));
      fits = fits && shares_[path.back()] + best.step <= LimitOf(path.back());
    }
    const bool beyond = IsBeyond(best.worker, best.step);
    if (beyond && path.size() > 1) {
      fits = fits && shares_[path[1]] + best.step <= tree_.queues[path[1]].quota[0];
    }
    if (fits) {
      sum_ += best.step;
      own_[best.worker].has += best.step;
      if (beyond) unearned_[best.worker] += best.step;
      for (const std::size_t queue : path) shares_[queue] += best.step;
    } else {
      own_[best.worker].done = true;  // the next ones are larger
    }
    return true;
  }

  const FairTree& tree_;
  std::vector<Own> own_;
  std::vector<std::int64_t> shares_;
  std::vector<std::int64_t> unearned_;  ///< Of that, what its parent's quota covers.
  std::int64_t sum_ = 0;
};

void AsTold() {
  const FairTree tree = SomeTree({.keeps = false});
  std::vector<std::int64_t> shares;
  for (const DeviceAmounts& share : FairShares(tree)) shares.push_back(share[0]);
  RC_ASSERT(shares == Told(tree).shares());
}

/// Where each queue has jobs of one size that it may start, promises hold and priority decides all
/// ties, the engine gives an empty cluster to the queues by their shares.
void AsTheEngineFills() {
  FairTree tree = SomeTree({.promises_hold = true, .most_queues = 5});
  auto policy = testing::MakePolicy({});
  policy.borrowing = true;
  policy.queues.clear();
  std::vector<kube::Pod> pods;
  for (std::size_t i = 0; i < tree.queues.size(); ++i) {
    const FairQueue& queue = tree.queues[i];
    config::Queue& made = policy.queues.emplace_back(testing::MakeQueue(
        queue.name, {"*"}, queue.limit[0] == kNoLimit ? -1 : static_cast<int>(queue.limit[0]),
        static_cast<int>(queue.quota[0])));
    made.parent = queue.parent < 0 ? "" : tree.queues[static_cast<std::size_t>(queue.parent)].name;
    made.weight = std::max<std::int64_t>(1000, queue.weight);
    made.priority = static_cast<std::int64_t>(i) + 1;
    if (queue.kept[0] > 0) {
      made.lending_limit[testing::kGpu] = 1000 * (queue.quota[0] - queue.kept[0]);
    }
    std::int64_t most = tree.pool[0];
    for (int at = static_cast<int>(i); at >= 0;) {
      const FairQueue& above = tree.queues[static_cast<std::size_t>(at)];
      most = std::min(most, above.limit[0]);
      at = above.parent;
    }
    const int size = In(1, 4);
    for (int n = size <= most ? In(0, 6) : 0; n > 0; --n) {
      pods.push_back(
          testing::MakePod(queue.name + std::to_string(n)).Gpu(size).Queue(queue.name).Gated());
    }
  }
  testing::World world(policy);
  world.Add(testing::MakeNode("n").Gpu(static_cast<int>(tree.pool[0])));
  for (const kube::Pod& pod : pods) world.Add(pod);
  world.Start();
  world.Tick();
  QueueDemands demands;
  for (const auto& [key, workload] : world.store().workloads()) {
    demands.Add(world.store(), workload);
  }
  tree = demands.TreeOf(world.store());
  const std::vector<DeviceAmounts> shares = FairShares(tree);
  for (std::size_t i = 0; i < shares.size(); ++i) RC_ASSERT(tree.queues[i].used == shares[i]);
}

TEST_CASE("fair shares of random trees", "[property][policy]") {
  CHECK(rc::check("no more than there is, demand and limits", Bounds));
  CHECK(rc::check("promises that hold are kept", Promises));
  CHECK(rc::check("nothing is wasted on whole devices", NothingIsWasted));
  CHECK(rc::check("twice of everything gives twice the shares", Scales));
  CHECK(rc::check("an idle queue changes nothing", IdleQueuesChangeNothing));
  CHECK(rc::check("order and names", OrderAndNames));
  CHECK(rc::check("as an exhaustive search finds it", AsSearched));
  CHECK(rc::check("as the definition tells it", AsTold));
  CHECK(rc::check("as the engine fills an empty cluster", AsTheEngineFills));
}

}  // namespace
}  // namespace berth::policy
