// Where a pod may run at all, and how many of its kind.
#include "policy/fit.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::NodeBuilder;
using testing::Planning;
using testing::PodBuilder;

struct FitRow {
  const char* what;
  PodBuilder pod;
  NodeBuilder node;
  bool fits;
};

TEST_CASE("FitsNode", "[unit][policy]") {
  const auto pod = [] { return MakePod("p").Gpu(1); };
  const auto node = [] { return MakeNode("n1").Gpu(8); };
  PodBuilder affine = pod();
  affine.spec().has_required_node_affinity = true;
  affine.spec().required_node_affinity = {
      {.match_expressions = {{.key = "zone", .op = kube::SelectorOperator::kIn, .values = {"a"}}},
       .match_fields = {}}};
  PodBuilder named = pod();
  named.spec().has_required_node_affinity = true;
  named.spec().required_node_affinity = {
      {.match_expressions = {}, .match_fields = {{.key = "metadata.name", .values = {"n1"}}}}};
  const std::vector<FitRow> rows = {
      {"plain", pod(), node(), true},
      {"a full node matches: room is not asked here", MakePod("p").Gpu(99), node(), true},
      {"selector", pod().Selector("zone", "a"), node().Label("zone", "a"), true},
      {"selector, other value", pod().Selector("zone", "a"), node().Label("zone", "b"), false},
      {"selector, no label", pod().Selector("zone", "a"), node(), false},
      {"affinity", affine, node().Label("zone", "a"), true},
      {"affinity, other value", affine, node().Label("zone", "b"), false},
      {"affinity to a name", named, node(), true},
      {"affinity to another name", named, MakeNode("n2").Gpu(8), false},
      {"cordoned", pod(), node().Cordoned(), false},
      {"cordoned, tolerated", pod().Tolerate("node.kubernetes.io/unschedulable"), node().Cordoned(),
       true},
      {"not ready", pod(), node().NotReady(), false},
      {"taint", pod(), node().Taint("gpu"), false},
      {"taint, tolerated", pod().Tolerate("gpu"), node().Taint("gpu"), true},
      {"taint, another tolerated", pod().Tolerate("cpu"), node().Taint("gpu"), false},
      {"NoExecute", pod(), node().Taint("x", kube::TaintEffect::kNoExecute), false},
      {"PreferNoSchedule", pod(), node().Taint("x", kube::TaintEffect::kPreferNoSchedule), true},
      {"every toleration", pod().Tolerate(""), node().Taint("x").Taint("y").Cordoned(), true},
  };
  for (const FitRow& row : rows) {
    INFO(row.what);
    Planning t;
    const auto index = t.Node(row.node);
    auto& info = t.Pod(row.pod);
    CHECK(FitsNode(*info.object.spec, t.store.node(index)) == row.fits);
    CHECK(t.scorer.fit().Fits(*info.shape, t.store.node(index)) == row.fits);
    t.store.DeleteNode(row.node.Build().meta.name);
    CHECK_FALSE(FitsNode(*info.object.spec, t.store.node(index)));
    CHECK_FALSE(t.scorer.fit().Fits(*info.shape, t.store.node(index)));
  }
}

TEST_CASE("the fit cache sees changed nodes", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  const auto& shape = *t.Pod(MakePod("p").Gpu(1)).shape;
  CHECK(t.scorer.fit().Fits(shape, t.store.node(n1)));
  t.Node(MakeNode("n1").Gpu(8).Cordoned());
  CHECK_FALSE(t.scorer.fit().Fits(shape, t.store.node(n1)));
  t.Node(MakeNode("n1").Gpu(8));
  CHECK(t.scorer.fit().Fits(shape, t.store.node(n1)));
  // More specs than it holds.
  for (int i = 0; i < 600; ++i) {
    const auto& other = *t.Pod(MakePod("q").Gpu(1).Selector("i", std::to_string(i))).shape;
    CHECK_FALSE(t.scorer.fit().Fits(other, t.store.node(n1)));
  }
  CHECK(t.scorer.fit().Fits(shape, t.store.node(n1)));
}

struct CapacityRow {
  const char* what;
  PodBuilder pod;
  int now;
  int devices_only;
  int empty;
};

TEST_CASE("Capacity", "[unit][policy]") {
  // 8 GPUs, 64 cores, 1 Ti, 110 pods; in use: 3 GPUs, 40 cores, 1 pod. Free: 5 GPUs, 24 cores.
  const std::vector<CapacityRow> rows = {
      {"1 GPU", MakePod("p").Gpu(1), 5, 5, 8},
      {"2 GPUs", MakePod("p").Gpu(2), 2, 2, 4},
      {"3 GPUs", MakePod("p").Gpu(3), 1, 1, 2},
      {"6 GPUs", MakePod("p").Gpu(6), 0, 0, 1},
      {"9 GPUs", MakePod("p").Gpu(9), 0, 0, 0},
      {"1 GPU, 8 cores: cores decide", MakePod("p").Gpu(1).Cpu("8"), 3, 5, 8},
      {"1 GPU, 25 cores", MakePod("p").Gpu(1).Cpu("25"), 0, 5, 2},
      {"memory decides", MakePod("p").Gpu(1).Memory("512Gi"), 2, 5, 2},
      {"1 core: cores decide", MakePod("p").Cpu("1"), 24, 100, 64},
      {"a resource no node has", MakePod("p").Gpu(1).Request("x.io/fpga", "1"), 0, 5, 0},
      {"a share", MakePod("p").Request("nvidia.com/gpu", "500m"), 10, 10, 16},
      {"whole node: not while devices are used", MakePod("p").Gpu(1).WholeNode(), 0, 0, 1},
  };
  for (const CapacityRow& row : rows) {
    INFO(row.what);
    Planning t;
    const auto n1 = t.Node(MakeNode("n1").Gpu(8));
    t.Pod(MakePod("used").Gpu(3).Cpu("40").On("n1"));
    const auto& shape = *t.Pod(row.pod).shape;
    const Overlay overlay = t.overlay();
    CHECK(Capacity(shape, overlay, n1, 100) == row.now);
    CHECK(Capacity(shape, overlay, n1, 100, Looking::kAtDevicesOnly) == row.devices_only);
    CHECK(Capacity(shape, overlay, n1, 100, Looking::kAtEmptyNode) == row.empty);
    CHECK(Capacity(shape, overlay, n1, 1) == std::min(1, row.now));
    CHECK(Capacity(shape, overlay, n1, 0) == 0);
  }
}

