// The draws of the profile `mixed`: properties that the other days do not have, and that real
// clusters have all at once. Each is drawn independently, so that some days combine several.
#include "sim/faults/mixed.h"

#include <array>

namespace berth::sim {
namespace {

constexpr const char* kRack = "cloud.provider.com/topology-rack";
constexpr const char* kHostname = "kubernetes.io/hostname";

void DrawMemory(Day& day, Random& random) {
  for (kube::Node& node : day.nodes)
    node.allocatable["memory"] = random.Between(2, 16) * (16LL << 30U);
  for (Job& job : day.jobs) {
    if (random.Percent(70)) job.memory_gib = static_cast<int>(random.Between(1, 64));
  }
}

/// Two pools that pods select, and a taint on some nodes that some pods tolerate.
void DrawPools(Day& day, Random& random) {
  for (kube::Node& node : day.nodes) {
    node.meta.labels["pool"] = random.Percent(60) ? "a" : "b";
    if (random.Percent(30)) node.taints.push_back({.key = "dedicated", .value = "ml"});
  }
  for (Job& job : day.jobs) {
    if (random.Percent(40)) job.pool = random.Percent(70) ? "a" : "b";
    job.tolerates = random.Percent(60);
  }
}

void DrawNeighbours(Day& day, Random& random) {
  for (Job& job : day.jobs) {
    job.app = random.Percent(50) ? "x" : "y";
    if (!random.Percent(35)) continue;
    static constexpr std::array<Job::Neighbours, 3> kWishes{
        Job::Neighbours::kApart, Job::Neighbours::kTogether, Job::Neighbours::kEven};
    job.neighbours = kWishes[random.Below(kWishes.size())];
    job.neighbours_by = random.Percent(50) ? kRack : kHostname;
    // A lone pod avoids or seeks the others of its app, a gang only its own members.
    if (job.gang) job.app = job.name;
  }
}

/// Queue `a` belongs to one namespace only; some gangs of the two namespaces have the same name.
void DrawNamespaces(Day& day, Random& random) {
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

/// Pods that another scheduler places without regard to Berth's plans.
void DrawOtherSchedulers(Day& day, Random& random) {
  for (Job& job : day.jobs) {
    if (job.gang || !random.Percent(30)) continue;
    job.scheduler = kOtherScheduler;
    job.gated = false;
    job.whole_node = false;
  }
}

}  // namespace

void DrawMixed(Day& day) {
  Random random(day.seed, 12);
  day.mixed = true;
  if (random.Percent(50)) DrawMemory(day, random);
  if (random.Percent(50)) DrawPools(day, random);
  if (random.Percent(50)) DrawNeighbours(day, random);
  if (random.Percent(60)) DrawNamespaces(day, random);
  if (random.Percent(50)) DrawOtherSchedulers(day, random);
  day.clocks_drift = random.Percent(50);
  for (Job& job : day.jobs) {
    if (random.Percent(10)) job.queue = "c";  // it does not exist, except at times (kQueuesChange)
  }
}

}  // namespace berth::sim
