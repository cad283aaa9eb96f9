// Pods that wait for what other pods are and not for room: what wakes them, and what they cost
// others.
#include <string>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::World;

constexpr const char* kHost = "kubernetes.io/hostname";

/// a1 and a2 in zone a, b1 in zone b, of 8 GPUs each.
class Zones : public World {
 public:
  Zones() {
    Add(MakeNode("a1").Gpu(8).Label("zone", "a"));
    Add(MakeNode("a2").Gpu(8).Label("zone", "a"));
    Add(MakeNode("b1").Gpu(8).Label("zone", "b"));
    Start();
  }
  bool Waits(const kube::Pod& pod) {
    Add(pod);
    Tick();
    return Planned(pod.meta.name).empty();
  }
};

TEST_CASE("a gated pod wakes when its neighbour comes", "[unit][engine][bug]") {
  Zones w;
  REQUIRE(w.Waits(MakePod("p").Gpu(1).Near("app", "db", "zone").Gated()));
  SECTION("bound by somebody else") {
    w.Add(MakePod("db").Cpu("1").Label("app", "db").On("b1"));
    w.Tick();
  }
  SECTION("planned by us") {
    w.Add(MakePod("db").Gpu(1).Label("app", "db").Selector("zone", "b").Gated());
    w.Tick();
    w.Schedule();
  }
  SECTION("it was there, and is labelled now") {
    w.Add(MakePod("db").Cpu("1").On("b1"));
    w.Tick();
    REQUIRE(w.Planned("p").empty());
    w.Change("db", [](kube::Pod& pod) { pod.meta.labels["app"] = "db"; });
    w.Tick();
  }
  SECTION("a gang") {
    w.Delete("p");
    for (const char* name : {"p", "q"}) {
      w.Add(MakePod(name).Gpu(1).Gang("g", 2).Near("app", "db", "zone").Gated());
    }
    w.Tick();
    REQUIRE(w.Planned("p").empty());
    w.Add(MakePod("db").Cpu("1").Label("app", "db").On("b1"));
    w.Tick();
  }
  const std::string node = w.NodeOf("p").empty() ? w.Planned("p") : w.NodeOf("p");
  CHECK(node == "b1");
}

TEST_CASE("a gated pod wakes when its spread allows more", "[unit][engine][bug]") {
  Zones w;
  w.Add(MakePod("x1").Cpu("1").Label("app", "x").On("a1"));
  const auto spread = MakePod("p").Gpu(1).Label("app", "x").Spread("app", "x", "zone").Gated();
  SECTION("the emptier zone has no room and fills up by others") {
    w.Add(MakePod("full").Gpu(8).On("b1"));
    REQUIRE(w.Waits(spread));
    w.Add(MakePod("x2").Cpu("1").Label("app", "x").On("b1"));
    w.Tick();
    CHECK_FALSE(w.Planned("p").empty());
  }
  SECTION("who counts begins to end") {
    w.Add(MakePod("full").Gpu(8).On("b1"));
    REQUIRE(w.Waits(spread));
    w.Terminate("x1");
    w.Tick();
    CHECK_FALSE(w.Planned("p").empty());
  }
}

TEST_CASE("a gated pod wakes when anti-affinity ends", "[unit][engine][bug]") {
  Zones w;
  SECTION("its own: the other changes its label") {
    for (const char* node : {"a1", "a2", "b1"}) {
      w.Add(MakePod(std::string("x") + node).Cpu("1").Label("app", "x").On(node));
    }
    REQUIRE(w.Waits(MakePod("p").Gpu(1).NotNear("app", "x", kHost).Gated()));
    w.Change("xb1", [](kube::Pod& pod) { pod.meta.labels["app"] = "y"; });
    w.Tick();
    CHECK(w.Planned("p") == "b1");
  }
  SECTION("another's: it goes") {
    w.Add(MakePod("h1").Cpu("1").NotNear("app", "x", "zone").On("a1"));
    w.Add(MakePod("h2").Cpu("1").NotNear("app", "x", "zone").On("b1"));
    REQUIRE(w.Waits(MakePod("p").Gpu(1).Label("app", "x").Gated()));
    w.Delete("h2");
    w.Tick();
    CHECK(w.Planned("p") == "b1");
  }
  SECTION("another's: it is of another revision now") {
    for (const char* node : {"a1", "b1"}) {
      auto hermit = MakePod(std::string("h") + node).Cpu("1").Label("rev", "1");
      hermit.NotNear("app", "x", "zone");
      hermit.spec().required_pod_anti_affinity[0].match_label_keys = {"rev"};
      w.Add(hermit.On(node));
    }
    REQUIRE(w.Waits(MakePod("p").Gpu(1).Label("app", "x").Label("rev", "1").Gated()));
    w.Change("hb1", [](kube::Pod& pod) { pod.meta.labels["rev"] = "2"; });
    w.Tick();
    CHECK(w.Planned("p") == "b1");
  }
  SECTION("another's: the namespace that it is about is gone") {
    w.engine().OnNamespace(testing::MakeNamespace("default", {{"team", "x"}}));
    for (const char* node : {"a1", "b1"}) {
      auto hermit = MakePod(std::string("h") + node).Ns("other").Cpu("1");
      hermit.NotNear("app", "x", "zone");
      hermit.spec().required_pod_anti_affinity[0].namespace_selector =
          kube::LabelSelector{{{.key = "team", .values = {"x"}}}};
      w.Add(hermit.On(node));
    }
    REQUIRE(w.Waits(MakePod("p").Gpu(1).Label("app", "x").Gated()));
    w.engine().OnNamespaceDeleted("default");
    w.Tick();
    CHECK_FALSE(w.Planned("p").empty());
  }
}

