// What queues take back from each other: against all sets of victims, by rules that are counted
// here once more; and that it ends.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "policy/fair_share.h"
#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

struct QueueRow {
  int parent = -1;  ///< Index; it comes before its children, and has no work of its own.
  int quota = 0;
  int weight = 1;
};

/// A lone pod, a gang without surplus, or one member of an elastic gang. It waits if it has no
/// nodes.
struct Job {
  int queue = 0;
  bool gang = false;
  int gpus = 1;     ///< Of each pod.
  int members = 1;  ///< Of the job.
  std::string name{};
  int size = 1;  ///< Of the gang.
  int min = 1;
  int rank = 0;  ///< Of its first pod.
  std::vector<int> nodes{};
  int total() const { return gpus * members; }
  bool elastic() const { return min < size; }
};

struct Cluster {
  int nodes = 1;
  int devices = 8;  ///< Of each node.
  int rack =
      4;  ///< So many nodes are one rack; the job that waits must be in one, if it is a gang.
  std::vector<QueueRow> queues{};
  std::vector<Job> jobs{};  ///< The first one waits, the others run.
};

std::string QueueName(int queue) { return fmt::format("q{}", queue); }
std::string NodeName(int node) { return fmt::format("n{}", node); }

std::vector<QueueRow> DrawQueues() {
  std::vector<QueueRow> queues;
  const int departments = *rc::gen::inRange(0, 3);
  for (int i = 0; i < departments; ++i) {
    queues.push_back({.quota = *rc::gen::inRange(0, 17), .weight = *rc::gen::inRange(0, 4)});
  }
  const int teams = *rc::gen::inRange(2, 5);
  for (int i = 0; i < teams; ++i) {
    queues.push_back({.parent = *rc::gen::inRange(-1, departments),
                      .quota = *rc::gen::inRange(0, 13),
                      .weight = *rc::gen::inRange(0, 4)});
  }
  return queues;
}

bool IsParent(const std::vector<QueueRow>& queues, int queue) {
  return std::ranges::any_of(queues, [&](const QueueRow& row) { return row.parent == queue; });
}

/// A queue without others below it.
int DrawTeam(const std::vector<QueueRow>& queues) {
  std::vector<int> teams;
  for (int i = 0; i < static_cast<int>(queues.size()); ++i) {
    if (!IsParent(queues, i)) teams.push_back(i);
  }
  return *rc::gen::elementOf(teams);
}

Job DrawJob(const std::vector<QueueRow>& queues) {
  Job job{.queue = DrawTeam(queues)};
  job.gang = *rc::gen::inRange(0, 3) == 0;
  job.gpus = *rc::gen::inRange(0, 3) == 0 ? *rc::gen::inRange(1, 9) : *rc::gen::inRange(2, 6);
  job.members = job.gang ? *rc::gen::inRange(1, 4) : 1;
  job.size = job.members;
  job.min = job.gang ? *rc::gen::inRange(1, job.members + 1) : 1;
  return job;
}

/// The members of an elastic gang; any other work is one job.
std::vector<Job> PartsOf(const Job& work) {
  if (!work.elastic()) return {work};
  std::vector<Job> parts;
  for (int rank = 0; rank < work.size; ++rank) {
    Job& part = parts.emplace_back(work);
    part.rank = rank;
    part.members = 1;
    part.nodes = {work.nodes[static_cast<std::size_t>(rank)]};
  }
  return parts;
}

/// At most `most` jobs that run; those that find no room are left out.
Cluster DrawCluster(int most) {
  Cluster cluster{
      .nodes = *rc::gen::inRange(1, 5), .rack = *rc::gen::inRange(1, 5), .queues = DrawQueues()};
  cluster.jobs.push_back(DrawJob(cluster.queues));
  cluster.jobs.front().name = "w";
  cluster.jobs.front().min = cluster.jobs.front().size;
  std::vector<int> free(static_cast<std::size_t>(cluster.nodes), cluster.devices);
  // The cluster must be nearly full, or nothing need be taken.
  for (int i = 0; i < 3 * most && static_cast<int>(cluster.jobs.size()) <= most; ++i) {
    Job job = DrawJob(cluster.queues);
    std::vector<int> left = free;
    for (int node = 0; node < cluster.nodes; ++node) {
      int& room = left[static_cast<std::size_t>(node)];
      while (static_cast<int>(job.nodes.size()) < job.members && room >= job.gpus) {
        room -= job.gpus;
        job.nodes.push_back(node);
      }
    }
    if (static_cast<int>(job.nodes.size()) < job.members) continue;
    const int parts = job.elastic() ? job.size : 1;
    if (static_cast<int>(cluster.jobs.size()) + parts > most + 1) continue;
    free = left;
    job.name = fmt::format("j{}", i);
    std::ranges::copy(PartsOf(job), std::back_inserter(cluster.jobs));
  }
  return cluster;
}

