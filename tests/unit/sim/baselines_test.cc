// The policies that Berth is compared with: each score worked out by hand.
#include "sim/baselines/baselines.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/placement.h"
#include "sim/baselines/typical_pods.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::sim {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;
using topology::DeviceMask;

/// One node n1 of 64 cores; `taken` of each device is taken by shares.
struct OneNode : Planning {
  explicit OneNode(int devices, const std::vector<int>& taken = {})
      : Planning({}, {.shares = true}) {
    n1 = Node(MakeNode("n1").Gpu(devices));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] == 0) continue;
      auto& pod = Pod(taken[i] == 1000 ? MakePod("t" + std::to_string(i)).Gpu(1)
                                       : MakePod("t" + std::to_string(i)).Share(taken[i]));
      store.SetCharge(pod, n1, cluster::Charge::kPlanned, static_cast<DeviceMask>(1U << i));
    }
  }
  policy::Score Score(std::string_view baseline, const kube::Pod& pod) {
    policy::Scorer other(store, MakeBaseline(baseline));
    const auto& shape = Pod(pod).shape;
    return other.Of(shape, overlay(), n1).value();
  }
  DeviceMask Devices(policy::Scorer& other, const kube::Pod& pod) {
    const auto placement = policy::Place(Request({pod}), overlay(), other);
    return placement.placed.at(0).devices;
  }
  cluster::NodeIndex n1;
};

TEST_CASE("the names", "[unit][sim]") {
  for (const auto name : BaselineNames()) CHECK(MakeBaseline(name) != nullptr);
  CHECK(BaselineNames().size() == 6);
  CHECK(MakeBaseline("Berth") == nullptr);
}

TEST_CASE("DotProd", "[unit][sim]") {
  // 100 x (1 - (64 x 8 / 128^2 + 2 x 1 / 8^2) / 2) = 96.875
  CHECK(OneNode(2).Score("DotProd", MakePod("p").Gpu(1).Cpu("8")) == 96);
  // 100 x (1 - (64 x 64 / 128^2) / 2) = 87.5
  CHECK(OneNode(2).Score("DotProd", MakePod("p").Cpu("64")) == 87);
  // 100 x (1 - (2 x 0.5 / 8^2) / 2) = 99.21
  CHECK(OneNode(2).Score("DotProd", MakePod("p").Share(500)) == 99);
}

TEST_CASE("BestFit", "[unit][sim]") {
  // 100 x (1 - 0.5 x 56 / 128 - 0.5 x 1 / 8) = 71.875
  CHECK(OneNode(2).Score("BestFit", MakePod("p").Gpu(1).Cpu("8")) == 71);
  // 100 x (1 - 0.5 x 64 / 128 - 0.5 x 0 / 8) = 75
  CHECK(OneNode(2).Score("BestFit", MakePod("p").Gpu(2)) == 75);
  // 100 x (1 - 0.5 x 64 / 128 - 0.5 x 1.6 / 8) = 65
  CHECK(OneNode(2).Score("BestFit", MakePod("p").Share(400)) == 65);
}

TEST_CASE("GpuClustering", "[unit][sim]") {
  // 25 x 6 / 8 = 18.75, and 25 for a node without device pods
  CHECK(OneNode(2).Score("GpuClustering", MakePod("p").Gpu(1)) == 18 + 25);
  OneNode t(4, {1000});  // hosts a 1-device pod, 3 are left: 25 x 5 / 8 = 15.6
  CHECK(t.Score("GpuClustering", MakePod("p").Gpu(1)) == 15 + 75);
  CHECK(t.Score("GpuClustering", MakePod("q").Gpu(2)) == 15);
  CHECK(t.Score("GpuClustering", MakePod("r").Share(500)) == 15);
  OneNode mixed(4, {1000, 600});  // 25 x (8 - 2.4) / 8 = 17.5
  CHECK(mixed.Score("GpuClustering", MakePod("p").Gpu(1)) == 17 + 50);
  CHECK(mixed.Score("GpuClustering", MakePod("r").Share(500)) == 17 + 50);
  CHECK(mixed.Score("GpuClustering", MakePod("q").Gpu(2)) == 17);
  CHECK(mixed.Score("GpuClustering", MakePod("c").Cpu("1")) == 0);
}

TEST_CASE("GpuPacking", "[unit][sim]") {
  CHECK(OneNode(2).Score("GpuPacking", MakePod("p").Gpu(1)) == 31);
  CHECK(OneNode(8).Score("GpuPacking", MakePod("p").Gpu(1)) == 25);
  CHECK(OneNode(8).Score("GpuPacking", MakePod("p").Share(100)) == 25);
  OneNode t(4, {800, 0, 0, 500});  // 200, 1000, 1000, 500 are free
  CHECK(t.Score("GpuPacking", MakePod("p1").Gpu(1)) == 49);
  CHECK(t.Score("GpuPacking", MakePod("p2").Gpu(2)) == 48);
  CHECK(t.Score("GpuPacking", MakePod("s1").Share(200)) == 98);  // 20 % free there
  CHECK(t.Score("GpuPacking", MakePod("s2").Share(300)) == 95);  // 50 %
  CHECK(t.Score("GpuPacking", MakePod("s3").Share(600)) == 49);  // a free one
  CHECK(t.Score("GpuPacking", MakePod("c").Cpu("1")) == 0);
}

