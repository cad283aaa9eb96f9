// Whom Berth evicts for a gang, against all sets of victims.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::World;

/// Pods that run and go together: a lone pod, a gang without surplus, or one member of an elastic
/// gang.
struct Job {
  std::string name;  ///< Of the pod, or of the gang.
  bool gang = false;
  int size = 1;  ///< Of the gang.
  int min = 1;
  int rank = 0;  ///< Of its first pod.
  int gpus = 1;  ///< Of each pod.
  int priority = 0;
  std::int64_t created = 0;
  std::vector<int> nodes{};  ///< Where its pods are.
  /// When it has run for a minute, in seconds from the beginning.
  int of_age = 0;

  std::int64_t devices() const { return std::int64_t{gpus} * std::ssize(nodes); }
};

struct Cluster {
  int nodes = 1;
  std::vector<Job> jobs{};
  int members = 1;  ///< Of the gang that wants room, of priority 5.
  int gpus = 1;
};

std::string NodeName(int node) { return fmt::format("n{}", node); }

/// The members of an elastic gang; any other work is one job.
std::vector<Job> PartsOf(const Job& work) {
  if (work.min == work.size) return {work};
  std::vector<Job> parts;
  for (int rank = 0; rank < work.size; ++rank) {
    Job& part = parts.emplace_back(work);
    part.rank = rank;
    part.nodes = {work.nodes[static_cast<std::size_t>(rank)]};
  }
  return parts;
}

/// Up to `jobs` jobs, of up to `gpus` GPUs per pod.
Cluster DrawCluster(int jobs, int gpus) {
  Cluster cluster;
  cluster.nodes = *rc::gen::inRange(1, 7);
  std::vector<std::int64_t> free(static_cast<std::size_t>(cluster.nodes), 8);
  const int count = *rc::gen::inRange(1, jobs + 1);
  for (int i = 0; i < count; ++i) {
    Job job{.name = fmt::format("j{}", i)};
    job.gang = *rc::gen::inRange(0, 2) == 1;
    job.gpus = *rc::gen::inRange(1, gpus + 1);
    job.priority = *rc::gen::inRange(0, 7);
    job.created = *rc::gen::inRange(0, 3) * 1000;
    const int pods = job.gang ? *rc::gen::inRange(1, 4) : 1;
    for (int node = 0; node < cluster.nodes && std::ssize(job.nodes) < pods; ++node) {
      std::int64_t& room = free[static_cast<std::size_t>(node)];
      if (room < job.gpus) continue;
      room -= job.gpus;
      job.nodes.push_back(node);
    }
    job.size = pods;
    job.min = job.gang ? *rc::gen::inRange(1, pods + 1) : 1;
    const bool whole = std::ssize(job.nodes) == pods;
    if (whole && std::ssize(cluster.jobs) + (job.min < pods ? pods : 1) <= jobs) {
      std::ranges::copy(PartsOf(job), std::back_inserter(cluster.jobs));
    } else {
      for (const int node : job.nodes) free[static_cast<std::size_t>(node)] += job.gpus;
    }
  }
  cluster.members = *rc::gen::inRange(1, 5);
  cluster.gpus = *rc::gen::inRange(1, 9);
  return cluster;
}

std::string Described(const Cluster& cluster) {
  std::string text = fmt::format("{} members of {} GPUs want room on {} nodes\n", cluster.members,
                                 cluster.gpus, cluster.nodes);
  for (const Job& job : cluster.jobs) {
    text +=
        fmt::format("{}-{}{}: priority {}, {} GPUs each, created {}, on [{}]\n", job.name, job.rank,
                    job.gang ? fmt::format(", gang of {} to {}", job.min, job.size) : "",
                    job.priority, job.gpus, job.created, fmt::join(job.nodes, " "));
  }
  return text;
}

/// Whether the gang fits once the jobs of `mask` are gone: members are alike, so counting decides.
bool Fits(const Cluster& cluster, unsigned mask) {
  std::vector<std::int64_t> free(static_cast<std::size_t>(cluster.nodes), 8);
  for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
    if ((mask >> i & 1U) != 0) continue;
    for (const int node : cluster.jobs[i].nodes) {
      free[static_cast<std::size_t>(node)] -= cluster.jobs[i].gpus;
    }
  }
  std::int64_t places = 0;
  for (const std::int64_t room : free) places += room / cluster.gpus;
  return places >= cluster.members;
}

/// The jobs of the gang of the job `i`.
unsigned GangOf(const Cluster& cluster, std::size_t i) {
  unsigned gang = 0;
  for (std::size_t k = 0; k < cluster.jobs.size(); ++k) {
    if (cluster.jobs[k].name == cluster.jobs[i].name) gang |= 1U << k;
  }
  return gang;
}