std::string Described(const Cluster& cluster) {
  std::string text =
      fmt::format("{} nodes of {}, {} in a rack\n", cluster.nodes, cluster.devices, cluster.rack);
  for (std::size_t i = 0; i < cluster.queues.size(); ++i) {
    const QueueRow& row = cluster.queues[i];
    text += fmt::format("{} below {}: quota {}, weight {}\n", QueueName(static_cast<int>(i)),
                        row.parent < 0 ? "none" : QueueName(row.parent), row.quota, row.weight);
  }
  for (const Job& job : cluster.jobs) {
    text += fmt::format("{} of {}{}{}: {} x {} on [{}]\n", job.name, QueueName(job.queue),
                        job.gang ? ", gang" : "",
                        job.elastic() ? fmt::format(" of {} at least", job.min) : "", job.members,
                        job.gpus, fmt::join(job.nodes, " "));
  }
  return text;
}

// --- The rules, counted once more.

std::vector<int> PathOf(const Cluster& cluster, int queue) {
  std::vector<int> path;
  for (; queue >= 0; queue = cluster.queues[static_cast<std::size_t>(queue)].parent) {
    path.push_back(queue);
  }
  return path;
}

std::vector<int> Without(const std::vector<int>& path, const std::vector<int>& other) {
  std::vector<int> rest;
  std::ranges::copy_if(path, std::back_inserter(rest),
                       [&](int q) { return std::ranges::find(other, q) == other.end(); });
  return rest;
}

/// The jobs of the gang of the job `i`.
unsigned GangOf(const Cluster& cluster, std::size_t i) {
  unsigned gang = 0;
  for (std::size_t k = 1; k < cluster.jobs.size(); ++k) {
    if (cluster.jobs[k].name == cluster.jobs[i].name) gang |= 1U << k;
  }
  return gang;
}

/// Whether the job is surplus if those of `mask` go. Of a gang that goes whole, so many are, and
/// which of them does not matter.
bool IsSurplus(const Cluster& cluster, unsigned mask, std::size_t i) {
  const Job& job = cluster.jobs[i];
  return job.elastic() &&
         (std::popcount(mask & GangOf(cluster, i)) < job.size || job.rank >= job.min);
}

class Rules {
 public:
  explicit Rules(const Cluster& cluster) : cluster_(cluster) {
    policy::FairTree tree{.total = {cluster.nodes * cluster.devices},
                          .pool = {cluster.nodes * cluster.devices}};
    for (std::size_t i = 0; i < cluster.queues.size(); ++i) {
      const QueueRow& row = cluster.queues[i];
      tree.queues.push_back({.name = QueueName(static_cast<int>(i)),
                             .parent = row.parent,
                             .quota = {row.quota},
                             .limit = {policy::kNoLimit},
                             .kept = {0},
                             .used = {0},
                             .weight = row.weight * 1000});
    }
    for (const Job& job : cluster.jobs) {
      if (&job == &cluster.jobs.front() && !Fits(~0U)) continue;  // no node ever holds it
      tree.queues[static_cast<std::size_t>(job.queue)].jobs.push_back(
          {.devices = {job.total()}, .count = 1});
    }
    for (const auto& share : policy::FairShares(tree)) shares_.push_back(share.front());
  }

