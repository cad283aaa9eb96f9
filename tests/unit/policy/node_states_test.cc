// Nodes that are equal in all that a score reads are one state.
#include "policy/node_states.h"

#include <fmt/format.h>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

struct World : Planning {
  World() : Planning({}, {.shares = true}), states(store, true) {
    for (const char* name : {"n1", "n2", "n3"}) Node(MakeNode(name).Gpu(4));
  }
  NodeStates::Id Id(const std::string& name) {
    store.Refresh();
    mix.Refresh(store, fit);
    states.CatchUp(mix);
    return states.of(node(name));
  }
  FitCache fit{store};
  WorkloadMix mix;
  NodeStates states;
};

TEST_CASE("equal nodes are one state, also when they come back to it", "[unit][policy]") {
  World t;
  const auto empty = t.Id("n1");
  CHECK(t.Id("n2") == empty);
  t.Pod(MakePod("p").Gpu(1).On("n2"));
  const auto used = t.Id("n2");
  CHECK(used != empty);
  t.Pod(MakePod("q").Gpu(1).On("n3"));
  CHECK(t.Id("n3") == used);
  CHECK(t.states.size() == 2);
  t.store.DeletePod("uid-p");
  CHECK(t.Id("n2") == empty);
  CHECK(t.states.state(used).free(t.gpu()) == 3000);
  CHECK(t.states.state(used).all(t.gpu()) == 4000);
  CHECK(t.states.state(used).devices.free(0) == 0);
}

TEST_CASE("what makes a state another one", "[unit][policy]") {
  World t;
  const auto empty = t.Id("n1");
  SECTION("memory alone") { t.Pod(MakePod("p").Memory("1Gi").On("n2")); }
  SECTION("how many devices there are") { t.Node(MakeNode("n2").Gpu(5)); }
  SECTION("which device a share is on") {
    const auto share = MakePod("s").Gpu(1).Annotation("berth.dev/gpu-milli", "500");
    t.store.SetCharge(t.Pod(share), t.node("n1"), cluster::Charge::kPlanned, 0b01);
    const auto first = t.Id("n1");
    auto other = share.Build();
    other.meta.name = "s2";
    other.meta.uid = "uid-s2";
    t.store.SetCharge(t.Pod(other), t.node("n2"), cluster::Charge::kPlanned, 0b10);
    CHECK(t.Id("n2") != first);
  }
  SECTION("what it hosts") {
    t.Pod(MakePod("p2").Gpu(2).Cpu("2").On("n1"));
    t.Pod(MakePod("a").Gpu(1).Cpu("1").On("n2"));
    t.Pod(MakePod("b").Gpu(1).Cpu("1").On("n2"));
    CHECK(t.states.state(t.Id("n1")).hosted == 0b100U);
    CHECK(t.states.state(t.Id("n2")).hosted == 0b010U);
  }
  CHECK(t.Id("n2") != empty);
  CHECK(t.Id("n3") == empty);
}

TEST_CASE("a name or a label that no mix asks for does not matter", "[unit][policy]") {
  World t;
  const auto empty = t.Id("n1");
  t.Node(MakeNode("n2").Gpu(4).Label("team", "x").Taint("t"));
  CHECK(t.Id("n2") == empty);
}

TEST_CASE("what-if is a state like any other", "[unit][policy]") {
  World t;
  const auto empty = t.Id("n1");
  auto& pod = t.Pod(MakePod("p").Gpu(1));
  Overlay overlay = t.overlay();
  overlay.Place(pod, t.node("n1"));
  const auto planned = t.states.of(overlay, t.node("n1"));
  CHECK(planned != empty);
  CHECK(t.states.of(overlay, t.node("n2")) == empty);
  CHECK(t.Id("n1") == empty);
}

TEST_CASE("states of thousands of resources are kept in bytes, not in numbers",
          "[unit][policy][bug]") {
  World t;
  for (int node = 0; node < 5; ++node) {
    auto wide = MakeNode(fmt::format("wide{}", node)).Gpu(4);
    for (int i = 0; i < 800; ++i) {
      wide.Allocatable(fmt::format("example.com/r{}-{}", node, i), 1'000);
    }
    t.Node(wide);
  }
  t.Id("n1");
  const auto epoch = t.states.epoch();
  std::size_t most = 0;
  for (int i = 1; i <= 2'000; ++i) {
    t.Pod(MakePod("q").Cpu(fmt::format("{}m", i)).On("n2"));
    t.Id("n2");
    most = std::max(most, t.states.bytes());
  }
  CHECK(most > NodeStates::kMaxBytes / 2);  // it was close
  CHECK(most <= 2 * NodeStates::kMaxBytes);
  CHECK(t.states.epoch() > epoch);
  CHECK(t.states.state(t.Id("n1")).free(t.gpu()) == 4000);
}

TEST_CASE("another mix, other states", "[unit][policy]") {
  World t;
  t.Id("n1");
  const auto epoch = t.states.epoch();
  t.mix.Fix(
      {{.shape = t.Pod(MakePod("p").Gpu(1)).shape, .devices = 1000, .millionths = 1'000'000}});
  t.Id("n1");
  CHECK(t.states.epoch() != epoch);
  CHECK(t.states.state(t.Id("n1")).mix->pods.size() == 1);
}

}  // namespace
}  // namespace berth::policy
