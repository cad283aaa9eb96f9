#include "sim/trace/presets.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "cluster/resources.h"
#include "sim/random.h"
#include "sim/trace/offer.h"

namespace berth::sim {
namespace {

// Streams of a seed.
constexpr std::uint64_t kJobStream = 2;
constexpr std::uint64_t kNodeStream = 3;

constexpr std::int64_t kPhillyNodes = 32;
constexpr std::int64_t kPhillyGpus = 8;
constexpr std::int64_t kPhillyCpuPerGpu = 12'000;
constexpr std::int64_t kPhillyMibPerGpu = std::int64_t{96} * 1024;

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
  TraceWorkload workload;
  for (std::int64_t i = 0; i < kPhillyNodes; ++i) {
    workload.nodes.push_back(MakeOpenbNode({.name = "node-" + std::to_string(i),
                                            .cpu_milli = kPhillyGpus * kPhillyCpuPerGpu,
                                            .memory_mib = kPhillyGpus * kPhillyMibPerGpu,
                                            .gpus = kPhillyGpus}));
  }
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
