// The counts of neighbours that are kept between decisions.
#include "policy/neighbour_counts.h"

#include <string>

#include "policy/neighbours.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;
using testing::PodBuilder;

/// a1 and a2 in zone a, b1 in zone b.
class Kept : public Planning {
 public:
  Kept() {
    Node(MakeNode("a1").Gpu(8).Label("zone", "a"));
    Node(MakeNode("a2").Gpu(8).Label("zone", "a"));
    Node(MakeNode("b1").Gpu(8).Label("zone", "b"));
  }
  /// What the kept counts say, each with those before it in the same cache.
  std::string Allowed(const kube::Pod& pod) {
    const cluster::PodInfo& asks = Pod(pod);
    const Overlay now = overlay();
    std::string names;
    for (const char* name : {"a1", "a2", "b1"}) {
      if (NeighboursAllow(asks, now, cache, node(name))) names += std::string(name) + ' ';
    }
    return names;
  }
  const NeighbourTally& TallyOf(const kube::Pod& pod) { return cache.Row(Pod(pod))->tally(); }

  NeighbourCache cache{store};
};

PodBuilder Apart(const char* name) { return MakePod(name).NotNear("app", "db", "zone"); }
PodBuilder Spread(const char* name) {
  return MakePod(name).Label("app", "x").Spread("app", "x", "zone");
}

TEST_CASE("kept counts follow pods that come, change and go", "[unit][policy]") {
  Kept t;
  CHECK(t.Allowed(Apart("p")) == "a1 a2 b1 ");
  t.Pod(MakePod("db").Label("app", "db").On("a1"));
  CHECK(t.Allowed(Apart("p")) == "b1 ");
  t.Pod(MakePod("db").Label("app", "web").On("a1"));  // relabelled
  CHECK(t.Allowed(Apart("p")) == "a1 a2 b1 ");
  t.Pod(MakePod("db").Label("app", "db").On("a1"));
  t.Pod(MakePod("db2").Label("app", "db").On("a2"));
  t.store.DeletePod("uid-db");
  CHECK(t.Allowed(Apart("p")) == "b1 ");  // the other one is still in the zone
  t.store.DeletePod("uid-db2");
  CHECK(t.Allowed(Apart("p")) == "a1 a2 b1 ");
}

TEST_CASE("kept counts follow plans", "[unit][policy]") {
  Kept t;
  const auto& db = t.Pod(MakePod("db").Gpu(1).Label("app", "db"));
  CHECK(t.Allowed(Apart("p")) == "a1 a2 b1 ");
  t.store.SetCharge(db, t.node("b1"), cluster::Charge::kPlanned);
  CHECK(t.Allowed(Apart("p")) == "a1 a2 ");
  t.store.Unreserve(db);
  CHECK(t.Allowed(Apart("p")) == "a1 a2 b1 ");
}

TEST_CASE("kept counts follow pods that begin to end", "[unit][policy]") {
  Kept t;
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));
  CHECK(t.Allowed(Spread("p")) == "b1 ");
  t.Pod(MakePod("x1").Label("app", "x").On("a1").Terminating());
  CHECK(t.Allowed(Spread("p")) == "a1 a2 b1 ");
}

TEST_CASE("kept counts follow nodes", "[unit][policy]") {
  Kept t;
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));
  CHECK(t.Allowed(Spread("p")) == "b1 ");
  SECTION("a node moves to another zone") {
    t.Node(MakeNode("a2").Gpu(8).Label("zone", "c"));
    CHECK(t.Allowed(Spread("p")) == "a2 b1 ");
  }
  SECTION("the last node of the emptiest zone goes") {
    t.store.DeleteNode("b1");
    CHECK(t.Allowed(Spread("p")) == "a1 a2 ");  // zone a is the only one: 1 + 1 - 1
  }
  SECTION("another node takes the slot of one that is gone") {
    t.store.DeleteNode("a2");
    t.Node(MakeNode("b2").Gpu(8).Label("zone", "b"));
    CHECK(t.TallyOf(Spread("p")).spread_nodes.front() == DomainCounts{{"a", 1}, {"b", 2}});
  }
}

