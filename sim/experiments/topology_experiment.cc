#include "sim/experiments/topology_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <memory>

#include "policy/placement.h"
#include "server/cli/table.h"
#include "sim/baselines/baselines.h"
#include "sim/experiments/rack_baselines.h"
#include "sim/experiments/statistics.h"
#include "sim/experiments/stock_scorer.h"
#include "sim/random.h"
#include "sim/world/fidelity.h"

namespace berth::sim {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr int kBlocks = 4;
constexpr int kRacks = 8;   ///< Per block.
constexpr int kHosts = 16;  ///< Per rack.
constexpr std::int64_t kGpus = 8;
constexpr std::int64_t kCapacity = kBlocks * kRacks * kHosts * kGpus;
constexpr topology::DeviceMask kFirstSocket = 0x0f;
constexpr std::int64_t kOneSocket = 4;  ///< GPUs.
constexpr std::size_t kRackLevel = 1;

/// Thousandths of a core that come with a GPU; a host has 128 cores.
constexpr std::int64_t kCpuPerGpu = 12'000;

struct JobKind {
  int members;
  std::int64_t gpus;  ///< Of each.
  int percent;        ///< Of the jobs.
};
/// A mix of the sizes that clusters for training see; three of five jobs are single pods, nine of
/// ten GPUs are asked for by gangs.
constexpr std::array<JobKind, 10> kJobKinds{{{1, 1, 30},
                                             {1, 2, 10},
                                             {1, 4, 10},
                                             {1, 8, 10},
                                             {2, 8, 12},
                                             {4, 8, 10},
                                             {8, 8, 6},
                                             {16, 8, 3},
                                             {4, 2, 5},
                                             {8, 4, 4}}};

const JobKind& Draw(Random& random) {
  auto left = static_cast<int>(random.Below(100));
  for (const JobKind& kind : kJobKinds) {
    left -= kind.percent;
    if (left < 0) return kind;
  }
  return kJobKinds.back();
}

kube::Node NodeAt(int block, int rack, int host, bool told_apart) {
  const config::PolicyConfiguration defaults;
  kube::Node node;
  node.meta.name = fmt::format("b{}-r{}-h{:02}", block, rack, host);
  node.meta.labels = {{defaults.levels[0].node_label, fmt::format("b{}", block)},
                      {defaults.levels[1].node_label, fmt::format("r{}", rack)},
                      {defaults.levels[2].node_label, node.meta.name}};
  if (told_apart) {
    node.meta.labels["nvidia.com/gpu.machine"] = "DGXH100";
    node.meta.annotations["berth.dev/device-selection"] = "annotation";
  }
  node.allocatable = {{"cpu", 128'000},
                      {"memory", std::int64_t{1} << 41U},
                      {"pods", 110},
                      {kGpu, kGpus * cluster::kMilli}};
  return node;
}

class Run {
 public:
  explicit Run(const TopologyOptions& options)
      : options_(options),
        berth_(options.policy.starts_with("Berth")),
        store_(Policy(options), {.shares = !berth_, .order_seed = options.seed}) {
    for (int block = 0; block < kBlocks; ++block) {
      for (int rack = 0; rack < kRacks; ++rack) {
        for (int host = 0; host < kHosts; ++host) {
          store_.UpsertNode(NodeAt(block, rack, host, berth_));
        }
      }
    }
    store_.Refresh();
    if (berth_) {
      scorer_ = std::make_unique<policy::Scorer>(store_);
    } else if (options.policy == "BestFit") {
      scorer_ = std::make_unique<policy::Scorer>(store_, MakeBaseline("BestFit"));
    } else {
      scorer_ = std::make_unique<policy::Scorer>(
          store_, std::make_unique<StockScorer>(StockStrategy::kLeastAllocated));
    }
  }

  TopologyResult Do() {
    result_ = {.policy = options_.policy, .load = options_.load, .seed = options_.seed};
    for (std::size_t i = 0; i < 2 * options_.jobs; ++i) {
      const JobKind& kind = Draw(jobs_);
      MakeRoom(kind.members * kind.gpus);
      Arrive(kind, i >= options_.jobs);
    }
    const double gangs = std::max(1.0, static_cast<double>(result_.gangs));
    for (double* sum : {&result_.pairs, &result_.cross_rack_pairs, &result_.rack_changes,
                        &result_.cross_socket_pairs}) {
      *sum /= gangs;
    }
    return result_;
  }

 private:
  /// Those that found no room are there as well, and hold nothing: so the jobs that come and go are
  /// the same for every policy.
  struct Job {
    std::int64_t gpus = 0;
    std::vector<std::string> pods;
  };

  static config::PolicyConfiguration Policy(const TopologyOptions& options) {
    config::PolicyConfiguration policy;
    policy.placement.score = options.weights;
    return policy;
  }

  /// Ends jobs, any of them, until the load has room for so many GPUs.
  void MakeRoom(std::int64_t gpus) {
    const auto limit = static_cast<std::int64_t>(options_.load * static_cast<double>(kCapacity));
    while (!running_.empty() && asked_ + gpus > limit) {
      std::swap(running_[ends_.Below(running_.size())], running_.back());
      asked_ -= running_.back().gpus;
      Leave(running_.back().pods);
      running_.pop_back();
    }
  }

  void Leave(const std::vector<std::string>& pods) {
    for (const std::string& uid : pods) store_.DeletePod(uid);
  }

  void Arrive(const JobKind& kind, bool counts) {
    std::vector<const cluster::PodInfo*> pods;
    Job job{.gpus = kind.members * kind.gpus, .pods = {}};
    for (int i = 0; i < kind.members; ++i) {
      pods.push_back(Submit(kind.gpus));
      job.pods.push_back(pods.back()->object.meta.uid);
    }
    if (!Place(pods, kind)) {
      Leave(job.pods);
      job.pods.clear();
      result_.refused += counts ? 1 : 0;
    } else if (counts && kind.members > 1) {
      Count(pods, kind);
    }
    asked_ += job.gpus;
    running_.push_back(std::move(job));
  }

  const cluster::PodInfo* Submit(std::int64_t gpus) {
    auto& spec = specs_[gpus];
    if (spec == nullptr) {
      auto fresh = std::make_shared<kube::PodSpec>();
      fresh->requests = {{"cpu", gpus * kCpuPerGpu}, {kGpu, gpus * cluster::kMilli}};
      spec = std::move(fresh);
    }
    kube::Pod pod;
    pod.meta.name = fmt::format("{:08}", ++submitted_);
    pod.meta.uid = pod.meta.name;
    pod.meta.ns = "sim";
    pod.scheduler_name = "berth";
    pod.spec = spec;
    const cluster::PodInfo* info = store_.UpsertPod(std::move(pod));
    if (berth_) scorer_->mix().Observe(info->shape);
    return info;
  }

  bool Place(const std::vector<const cluster::PodInfo*>& pods, const JobKind& kind) {
    if (berth_) return PlaceWhole(pods);
    const bool by_rack = options_.policy == "RackAffinity" || options_.policy == "TightestRack";
    return by_rack ? PlaceByRack(pods, kind) : PlaceOneByOne(pods);
  }

  bool PlaceByRack(const std::vector<const cluster::PodInfo*>& pods, const JobKind& kind) {
    store_.Refresh();
    const cluster::ResourceId gpu = store_.device_ids().front();
    std::vector<RackNode> nodes;
    for (const auto& node : store_.nodes()) {
      nodes.push_back({.rack = static_cast<int>(node->domains[kRackLevel]),
                       .free = node->free(gpu) / cluster::kMilli,
                       .all = kGpus});
    }
    const auto placed = options_.policy == "RackAffinity"
                            ? PlaceByRackAffinity(nodes, kind.members, kind.gpus, ties_)
                            : PlaceByTightestRack(nodes, kind.members, kind.gpus);
    for (std::size_t i = 0; i < placed.size(); ++i) {
      store_.SetCharge(*pods[i], store_.nodes()[placed[i]]->index, cluster::Charge::kPlanned);
    }
    return !placed.empty();
  }

  bool PlaceWhole(const std::vector<const cluster::PodInfo*>& pods) {
    policy::PlacementRequest request{
        .pods = {pods.begin(), pods.end()}, .min = static_cast<int>(pods.size()), .explain = false};
    if (options_.policy == "BerthPreferred") request.topology_preferred = "rack";
    const auto placement = policy::Place(request, policy::Overlay(store_), *scorer_);
    for (const policy::Placed& p : placement.placed) {
      store_.SetCharge(*store_.FindPod(p.pod->object.meta.uid), p.node, cluster::Charge::kPlanned,
                       p.devices);
    }
    return placement.ok();
  }

  bool PlaceOneByOne(const std::vector<const cluster::PodInfo*>& pods) {
    return std::ranges::all_of(pods, [&](const cluster::PodInfo* pod) {
      const policy::PlacementRequest request{
          .pods = {pod}, .min = 1, .tie_seed = ties_.Next() | 1U, .explain = false};
      const auto placement = policy::Place(request, policy::Overlay(store_), *scorer_);
      if (placement.ok()) {
        store_.SetCharge(*pod, placement.placed.front().node, cluster::Charge::kPlanned);
      }
      return placement.ok();
    });
  }

  cluster::DomainId RackOf(const cluster::PodInfo* pod) const {
    return store_.node(pod->node).domains[kRackLevel];
  }

  void Count(const std::vector<const cluster::PodInfo*>& pods, const JobKind& kind) {
    ++result_.gangs;
    for (std::size_t i = 0; i < pods.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        result_.pairs += 1;
        result_.cross_rack_pairs += RackOf(pods[i]) == RackOf(pods[j]) ? 0 : 1;
      }
      if (i > 0) result_.rack_changes += RackOf(pods[i]) == RackOf(pods[i - 1]) ? 0 : 1;
      if (kind.gpus > kOneSocket) continue;
      const topology::DeviceMask devices = pods[i]->devices;
      const int first = std::popcount(static_cast<unsigned>(devices & kFirstSocket));
      result_.cross_socket_pairs += first * (std::popcount(devices) - first);
    }
  }

  TopologyOptions options_;
  bool berth_;
  cluster::Store store_;
  std::unique_ptr<policy::Scorer> scorer_;
  Random jobs_{options_.seed, 1};
  Random ends_{options_.seed, 2};
  Random ties_{options_.seed, 3};
  std::map<std::int64_t, std::shared_ptr<const kube::PodSpec>> specs_;
  std::uint64_t submitted_ = 0;
  std::vector<Job> running_;
  std::int64_t asked_ = 0;
  TopologyResult result_;
};

double Rounded(double value) { return std::round(value * 1000) / 1000; }

}  // namespace