TEST_CASE("shares go to the tightest device", "[unit][sim]") {
  for (const char* name : {"DotProd", "GpuClustering", "GpuPacking", "BestFit"}) {
    INFO(name);
    OneNode t(4, {0, 800, 400, 500});
    policy::Scorer other(t.store, MakeBaseline(name));
    CHECK(t.Devices(other, MakePod("p").Share(300)) == 0b1000);
    CHECK(t.Devices(other, MakePod("q").Share(100)) == 0b0010);
    CHECK(t.Devices(other, MakePod("r").Share(700)) == 0b0001);
  }
}

TEST_CASE("FGD: floor(100 x sigmoid(x / 1000))", "[unit][sim]") {
  CHECK(FgdScore(0) == 50);
  CHECK(FgdScore(40'005'334) == 50);  // ln(51 / 49) is 0.0400053...
  CHECK(FgdScore(40'005'335) == 51);
  CHECK(FgdScore(-1) == 49);
  CHECK(FgdScore(-40'005'334) == 49);
  CHECK(FgdScore(-40'005'335) == 48);
  CHECK(FgdScore(1'000'000'000) == 73);   // 73.1
  CHECK(FgdScore(-1'000'000'000) == 26);  // 26.9
  CHECK(FgdScore(100'000'000'000) == 99);
  CHECK(FgdScore(-100'000'000'000) == 0);
}

TEST_CASE("FGD: the device that leaves the least fragment", "[unit][sim]") {
  OneNode t(2, {0, 500});  // 1000 and 500 are free
  policy::Scorer fgd(t.store, MakeBaseline("FGD"));
  fgd.mix().Fix({{.shape = t.Pod(MakePod("typical").Share(500)).shape,
                  .cpu = 0,
                  .devices = 500,
                  .millionths = 1'000'000}});
  const auto score = [&](const kube::Pod& pod) {
    return fgd.Of(t.Pod(pod).shape, t.overlay(), t.n1).value();
  };
  // 700 and 500: nothing lost. 1000 and 200: 200 lost.
  CHECK(score(MakePod("a").Share(300)) == 50);
  CHECK(t.Devices(fgd, MakePod("a").Share(300)) == 0b01);
  // 1000 and 0, or 500 and 500: the same; the lowest index.
  CHECK(score(MakePod("b").Share(500)) == 50);
  CHECK(t.Devices(fgd, MakePod("b").Share(500)) == 0b01);
  // 400 and 500: 100 x sigmoid(-0.4) = 40.1
  CHECK(score(MakePod("c").Share(600)) == 40);
  // The whole one: nothing is lost.
  CHECK(score(MakePod("d").Gpu(1)) == 50);
  // 600 and 100 are free: 100 are lost. Taking them back from the fragment: 100 x sigmoid(0.1).
  OneNode used(2, {400, 900});
  policy::Scorer again(used.store, MakeBaseline("FGD"));
  again.mix().Fix({{.shape = used.Pod(MakePod("typical").Share(500)).shape,
                    .cpu = 0,
                    .devices = 500,
                    .millionths = 1'000'000}});
  CHECK(again.Of(used.Pod(MakePod("e").Share(100)).shape, used.overlay(), used.n1) == 52);
  CHECK(used.Devices(again, MakePod("e").Share(100)) == 0b10);
}

TEST_CASE("Random: every node and every device, by seed", "[unit][sim]") {
  OneNode t(2);
  t.Node(MakeNode("n2").Gpu(2));
  t.Node(MakeNode("full").Gpu(0));
  policy::Scorer random(t.store, MakeBaseline("Random"));
  std::map<std::pair<std::string, int>, int> seen;
  auto request = t.Request({MakePod("p").Share(500)});
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    request.tie_seed = seed;
    const auto placement = policy::Place(request, t.overlay(), random);
    REQUIRE(placement.ok());
    const auto& placed = placement.placed.front();
    ++seen[{t.store.node(placed.node).name, placed.devices}];
    CHECK(policy::Place(request, t.overlay(), random).placed.front().node == placed.node);
  }
  CHECK(seen.size() == 4);  // two nodes, two devices each
  for (const auto& [where, times] : seen) CHECK(times >= 25);
}

TEST_CASE("typical pods: the most frequent until 95 % are covered", "[unit][sim]") {
  OneNode t(2);
  std::vector<std::shared_ptr<const cluster::PodShape>> pods;
  const auto add = [&](int times, const kube::Pod& pod) {
    for (int i = 0; i < times; ++i) pods.push_back(t.Pod(pod).shape);
  };
  add(1, MakePod("rare").Gpu(8));
  add(4, MakePod("cpu").Cpu("4"));
  add(4, MakePod("s").Share(500).Cpu("2"));
  add(1, MakePod("s2").Share(500).Cpu("2").Memory("1Gi"));  // memory does not count
  add(5, MakePod("two").Gpu(2).Cpu("8"));
  add(5, MakePod("one").Gpu(1).Cpu("8"));
  const auto mix = TypicalPods(pods);
  // 5 + 5 + 5 + 4 of 20; of equally frequent ones the larger first: CPU, then per device, devices.
  REQUIRE(mix.size() == 4);
  CHECK(mix[0].devices == 2000);
  CHECK(mix[1].devices == 1000);
  CHECK(mix[2].devices == 500);
  CHECK(mix[3].devices == 0);
  CHECK(mix[0].millionths == 263'157);
  CHECK(mix[3].millionths == 210'526);
  CHECK(mix[3].cpu == 4000);
}

}  // namespace
}  // namespace berth::sim
