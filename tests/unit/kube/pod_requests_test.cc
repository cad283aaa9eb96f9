// Effective requests of a pod. The rows follow component-helpers/resource of Kubernetes 1.36.3;
// units: cpu and nvidia.com/gpu in thousandths, memory in bytes.
#include "kube/pod_requests.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace berth::kube {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
const std::string kGpu = "nvidia.com/gpu";

ContainerResources Asks(ResourceList requests) {
  ContainerResources container;
  container.requests = std::move(requests);
  return container;
}

ContainerResources Sidecar(ResourceList requests) {
  ContainerResources container = Asks(std::move(requests));
  container.restart_always = true;
  return container;
}

ContainerResources Limited(ResourceList requests, ResourceList limits) {
  ContainerResources container = Asks(std::move(requests));
  container.limits = std::move(limits);
  return container;
}

PodResources Containers(std::vector<ContainerResources> containers) {
  PodResources pod;
  pod.containers = std::move(containers);
  return pod;
}

TEST_CASE("containers run together: their requests add up", "[unit][kube]") {
  CHECK(EffectiveRequests({}).empty());
  CHECK(
      EffectiveRequests(Containers({Asks({{"cpu", 500}, {kGpu, 4000}}), Asks({{"cpu", 1000}})})) ==
      ResourceList{{"cpu", 1500}, {kGpu, 4000}});
}

TEST_CASE("init containers run one after the other: the largest counts", "[unit][kube]") {
  PodResources pod = Containers({Asks({{"cpu", 1000}, {"memory", 100}})});
  pod.init_containers = {Asks({{"cpu", 3000}}), Asks({{"cpu", 2000}, {"memory", 50}})};
  // cpu max(1000, 3000, 2000); memory max(100, 50)
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 3000}, {"memory", 100}});
}

TEST_CASE("a sidecar runs with everything that starts after it", "[unit][kube]") {
  PodResources pod = Containers({Asks({{"cpu", 1000}})});
  pod.init_containers = {Asks({{"cpu", 2500}}),     // step 1: 2500
                         Sidecar({{"cpu", 400}}),   // step 2: 400
                         Asks({{"cpu", 2200}}),     // step 3: 2200 + 400 = 2600
                         Sidecar({{"cpu", 300}})};  // step 4: 400 + 300 = 700
  // While running: 1000 + 400 + 300 = 1700. The largest is step 3.
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 2600}});

  pod.containers[0].requests["cpu"] = 2000;  // Now running, 2000 + 700 = 2700, is the largest.
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 2700}});
}

TEST_CASE("overhead is added at the end", "[unit][kube]") {
  PodResources pod = Containers({Asks({{"cpu", 1000}})});
  pod.init_containers = {Asks({{"cpu", 3000}})};
  pod.overhead = {{"cpu", 250}, {"memory", 64}};
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 3250}, {"memory", 64}});
}

TEST_CASE("pod-level requests replace cpu, memory and hugepages", "[unit][kube]") {
  PodResources pod = Containers({Asks({{"cpu", 5000}, {"memory", 100}, {kGpu, 8000}})});
  pod.pod_requests = {{"cpu", 3000}, {"hugepages-2Mi", 4}};
  pod.overhead = {{"cpu", 100}};
  // cpu 3000 + 100; memory stays the containers'; GPUs have no pod level.
  CHECK(EffectiveRequests(pod) ==
        ResourceList{{"cpu", 3100}, {"hugepages-2Mi", 4}, {"memory", 100}, {kGpu, 8000}});

  pod.pod_requests = {{kGpu, 1000}};  // Not a pod-level resource: ignored.
  CHECK(EffectiveRequests(pod).at(kGpu) == 8000);
}

TEST_CASE("a limit without a request is the request", "[unit][kube]") {
  const PodResources pod = Containers({Limited({{"cpu", 100}}, {{"cpu", 900}, {kGpu, 2000}})});
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 100}, {kGpu, 2000}});
}

