#include "sim/experiments/jct_experiment.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/experiments/openb.h"
#include "sim/experiments/statistics.h"
#include "sim/random.h"

namespace berth::sim {
namespace {

constexpr double kMillis = 1000;

// Streams of a seed.
constexpr std::uint64_t kJobStream = 2;
constexpr std::uint64_t kNodeStream = 3;

constexpr std::int64_t kPhillyNodes = 32;
constexpr std::int64_t kPhillyGpus = 8;
constexpr std::int64_t kCpuPerGpu = 12'000;
constexpr std::int64_t kMemoryPerGpu = 96 * 1024;

OpenbPod GpuPod(const std::string& name, std::int64_t gpus) {
  return {.name = name,
          .cpu_milli = gpus * kCpuPerGpu,
          .memory_mib = gpus * kMemoryPerGpu,
          .gpus = gpus,
          .gpu_milli = cluster::kMilli};
}

double Seconds(std::int64_t millis) { return static_cast<double>(millis) / kMillis; }

bool FitsSome(const OpenbPod& pod, const std::vector<OpenbNode>& nodes) {
  return std::ranges::any_of(nodes, [&pod](const OpenbNode& node) {
    const bool model = pod.gpus == 0 || pod.models.empty() ||
                       std::ranges::find(pod.models, node.model) != pod.models.end();
    return model && pod.cpu_milli <= node.cpu_milli && pod.memory_mib <= node.memory_mib &&
           pod.gpus <= node.gpus;
  });
}

}  // namespace

const std::vector<std::string_view>& JctPolicies() {
  static const std::vector<std::string_view> kPolicies = [] {
    std::vector<std::string_view> names{"native", "FIFO", "MostAllocated"};
    names.insert(names.end(), PackingPolicies().begin(), PackingPolicies().end());
    return names;
  }();
  return kPolicies;
}

Workload PhillyWorkload(const std::vector<TraceJob>& trace, double load, std::size_t count,
                        std::uint64_t seed) {
  Workload workload;
  for (std::int64_t i = 0; i < kPhillyNodes; ++i) {
    workload.nodes.push_back({.name = "node-" + std::to_string(i),
                              .cpu_milli = kPhillyGpus * kCpuPerGpu,
                              .memory_mib = kPhillyGpus * kMemoryPerGpu,
                              .gpus = kPhillyGpus,
                              .model = "V100"});
  }
  Random random(seed, kJobStream);
  for (std::size_t i = 0; i < count; ++i) {
    const TraceJob& drawn = trace[random.Below(trace.size())];
    const std::string name = "job-" + std::to_string(i);
    workload.jobs.push_back({.name = name,
                             .arrival = 0,
                             .service = drawn.duration_s * 1000,
                             .pod = GpuPod(name, drawn.gpus)});
  }
  // The rate is computed from the trace, not from the drawn jobs: a seed with larger jobs has a
  // higher load.
  double gpu_seconds = 0;
  for (const TraceJob& job : trace) gpu_seconds += static_cast<double>(job.duration_s * job.gpus);
  const double capacity = static_cast<double>(kPhillyNodes * kPhillyGpus);
  const double gap = gpu_seconds / static_cast<double>(trace.size()) / (capacity * load);
  double at = 0;
  for (QueuedJob& job : workload.jobs) {
    at += random.Exponential(gap);
    job.arrival = std::llround(at * kMillis);
  }
  return workload;
}

Workload OpenbWorkload(const std::vector<OpenbNode>& nodes, const std::vector<OpenbPod>& pods,
                       double load, std::size_t node_count, std::uint64_t seed) {
  constexpr std::int64_t kFirstDay = 110 * 86'400;
  Workload workload{.nodes = nodes, .jobs = {}};
  Random random(seed, kNodeStream);
  random.Shuffle(workload.nodes);
  workload.nodes.resize(std::min(node_count, workload.nodes.size()));
  std::vector<OpenbPod> ran;
  for (const OpenbPod& pod : pods) {
    const bool complete = pod.scheduled_s && pod.deletion_s && *pod.deletion_s >= *pod.scheduled_s;
    if (complete && pod.creation_s >= kFirstDay) ran.push_back(pod);
  }
  std::ranges::stable_sort(ran, {}, &OpenbPod::creation_s);
  ran.erase(ran.begin(), ran.begin() + static_cast<std::ptrdiff_t>(ran.size() * 3 / 5));
  if (ran.empty()) return workload;
  std::int64_t offered = 0;
  for (const OpenbPod& pod : ran) {
    if (FitsSome(pod, workload.nodes)) {
      offered += pod.total_gpu_milli() * (*pod.deletion_s - *pod.scheduled_s);
    }
  }
  const std::int64_t first = ran.front().creation_s;
  const std::int64_t span = std::max<std::int64_t>(1, ran.back().creation_s - first);
  const auto capacity =
      static_cast<double>(std::max<std::int64_t>(1, CapacityMilli(workload.nodes)));
  workload.speed_up = load * capacity * static_cast<double>(span) /
                      static_cast<double>(std::max<std::int64_t>(1, offered));
  for (const OpenbPod& pod : ran) {
    const auto after = static_cast<double>(pod.creation_s - first);
    workload.jobs.push_back({.name = pod.name,
                             .arrival = std::llround(after / workload.speed_up * kMillis),
                             .service = (*pod.deletion_s - *pod.scheduled_s) * 1000,
                             .pod = pod});
  }
  return workload;
}

JctResult RunJct(const Workload& workload, const std::string& policy, std::uint64_t seed,
                 const config::ScoreWeights& weights) {
  const bool fifo = policy == "FIFO";
  const bool native = fifo || policy == "native";
  const QueueModelOptions options{
      .packing = {.policy = native ? "LeastAllocated" : policy, .seed = seed, .weights = weights},
      .strict_fifo = fifo};
  const QueueResult run = RunQueue(workload.nodes, workload.jobs, options);
  JctResult result;
  result.policy = policy;
  result.seed = seed;
  result.speed_up = workload.speed_up;
  result.jobs = run.ran.size();
  for (const std::size_t i : run.never) result.never_fit.push_back(workload.jobs[i].name);
  std::vector<double> waits;
  std::vector<double> jcts;
  std::vector<double> services;
  std::vector<double> slowdowns;
  std::map<std::int64_t, std::vector<double>> by_gpus;
  for (std::size_t k = 0; k < run.ran.size(); ++k) {
    const QueuedJob& job = workload.jobs[run.ran[k]];
    const double jct = Seconds(run.jobs[k].jct);
    const double service = Seconds(job.service);
    waits.push_back(Seconds(run.jobs[k].wait));
    jcts.push_back(jct);
    services.push_back(service);
    slowdowns.push_back(std::max(1.0, jct / std::max(service, 10.0)));
    by_gpus[job.pod.total_gpu_milli() / cluster::kMilli].push_back(jct);
  }
  result.mean_jct = Mean(jcts);
  result.mean_wait = Mean(waits);
  result.mean_service = Mean(services);
  result.p50_wait = Quantile(waits, 0.50);
  result.p95_wait = Quantile(waits, 0.95);
  result.p99_wait = Quantile(waits, 0.99);
  result.p50_jct = Quantile(jcts, 0.50);
  result.p95_jct = Quantile(jcts, 0.95);
  result.p99_jct = Quantile(jcts, 0.99);
  result.bounded_slowdown = Mean(slowdowns);
  result.makespan = Seconds(run.makespan);
  const double all =
      static_cast<double>(CapacityMilli(workload.nodes)) * static_cast<double>(run.makespan);
  result.utilisation = all > 0 ? static_cast<double>(run.busy) / all : 0;
  for (const auto& [gpus, values] : by_gpus) {
    result.mean_jct_by_gpus.emplace_back(gpus, Mean(values));
  }
  return result;
}

}  // namespace berth::sim
