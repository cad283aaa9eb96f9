#include "sim/experiments/openb_experiment.h"

#include <ctime>
#include <queue>

#include "sim/experiments/openb_variants.h"
#include "sim/experiments/statistics.h"

namespace berth::sim {
namespace {

constexpr std::size_t kRackSize = 16;

/// Processor time in seconds that this thread has used: what a run costs on one core, whatever else
/// the machine does.
double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// One run: arrivals in order, each placed at once or dropped.
class Run {
 public:
  Run(const std::string& variant, const std::vector<OpenbNode>& nodes, const OpenbList& list,
      const PackingOptions& options)
      : racks_(variant == "racks"),
        capacity_(CapacityMilli(nodes)),
        list_(list),
        cluster_(racks_ ? InRacks(nodes, kRackSize) : nodes, list.pods, options),
        result_{.variant = variant, .curve = LoadCurve(capacity_)} {
    result_.list = list.name;
    result_.policy = options.policy;
    if (!options.cpu_policy.empty()) result_.policy += "+" + options.cpu_policy;
    result_.seed = options.seed;
    if (variant == "protocol" && options.cpu_policy.empty()) {
      result_.published = PublishedUnallocated(list.name, options.policy);
    }
  }

  PackingResult Finish(const std::vector<Arrival>& arrivals) {
    const double start = ProcessorSeconds();
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      Handle(arrivals[i]);
      if (2 * i >= arrivals.size()) {
        late_.push_back(100 - 100 * static_cast<double>(cluster_.allocated_milli()) /
                                  static_cast<double>(capacity_));
      }
    }
    result_.seconds = ProcessorSeconds() - start;
    const bool leave = !arrivals.empty() && arrivals.front().service_ms.has_value();
    result_.unallocated = leave ? std::optional(Mean(late_)) : result_.curve.UnallocatedAt(100);
    if (arrived_ > 0) {
      result_.refused_gpu_percent =
          100 * static_cast<double>(refused_milli_) / static_cast<double>(arrived_);
    }
    return result_;
  }

 private:
  void Handle(const Arrival& arrival) {
    for (; !ends_.empty() && ends_.top().first <= arrival.at_ms; ends_.pop()) {
      cluster_.Remove(ends_.top().second);
    }
    if (!result_.fragment_percent && arrived_ >= capacity_) {
      result_.fragment_percent =
          100.0 * static_cast<double>(cluster_.FragmentMilli()) / static_cast<double>(capacity_);
    }
    const OpenbPod& pod = list_.pods[arrival.pod];
    std::vector<PackingCluster::PodId> ids;
    for (int i = 0; i < arrival.members; ++i) ids.push_back(cluster_.Submit(pod));
    const bool placed = cluster_.TryPlace(ids, racks_ && arrival.members > 1 ? "rack" : "");
    const std::int64_t milli = pod.total_gpu_milli() * arrival.members;
    arrived_ += milli;
    if (placed) {
      ++result_.placed;
      for (const auto id : ids) {
        if (arrival.service_ms) ends_.emplace(arrival.at_ms + *arrival.service_ms, id);
      }
    } else {
      for (const auto id : ids) cluster_.Remove(id);
      Refuse(arrival, pod);
      refused_milli_ += milli;
    }
    result_.curve.Record(arrived_, cluster_.allocated_milli());
  }

  void Refuse(const Arrival& arrival, const OpenbPod& pod) {
    ++result_.refused;
    if (arrival.members > 1) ++result_.refused_gangs;
    if (pod.gpus > 0) return;
    ++result_.refused_cpu_only;
    if (arrived_ <= capacity_) ++result_.refused_cpu_only_at_100;
  }

  using End = std::pair<std::int64_t, PackingCluster::PodId>;

  bool racks_;
  std::int64_t capacity_;
  const OpenbList& list_;
  PackingCluster cluster_;
  PackingResult result_;
  std::int64_t arrived_ = 0;
  std::int64_t refused_milli_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<double> late_;
};

}  // namespace

PackingResult RunPacking(const std::string& variant, const std::vector<OpenbNode>& nodes,
                         const OpenbList& list, const PackingOptions& options) {
  const auto arrivals = Arrivals(variant, list.pods, CapacityMilli(nodes), options.seed);
  return Run(variant, nodes, list, options).Finish(arrivals.value_or(std::vector<Arrival>()));
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
        slots[i] = RunPacking(grid.variant, grid.nodes, grid.lists[i / per_list], options);
      },
      &progress);
  std::vector<PackingResult> results;
  for (auto& slot : slots) results.push_back(std::move(*slot));
  return results;
}

}  // namespace berth::sim