TEST_CASE("a pod that does not look at neighbours is not woken when they come", "[unit][engine]") {
  Zones w;
  for (const char* node : {"a1", "a2", "b1"}) {
    w.Add(MakePod(std::string("full") + node).Gpu(8).On(node));
  }
  REQUIRE(w.Waits(MakePod("plain").Gpu(1).Gated()));
  REQUIRE(w.Waits(MakePod("near").Gpu(1).Near("app", "db", "zone").Gated()));
  w.Add(MakePod("other").Cpu("1").Label("app", "web").On("b1"));
  const auto generation = w.store().generation();
  w.engine().Step(w.now());
  CHECK(w.store().generation() == generation);
}

// kube-scheduler tries a refused pod again at every event.
TEST_CASE("to ask again changes nothing", "[unit][engine]") {
  Zones w;
  w.Add(MakePod("p").Gpu(1).Near("app", "db", "zone"));
  CHECK(w.Filter("p").kept.empty());
  const auto generation = w.store().generation();
  CHECK(w.Filter("p").reason == "SearchExhausted");
  CHECK(w.store().generation() == generation);
  w.Add(MakePod("db").Cpu("1").Label("app", "db").On("b1"));
  CHECK(w.Filter("p").node() == "b1");
}

// kube-scheduler refuses a second member on a node while the other node has none: no release would
// wake it then.
TEST_CASE("members that must spread are released in turns", "[unit][engine][bug]") {
  config::PolicyConfiguration policy;
  policy.gang.max_standing = 1;
  World w(policy);
  for (const char* name : {"n1", "n2"}) w.Add(MakeNode(name).Gpu(8));
  w.Start();
  for (const char* name : {"a", "b", "c", "d"}) {
    w.Add(MakePod(name).Gpu(4).Gang("g", 4).Label("app", "x").Spread("app", "x", kHost).Gated());
  }
  w.Tick();
  REQUIRE(w.UsedGpus() == 16);
  std::vector<std::string> nodes;
  for (int come = 0; come < 4; ++come) {
    std::string free;
    for (const auto& [name, pod] : w.pods()) {
      const bool open = pod.scheduling_gates.empty() && !w.IsParked(name) && w.NodeOf(name).empty();
      if (open) free += name;
    }
    INFO(come);
    REQUIRE(free.size() == 1);  // one at a time
    nodes.push_back(w.Planned(free));
    REQUIRE(w.Attempt(free));  // and none is told to come back: kube-scheduler would forget it
    w.Tick();
  }
  CHECK(nodes[0] != nodes[1]);
  CHECK(nodes[2] != nodes[3]);
  CHECK(w.BoundPods() == 4);
}

TEST_CASE("a member whose turn has not come is refused, and woken", "[unit][engine]") {
  World w;
  for (const char* name : {"n1", "n2"}) w.Add(MakeNode(name).Gpu(8));
  w.Start();
  for (const char* name : {"a", "b"}) {
    w.Add(MakePod(name).Gpu(4).Gang("g", 2).Label("app", "x").Spread("app", "x", kHost));
  }
  w.Tick();
  w.Filter("a");
  w.Filter("b");
  w.Tick();
  REQUIRE(w.UsedGpus() == 8);
  const std::string first = w.pod("a").nominated_node.empty() ? "b" : "a";
  const std::string second = first == "a" ? "b" : "a";
  CHECK(w.Filter(second).reason == "Starting");
  REQUIRE(w.Attempt(first));
  w.Tick();
  CHECK(w.pod(second).nominated_node == w.Planned(second));
  CHECK(w.Attempt(second));
  CHECK(w.BoundPods() == 2);
}

}  // namespace
}  // namespace berth::engine