bool IsElastic(const Job& job) { return job.min < job.size; }

/// Whether of each elastic gang at most its surplus goes, or all of it.
bool IsClosed(const Cluster& cluster, unsigned mask) {
  for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
    const Job& job = cluster.jobs[i];
    if ((mask >> i & 1U) == 0 || !IsElastic(job)) continue;
    const int count = std::popcount(mask & GangOf(cluster, i));
    if (count > job.size - job.min && count < job.size) return false;
  }
  return true;
}

/// The first criteria of the order of sets: devices that are no surplus, gangs, devices, then
/// priorities from the highest down. Of an elastic gang that goes whole, the minimum is one job.
auto RankOf(const Cluster& cluster, unsigned mask) {
  std::int64_t minima = 0;
  int gangs = 0;
  std::int64_t devices = 0;
  std::vector<int> priorities;
  std::vector<std::int64_t> ages;
  for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
    if ((mask >> i & 1U) == 0) continue;
    const Job& job = cluster.jobs[i];
    devices += job.devices();
    const bool surplus = IsElastic(job) && (std::popcount(mask & GangOf(cluster, i)) < job.size ||
                                            job.rank >= job.min);
    minima += surplus ? 0 : job.devices();
    if (!surplus && job.rank > 0) continue;  // counted with the first of its minimum
    gangs += job.gang && !surplus ? 1 : 0;
    priorities.push_back(job.priority);
    ages.push_back(-job.created);
  }
  std::ranges::sort(priorities, std::ranges::greater{});
  std::ranges::sort(ages, std::ranges::greater{});
  return std::tuple(minima, gangs, devices, priorities, ages, priorities.size());
}

/// nullopt: no set of jobs of lower priority is enough. 0: nobody need be evicted.
std::optional<unsigned> BestSet(const Cluster& cluster) {
  std::optional<unsigned> best;
  for (unsigned mask = 0; mask < 1U << cluster.jobs.size(); ++mask) {
    bool lower = true;
    for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
      if ((mask >> i & 1U) != 0) lower &= cluster.jobs[i].priority < 5;
    }
    if (!lower || !IsClosed(cluster, mask) || !Fits(cluster, mask)) continue;
    if (!best || RankOf(cluster, mask) < RankOf(cluster, *best)) best = mask;
  }
  return best;
}

/// By pod, the position of its job. All is there from the beginning, and the gang comes then.
std::map<std::string, std::size_t> Fill(World& world, const Cluster& cluster) {
  for (int i = 0; i < cluster.nodes; ++i) world.Add(MakeNode(NodeName(i)).Gpu(8));
  std::map<std::string, std::size_t> job_of;
  for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
    const Job& job = cluster.jobs[i];
    for (std::size_t k = 0; k < job.nodes.size(); ++k) {
      const std::string name = fmt::format("{}-{}", job.name, job.rank + static_cast<int>(k));
      auto pod = MakePod(name).Gpu(job.gpus).Priority(job.priority).Created(job.created);
      if (job.gang) pod.Gang(job.name, job.size).Min(job.min);
      kube::Pod runs = pod.On(NodeName(job.nodes[k]));
      runs.pod_scheduled = {.status = true, .reason = {}, .message = {}};
      runs.pod_scheduled->since = world.now() + (job.of_age - 60) * 1'000;
      world.Add(runs);
      job_of[name] = i;
    }
  }
  world.Start();
  for (int i = 0; i < cluster.members; ++i) {
    world.Add(MakePod(fmt::format("m{}", i))
                  .Gpu(cluster.gpus)
                  .Gang("g", cluster.members)
                  .Priority(5)
                  .Created(5000)
                  .Gated());
  }
  world.Tick();
  return job_of;
}

/// The jobs that Berth evicts.
unsigned Evicted(const Cluster& cluster) {
  World world;
  const std::map<std::string, std::size_t> job_of = Fill(world, cluster);
  unsigned mask = 0;
  std::map<std::size_t, std::size_t> pods;
  for (const std::string& line : world.LogOf("evict ")) {
    const std::string name = line.substr(6, line.find(' ', 6) - 6);
    mask |= 1U << job_of.at(name);
    ++pods[job_of.at(name)];
  }
  for (const auto& [job, count] : pods) RC_ASSERT(count == cluster.jobs[job].nodes.size());
  return mask;
}

