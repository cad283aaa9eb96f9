#include "bench/micro/world.h"

#include <fmt/format.h>

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

kube::Pod MakePod(const std::string& name, int gpus) {
  auto spec = std::make_shared<kube::PodSpec>();
  spec->requests = {{"cpu", 500}, {"memory", std::int64_t{1} << 30U}};
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

std::vector<kube::Pod> MakeGang(const std::string& name, int size, int gpus) {
  std::vector<kube::Pod> pods;
  for (int i = 0; i < size; ++i) {
    pods.push_back(MakePod(fmt::format("{}-{}", name, i), gpus));
    pods.back().meta.labels["berth.dev/gang"] = name;
    pods.back().meta.annotations["berth.dev/gang-size"] = std::to_string(size);
  }
  return pods;
}

engine::Engine MakeEngine(int nodes) {
  return engine::Engine({}, {});
}

}  // namespace berth::bench
