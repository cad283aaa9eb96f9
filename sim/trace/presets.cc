#include "sim/trace/presets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "cluster/resources.h"
#include "sim/random.h"
#include "sim/trace/offer.h"
#include "sim/world/pods.h"

namespace berth::sim {
namespace {

// Streams of a seed.
constexpr std::uint64_t kJobStream = 2;
constexpr std::uint64_t kNodeStream = 3;
constexpr std::uint64_t kQueueStream = 4;

constexpr std::int64_t kPhillyNodes = 32;
constexpr std::int64_t kPhillyGpus = 8;
constexpr std::int64_t kPhillyCpuPerGpu = 12'000;
constexpr std::int64_t kPhillyMibPerGpu = std::int64_t{96} * 1024;

std::vector<kube::Node> PhillyNodes() {
  std::vector<kube::Node> nodes;
  for (std::int64_t i = 0; i < kPhillyNodes; ++i) {
    nodes.push_back(MakeOpenbNode({.name = "node-" + std::to_string(i),
                                   .cpu_milli = kPhillyGpus * kPhillyCpuPerGpu,
                                   .memory_mib = kPhillyGpus * kPhillyMibPerGpu,
                                   .gpus = kPhillyGpus}));
  }
  return nodes;
}

/// As a pod that ran from 0 to the end of the job.
OpenbPod RanAs(const TraceJob& job, std::size_t index) {
  return {.name = "job-" + std::to_string(index),
          .cpu_milli = job.gpus * kPhillyCpuPerGpu,
          .memory_mib = job.gpus * kPhillyMibPerGpu,
          .gpus = job.gpus,
          .gpu_milli = cluster::kMilli,
          .scheduled_s = 0,
          .deletion_s = job.duration_s};
}

/// Mean seconds between arrivals. It is computed from the trace, not from the drawn jobs: a seed
/// with larger jobs has a higher load.
double GapFor(const std::vector<TraceJob>& trace, double load) {
  double gpu_seconds = 0;
  for (const TraceJob& job : trace) gpu_seconds += static_cast<double>(job.duration_s * job.gpus);
  return gpu_seconds / static_cast<double>(trace.size()) /
         (static_cast<double>(kPhillyNodes * kPhillyGpus) * load);
}

/// The rows of the virtual clusters that have 1 % of all rows.
std::vector<TraceJob> OfCommonGroups(const std::vector<TraceJob>& arrivals) {
  std::map<std::string, std::size_t> counts;
  for (const TraceJob& job : arrivals) ++counts[job.group];
  std::vector<TraceJob> common;
  std::ranges::copy_if(arrivals, std::back_inserter(common), [&](const TraceJob& job) {
    return counts[job.group] * 100 >= arrivals.size();
  });
  return common;
}

std::map<std::int64_t, std::vector<std::int64_t>> DurationsByGpus(
    const std::vector<TraceJob>& durations) {
  std::map<std::int64_t, std::vector<std::int64_t>> by_gpus;
  for (const TraceJob& job : durations) by_gpus[job.gpus].push_back(job.duration_s);
  return by_gpus;
}

std::string QueueOf(const RecordedJob& job) {
  return job.pods.front().meta.labels.at("berth.dev/queue");
}

/// Queues with their part of the GPUs as quota, and as limit at least what their largest job has.
std::vector<config::Queue> QueuesOf(const std::vector<RecordedJob>& jobs, std::int64_t gpus) {
  struct Asked {
    double work = 0;
    std::int64_t largest = 0;
  };
  std::map<std::string, Asked> queues;
  double all = 0;
  for (const RecordedJob& job : jobs) {
    const double work = static_cast<double>(job.gpus()) * static_cast<double>(job.service);
    Asked& asked = queues[QueueOf(job)];
    asked.work += work;
    asked.largest = std::max(asked.largest, job.gpus());
    all += work;
  }
  std::vector<config::Queue> made;
  for (const auto& [name, asked] : queues) {
    const auto quota =
        static_cast<std::int64_t>(std::floor(static_cast<double>(gpus) * asked.work / all));
    made.push_back({.name = name,
                    .namespaces = std::vector<std::string>{"*"},
                    .quota = {{kGpu, quota * cluster::kMilli}},
                    .limit = {{kGpu, std::max(quota, asked.largest) * cluster::kMilli}}});
  }
  return made;
}

std::map<std::string, Contender> ContendersOf(const config::PolicyConfiguration& base,
                                              std::vector<config::Queue> queues) {
  config::PolicyConfiguration caps = base;
  caps.borrowing = false;
  caps.queues = queues;
  for (config::Queue& queue : queues) queue.limit.clear();
  config::PolicyConfiguration reclaims = base;
  reclaims.borrowing = true;
  reclaims.queues = queues;
  config::PolicyConfiguration lends = reclaims;
  for (config::Queue& queue : lends.queues) queue.preemption.reclaim = config::Reclaim::kNever;
  for (config::Queue& queue : queues) queue.quota.clear();
  config::PolicyConfiguration none = base;
  none.borrowing = false;
  none.queues = std::move(queues);
  return {{"native", {.policy = "native", .configuration = none}},
          {"none", {.configuration = none}},
          {"caps", {.configuration = std::move(caps)}},
          {"lends", {.configuration = std::move(lends)}},
          {"reclaims", {.configuration = std::move(reclaims)}}};
}

/// Of the pods that ran since day 110 the last 40 %.
std::vector<OpenbPod> LastThatRan(const std::vector<OpenbPod>& pods) {
  constexpr std::int64_t kFirstDay = std::int64_t{110} * 86'400;
  std::vector<OpenbPod> ran;
  for (const OpenbPod& pod : pods) {
    const bool complete = pod.scheduled_s && pod.deletion_s && *pod.deletion_s >= *pod.scheduled_s;
    if (complete && pod.creation_s >= kFirstDay) ran.push_back(pod);
  }
  std::ranges::stable_sort(ran, {}, &OpenbPod::creation_s);
  ran.erase(ran.begin(), ran.begin() + static_cast<std::ptrdiff_t>(ran.size() * 3 / 5));
  return ran;
}

}  // namespace

TraceWorkload PhillyWorkload(const std::vector<TraceJob>& trace, double load, std::size_t count,
                             std::uint64_t seed) {
  TraceWorkload workload{.nodes = PhillyNodes(), .jobs = {}};
  Random random(seed, kJobStream);
  std::vector<OpenbPod> pods;
  for (std::size_t i = 0; i < count; ++i) {
    pods.push_back(RanAs(trace[random.Below(trace.size())], i));
  }
  workload.jobs = RecordingOf(pods).jobs;
  const double gap = GapFor(trace, load);
  double at = 0;
  for (RecordedJob& job : workload.jobs) {
    at += random.Exponential(gap);
    job.arrival = std::llround(at * 1'000);
  }
  const Duration first = workload.jobs.front().arrival;
  for (RecordedJob& job : workload.jobs) job.arrival -= first;
  workload.never_fit = TakeNeverFitting(workload.jobs, workload.nodes);
  return workload;
}

const std::vector<std::string_view>& QueuePolicies() {
  static const std::vector<std::string_view> kPolicies{"native", "none", "caps", "lends",
                                                       "reclaims"};
  return kPolicies;
}

TraceWorkload PhillyQueuesWorkload(const std::vector<TraceJob>& arrivals,
                                   const std::vector<TraceJob>& durations, double load,
                                   std::size_t count, std::uint64_t seed,
                                   const config::PolicyConfiguration& base) {
  const std::vector<TraceJob> rows = OfCommonGroups(arrivals);
  const auto by_gpus = DurationsByGpus(durations);
  Random random(seed, kQueueStream);
  TraceWorkload workload{.nodes = PhillyNodes(), .jobs = {}};
  Recording recording{.jobs = {}, .has_arrivals = false, .left_out = {}};
  for (std::size_t i = 0; i < count && !rows.empty(); ++i) {
    TraceJob job = rows[random.Below(rows.size())];
    auto like = by_gpus.find(job.gpus);
    if (like == by_gpus.end()) like = by_gpus.find(kPhillyGpus);
    if (like == by_gpus.end()) continue;
    job.duration_s = like->second[random.Below(like->second.size())];
    recording.jobs.push_back(MakeJob(job, i, kPhillyGpus));
    for (kube::Pod& pod : recording.jobs.back().pods) {
      pod.meta.labels["berth.dev/queue"] = "vc-" + job.group;
    }
  }
  workload.never_fit = TakeNeverFitting(recording.jobs, workload.nodes);
  Offer(recording, load, kPhillyNodes * kPhillyGpus, seed);
  workload.jobs = std::move(recording.jobs);
  workload.contenders = ContendersOf(base, QueuesOf(workload.jobs, kPhillyNodes * kPhillyGpus));
  workload.shares = workload.contenders.at("reclaims").configuration;
  return workload;
}

TraceWorkload OpenbWorkload(const std::vector<OpenbNode>& nodes, const std::vector<OpenbPod>& pods,
                            double load, std::size_t node_count, std::uint64_t seed) {
  std::vector<OpenbNode> shuffled = nodes;
  Random(seed, kNodeStream).Shuffle(shuffled);
  shuffled.resize(std::min(node_count, shuffled.size()));
  TraceWorkload workload;
  for (const OpenbNode& node : shuffled) workload.nodes.push_back(MakeOpenbNode(node));
  Recording recording = RecordingOf(LastThatRan(pods));
  workload.never_fit = TakeNeverFitting(recording.jobs, workload.nodes);
  workload.speed_up = Offer(recording, load, CountGpus(workload.nodes).all, seed);
  workload.jobs = std::move(recording.jobs);
  workload.left_out = std::move(recording.left_out);
  return workload;
}

}  // namespace berth::sim