  /// Whether the first job fits once those of `mask` are gone.
  bool Fits(unsigned mask) const {
    std::vector<int> free(static_cast<std::size_t>(cluster_.nodes), cluster_.devices);
    for (std::size_t i = 1; i < cluster_.jobs.size(); ++i) {
      if ((mask >> i & 1U) != 0) continue;
      for (const int node : cluster_.jobs[i].nodes) {
        free[static_cast<std::size_t>(node)] -= cluster_.jobs[i].gpus;
      }
    }
    const Job& first = cluster_.jobs.front();
    std::vector<int> places(static_cast<std::size_t>(cluster_.nodes));  // by rack
    for (int node = 0; node < cluster_.nodes; ++node) {
      const int rack = first.gang ? node / cluster_.rack : 0;
      places[static_cast<std::size_t>(rack)] += free[static_cast<std::size_t>(node)] / first.gpus;
    }
    return *std::ranges::max_element(places) >= first.members;
  }

  /// Whether of each elastic gang at most its surplus goes, or all of it.
  bool IsClosed(unsigned mask) const {
    for (std::size_t i = 1; i < cluster_.jobs.size(); ++i) {
      const Job& job = cluster_.jobs[i];
      if ((mask >> i & 1U) == 0 || !job.elastic()) continue;
      const int count = std::popcount(mask & GangOf(cluster_, i));
      if (count > job.size - job.min && count < job.size) return false;
    }
    return true;
  }

  /// nullopt: the jobs of `mask` may not be taken. Otherwise whether one of them straddles a floor.
  std::optional<bool> MayTake(unsigned mask) const {
    const int claimant = cluster_.jobs.front().queue;
    bool by_quota = true;
    bool by_share = true;
    for (std::size_t i = 1; i < cluster_.jobs.size(); ++i) {
      if ((mask >> i & 1U) == 0) continue;
      const int loser = cluster_.jobs[i].queue;
      if (loser == claimant) return std::nullopt;  // all have one priority
      const auto ours = Without(PathOf(cluster_, claimant), PathOf(cluster_, loser));
      const auto theirs = Without(PathOf(cluster_, loser), PathOf(cluster_, claimant));
      for (const int queue : ours) {
        by_quota &= Used(queue, mask, true) <= row(queue).quota;
        by_share &= Used(queue, mask, true) <= share(queue);
      }
      by_share &= StandsBetter(ours.back(), Used(ours.back(), mask, true), theirs.back(),
                               Used(theirs.back(), 0, false));
    }
    const std::optional<bool> straddles = Straddles(mask);
    if (!straddles || (!by_quota && (!by_share || *straddles))) return std::nullopt;
    return straddles;
  }

 private:
  const QueueRow& row(int queue) const { return cluster_.queues[static_cast<std::size_t>(queue)]; }
  std::int64_t share(int queue) const { return shares_[static_cast<std::size_t>(queue)]; }

  /// In the queue and below it, without the jobs of `mask`; with the first one, if it starts.
  int Used(int queue, unsigned mask, bool starts) const {
    int used = 0;
    for (std::size_t i = starts ? 0 : 1; i < cluster_.jobs.size(); ++i) {
      const auto path = PathOf(cluster_, cluster_.jobs[i].queue);
      const bool there = std::ranges::find(path, queue) != path.end();
      if (there && (i == 0 || (mask >> i & 1U) == 0)) used += cluster_.jobs[i].total();
    }
    return used;
  }
  /// The queues and devices of jobs of `mask`; of a gang that goes whole its minimum alone, which
  /// goes after its surplus.
  std::vector<std::pair<int, int>> LossesOf(unsigned mask) const {
    std::vector<std::pair<int, int>> losses;
    for (std::size_t i = 1; i < cluster_.jobs.size(); ++i) {
      if ((mask >> i & 1U) == 0) continue;
      const Job& job = cluster_.jobs[i];
      const bool whole = job.elastic() && std::popcount(mask & GangOf(cluster_, i)) == job.size;
      if (!whole) losses.emplace_back(job.queue, job.total());
      if (whole && job.rank == 0) losses.emplace_back(job.queue, job.min * job.gpus);
    }
    return losses;
  }
  /// Whether the jobs of `mask` leave some queue of another path below its floor. nullopt: they
  /// may not, because one of them would fit below that floor.
  std::optional<bool> Straddles(unsigned mask) const {
    const auto ours = PathOf(cluster_, cluster_.jobs.front().queue);
    bool straddles = false;
    for (const auto& [loser, devices] : LossesOf(mask)) {
      for (const int queue : Without(PathOf(cluster_, loser), ours)) {
        const int left = Used(queue, mask, false);
        const auto floor = std::max<std::int64_t>(row(queue).quota, share(queue));
        if (left >= floor) continue;
        if (left + devices <= floor) return std::nullopt;
        straddles = true;
      }
    }
    return straddles;
  }
  bool StandsBetter(int a, int used_a, int b, int used_b) const {
    const int over_a = used_a - row(a).quota;
    const int over_b = used_b - row(b).quota;
    if (over_a <= 0 || over_b <= 0) return over_a <= 0 && over_b > 0;
    if ((row(a).weight == 0) != (row(b).weight == 0)) return row(a).weight != 0;
    return over_a * std::max(1, row(b).weight) < over_b * std::max(1, row(a).weight);
  }

