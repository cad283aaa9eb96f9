// The draws of the profile `mixed`: what the other days do not have, and real clusters all have at
// once. Each corner is drawn by itself, so that days meet some of them together.
#include "sim/world/mixed.h"

#include <array>

namespace berth::sim {
namespace {

constexpr const char* kRack = "cloud.provider.com/topology-rack";
constexpr const char* kHostname = "kubernetes.io/hostname";

void DrawMemory(Scenario& day, Random& random) {
  for (kube::Node& node : day.nodes)
    node.allocatable["memory"] = random.Between(2, 16) * (16LL << 30U);
  for (Job& job : day.jobs) {
    if (random.Percent(70)) job.memory_gib = static_cast<int>(random.Between(1, 64));
  }
}

/// Two pools that pods select, and a taint on some nodes that some tolerate.
void DrawPools(Scenario& day, Random& random) {
  for (kube::Node& node : day.nodes) {
    node.meta.labels["pool"] = random.Percent(60) ? "a" : "b";
    if (random.Percent(30)) node.taints.push_back({.key = "dedicated", .value = "ml"});
  }
  for (Job& job : day.jobs) {
    if (random.Percent(40)) job.pool = random.Percent(70) ? "a" : "b";
    job.tolerates = random.Percent(60);
  }
}

void DrawNeighbours(Scenario& day, Random& random) {
  for (Job& job : day.jobs) {
    job.app = random.Percent(50) ? "x" : "y";
    if (!random.Percent(35)) continue;
    static constexpr std::array<Job::Neighbours, 3> kWishes{
        Job::Neighbours::kApart, Job::Neighbours::kTogether, Job::Neighbours::kEven};
    job.neighbours = kWishes[random.Below(kWishes.size())];
    job.neighbours_by = random.Percent(50) ? kRack : kHostname;
    // A lone pod minds the others of its app, a gang its own members alone.
    if (job.gang) job.app = job.name;
  }
}

/// Queue `a` is of one namespace alone; some gangs of the two have one name.
void DrawNamespaces(Scenario& day, Random& random) {
  day.policy.queues[0].namespaces = std::vector<std::string>{"default"};
  day.policy.queues[1].namespaces = std::vector<std::string>{"team-b", "default"};
  for (std::size_t i = 0; i < day.jobs.size(); ++i) {
    Job& job = day.jobs[i];
    if (!random.Percent(40)) continue;
    job.ns = "team-b";
    const Job& before = day.jobs[i == 0 ? 0 : i - 1];
    if (before.ns != job.ns && before.gang && job.gang && random.Percent(50))
      job.name = before.name;
  }
}

/// Pods that another scheduler places, which heeds no plan.
void DrawStrangers(Scenario& day, Random& random) {
  for (Job& job : day.jobs) {
    if (job.gang || !random.Percent(30)) continue;
    job.scheduler = kOtherScheduler;
    job.gated = false;
    job.whole_node = false;
  }
}

}  // namespace

void DrawMixed(Scenario& day) {
  Random random(day.seed, 12);
  day.mixed = true;
  if (random.Percent(50)) DrawMemory(day, random);
  if (random.Percent(50)) DrawPools(day, random);
  if (random.Percent(50)) DrawNeighbours(day, random);
  if (random.Percent(60)) DrawNamespaces(day, random);
  if (random.Percent(50)) DrawStrangers(day, random);
  day.clocks_drift = random.Percent(50);
  for (Job& job : day.jobs) {
    if (random.Percent(10)) job.queue = "c";  // there is none, but for a while (kQueuesChange)
  }
}

}  // namespace berth::sim
