#include "bench/micro/world.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <time.h>

#include <nlohmann/json.hpp>

namespace berth::bench {

std::string NodeName(int i) { return fmt::format("gpu-worker-{:05}", i); }

kube::Node MakeNode(int i) {
  kube::Node node;
  node.meta.name = NodeName(i);
  node.meta.uid = "uid-" + node.meta.name;
  node.meta.labels = {
      {"kubernetes.io/hostname", node.meta.name},
      {"cloud.provider.com/topology-rack", fmt::format("rack-{:03}", i / 16)},
      {"cloud.provider.com/topology-block", fmt::format("block-{:02}", i / 256)},
      {"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"},
  };
  node.allocatable = {{"cpu", 128'000},
                      {"memory", std::int64_t{1} << 40U},
                      {"pods", 250},
                      {"nvidia.com/gpu", 8'000}};
  return node;
}

kube::Pod MakePod(const std::string& name, int gpus, int cpu_milli) {
  auto spec = std::make_shared<kube::PodSpec>();
  spec->requests = {{"cpu", cpu_milli}, {"memory", std::int64_t{1} << 30U}};
  if (gpus > 0) spec->requests["nvidia.com/gpu"] = std::int64_t{1000} * gpus;
  kube::Pod pod;
  pod.meta.name = name;
  pod.meta.ns = "default";
  pod.meta.uid = "uid-" + name;
  pod.meta.creation = kNow - 1000;
  pod.meta.labels = {{"app", "trainer"}, {"team", "research"}};
  pod.scheduler_name = "default-scheduler";
  pod.spec = std::move(spec);
  return pod;
}

std::vector<kube::Pod> MakeGang(const std::string& name, int size, int gpus, int cpu_milli) {
  std::vector<kube::Pod> pods;
  for (int i = 0; i < size; ++i) {
    pods.push_back(MakePod(fmt::format("{}-{}", name, i), gpus, cpu_milli));
    pods.back().meta.labels["berth.dev/gang"] = name;
    pods.back().meta.annotations["berth.dev/gang-size"] = std::to_string(size);
  }
  return pods;
}

std::unique_ptr<engine::Engine> MakeEngine(int nodes) {
  auto engine = std::make_unique<engine::Engine>(config::PolicyConfiguration{}, engine::Options{});
  for (int i = 0; i < nodes; ++i) engine->OnNode(MakeNode(i), kNow);
  engine->Start(kNow);
  Settle(*engine);
  engine->TakeActions();
  return engine;
}

Offer::Offer(int nodes) {
  for (int i = 0; i < nodes; ++i) names.push_back(NodeName(i));
  views.assign(names.begin(), names.end());
}

std::string PodJson(const std::string& name) {
  auto env = nlohmann::json::array();
  for (int i = 0; i < 12; ++i) {
    env.push_back({{"name", fmt::format("TRAIN_SETTING_{}", i)}, {"value", "some/ordinary/value"}});
  }
  const nlohmann::json resources = {{"cpu", "500m"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}};
  return nlohmann::json{
      {"metadata",
       {{"name", name},
        {"namespace", "default"},
        {"uid", "uid-" + name},
        {"creationTimestamp", "2026-11-21T09:00:00Z"},
        {"labels", {{"app", "trainer"}, {"team", "research"}}}}},
      {"spec",
       {{"schedulerName", "default-scheduler"},
        {"containers",
         {{{"name", "main"},
           {"image", "registry.example.com/team/trainer:2026-11"},
           {"command", {"python", "-m", "train", "--config", "/etc/train/config.yaml"}},
           {"env", env},
           {"resources", {{"requests", resources}, {"limits", {{"nvidia.com/gpu", "1"}}}}}}}},
        {"tolerations", {{{"key", "nvidia.com/gpu"}, {"operator", "Exists"}}}}}},
      {"status", {{"phase", "Pending"}, {"qosClass", "Burstable"}}}}
      .dump();
}

void Settle(engine::Engine& engine, engine::TimePoint now) {
  do {
    engine.Step(now);
  } while (engine.unfinished());
}

void FillNodes(engine::Engine& engine, int nodes, int gpus) {
  for (int i = 0; i < nodes; ++i) {
    kube::Pod pod = MakePod("filler-" + std::to_string(i), gpus);
    pod.node_name = NodeName(i);
    engine.OnPod(std::move(pod), kNow);
  }
}

std::unique_ptr<engine::Engine> MakeCrowd(int nodes, int taken, int waiting) {
  auto engine = MakeEngine(nodes);
  FillNodes(*engine, nodes, taken);
  for (int i = 0; i < waiting; ++i) {
    kube::Pod pod = MakePod("waiter-" + std::to_string(i), 4);
    pod.scheduling_gates = {"berth.dev/admission"};
    engine->OnPod(std::move(pod), kNow);
  }
  Settle(*engine);
  engine->TakeActions();
  return engine;
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace berth::bench