  const Cluster& cluster_;
  std::vector<std::int64_t> shares_;
};

/// Whether a floor is straddled, devices that are no surplus, gangs, devices. The less is the
/// better set, as far as these tell.
using Rank = std::tuple<bool, int, int, int>;

Rank RankOf(const Cluster& cluster, unsigned mask, bool straddles) {
  int minima = 0;
  int gangs = 0;
  int devices = 0;
  for (std::size_t i = 1; i < cluster.jobs.size(); ++i) {
    if ((mask >> i & 1U) == 0) continue;
    const Job& job = cluster.jobs[i];
    devices += job.total();
    if (IsSurplus(cluster, mask, i)) continue;
    minima += job.total();
    gangs += job.gang && job.rank == 0 ? 1 : 0;
  }
  return {straddles, minima, gangs, devices};
}

// --- The engine.

config::PolicyConfiguration PolicyOf(const Cluster& cluster) {
  std::vector<config::Queue> queues;
  for (std::size_t i = 0; i < cluster.queues.size(); ++i) {
    const QueueRow& row = cluster.queues[i];
    config::Queue queue = MakeQueue(QueueName(static_cast<int>(i)), {"*"}, -1, row.quota);
    queue.weight = row.weight * 1000;
    if (row.parent >= 0) queue.parent = QueueName(row.parent);
    queues.push_back(std::move(queue));
  }
  config::PolicyConfiguration policy = MakePolicy(queues);
  policy.borrowing = true;
  return policy;
}

std::string PodName(const Job& job, int member) {
  return fmt::format("{}-{}", job.name, job.rank + member);
}

testing::PodBuilder PodOf(const Job& job, int member) {
  auto pod = MakePod(PodName(job, member)).Gpu(job.gpus).Queue(QueueName(job.queue));
  if (job.gang) pod.Gang(job.name, job.size).Min(job.min);
  return pod;
}

/// The jobs that Berth evicts for the first one.
unsigned Evicted(const Cluster& cluster) {
  World world(PolicyOf(cluster));
  for (int i = 0; i < cluster.nodes; ++i) {
    world.Add(MakeNode(NodeName(i))
                  .Gpu(cluster.devices)
                  .Block("b")
                  .Rack(fmt::format("r{}", i / cluster.rack)));
  }
  std::map<std::string, std::size_t> job_of;
  for (std::size_t i = 1; i < cluster.jobs.size(); ++i) {
    for (int k = 0; k < cluster.jobs[i].members; ++k) {
      const int node = cluster.jobs[i].nodes[static_cast<std::size_t>(k)];
      world.Add(PodOf(cluster.jobs[i], k).On(NodeName(node)));
      job_of[PodName(cluster.jobs[i], k)] = i;
    }
  }
  world.Start();
  for (int k = 0; k < cluster.jobs.front().members; ++k) {
    auto pod = PodOf(cluster.jobs.front(), k);
    if (cluster.jobs.front().gang) pod.Required("rack");
    world.Add(pod.Gated());
  }
  world.Tick();
  unsigned mask = 0;
  std::map<std::size_t, int> pods;
  for (const std::string& line : world.LogOf("evict ")) {
    const std::size_t job = job_of.at(line.substr(6, line.find(' ', 6) - 6));
    mask |= 1U << job;
    ++pods[job];
  }
  for (const auto& [job, count] : pods) RC_ASSERT(count == cluster.jobs[job].members);
  return mask;
}