TEST_CASE("kept counts follow the labels of namespaces", "[unit][policy]") {
  Kept t;
  t.Pod(MakePod("db").Ns("other").Label("app", "db").On("a1"));
  auto pod = Apart("p");
  pod.spec().required_pod_anti_affinity[0].namespace_selector =
      kube::LabelSelector{{{.key = "team", .values = {"x"}}}};
  CHECK(t.Allowed(pod) == "a1 a2 b1 ");
  t.store.UpsertNamespace(testing::MakeNamespace("other", {{"team", "x"}}));
  CHECK(t.Allowed(pod) == "b1 ");
  t.store.DeleteNamespace("other");
  CHECK(t.Allowed(pod) == "a1 a2 b1 ");
}

// 2 pods on node a1, and the nodes themselves; counts of what is gone are not kept as zeros.
TEST_CASE("a row has the number of pods and nodes in each domain", "[unit][policy]") {
  Kept t;
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));
  t.Pod(MakePod("x2").Label("app", "x").On("a1"));
  CHECK(t.TallyOf(Spread("p")).spread.front() == DomainCounts{{"a", 2}});
  CHECK(t.TallyOf(Spread("p")).spread_nodes.front() == DomainCounts{{"a", 2}, {"b", 1}});
  CHECK(t.cache.Row(t.Pod(Spread("p")))->parts() == 5);
  t.store.DeletePod("uid-x1");
  t.store.DeletePod("uid-x2");
  CHECK(t.TallyOf(Spread("p")).spread.front().empty());
  CHECK(t.cache.Row(t.Pod(Spread("p")))->parts() == 3);
}

TEST_CASE("pods that no term tells apart share a row", "[unit][policy]") {
  Kept t;
  const auto& first = t.Pod(Spread("p").Label("rank", "0"));
  const auto& second = t.Pod(Spread("q").Label("rank", "1"));
  CHECK(t.cache.Row(first) == t.cache.Row(second));
  CHECK(t.cache.Row(first) != t.cache.Row(t.Pod(Spread("r").Label("app", "y"))));
  CHECK(t.cache.Row(first) != t.cache.Row(t.Pod(Spread("s").Ns("other"))));
  // From now on the rank makes a difference.
  t.Pod(MakePod("hermit").NotNear("rank", "1", "zone").On("b1"));
  CHECK(t.cache.Row(first) != t.cache.Row(second));
}

TEST_CASE("pods that differ in a label that is looked at have few rows at a time",
          "[unit][policy]") {
  Kept t;
  const auto row_of = [&t](int i) {
    const std::string name = "p" + std::to_string(i);
    return t.cache.Row(t.Pod(MakePod(name).Label("name", name).NotNear("name", name, "zone")));
  };
  // All of one shape but for the term, which has a shape of its own each: no bound is met.
  const auto alike = [&t](int i) {
    auto pod = MakePod("q" + std::to_string(i)).Label("app", "x").Label("rev", std::to_string(i));
    pod.NotNear("app", "x", "zone");
    pod.spec().required_pod_anti_affinity[0].match_label_keys = {"rev"};
    return t.cache.Row(t.Pod(pod));
  };
  const auto first = alike(0);
  CHECK(alike(0) == first);
  for (std::size_t i = 1; i <= NeighbourCache::kMaxAlike; ++i) alike(static_cast<int>(i));
  CHECK(alike(0) != first);  // its place was taken
  CHECK(row_of(0) == row_of(0));
}

TEST_CASE("pods that come once leave few rows behind", "[unit][policy]") {
  Kept t;
  const auto& steady = t.Pod(Apart("steady"));
  t.Pod(MakePod("db").Label("app", "db").On("a1"));
  for (int i = 0; i < 2'000; ++i) {
    const std::string name = "p" + std::to_string(i);
    t.cache.Row(t.Pod(MakePod(name).NotNear("name", name, "zone")));
    t.store.DeletePod("uid-" + name);
    t.cache.Trim();
    REQUIRE(t.cache.size() <= NeighbourCache::kMaxRows);
    REQUIRE(t.cache.Row(steady)->tally().anti_affinity.front() == DomainCounts{{"a", 1}});
  }
}

}  // namespace
}  // namespace berth::policy