TEST_CASE("the best set of victims is taken", "[property]") {
  CHECK(rc::check("evictions", [] {
    const Cluster cluster = DrawCluster(8, 8);
    RC_LOG() << Described(cluster);
    const std::optional<unsigned> best = BestSet(cluster);
    const unsigned evicted = Evicted(cluster);
    RC_CLASSIFY(best && *best != 0, "somebody is evicted");
    if (!best || *best == 0) {
      RC_ASSERT(evicted == 0U);
      return;
    }
    RC_CLASSIFY(!std::get<0>(RankOf(cluster, *best)), "surplus is enough");
    RC_ASSERT(evicted != 0U);
    RC_ASSERT(IsClosed(cluster, evicted));
    RC_ASSERT(Fits(cluster, evicted));
    RC_LOG() << fmt::format("evicted {:b}, best {:b}\n", evicted, *best);
    RC_ASSERT(RankOf(cluster, evicted) == RankOf(cluster, *best));
  }));
}

TEST_CASE("of many candidates only the ones are taken that cannot be left out", "[property]") {
  CHECK(rc::check("minimal evictions", [] {
    const Cluster cluster = DrawCluster(24, 3);
    RC_LOG() << Described(cluster);
    unsigned lower = 0;
    for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
      if (cluster.jobs[i].priority < 5) lower |= 1U << i;
    }
    const unsigned evicted = Evicted(cluster);
    RC_CLASSIFY(std::popcount(lower) > 8 && evicted != 0, "many candidates, somebody is evicted");
    if (Fits(cluster, 0) || !Fits(cluster, lower)) {
      RC_ASSERT(evicted == 0U);
      return;
    }
    RC_ASSERT((evicted & ~lower) == 0U);
    RC_ASSERT(IsClosed(cluster, evicted));
    RC_ASSERT(Fits(cluster, evicted));
    for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
      if ((evicted >> i & 1U) == 0) continue;
      // Of few candidates any members of a gang may be its surplus; of many, which of them are is
      // chosen before.
      const bool elastic = IsElastic(cluster.jobs[i]);
      const bool whole = (evicted & GangOf(cluster, i)) == GangOf(cluster, i);
      if (elastic && whole && std::popcount(lower) > 8) continue;
      const unsigned together = elastic ? GangOf(cluster, i) & evicted : 1U << i;
      // Some of them may stay.
      for (unsigned stay = together; stay != 0; stay = (stay - 1) & together) {
        const unsigned fewer = evicted & ~stay;
        if (fewer != evicted && IsClosed(cluster, fewer)) RC_ASSERT(!Fits(cluster, fewer));
      }
    }
  }));
}

/// The first second at which the jobs of lower priority that have run for a minute are enough; 61:
/// never.
int FirstSecond(const Cluster& cluster) {
  int second = 0;
  for (; second <= 60; ++second) {
    unsigned mask = 0;
    for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
      const Job& job = cluster.jobs[i];
      if (job.priority < 5 && job.of_age <= second) mask |= 1U << i;
    }
    if (Fits(cluster, mask)) break;
  }
  return second;
}

TEST_CASE("victims are taken as soon as enough have run for their time", "[property]") {
  CHECK(rc::check("evictions and minRunTime", [] {
    Cluster cluster = DrawCluster(12, 8);
    for (std::size_t i = 0; i < cluster.jobs.size(); ++i) {
      Job& job = cluster.jobs[i];
      const bool same = i > 0 && cluster.jobs[i - 1].name == job.name;  // of one gang
      job.of_age = same ? cluster.jobs[i - 1].of_age : *rc::gen::inRange(0, 61);
    }
    config::Queue queue = testing::MakeQueue("default", {"*"});
    queue.min_run_time = std::chrono::minutes{1};
    World world(testing::MakePolicy({queue}));
    Fill(world, cluster);
    const int first = FirstSecond(cluster);
    const bool at_once = Fits(cluster, 0);
    RC_CLASSIFY(!at_once && first > 0 && first <= 60, "somebody is evicted later");
    for (int second = 0; second <= 60; ++second) {
      const bool evicted = !world.LogOf("evict ").empty();
      RC_ASSERT(evicted == (!at_once && second >= first));
      if (evicted || at_once) return;
      const cluster::Workload& gang = *world.store().FindPod("uid-m0")->workload;
      RC_ASSERT(!world.engine().WouldStart(gang, world.now()));
      world.Advance(999);
      RC_ASSERT(!world.engine().WouldStart(gang, world.now()));
      RC_ASSERT(world.LogOf("evict ").empty());
      world.Advance(1);
    }
  }));
}

}  // namespace
}  // namespace berth::engine
