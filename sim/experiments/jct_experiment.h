// The named experiments `philly` and `openb-arrivals`: job completion times under kube-scheduler's
// queue, by policy, load and seed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/experiments/queue_model.h"
#include "sim/experiments/svg_plot.h"

namespace berth::sim {

/// `native` (LeastAllocated and BalancedAllocation), `FIFO` (the same scoring, but the head of the
/// queue blocks the others), then PackingPolicies() and `MostAllocated`.
const std::vector<std::string_view>& JctPolicies();

/// Jobs and the nodes they run on.
struct Workload {
  std::vector<OpenbNode> nodes;
  std::vector<QueuedJob> jobs;  ///< By rising arrival.
  double speed_up = 1;          ///< Factor by which arrivals were compressed.
};

/// `count` jobs drawn with replacement from `trace` (duration, GPUs), arriving as a Poisson process
/// that offers `load` (1.0 = all GPUs busy) to 32 nodes of 8 GPUs. A job is one pod; CPU and memory
/// are proportional to its GPUs, a whole node's worth for 8.
Workload PhillyWorkload(const std::vector<TraceJob>& trace, double load, std::size_t count,
                        std::uint64_t seed);

/// Pods of the default openb list that ran: of those since day 110 the last 40 %, with their own
/// durations, on `node_count` random nodes. Arrivals are compressed so that the pods that fit
/// somewhere offer `load`.
Workload OpenbWorkload(const std::vector<OpenbNode>& nodes, const std::vector<OpenbPod>& pods,
                       double load, std::size_t node_count, std::uint64_t seed);

struct JctResult {
  std::string experiment;
  std::string policy;
  double load = 0;
  std::uint64_t seed = 0;
  double speed_up = 1;
  std::size_t jobs = 0;
  std::vector<std::string> never_fit;  ///< Names of the jobs left out.
  double mean_jct = 0;                 ///< In seconds, as all values below.
  double mean_wait = 0;
  double mean_service = 0;
  double p50_wait = 0;
  double p95_wait = 0;
  double p99_wait = 0;
  double p50_jct = 0;
  double p95_jct = 0;
  double p99_jct = 0;
  double bounded_slowdown = 0;  ///< Mean of max(1, jct / max(service, 10 s)).
  double makespan = 0;
  double utilisation = 0;  ///< GPU time used, divided by all GPU time until the last end.
  std::vector<std::pair<std::int64_t, double>> mean_jct_by_gpus{};  ///< By whole GPUs; 0: shares.
};

/// Runs one workload under one policy; `weights` are those of `Berth`.
JctResult RunJct(const Workload& workload, const std::string& policy, std::uint64_t seed,
                 const config::ScoreWeights& weights);

// --- Output.
/// A row per run, all with the same keys; null for a size that the run has no jobs of.
std::vector<nlohmann::ordered_json> JctRows(const std::vector<JctResult>& results);
/// Means over the seeds, by load and policy.
std::string JctTable(const std::vector<JctResult>& results);
/// Mean JCT of every policy against `base` in percent, paired by seed, per load.
std::string JctDifferences(const std::vector<JctResult>& results, const std::string& base);
/// Mean JCT against load, one line per policy, the mean over seeds.
Plot JctPlot(const std::vector<JctResult>& results);

}  // namespace berth::sim