/// All sets of jobs with which the first one starts and that it may take; at most `most` of them.
std::vector<Rank> SetsOf(const Cluster& cluster, const Rules& rules, std::size_t most = SIZE_MAX) {
  std::vector<Rank> sets;
  if (rules.Fits(0)) return sets;
  for (unsigned mask = 2; mask < 1U << cluster.jobs.size() && sets.size() < most; mask += 2) {
    if (!rules.IsClosed(mask) || !rules.Fits(mask)) continue;
    const std::optional<bool> straddles = rules.MayTake(mask);
    if (straddles) sets.push_back(RankOf(cluster, mask, *straddles));
  }
  return sets;
}

TEST_CASE("what is taken back is the best that the rules permit", "[property]") {
  CHECK(rc::check("reclaim", [] {
    const Cluster cluster = DrawCluster(8);
    RC_LOG() << Described(cluster);
    const Rules rules(cluster);
    const std::vector<Rank> sets = SetsOf(cluster, rules);
    const auto best = std::ranges::min_element(sets);
    const unsigned evicted = Evicted(cluster);
    RC_CLASSIFY(!sets.empty(), "something is taken back");
    RC_CLASSIFY(!sets.empty() && std::get<0>(*best), "by a straddler");
    RC_ASSERT((evicted == 0U) == sets.empty());
    if (sets.empty()) return;
    RC_CLASSIFY(std::get<1>(*best) == 0, "surplus is enough");
    RC_ASSERT(rules.IsClosed(evicted));
    RC_ASSERT(rules.Fits(evicted));
    const std::optional<bool> straddles = rules.MayTake(evicted);
    RC_ASSERT(straddles.has_value());
    RC_ASSERT(*straddles == std::get<0>(*best));
    // With straddlers the number of them comes first, which is not counted here.
    if (!*straddles) RC_ASSERT(RankOf(cluster, evicted, false) == *best);
  }));
}

/// One queue has filled the nodes with pods of one device; another one wants some of them.
Cluster DrawLender() {
  Cluster cluster{.nodes = *rc::gen::inRange(3, 5), .rack = *rc::gen::inRange(1, 4)};
  cluster.devices = 12 / cluster.nodes;
  for (int i = 0; i < 2; ++i) {
    cluster.queues.push_back(
        {.quota = *rc::gen::inRange(0, 13), .weight = *rc::gen::inRange(0, 4)});
  }
  Job first{.queue = 1, .gang = true, .gpus = *rc::gen::inRange(1, 4), .name = "w"};
  first.members = *rc::gen::inRange(1, 5);
  first.size = first.members;
  first.min = first.members;
  cluster.jobs.push_back(first);
  for (int i = 0; i < 12; ++i) {
    if (*rc::gen::inRange(0, 8) == 0) continue;
    cluster.jobs.push_back({.name = fmt::format("j{}", i), .nodes = {i % cluster.nodes}});
  }
  return cluster;
}

// With several queues, and jobs of several sizes, some sets are only found by trying them all.
TEST_CASE("one queue of equal pods always gives back what it borrowed", "[property]") {
  CHECK(rc::check("complete reclaim", [] {
    const Cluster cluster = DrawLender();
    RC_LOG() << Described(cluster);
    const bool may = !SetsOf(cluster, Rules(cluster), 1).empty();
    RC_CLASSIFY(may, "something is taken back");
    RC_ASSERT((Evicted(cluster) != 0U) == may);
  }));
}

