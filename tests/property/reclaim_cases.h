// Small clusters in which one job waits, all sets of jobs that could end for it by the rules of
// docs/queues.md ("Taking back"), which are counted here once more, and those that Berth evicts.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "policy/fair_share.h"
#include "tests/support/world.h"

namespace berth::testing {

struct QueueRow {
  int parent = -1;  ///< Index; it comes before its children, and has no work of its own.
  int quota = 0;
  int weight = 1;
  /// Promised of each flavor (FlavorOf), beside the quota in total. Not known to Rules.
  std::vector<int> of_flavor{};
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
/// Nodes are of flavor f0 and f1 in turn.
inline std::string FlavorOf(int node) { return fmt::format("f{}", node % 2); }

inline std::string Described(const Cluster& cluster) {
  std::string text =
      fmt::format("{} nodes of {}, {} in a rack\n", cluster.nodes, cluster.devices, cluster.rack);
  for (std::size_t i = 0; i < cluster.queues.size(); ++i) {
    const QueueRow& row = cluster.queues[i];
    text +=
        fmt::format("{} below {}: quota {}, weight {}, of flavors [{}]\n",
                    QueueName(static_cast<int>(i)), row.parent < 0 ? "none" : QueueName(row.parent),
                    row.quota, row.weight, fmt::join(row.of_flavor, " "));
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

inline std::vector<int> PathOf(const Cluster& cluster, int queue) {
  std::vector<int> path;
  for (; queue >= 0; queue = cluster.queues[static_cast<std::size_t>(queue)].parent) {
    path.push_back(queue);
  }
  return path;
}

inline std::vector<int> Without(const std::vector<int>& path, const std::vector<int>& other) {
  std::vector<int> rest;
  std::ranges::copy_if(path, std::back_inserter(rest),
                       [&](int q) { return std::ranges::find(other, q) == other.end(); });
  return rest;
}

/// The jobs of the gang of the job `i`.
inline unsigned GangOf(const Cluster& cluster, std::size_t i) {
  unsigned gang = 0;
  for (std::size_t k = 1; k < cluster.jobs.size(); ++k) {
    if (cluster.jobs[k].name == cluster.jobs[i].name) gang |= 1U << k;
  }
  return gang;
}

/// Whether the job is surplus if those of `mask` go. Of a gang that goes whole, so many are, and
/// which of them does not matter.
inline bool IsSurplus(const Cluster& cluster, unsigned mask, std::size_t i) {
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
      // A queue without a quota promises nothing and forbids nothing: there the fair share counts.
      by_quota &= std::ranges::any_of(ours, [&](int queue) { return row(queue).quota > 0; });
      for (const int queue : ours) {
        const std::int64_t used = Used(queue, mask, true);
        by_quota &= used <= (row(queue).quota > 0 ? row(queue).quota : share(queue));
        by_share &= used <= share(queue);
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

inline Rank RankOf(const Cluster& cluster, unsigned mask, bool straddles) {
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

inline config::PolicyConfiguration PolicyOf(const Cluster& cluster) {
  std::vector<config::Queue> queues;
  for (std::size_t i = 0; i < cluster.queues.size(); ++i) {
    const QueueRow& row = cluster.queues[i];
    // Where a total of 0 is not said, the total is the sum of the flavors.
    const int total = row.of_flavor.empty() || row.quota > 0 ? row.quota : -1;
    config::Queue queue = MakeQueue(QueueName(static_cast<int>(i)), {"*"}, -1, total);
    queue.weight = row.weight * 1000;
    if (row.parent >= 0) queue.parent = QueueName(row.parent);
    for (int flavor = 0; flavor < std::ssize(row.of_flavor); ++flavor) {
      const std::int64_t devices = row.of_flavor[static_cast<std::size_t>(flavor)];
      queue.quotas.push_back({.flavor = FlavorOf(flavor), .quota = {{kGpu, devices * 1000}}});
    }
    queues.push_back(std::move(queue));
  }
  config::PolicyConfiguration policy = MakePolicy(queues);
  const auto names_flavors = [](const QueueRow& row) { return !row.of_flavor.empty(); };
  if (std::ranges::any_of(cluster.queues, names_flavors)) {
    for (int flavor = 0; flavor < 2; ++flavor) {
      policy.flavors.push_back(
          {.name = FlavorOf(flavor), .node_selector = {{"flavor", FlavorOf(flavor)}}});
    }
  }
  policy.borrowing = true;
  return policy;
}

inline std::string PodName(const Job& job, int member) {
  return fmt::format("{}-{}", job.name, job.rank + member);
}

inline PodBuilder PodOf(const Job& job, int member) {
  auto pod = MakePod(PodName(job, member)).Gpu(job.gpus).Queue(QueueName(job.queue));
  if (job.gang) pod.Gang(job.name, job.size).Min(job.min);
  return pod;
}

/// The jobs that Berth evicts for the first one. nullopt: of one it evicts a part only.
inline std::optional<unsigned> Evicted(const Cluster& cluster) {
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
  for (const auto& [job, count] : pods) {
    if (count != cluster.jobs[job].members) return std::nullopt;
  }
  return mask;
}

/// All sets of jobs with which the first one starts and that it may take; at most `most` of them.
inline std::vector<Rank> SetsOf(const Cluster& cluster, const Rules& rules,
                                std::size_t most = SIZE_MAX) {
  std::vector<Rank> sets;
  if (rules.Fits(0)) return sets;
  for (unsigned mask = 2; mask < 1U << cluster.jobs.size() && sets.size() < most; mask += 2) {
    if (!rules.IsClosed(mask) || !rules.Fits(mask)) continue;
    const std::optional<bool> straddles = rules.MayTake(mask);
    if (straddles) sets.push_back(RankOf(cluster, mask, *straddles));
  }
  return sets;
}

}  // namespace berth::testing
