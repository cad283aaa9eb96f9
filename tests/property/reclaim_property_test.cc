// What queues take back from each other: against all sets of victims, in random and in all small
// cases; and that it ends.
#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/property/reclaim_cases.h"
#include "tests/support/catch.h"

namespace berth::engine {
namespace {

using testing::Cluster;
using testing::Described;
using testing::Evicted;
using testing::FlavorOf;
using testing::Job;
using testing::MakeNode;
using testing::NodeName;
using testing::PodOf;
using testing::PolicyOf;
using testing::QueueRow;
using testing::Rank;
using testing::RankOf;
using testing::Rules;
using testing::SetsOf;
using testing::World;

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

TEST_CASE("what is taken back is the best that the rules permit", "[property]") {
  CHECK(rc::check("reclaim", [] {
    const Cluster cluster = DrawCluster(8);
    RC_LOG() << Described(cluster);
    const Rules rules(cluster);
    const std::vector<Rank> sets = SetsOf(cluster, rules);
    const auto best = std::ranges::min_element(sets);
    const std::optional<unsigned> jobs = Evicted(cluster);
    RC_ASSERT(jobs.has_value());
    const unsigned evicted = *jobs;
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

/// Two nodes of two devices, which jobs of two queues fill: by a code from 0 to 35, of each node
/// one of six: a job of both devices, of one queue or the other; or two jobs, each of one or the
/// other.
void Fill(Cluster& cluster, int code) {
  for (int node = 0; node < 2; ++node, code /= 6) {
    const int here = code % 6;
    const auto add = [&](int queue, int gpus) {
      cluster.jobs.push_back({.queue = queue,
                              .gpus = gpus,
                              .name = fmt::format("j{}", cluster.jobs.size()),
                              .nodes = {node}});
    };
    if (here < 2) {
      add(here, 2);
    } else {
      add((here - 2) % 2, 1);
      add((here - 2) / 2, 1);
    }
  }
}

/// Whether Berth does for the waiting job what the rules say; if not, the case.
std::string Compared(const Cluster& cluster) {
  const Rules rules(cluster);
  const std::vector<Rank> sets = SetsOf(cluster, rules);
  const std::optional<unsigned> evicted = Evicted(cluster);
  const auto fails = [&](const char* why) {
    return fmt::format("{}\n{}", why, Described(cluster));
  };
  if (!evicted) return fails("a part of a job is evicted");
  if ((*evicted == 0) != sets.empty()) return fails("evicted, or not, against the rules");
  if (sets.empty()) return {};
  const Rank best = *std::ranges::min_element(sets);
  const std::optional<bool> straddles = rules.MayTake(*evicted);
  if (!rules.Fits(*evicted) || !straddles) return fails("not a set that the rules permit");
  if (*straddles != std::get<0>(best)) return fails("a straddler, and there is a set without");
  if (!*straddles && RankOf(cluster, *evicted, false) != best) return fails("not the best set");
  return {};
}

// All quotas from 0 to 2 of three queues, the first of them alone or in a department with a quota
// of 0 or 2; the third queue wants 1 or 2 devices for a pod, or a gang of two pods.
TEST_CASE("what is taken back in all cases of three queues and two nodes", "[property]") {
  int taken = 0;
  for (const int department : {-1, 0, 2}) {
    for (int quotas = 0; quotas < 27; ++quotas) {
      for (int code = 0; code < 36; ++code) {
        for (const auto& [gpus, members] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}}) {
          Cluster cluster{.nodes = 2, .devices = 2};
          for (int i = 0, left = quotas; i < 3; ++i, left /= 3) {
            cluster.queues.push_back({.quota = left % 3});
          }
          if (department >= 0) {
            cluster.queues.push_back({.quota = department});
            cluster.queues[0].parent = 3;
          }
          cluster.jobs.push_back({.queue = 2,
                                  .gang = members > 1,
                                  .gpus = gpus,
                                  .members = members,
                                  .name = "w",
                                  .size = members,
                                  .min = members});
          Fill(cluster, code);
          const std::string fault = Compared(cluster);
          if (!fault.empty()) FAIL(fault);
          taken += SetsOf(cluster, Rules(cluster), 1).empty() ? 0 : 1;
        }
      }
    }
  }
  CHECK(taken > 1'000);
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
    const std::optional<unsigned> jobs = Evicted(cluster);
    RC_ASSERT(jobs.has_value());
    const unsigned evicted = *jobs;
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
  const policy::FairShareTable& shares = world.engine().FairShares(world.now());
  auto demands = policy::QueueDemands::Of(world.store(), fit);
  demands.Add(world.engine().AwayDemand());  // that is not there again, as far as was read
  const policy::FairShareTable rebuilt(world.store(), demands.TreeOf(world.store()));
  RC_ASSERT(shares == rebuilt);
}

/// The pods that should be there, by name, and their controller: it makes evicted pods again, each
/// after a time of its own.
struct Controller {
  std::map<std::string, kube::Pod> wanted{};
  int longest = 0;  ///< Rounds until a pod is there again, at most.
  int made = 0;
};

/// Lets the world go on, two seconds in each round, until nothing changes: nothing does for some
/// seconds, and nobody who was evicted is still to come back. Returns the number of evictions.
int Settle(World& world, Controller& controller) {
  int evicted = 0;
  int quiet = 0;
  std::multimap<int, kube::Pod> away;  // by the round in which it is made again
  for (int round = 0; round < 2'000 && evicted < 100; ++round) {
    world.Schedule();
    world.Advance(2'000);
    CheckShares(world);
    std::vector<std::string> ended;
    bool cools = false;
    for (const auto& [name, pod] : world.pods()) {
      if (pod.meta.deletion) ended.push_back(name);
      const cluster::PodInfo* info = world.store().FindPod(pod.meta.uid);
      const bool waits = info != nullptr && info->workload != nullptr && pod.node_name.empty();
      cools |= waits && world.engine().StateOf(*info->workload).hold_until > world.now();
    }
    for (const std::string& name : ended) world.Delete(name);
    for (const std::string& name : ended) {
      ++evicted;
      kube::Pod pod = controller.wanted.at(name);
      pod.meta.uid = fmt::format("again-{}", ++controller.made);
      away.emplace(round + 7 * controller.made % (controller.longest + 1), pod);
    }
    for (; !away.empty() && away.begin()->first <= round; away.erase(away.begin())) {
      world.Add(away.begin()->second);
    }
    quiet = ended.empty() && away.empty() && !cools ? quiet + 1 : 0;
    if (quiet > 2) return evicted;
  }
  RC_FAIL("queues take room from each other without an end");
  return evicted;
}

/// Jobs come one after the other to queues that have nothing yet.
void CheckThatItEnds(const Cluster& cluster) {
  RC_LOG() << Described(cluster);
  World world(PolicyOf(cluster));
  for (int i = 0; i < cluster.nodes; ++i) {
    world.Add(MakeNode(NodeName(i)).Gpu(cluster.devices).Label("flavor", FlavorOf(i)));
  }
  world.Start();
  Controller controller{.longest = *rc::gen::element(0, 0, 2, 10)};
  int evicted = 0;
  const int jobs = *rc::gen::inRange(2, 13);
  for (int i = 0; i < jobs; ++i) {
    Job job = DrawJob(cluster.queues);
    job.name = fmt::format("j{}", i);
    const int priority = *rc::gen::element(0, 0, 10, 20);
    for (int k = 0; k < job.members; ++k) {
      const kube::Pod pod = PodOf(job, k).Created(i * 1000).Priority(priority).Gated();
      controller.wanted.emplace(pod.meta.name, pod);
      world.Add(pod);
    }
    evicted += Settle(world, controller);
  }
  RC_CLASSIFY(evicted > 0, "something is taken back");
  // Nothing has changed since.
  RC_ASSERT(Settle(world, controller) == 0);
}

TEST_CASE("taking back ends", "[property]") {
  CHECK(rc::check("no loop", [] {
    CheckThatItEnds({.nodes = *rc::gen::inRange(1, 4), .queues = DrawQueues()});
  }));
}

TEST_CASE("taking back ends where quotas are of flavors", "[property]") {
  CHECK(rc::check("no loop of flavors", [] {
    Cluster cluster{.nodes = *rc::gen::inRange(2, 5), .queues = DrawQueues()};
    for (QueueRow& row : cluster.queues) {
      if (*rc::gen::inRange(0, 3) == 0) continue;
      row.of_flavor = {*rc::gen::inRange(0, 9), *rc::gen::inRange(0, 9)};
      row.quota = *rc::gen::inRange(0, 2) * (row.quota + row.of_flavor[0] + row.of_flavor[1]);
    }
    CheckThatItEnds(cluster);
  }));
}

}  // namespace
}  // namespace berth::engine
