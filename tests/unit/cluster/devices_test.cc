// Which devices each pod has, on nodes that say who heeds it: never one twice, and where that
// cannot be told, the node is only counted.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::cluster {
namespace {

using testing::MakeDgx;
using testing::MakeNode;
using testing::MakePod;
using testing::Planning;
using testing::PodBuilder;
using topology::DeviceMask;
using enum DeviceTrack;

/// A DGX H100 whose agent reads the annotation.
std::string Note(const std::string& indices) {
  return R"({"main":{"nvidia.com/gpu":[)" + indices + "]}}";
}

PodBuilder Bound(const std::string& name, int gpus, const std::string& indices) {
  return MakePod(name).Gpu(gpus).On("n1").Annotation("berth.dev/devices", Note(indices));
}

struct World : Planning {
  World() { Node(MakeDgx("n1")); }
  const NodeInfo& n1() { return store.node(node("n1")); }
  DeviceMask Free() { return n1().devices.AtLeast(1000); }
  const PodInfo& pod(const std::string& name) { return *store.FindPod("uid-" + name); }
  void Charge(const std::string& name, cluster::Charge charge = Charge::kPlanned) {
    store.SetCharge(*store.FindPod("uid-" + name), node("n1"), charge);
  }
};

TEST_CASE("a node that says nothing of who chooses is counted", "[unit][cluster]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8).Label("nvidia.com/gpu.machine", "DGXH100"));
  t.Pod(Bound("a", 2, "0,1"));
  const NodeInfo& node = t.store.node(t.node("n1"));
  CHECK(node.track == kCounted);
  CHECK(node.devices.size() == 0);
  CHECK(node.hardware == HardwareSource::kLabels);
  CHECK(t.store.TakeDeviceNews().empty());
  CHECK(t.store.DevicesNote(*t.store.FindPod("uid-a")).empty());
}

TEST_CASE("bound pods have what their annotations say", "[unit][cluster]") {
  World t;
  CHECK(t.n1().track == kKept);
  t.Pod(Bound("a", 2, "6,7"));
  t.Pod(Bound("b", 1, "4"));
  t.Pod(MakePod("cpu").Cpu("1").On("n1"));
  CHECK(t.n1().track == kKept);
  CHECK(t.Free() == 0b0010'1111);
  t.store.DeletePod("uid-a");
  CHECK(t.Free() == 0b1110'1111);
}

TEST_CASE("planned pods get whole sockets, and small ones break no more", "[unit][cluster]") {
  World t;
  for (const auto& [name, gpus] : {std::pair{"a", 4}, {"b", 1}, {"c", 2}}) {
    t.Pod(MakePod(name).Gpu(gpus));
    t.Charge(name);
  }
  CHECK(t.pod("a").devices == 0b0000'1111);
  CHECK(t.pod("b").devices == 0b0001'0000);
  CHECK(t.pod("c").devices == 0b0110'0000);
  CHECK(t.Free() == 0b1000'0000);
  t.store.Unreserve(*t.store.FindPod("uid-a"));
  CHECK(t.Free() == 0b1000'1111);
}

TEST_CASE("what is planned moves, what is fixed stays", "[unit][cluster]") {
  World t;
  t.Pod(MakePod("plan").Gpu(4));
  t.Charge("plan");
  REQUIRE(t.pod("plan").devices == 0b0000'1111);
  SECTION("somebody was bound to some of its devices") {
    t.Pod(Bound("a", 2, "0,1"));
    CHECK(t.n1().track == kKept);
    CHECK(t.pod("plan").devices == 0b1111'0000);
  }
  SECTION("while its Binding is under way") {
    t.Charge("plan", Charge::kBinding);
    t.Pod(Bound("a", 2, "0,1"));
    CHECK(t.n1().track == kCountOnly);
  }
}

TEST_CASE("from plan to bound the devices are the same", "[unit][cluster]") {
  World t;
  t.Pod(MakePod("a").Gpu(2));
  t.Charge("a");
  t.Charge("a", Charge::kBinding);
  const std::string note = t.store.DevicesNote(t.pod("a"));
  CHECK(note == Note("0,1"));
  t.Pod(MakePod("a").Gpu(2).On("n1").Annotation("berth.dev/devices", note));
  CHECK(t.n1().track == kKept);
  CHECK(t.pod("a").devices == 0b11);
}

TEST_CASE("what cannot be true makes the node count-only, until it is gone", "[unit][cluster]") {
  struct Row {
    const char* what;
    PodBuilder pod;
  };
  const std::vector<Row> rows = {
      {"devices of others", Bound("x", 2, "1,2")},
      {"a device that is not there", Bound("x", 1, "8")},
      {"fewer than it has", Bound("x", 2, "4")},
      {"more than it has", Bound("x", 1, "4,5")},
      {"nothing", MakePod("x").Gpu(1).On("n1")},
      {"nonsense", MakePod("x").Gpu(1).On("n1").Annotation("berth.dev/devices", "[[[")},
      {"no index", Bound("x", 1, "\"4\"")},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    World t;
    t.Pod(Bound("a", 2, "0,1"));
    t.store.TakeDeviceNews();
    t.Pod(row.pod);
    CHECK(t.n1().track == kCountOnly);
    CHECK_FALSE(t.n1().device_problem.empty());
    CHECK(t.n1().devices.size() == 0);
    CHECK(t.store.TakeDeviceNews() == std::set<NodeIndex>{t.node("n1")});
    // Counts go on being the truth.
    CHECK(t.n1().free(t.gpu()) == 8000 - 2000 - t.pod("x").shape->device_amount);
    t.Pod(MakePod("next").Gpu(2));
    t.Charge("next");
    CHECK(t.store.DevicesNote(t.pod("next")).empty());
    t.store.DeletePod("uid-x");
    CHECK(t.n1().track == kKept);
    CHECK(t.n1().device_problem.empty());
    CHECK(t.store.DevicesNote(t.pod("next")) == Note("2,3"));
    CHECK(t.Free() == 0b1111'0000);
  }
}

TEST_CASE("an annotation edited after the fact is believed no more than another",
          "[unit][cluster]") {
  World t;
  t.Pod(Bound("a", 2, "0,1"));
  t.Pod(Bound("b", 2, "2,3"));
  t.Pod(Bound("b", 2, "0,1"));  // its owner would like a's
  CHECK(t.n1().track == kCountOnly);
  t.Pod(Bound("b", 2, "4,5"));
  CHECK(t.n1().track == kKept);
  CHECK(t.Free() == 0b1100'1100);
  t.Pod(MakePod("b").Gpu(2).On("n1"));
  CHECK(t.n1().track == kCountOnly);
}

TEST_CASE("a Binding without an annotation is no choice", "[unit][cluster]") {
  World t;
  t.Pod(MakePod("foreign").Gpu(1).Scheduler("other"));
  t.Charge("foreign", Charge::kBinding);
  CHECK(t.n1().track == kCountOnly);
}

TEST_CASE("a node that loses devices, below what is in use too", "[unit][cluster]") {
  for (const int left : {7, 2, 0}) {
    INFO(left);
    World t;
    t.Pod(Bound("a", 4, "0,1,2,3"));
    t.Node(MakeDgx("n1").Gpu(left));
    // Which ones are missing is not known.
    CHECK(t.n1().track == kCountOnly);
    CHECK(t.n1().free(t.gpu()) == (left - 4) * 1000);
    t.Node(MakeDgx("n1"));
    CHECK(t.n1().track == kKept);
    CHECK(t.Free() == 0b1111'0000);
  }
}

TEST_CASE("an unknown machine that shrinks below its use", "[unit][cluster]") {
  Planning t;
  kube::Node node = MakeNode("n1").Gpu(4);
  node.meta.annotations["berth.dev/device-selection"] = "annotation";
  t.Node(node);
  t.Pod(Bound("a", 2, "2,3"));
  CHECK(t.store.node(0).track == kKept);
  CHECK(t.store.node(0).hardware == HardwareSource::kUnknown);
  node.allocatable["nvidia.com/gpu"] = 3000;
  t.Node(node);
  CHECK(t.store.node(0).track == kCountOnly);
}

TEST_CASE("a node whose hardware is contradictory keeps no indices", "[unit][cluster]") {
  World t;
  kube::Node node = MakeDgx("n1");
  node.meta.annotations["berth.dev/device-topology"] = R"({"count":8,"links":[[0]]})";
  t.Node(node);
  CHECK(t.n1().hardware == HardwareSource::kRefused);
  CHECK(t.n1().track == kCountOnly);
  CHECK(t.store.MachineOf(t.n1()) == nullptr);
  node.meta.annotations.erase("berth.dev/device-topology");
  node.meta.annotations["berth.dev/device-selection"] = "somebody else";
  t.Node(node);
  CHECK(t.n1().track == kCountOnly);
  node.meta.annotations.erase("berth.dev/device-selection");
  t.Node(node);
  CHECK(t.n1().track == kCounted);
}

TEST_CASE("declared late, what bound pods say counts", "[unit][cluster]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8));
  t.Pod(Bound("a", 2, "5,6"));
  t.Node(MakeDgx("n1"));
  CHECK(t.store.node(0).track == kKept);
  CHECK(t.store.node(0).devices.AtLeast(1000) == 0b1001'1111);
}

TEST_CASE("kinds of machines are bounded", "[unit][cluster]") {
  Planning t;
  for (int i = 0; i < 70; ++i) {
    kube::Node node = MakeNode("n" + std::to_string(i)).Gpu(2);
    const std::string links = std::to_string(i % 10);
    node.meta.annotations["berth.dev/device-topology"] =
        R"({"count":2,"numa":[0,)" + std::to_string(i / 10) + R"(],"links":[[0,)" + links + "],[" +
        links + ",0]]}";
    t.Node(node);
  }
  CHECK(t.store.machines().size() == 64);
  CHECK(t.store.node(t.node("n69")).hardware == HardwareSource::kRefused);
  t.Node(t.store.node(t.node("n1")).object);
  CHECK(t.store.node(t.node("n1")).hardware == HardwareSource::kAnnotation);
}

TEST_CASE("containers that run together have devices of their own", "[unit][cluster]") {
  World t;
  kube::Pod pod = MakePod("a").Gpu(4);
  pod.device_requests = {
      {.container = "one", .resource = "nvidia.com/gpu", .amount = 2000},
      {.container = "two", .resource = "nvidia.com/gpu", .amount = 1000},
      {.container = "setup", .resource = "nvidia.com/gpu", .amount = 4000, .init = true},
      {.container = "one", .resource = "example.com/nic", .amount = 1000}};
  t.Pod(pod);
  t.Charge("a");
  CHECK(t.store.DevicesNote(t.pod("a")) ==
        R"({"one":{"nvidia.com/gpu":[0,1]},"setup":{"nvidia.com/gpu":[0,1,2,3]},)"
        R"("two":{"nvidia.com/gpu":[2]}})");
}

TEST_CASE("a whole-node pod has all devices, whatever it asks for", "[unit][cluster]") {
  World t;
  t.Pod(MakePod("a").Gpu(1).WholeNode());
  t.Charge("a");
  t.Charge("a", Charge::kBinding);
  t.Pod(MakePod("a").Gpu(1).WholeNode().On("n1").Annotation("berth.dev/devices", Note("0")));
  CHECK(t.n1().track == kKept);
  CHECK(t.Free() == 0);
}

TEST_CASE("over a new policy every pod keeps its devices", "[unit][cluster]") {
  World t;
  t.Pod(Bound("a", 2, "0,1"));
  t.Pod(MakePod("b").Gpu(2));
  t.Charge("b");
  t.Charge("b", Charge::kBinding);
  t.Pod(MakePod("c").Gpu(1));
  t.Charge("c");
  const std::string before = t.store.LedgerString();
  t.store.SetPolicy(testing::MakePolicy({testing::MakeQueue("default", {"*"}, 16)}));
  CHECK(t.n1().track == kKept);
  CHECK(t.store.LedgerString() == before);
}

TEST_CASE("a policy of other devices, or of none", "[unit][cluster]") {
  for (const char* device : {"example.com/nic", ""}) {
    INFO(device);
    World t;
    t.Pod(Bound("a", 2, "0,1"));
    t.Pod(MakePod("b").Gpu(2));
    t.Charge("b");
    const auto gpus = t.store.policy();
    auto policy = gpus;
    policy.devices.clear();
    if (*device != 0) policy.devices.push_back({.name = device});
    t.store.SetPolicy(policy);
    CHECK(t.store.DevicesNote(t.pod("b")).empty());
    CHECK(t.n1().devices.size() == 0);
    t.store.SetPolicy(gpus);
    CHECK(t.n1().track == kKept);
    CHECK(t.Free() == (t.pod("b").charge == Charge::kNone ? 0b1111'1100 : 0b1111'0000));
  }
}

TEST_CASE("with shares nothing is told apart by annotation", "[unit][cluster]") {
  Planning t({}, {.shares = true});
  t.Node(MakeDgx("n1"));
  t.Pod(Bound("a", 2, "6,7"));
  CHECK(t.store.node(0).track == kCounted);
  CHECK(t.store.node(0).machine == kNoMachine);
  CHECK(t.store.node(0).devices.AtLeast(1000) == 0b1111'1100);  // those of the lowest index
}

}  // namespace
}  // namespace berth::cluster