TEST_CASE("pod slots are room too", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8).Pods(3));
  t.Pod(MakePod("used").On("n1"));
  CHECK(Capacity(*t.Pod(MakePod("p").Gpu(1)).shape, t.overlay(), n1, 100) == 2);
}

TEST_CASE("an overcommitted node has no room, not less than none", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(4));
  t.Pod(MakePod("used").Gpu(8).On("n1"));
  CHECK(t.overlay().Free(n1, t.gpu()) == -4000);
  CHECK(Capacity(*t.Pod(MakePod("p").Gpu(1)).shape, t.overlay(), n1, 100) == 0);
}

TEST_CASE("whole node: alone, and charged every device", "[unit][policy]") {
  config::PolicyConfiguration policy;
  policy.devices = {{.name = "nvidia.com/gpu"},
                    {.name = "nvidia.com/mlnxnics"},
                    {.name = "rdma/hca", .kind = config::DeviceKind::kHandles}};
  Planning t(policy);
  const auto n1 = t.Node(MakeNode("n1")
                             .Gpu(8)
                             .Allocatable("nvidia.com/mlnxnics", 4000)
                             .Allocatable("rdma/hca", 100'000));
  auto& pod = t.Pod(MakePod("p").Gpu(2).WholeNode());
  CHECK(Capacity(*pod.shape, t.overlay(), n1, 100) == 1);
  std::map<std::string, std::int64_t> demand;
  for (const auto& [id, amount] : t.store.DemandOn(*pod.shape, t.store.node(n1))) {
    demand[t.store.resources().Name(id)] = amount;
  }
  // Handles are counted, but are no devices of their own.
  CHECK(demand == std::map<std::string, std::int64_t>{
                      {"nvidia.com/gpu", 8000}, {"nvidia.com/mlnxnics", 4000}, {"pods", 1}});
  SECTION("a NIC in use is enough to refuse") {
    t.Pod(MakePod("nic").Request("nvidia.com/mlnxnics", "1").On("n1"));
    CHECK(Capacity(*pod.shape, t.overlay(), n1, 100) == 0);
  }
  SECTION("a pod without devices is no hindrance") {
    t.Pod(MakePod("agent").Cpu("1").On("n1"));
    CHECK(Capacity(*pod.shape, t.overlay(), n1, 100) == 1);
  }
}

// I2: what a whole-node pod is charged must be there.
TEST_CASE("whole node: handles in use are not charged twice", "[unit][policy][bug]") {
  config::PolicyConfiguration policy;
  policy.devices = {{.name = "nvidia.com/gpu"},
                    {.name = "rdma/hca", .kind = config::DeviceKind::kHandles}};
  Planning t(policy);
  const auto n1 = t.Node(MakeNode("n1").Gpu(8).Allocatable("rdma/hca", 100'000));
  t.Pod(MakePod("agent").Request("rdma/hca", "1").On("n1"));
  auto& pod = t.Pod(MakePod("p").Gpu(8).WholeNode());
  if (Capacity(*pod.shape, t.overlay(), n1, 1) == 1) {
    t.store.SetCharge(pod, n1, cluster::Charge::kPlanned);
  }
  CHECK(t.store.node(n1).free(t.store.device_ids()[1]) >= 0);
}

TEST_CASE("host ports", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  const auto n2 = t.Node(MakeNode("n2").Gpu(8));
  auto& bound = t.Pod(MakePod("bound").HostPort(80).On("n1"));
  auto& pod = t.Pod(MakePod("p").HostPort(80));
  auto& other = t.Pod(MakePod("q").HostPort(81));
  Overlay overlay = t.overlay();
  CHECK_FALSE(HostPortsFree(pod, overlay, n1));
  CHECK(HostPortsFree(pod, overlay, n2));
  CHECK(HostPortsFree(other, overlay, n1));
  overlay.Place(pod, n2);
  CHECK_FALSE(HostPortsFree(t.Pod(MakePod("r").HostPort(80)), overlay, n2));
  overlay.Remove(bound);
  CHECK(HostPortsFree(t.Pod(MakePod("r").HostPort(80)), overlay, n1));
}

TEST_CASE("an overlay is a what-if", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  auto& bound = t.Pod(MakePod("bound").Gpu(3).On("n1"));
  auto& pod = t.Pod(MakePod("p").Gpu(2));
  Overlay overlay = t.overlay();
  CHECK_FALSE(overlay.Touched(n1));
  overlay.Place(pod, n1);
  CHECK(overlay.Free(n1, t.gpu()) == 3000);
  overlay.Remove(bound);
  CHECK(overlay.Free(n1, t.gpu()) == 6000);
  CHECK(overlay.Removed(bound));
  CHECK(overlay.Touched(n1));
  CHECK(t.store.node(n1).free(t.gpu()) == 5000);  // the ledger is as it was
  overlay.Remove(pod);                            // it holds nothing in the ledger
  CHECK(overlay.Free(n1, t.gpu()) == 6000);
}

}  // namespace
}  // namespace berth::policy
