#include "sim/trace/offer.h"

#include <algorithm>

#include "kube/selector.h"
#include "sim/random.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

/// How many pods like this one the empty node holds.
std::int64_t Holds(const kube::Node& node, const kube::Pod& pod) {
  if (!kube::MatchesNode(*pod.spec, node)) return 0;
  std::int64_t pods = AmountOf(node.allocatable, "pods");
  for (const auto& [name, amount] : pod.spec->requests) {
    if (amount > 0) pods = std::min(pods, AmountOf(node.allocatable, name) / amount);
  }
  return pods;
}

/// By plain counting on the empty cluster: each pod alone, and all pods of the first one's kind
/// together.
bool EverFits(const RecordedJob& job, const std::vector<kube::Node>& nodes) {
  for (const kube::Pod& pod : job.pods) {
    if (std::ranges::none_of(nodes, [&](const kube::Node& n) { return Holds(n, pod) > 0; })) {
      return false;
    }
  }
  std::int64_t left = std::ranges::count_if(
      job.pods, [&](const kube::Pod& pod) { return *pod.spec == *job.pods.front().spec; });
  for (const kube::Node& node : nodes) {
    if (left <= 0) break;
    left -= Holds(node, job.pods.front());
  }
  return left <= 0;
}

}  // namespace

std::vector<std::string> TakeNeverFitting(std::vector<RecordedJob>& jobs,
                                          const std::vector<kube::Node>& nodes) {
  std::vector<std::string> names;
  std::erase_if(jobs, [&](const RecordedJob& job) {
    const bool never = !EverFits(job, nodes);
    if (never) names.push_back(job.name);
    return never;
  });
  return names;
}

void Limit(Recording& recording, std::size_t jobs, std::uint64_t seed) {
  if (!recording.has_arrivals) Random(seed, 1).Shuffle(recording.jobs);
  if (jobs > 0 && jobs < recording.jobs.size()) recording.jobs.resize(jobs);
}

double Offer(Recording& recording, double load, std::int64_t gpus, std::uint64_t seed) {
  if (recording.jobs.empty()) return 1;
  double gpu_millis = 0;
  for (const RecordedJob& job : recording.jobs) {
    gpu_millis += static_cast<double>(job.gpus()) * static_cast<double>(job.service);
  }
  const double span = gpu_millis / (load * static_cast<double>(std::max<std::int64_t>(1, gpus)));
  const auto count = static_cast<double>(recording.jobs.size());
  const Duration first = recording.jobs.front().arrival;
  const Duration recorded = recording.jobs.back().arrival - first;
  if (recording.has_arrivals && recorded > 0) {
    for (RecordedJob& job : recording.jobs) {
      const auto after = static_cast<double>(job.arrival - first);
      job.arrival = static_cast<Duration>(after / static_cast<double>(recorded) * span);
    }
    return static_cast<double>(recorded) / std::max(span, 1.0);
  }
  Random random(seed, 2);
  double at = 0;
  for (RecordedJob& job : recording.jobs) {
    job.arrival = static_cast<Duration>(at);
    at += random.Exponential(span / count);
  }
  return 1;
}

}  // namespace berth::sim