const std::vector<std::string_view>& TopologyPolicies() {
  static const std::vector<std::string_view> kPolicies{
      "BestFit", "LeastAllocated", "RackAffinity", "TightestRack", "Berth", "BerthPreferred"};
  return kPolicies;
}

TopologyResult RunTopology(const TopologyOptions& options) { return Run(options).Do(); }

std::vector<nlohmann::ordered_json> TopologyRows(const std::vector<TopologyResult>& results) {
  std::vector<nlohmann::ordered_json> rows;
  for (const TopologyResult& r : results) {
    rows.push_back({{"experiment", "topology"},
                    {"level", Name(Fidelity::kEngine)},
                    {"load", r.load},
                    {"policy", r.policy},
                    {"seed", r.seed},
                    {"gangs", r.gangs},
                    {"refused_jobs", r.refused},
                    {"mean_pairs", Rounded(r.pairs)},
                    {"mean_cross_rack_pairs", Rounded(r.cross_rack_pairs)},
                    {"mean_rack_changes", Rounded(r.rack_changes)},
                    {"mean_cross_socket_pairs", Rounded(r.cross_socket_pairs)}});
  }
  return rows;
}

std::string TopologyTable(const std::vector<TopologyResult>& results) {
  std::map<std::pair<double, std::string_view>, std::vector<const TopologyResult*>> cells;
  for (const TopologyResult& r : results) cells[{r.load, r.policy}].push_back(&r);
  server::Table table({"LOAD", "POLICY", "RUNS", "GANGS", "REFUSED", "PAIRS", "CROSS-RACK",
                       "RACK CHANGES", "CROSS-SOCKET"});
  for (const auto& [key, runs] : cells) {
    const auto mean = [&runs](auto member) {
      double sum = 0;
      for (const TopologyResult* run : runs) sum += static_cast<double>(run->*member);
      return sum / static_cast<double>(runs.size());
    };
    table.Add({fmt::format("{:.2f}", key.first), std::string(key.second),
               std::to_string(runs.size()), fmt::format("{:.0f}", mean(&TopologyResult::gangs)),
               fmt::format("{:.1f}", mean(&TopologyResult::refused)),
               fmt::format("{:.2f}", mean(&TopologyResult::pairs)),
               fmt::format("{:.2f}", mean(&TopologyResult::cross_rack_pairs)),
               fmt::format("{:.2f}", mean(&TopologyResult::rack_changes)),
               fmt::format("{:.2f}", mean(&TopologyResult::cross_socket_pairs))});
  }
  return table.Render();
}

}  // namespace berth::sim
