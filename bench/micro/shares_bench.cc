// Shares of devices as a simulator uses them: pods arrive one by one, are placed and charged, and
// never leave, until more has been requested than there is.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <ctime>
#include <random>

#include "bench/micro/world.h"
#include "policy/placement.h"
#include "sim/baselines/baselines.h"
#include "sim/baselines/typical_pods.h"

namespace berth::bench {
namespace {

/// The 1,213 GPU nodes of the openb cluster and its most frequent pods, with their counts.
struct NodeKind {
  int count, gpus, cores, gib;
  const char* model;
};
constexpr std::array<NodeKind, 15> kNodes = {{{549, 8, 96, 384, "G2"},
                                              {387, 2, 104, 512, "T4"},
                                              {107, 2, 16, 120, "P100"},
                                              {39, 8, 128, 768, "G3"},
                                              {28, 4, 32, 128, "V100M16"},
                                              {22, 2, 64, 256, "P100"},
                                              {21, 8, 96, 768, "V100M32"},
                                              {19, 1, 8, 32, "V100M16"},
                                              {17, 4, 96, 384, "T4"},
                                              {9, 4, 48, 368, "V100M32"},
                                              {7, 8, 64, 256, "V100M16"},
                                              {3, 1, 8, 60, "P100"},
                                              {2, 2, 8, 60, "P100"},
                                              {2, 1, 128, 1024, "A10"},
                                              {1, 8, 82, 336, "V100M16"}}};
struct PodKind {
  int count, cpu_milli, mib, gpus, gpu_milli;
};
constexpr std::array<PodKind, 24> kPods = {
    {{1047, 3152, 5600, 1, 810},   {857, 11300, 49152, 1, 1000}, {534, 11400, 48128, 1, 1000},
     {470, 3152, 5600, 1, 1000},   {388, 11908, 47104, 1, 470},  {364, 12500, 57344, 0, 0},
     {360, 8000, 30517, 1, 470},   {284, 32000, 49152, 0, 0},    {255, 18708, 64512, 1, 1000},
     {237, 11908, 47104, 1, 650},  {195, 9810, 41560, 1, 1000},  {163, 8000, 30517, 0, 0},
     {158, 12000, 24576, 1, 1000}, {158, 15700, 58368, 1, 1000}, {153, 11908, 47104, 1, 1000},
     {120, 15400, 51200, 0, 0},    {111, 4000, 22888, 1, 320},   {108, 16000, 32768, 1, 1000},
     {104, 8000, 16384, 1, 1000},  {104, 4000, 24576, 1, 1000},  {99, 12000, 16384, 1, 1000},
     {95, 16500, 51200, 0, 0},     {93, 14200, 58368, 1, 1000},  {84, 4000, 30517, 1, 230}}};

constexpr std::int64_t kMib = std::int64_t{1} << 20U;

void AddNodes(cluster::Store& store) {
  int number = 0;
  for (const NodeKind& kind : kNodes) {
    for (int i = 0; i < kind.count; ++i) {
      kube::Node node;
      node.meta.name = fmt::format("openb-node-{:04}", number++);
      node.meta.labels = {{"nvidia.com/gpu.product", kind.model}};
      node.allocatable = {{"cpu", kind.cores * 1000},
                          {"memory", std::int64_t{kind.gib} * 1024 * kMib},
                          {"pods", 1001},
                          {"nvidia.com/gpu", kind.gpus * 1000}};
      store.UpsertNode(std::move(node));
    }
  }
  store.Refresh();
}

/// Pods that request 1.3 x what the cluster has, in random order.
std::vector<kube::Pod> MakePods() {
  std::vector<kube::Pod> pods;
  for (int round = 0; round < 2; ++round) {
    for (const PodKind& kind : kPods) {
      auto spec = std::make_shared<kube::PodSpec>();
      spec->requests = {{"cpu", kind.cpu_milli}, {"memory", kind.mib * kMib}};
      if (kind.gpus > 0) spec->requests["nvidia.com/gpu"] = std::int64_t{1000} * kind.gpus;
      for (int i = 0; i < (round == 0 ? kind.count : kind.count / 2); ++i) {
        kube::Pod& pod = pods.emplace_back();
        pod.meta.name = fmt::format("openb-pod-{:05}", pods.size());
        pod.meta.ns = "default";
        pod.meta.uid = pod.meta.name;
        pod.scheduler_name = "default-scheduler";
        pod.spec = spec;
        if (kind.gpu_milli > 0 && kind.gpu_milli < 1000) {
          pod.meta.annotations["berth.dev/gpu-milli"] = std::to_string(kind.gpu_milli);
        }
      }
    }
  }
  std::mt19937 random(42);
  for (std::size_t i = pods.size(); i > 1; --i) std::swap(pods[i - 1], pods[random() % i]);
  return pods;
}

/// Places every pod that fits; returns how many did.
std::int64_t Replay(const std::vector<kube::Pod>& pods, cluster::Store& store,
                    policy::Scorer& scorer, bool learns) {
  std::int64_t placed = 0;
  for (const kube::Pod& object : pods) {
    const cluster::PodInfo& pod = *store.UpsertPod(object);
    store.Refresh();
    store.TakeChanged(1);
    if (learns) scorer.mix().Observe(pod.shape);
    const policy::PlacementRequest request{.pods = {&pod}, .explain = false};
    const auto placement = policy::Place(request, policy::Overlay(store), scorer);
    if (!placement.ok()) continue;
    const auto& at = placement.placed.front();
    store.SetCharge(pod, at.node, cluster::Charge::kBound, at.devices);
    ++placed;
  }
  return placed;
}

/// All arrivals, per run; items are arrivals, of which `placed` fitted.
void PlaceShares(benchmark::State& state, std::string_view policy) {
  const auto pods = MakePods();
  std::int64_t placed = 0;
  for (auto _ : state) {
    cluster::Store store(config::PolicyConfiguration{}, {.shares = true, .order_seed = 42});
    AddNodes(store);
    const bool own = policy == "Berth";
    const auto scorer = own ? std::make_unique<policy::Scorer>(store)
                            : std::make_unique<policy::Scorer>(store, sim::MakeBaseline(policy));
    if (policy == "FGD") {
      cluster::Store scratch(config::PolicyConfiguration{}, {.shares = true});
      std::vector<std::shared_ptr<const cluster::PodShape>> shapes;
      shapes.reserve(pods.size());
      for (const kube::Pod& pod : pods) shapes.push_back(scratch.UpsertPod(pod)->shape);
      scorer->mix().Fix(sim::TypicalPods(shapes));
    }
    const std::clock_t start = std::clock();  // processor time of this process: the cost on one
                                              // core
    placed = Replay(pods, store, *scorer, own);
    state.SetIterationTime(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(pods.size()) * state.iterations());
  state.counters["placed"] = static_cast<double>(placed);
}
BENCHMARK_CAPTURE(PlaceShares, BestFit, "BestFit")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PlaceShares, GpuClustering, "GpuClustering")
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PlaceShares, FGD, "FGD")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PlaceShares, Berth, "Berth")->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace berth::bench
