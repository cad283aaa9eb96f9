#include "sim/openb_experiment.h"

#include <chrono>

namespace berth::sim {

PackingResult RunPacking(const std::vector<OpenbNode>& nodes, const OpenbList& list,
                         const PackingOptions& options) {
  const std::int64_t capacity = CapacityMilli(nodes);
  const auto order = ArrivalOrder(list.pods, capacity, options.seed);
  PackingResult result{.list = list.name,
                       .policy = options.policy,
                       .seed = options.seed,
                       .curve = LoadCurve(capacity),
                       .published = PublishedUnallocated(list.name, options.policy)};
  PackingCluster cluster(nodes, list.pods, options);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t arrived = 0;
  for (const std::size_t index : order) {
    const OpenbPod& pod = list.pods[index];
    if (!result.fragment_percent && arrived >= capacity) {
      result.fragment_percent =
          100.0 * static_cast<double>(cluster.FragmentMilli()) / static_cast<double>(capacity);
    }
    const PackingCluster::PodId id = cluster.Submit(pod);
    const bool placed = cluster.TryPlace(id);
    arrived += pod.total_gpu_milli();
    result.curve.Record(arrived, cluster.allocated_milli());
    if (placed) {
      ++result.placed;
    } else {
      cluster.Remove(id);
      ++result.refused;
      if (pod.gpus == 0) {
        ++result.refused_cpu_only;
        if (arrived <= capacity) ++result.refused_cpu_only_at_100;
      }
    }
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<PackingResult> RunGrid(const OpenbGrid& grid) {
  const std::size_t per_list = grid.policies.size() * grid.seeds.size();
  const std::size_t count = grid.lists.size() * per_list;
  std::vector<std::optional<PackingResult>> slots(count);
  const ProgressBar progress("openb", count);
  ParallelFor(
      count, grid.threads,
      [&](std::size_t i) {
        PackingOptions options = grid.options;
        options.policy = grid.policies[i % per_list / grid.seeds.size()];
        options.seed = grid.seeds[i % grid.seeds.size()];
        slots[i] = RunPacking(grid.nodes, grid.lists[i / per_list], options);
      },
      &progress);
  std::vector<PackingResult> results;
  for (auto& slot : slots) results.push_back(std::move(*slot));
  return results;
}

}  // namespace berth::sim
