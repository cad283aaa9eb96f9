// Nodes that tell their devices apart, to a scorer: which are one state, and which is preferred.
#include <string>
#include <vector>

#include "policy/node_states.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeDgx;
using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

struct World : Planning {
  /// A pod on the node that has these devices.
  void Take(const std::string& on, const std::string& indices, int gpus) {
    Pod(MakePod("p" + std::to_string(++pods))
            .Gpu(gpus)
            .On(on)
            .Annotation("berth.dev/devices", R"({"main":{"nvidia.com/gpu":[)" + indices + "]}}"));
  }
  NodeStates::Id Id(const std::string& name) {
    store.Refresh();
    mix.Refresh(store, fit);
    states.CatchUp(mix);
    return states.of(node(name));
  }
  int pods = 0;
  FitCache fit{store};
  WorkloadMix mix;
  NodeStates states{store, false};
};

TEST_CASE("nodes with the same free devices are one state", "[unit][policy]") {
  World t;
  for (const char* name : {"n1", "n2", "n3"}) {
    t.Node(MakeDgx(name));
    t.Take(name, name[1] == '3' ? "4,5" : "0,1", 2);
  }
  CHECK(t.Id("n1") == t.Id("n2"));
  CHECK(t.Id("n1") != t.Id("n3"));
  const NodeState state = t.states.state(t.Id("n3"));
  CHECK(state.machine == t.store.MachineOf(t.store.node(t.node("n3"))));
  CHECK(state.free_devices == 0b1100'1111);
}

TEST_CASE("where the choice of devices is nothing to a score, so are they", "[unit][policy]") {
  World t;
  // Of a known machine, but only counted; and told apart, but all alike.
  for (const char* name : {"n1", "n2"}) t.Node(MakeDgx(name, /*selects=*/false));
  for (const char* name : {"n3", "n4"}) {
    kube::Node node = MakeNode(name).Gpu(8);
    node.meta.annotations["berth.dev/device-selection"] = "annotation";
    t.Node(node);
  }
  for (const char* name : {"n1", "n3"}) t.Take(name, "0", 1);
  for (const char* name : {"n2", "n4"}) t.Take(name, "5", 1);
  CHECK(t.Id("n1") == t.Id("n2"));
  CHECK(t.Id("n3") == t.Id("n4"));
  CHECK(t.Id("n1") == t.Id("n3"));
  CHECK(t.states.state(t.Id("n1")).machine == nullptr);
}

TEST_CASE("a pod goes where its devices are on one socket", "[unit][policy]") {
  for (const bool first_is_split : {true, false}) {
    World t;
    for (const char* name : {"n1", "n2"}) t.Node(MakeDgx(name));
    const auto [split, whole] = first_is_split ? std::pair("n1", "n2") : std::pair("n2", "n1");
    t.Take(split, "0,1", 2);
    t.Take(split, "4,5", 2);
    t.Take(whole, "0,1", 2);
    t.Take(whole, "2,3", 2);
    CHECK(t.Place({MakePod("four").Gpu(4)}) == std::vector<std::string>{whole});
    // One that fits on a half socket leaves the whole one alone.
    CHECK(t.Place({MakePod("two").Gpu(2)}) == std::vector<std::string>{split});
  }
}

TEST_CASE("what-if knows which devices are left", "[unit][policy]") {
  World t;
  t.Node(MakeDgx("n1"));
  Overlay overlay = t.overlay();
  const auto free = [&] { return overlay.devices(t.node("n1")).AtLeast(1000); };
  for (const auto& [name, gpus, left] :
       {std::tuple{"a", 4, 0b1111'0000}, {"b", 1, 0b1110'0000}, {"c", 2, 0b1000'0000}}) {
    overlay.Place(t.Pod(MakePod(name).Gpu(gpus)), t.node("n1"));
    CHECK(free() == left);
  }
  CHECK(t.store.node(t.node("n1")).devices.WholeFree() == 8);
}

TEST_CASE("the term by name, where devices are told apart", "[unit][policy]") {
  World t;
  for (const auto& [name, selects] : {std::pair{"n1", true}, {"n2", false}, {"n3", true}}) {
    t.Node(MakeDgx(name, selects));
  }
  t.Take("n1", "0,4", 2);
  const auto terms = [&](int gpus, const char* on) {
    const auto& pod = t.Pod(MakePod("ask" + std::to_string(gpus)).Gpu(gpus));
    const Overlay overlay = t.overlay();
    return t.scorer.Terms(*pod.shape, overlay, t.node(on));
  };
  // Three of one socket and one of the other: 3 of at most 4 pairs apart, and no whole socket
  // broken into. Half of 750.
  CHECK(terms(4, "n1").at("topology") == -375'000);
  CHECK(terms(1, "n1").at("topology") == 0);
  // An empty socket broken into: half of one.
  CHECK(terms(1, "n3").at("topology") == -500'000);
  CHECK(terms(4, "n3").at("topology") == 0);
  CHECK_FALSE(terms(4, "n2").contains("topology"));
}

}  // namespace
}  // namespace berth::policy