TEST_CASE("in-place resize: the largest of wanted, admitted and enforced", "[unit][kube]") {
  PodResources pod = Containers({Asks({{"cpu", 1000}, {"memory", 50}})});
  pod.containers[0].status =
      StatusResources{.actuated = {{"cpu", 1500}, {"memory", 10}}, .allocated = {{"cpu", 1200}}};
  // cpu max(1000, 1500, 1200); memory max(50, 10)
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 1500}, {"memory", 50}});

  pod.containers[0].requests["cpu"] = 4000;  // Growing: what is wanted is already counted,
  CHECK(EffectiveRequests(pod).at("cpu") == 4000);
  pod.resize_infeasible = true;  // unless the kubelet said that it never will be.
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 1500}, {"memory", 10}});

  pod.containers[0].status.reset();  // Without status.resources the spec counts, infeasible or not.
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 4000}, {"memory", 50}});
}

TEST_CASE("in-place resize: of init containers only sidecars are resized", "[unit][kube]") {
  PodResources pod;
  const StatusResources larger{.actuated = {{"cpu", 2000}}, .allocated = {}};
  pod.init_containers = {Asks({{"cpu", 1000}})};
  pod.init_containers[0].status = larger;
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 1000}});
  pod.init_containers[0].restart_always = true;
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 2000}});
}

TEST_CASE("in-place resize of the pod level", "[unit][kube]") {
  PodResources pod = Containers({Asks({{"cpu", 100}})});
  pod.pod_requests = {{"cpu", 1000}};
  pod.pod_status = StatusResources{.actuated = {{"cpu", 1800}}, .allocated = {{"cpu", 1700}}};
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 1800}});  // max(1000, 1800, 1700)
  pod.pod_requests["cpu"] = 9000;
  pod.resize_infeasible = true;
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 1800}});
  pod.pod_status = StatusResources{};  // As upstream: nothing known of it counts zero.
  CHECK(EffectiveRequests(pod) == ResourceList{{"cpu", 0}});
}

TEST_CASE("sums saturate", "[unit][kube]") {
  PodResources pod = Containers({Asks({{"memory", kMax}}), Asks({{"memory", kMax}})});
  pod.overhead = {{"memory", 1}};
  CHECK(EffectiveRequests(pod) == ResourceList{{"memory", kMax}});
}

TEST_CASE("extended resources have a vendor's name", "[unit][kube]") {
  CHECK(IsExtendedResource("nvidia.com/gpu"));
  CHECK(IsExtendedResource("rdma/hca"));
  CHECK_FALSE(IsExtendedResource("cpu"));
  CHECK_FALSE(IsExtendedResource("hugepages-2Mi"));
  CHECK_FALSE(IsExtendedResource("kubernetes.io/batch-cpu"));
  CHECK_FALSE(IsExtendedResource("example.kubernetes.io/thing"));
  CHECK_FALSE(IsExtendedResource("requests.nvidia.com/gpu"));  // The quota's name for it.
}

TEST_CASE("devices are asked for in wholes, with request = limit", "[unit][kube]") {
  struct Row {
    ContainerResources container;
    std::string why;
  };
  const std::vector<Row> rows = {
      {Limited({{kGpu, 2000}}, {{kGpu, 2000}}), ""},
      {Limited({}, {{kGpu, 2000}}), ""},
      {Asks({{kGpu, 2000}}), ""},
      {Limited({{"cpu", 500}}, {{"cpu", 1500}}), ""},  // Not a device.
      {Limited({{kGpu, 1000}}, {{kGpu, 2000}}), "nvidia.com/gpu: request 1 is not limit 2"},
      {Limited({}, {{kGpu, 500}}), "nvidia.com/gpu: 500m is not a whole number"},
      {Asks({{kGpu, std::numeric_limits<std::int64_t>::max()}}), "nvidia.com/gpu is too large"},
      {Asks({{kGpu, 1500}}), "nvidia.com/gpu: 1500m is not a whole number"},
  };
  for (const Row& row : rows) {
    INFO("row " << &row - rows.data());
    PodResources pod = Containers({Asks({}), row.container});
    CHECK(InvalidRequest(pod) == (row.why.empty() ? "" : "containers[1]: " + row.why));
    pod = PodResources{};
    pod.init_containers = {row.container};
    CHECK(InvalidRequest(pod) == (row.why.empty() ? "" : "initContainers[0]: " + row.why));
  }
}

}  // namespace
}  // namespace berth::kube