TEST_CASE("of what many jobs borrow, only that is taken back which cannot be left out",
          "[property]") {
  CHECK(rc::check("minimal reclaim", [] {
    const Cluster cluster = DrawCluster(20);
    RC_LOG() << Described(cluster);
    const Rules rules(cluster);
    const unsigned evicted = Evicted(cluster);
    RC_CLASSIFY(cluster.jobs.size() > 9 && evicted != 0, "many candidates, something is taken");
    if (evicted == 0) return;
    RC_ASSERT(!rules.Fits(0));
    RC_ASSERT(rules.Fits(evicted));
    RC_ASSERT(rules.IsClosed(evicted));
    RC_ASSERT(rules.MayTake(evicted).has_value());
    for (std::size_t i = 1; i < cluster.jobs.size(); ++i) {
      if ((evicted >> i & 1U) == 0) continue;
      // Of few candidates any members of a gang may be its surplus; of many, which of them are is
      // chosen before.
      const bool elastic = cluster.jobs[i].elastic();
      const bool whole = (evicted & GangOf(cluster, i)) == GangOf(cluster, i);
      if (elastic && whole && cluster.jobs.size() > 9) continue;
      const unsigned together = elastic ? GangOf(cluster, i) & evicted : 1U << i;
      // Some of them may stay.
      for (unsigned stay = together; stay != 0; stay = (stay - 1) & together) {
        const unsigned fewer = evicted & ~stay;
        if (fewer == evicted || !rules.IsClosed(fewer) || !rules.MayTake(fewer)) continue;
        RC_ASSERT(!rules.Fits(fewer));
      }
    }
  }));
}

/// What is remembered of the demand of workloads, and of shares, changes only what they cost.
void CheckShares(World& world) {
  policy::FitCache fit(world.store());
  policy::EmptyRoom room(world.store(), fit);
  for (const auto& [key, workload] : world.store().workloads()) {
    const auto reason = world.engine().StateOf(workload).verdict.reason;
    if (reason != cluster::ReasonId::kNeverFits || workload.started) continue;
    RC_ASSERT(policy::JobsOf(world.store(), workload, room) ==
              policy::JobsOf(world.store(), workload, /*placeable=*/false));
  }
  const auto demands = policy::QueueDemands::Of(world.store(), fit);
  const policy::FairShareTable rebuilt(world.store(), demands.TreeOf(world.store()));
  RC_ASSERT(world.engine().FairShares(world.now()) == rebuilt);
}

/// Lets the world go on, with a controller that makes evicted pods again, until nothing changes:
/// nothing does for some seconds, and nobody who was evicted is still to come back. Returns the
/// number of evictions.
int Settle(World& world, std::map<std::string, kube::Pod>& wanted, int& made) {
  int evicted = 0;
  int quiet = 0;
  for (int round = 0; round < 2'000 && evicted < 100; ++round) {
    world.Schedule();
    world.Advance(2'000);
    CheckShares(world);
    std::vector<std::string> ended;
    bool cools = false;
    for (const auto& [name, pod] : world.pods()) {
      if (pod.meta.deletion) ended.push_back(name);
      cools |= pod.node_name.empty() && world.Why(name) == "CoolingDown";
    }
    for (const std::string& name : ended) world.Delete(name);
    for (const std::string& name : ended) {
      ++evicted;
      kube::Pod pod = wanted.at(name);
      pod.meta.uid = fmt::format("again-{}", ++made);
      world.Add(pod);
    }
    quiet = ended.empty() && !cools ? quiet + 1 : 0;
    if (quiet > 2) return evicted;
  }
  RC_FAIL("queues take room from each other without an end");
  return evicted;
}

TEST_CASE("taking back ends", "[property]") {
  CHECK(rc::check("no loop", [] {
    Cluster cluster{.nodes = *rc::gen::inRange(1, 4), .queues = DrawQueues()};
    World world(PolicyOf(cluster));
    for (int i = 0; i < cluster.nodes; ++i) world.Add(MakeNode(NodeName(i)).Gpu(8));
    world.Start();
    std::map<std::string, kube::Pod> wanted;
    int made = 0;
    int evicted = 0;
    const int jobs = *rc::gen::inRange(2, 13);
    for (int i = 0; i < jobs; ++i) {
      Job job = DrawJob(cluster.queues);
      job.name = fmt::format("j{}", i);
      for (int k = 0; k < job.members; ++k) {
        const kube::Pod pod = PodOf(job, k).Created(i * 1000).Gated();
        wanted.emplace(pod.meta.name, pod);
        world.Add(pod);
      }
      evicted += Settle(world, wanted, made);
    }
    RC_CLASSIFY(evicted > 0, "something is taken back");
    // Nothing has changed since.
    RC_ASSERT(Settle(world, wanted, made) == 0);
  }));
}

}  // namespace
}  // namespace berth::engine
