// Affinity, anti-affinity and spread: what kube-scheduler's plugins will say.
#include "policy/neighbours.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Planning;

constexpr const char* kHost = "kubernetes.io/hostname";

/// a1, a2 in zone a; b1 in zone b; c1 without a zone.
class Zones : public Planning {
 public:
  Zones() {
    Node(MakeNode("a1").Gpu(8).Label("zone", "a"));
    Node(MakeNode("a2").Gpu(8).Label("zone", "a"));
    Node(MakeNode("b1").Gpu(8).Label("zone", "b"));
    Node(MakeNode("c1").Gpu(8));
  }
  std::string Allowed(const cluster::PodInfo& pod, const Overlay& overlay) {
    std::string names;
    for (const char* name : {"a1", "a2", "b1", "c1"}) {
      if (NeighboursAllow(pod, overlay, scorer.neighbours(), node(name)))
        names += std::string(name) + ' ';
    }
    return names;
  }
  std::string Allowed(const kube::Pod& pod) { return Allowed(Pod(pod), overlay()); }
};

TEST_CASE("anti-affinity keeps a domain clear", "[unit][policy]") {
  Zones t;
  t.Pod(MakePod("db").Label("app", "db").On("a1"));
  CHECK(t.Allowed(MakePod("p").NotNear("app", "db", "zone")) == "b1 c1 ");
  CHECK(t.Allowed(MakePod("p").NotNear("app", "db", kHost)) == "a2 b1 c1 ");
  CHECK(t.Allowed(MakePod("p").NotNear("app", "web", "zone")) == "a1 a2 b1 c1 ");
  // Another namespace is another world.
  CHECK(t.Allowed(MakePod("p").Ns("other").NotNear("app", "db", "zone")) == "a1 a2 b1 c1 ");
}

TEST_CASE("anti-affinity holds both ways", "[unit][policy]") {
  Zones t;
  t.Pod(MakePod("hermit").NotNear("app", "web", "zone").On("a1"));
  CHECK(t.Allowed(MakePod("p").Label("app", "web")) == "b1 c1 ");
  CHECK(t.Allowed(MakePod("p").Label("app", "db")) == "a1 a2 b1 c1 ");
  // It matters to those whom it concerns.
  CHECK(NeighboursMatter(t.Pod(MakePod("p").Label("app", "web")), t.overlay()));
  CHECK_FALSE(NeighboursMatter(t.Pod(MakePod("p").Label("app", "db")), t.overlay()));
  CHECK_FALSE(NeighboursMatter(t.Pod(MakePod("q").Ns("other").Label("app", "web")), t.overlay()));
}

TEST_CASE("anti-affinity of planned and removed pods", "[unit][policy]") {
  Zones t;
  auto& hermit = t.Pod(MakePod("hermit").Gpu(1).NotNear("app", "web", "zone"));
  auto& web = t.Pod(MakePod("p").Gpu(1).Label("app", "web"));
  CHECK_FALSE(NeighboursMatter(web, t.overlay()));
  t.store.SetCharge(hermit, t.node("a1"), cluster::Charge::kPlanned);
  CHECK(t.Allowed(web, t.overlay()) == "b1 c1 ");
  Overlay without = t.overlay();
  without.Remove(hermit);
  CHECK(t.Allowed(web, without) == "a1 a2 b1 c1 ");
  Overlay with = t.overlay();
  auto& second = t.Pod(MakePod("hermit2").Gpu(1).NotNear("app", "web", "zone"));
  with.Place(second, t.node("b1"));
  CHECK(t.Allowed(web, with) == "c1 ");
}

// The overlay's own pods count, not only those in the ledger.
TEST_CASE("a pod with anti-affinity in the overlay matters to the pods after it",
          "[unit][policy][bug]") {
  Zones t;
  auto& hermit = t.Pod(MakePod("hermit").Gpu(1).NotNear("app", "web", "zone"));
  auto& web = t.Pod(MakePod("p").Gpu(1).Label("app", "web"));
  Overlay overlay = t.overlay();
  overlay.Place(hermit, t.node("a1"));
  CHECK_FALSE(NeighboursAllow(web, overlay, t.scorer.neighbours(), t.node("a2")));
  CHECK(NeighboursMatter(web, overlay));
}

TEST_CASE("affinity seeks company", "[unit][policy]") {
  Zones t;
  CHECK(t.Allowed(MakePod("p").Near("app", "db", "zone")) == "");
  t.Pod(MakePod("db").Label("app", "db").On("b1"));
  CHECK(t.Allowed(MakePod("p").Near("app", "db", "zone")) == "b1 ");
  t.Pod(MakePod("db2").Label("app", "db").On("a2"));
  CHECK(t.Allowed(MakePod("p").Near("app", "db", "zone")) == "a1 a2 b1 ");
  CHECK(t.Allowed(MakePod("p").Near("app", "db", kHost)) == "a2 b1 ");
}

TEST_CASE("the first of a group that attracts itself may start anywhere", "[unit][policy]") {
  Zones t;
  const auto member = [](const char* name) {
    return MakePod(name).Gpu(1).Label("app", "x").Near("app", "x", "zone");
  };
  CHECK(t.Allowed(member("p")) == "a1 a2 b1 ");  // not c1: it has no zone
  Overlay overlay = t.overlay();
  overlay.Place(t.Pod(member("q")), t.node("b1"));
  CHECK(t.Allowed(t.Pod(member("p")), overlay) == "b1 ");
}

// kube-scheduler counts an existing pod only if it matches all terms (podMatchesAllAffinityTerms).
TEST_CASE("two affinity terms ask for one pod that satisfies both", "[unit][policy][bug]") {
  Zones t;
  t.Pod(MakePod("db").Label("app", "db").On("a1"));
  t.Pod(MakePod("gold").Label("tier", "gold").On("a1"));
  const auto pod = MakePod("p").Near("app", "db", "zone").Near("tier", "gold", "zone");
  CHECK(t.Allowed(pod) == "");
  t.Pod(MakePod("both").Label("app", "db").Label("tier", "gold").On("b1"));
  CHECK(t.Allowed(pod) == "b1 ");
}

TEST_CASE("namespaces by list and by selector", "[unit][policy]") {
  Zones t;
  t.store.UpsertNamespace(testing::MakeNamespace("other", {{"team", "x"}}));
  t.Pod(MakePod("db").Ns("other").Label("app", "db").On("a1"));
  auto listed = MakePod("p").NotNear("app", "db", "zone");
  listed.spec().required_pod_anti_affinity[0].namespaces = {"other"};
  CHECK(t.Allowed(listed) == "b1 c1 ");
  auto selected = MakePod("p").NotNear("app", "db", "zone");
  selected.spec().required_pod_anti_affinity[0].namespace_selector =
      kube::LabelSelector{{{.key = "team", .values = {"x"}}}};
  CHECK(t.Allowed(selected) == "b1 c1 ");
  selected.spec().required_pod_anti_affinity[0].namespace_selector =
      kube::LabelSelector{{{.key = "team", .values = {"y"}}}};
  CHECK(t.Allowed(selected) == "a1 a2 b1 c1 ");
}

TEST_CASE("matchLabelKeys tie revisions together", "[unit][policy]") {
  Zones t;
  t.Pod(MakePod("old").Label("app", "x").Label("rev", "1").On("a1"));
  auto pod = MakePod("p").Label("app", "x").Label("rev", "2").NotNear("app", "x", "zone");
  pod.spec().required_pod_anti_affinity[0].match_label_keys = {"rev"};
  CHECK(t.Allowed(pod) == "a1 a2 b1 c1 ");
  pod.spec().required_pod_anti_affinity[0].match_label_keys.clear();
  pod.spec().required_pod_anti_affinity[0].mismatch_label_keys = {"rev"};
  CHECK(t.Allowed(pod) == "b1 c1 ");
}

TEST_CASE("spread: skew over the domains that exist", "[unit][policy]") {
  Zones t;
  const auto pod = [](int skew = 1, int domains = 1) {
    return MakePod("p").Label("app", "x").Spread("app", "x", "zone", skew, domains);
  };
  CHECK(t.Allowed(pod()) == "a1 a2 b1 ");  // a node without the label never
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));
  CHECK(t.Allowed(pod()) == "b1 ");  // a: 1 + 1 - 0 = 2 > 1
  CHECK(t.Allowed(pod(2)) == "a1 a2 b1 ");
  t.Pod(MakePod("x2").Label("app", "x").On("b1"));
  CHECK(t.Allowed(pod()) == "a1 a2 b1 ");  // 1 + 1 - 1
  // Two zones, three wanted: the least counts as 0.
  CHECK(t.Allowed(pod(1, 3)) == "");
  CHECK(t.Allowed(pod(2, 3)) == "a1 a2 b1 ");
}

// What was counted once serves the next member, as long as nobody's terms tell the two apart.
TEST_CASE("members that are alike share what was counted", "[unit][policy]") {
  Zones t;
  const auto member = [](const char* name, const char* rank) {
    return MakePod(name).Gpu(1).Label("app", "x").Label("rank", rank).Spread("app", "x", "zone");
  };
  auto& first = t.Pod(member("m0", "0"));
  auto& second = t.Pod(member("m1", "1"));
  SECTION("nobody looks at the rank") {
    const Overlay overlay = t.overlay();
    Neighbours neighbours(first, overlay, t.scorer.neighbours());
    REQUIRE(neighbours.SameFor(second));
    neighbours.Add(first, t.node("a1"));
    CHECK_FALSE(neighbours.Allow(t.node("a2")));
    CHECK(neighbours.Allow(t.node("b1")));
    neighbours.Add(second, t.node("b1"));
    CHECK(neighbours.Allow(t.node("a2")));
    CHECK_FALSE(neighbours.SameFor(t.Pod(MakePod("other").Gpu(1).Label("app", "x"))));
  }
  SECTION("a hermit does") {
    t.Pod(MakePod("hermit").NotNear("rank", "1", "zone").On("b1"));
    const Overlay overlay = t.overlay();
    CHECK_FALSE(Neighbours(first, overlay, t.scorer.neighbours()).SameFor(second));
    CHECK(t.Allowed(second, overlay) == "a1 a2 ");
  }
  SECTION("a member that was placed does") {
    const Overlay overlay = t.overlay();
    Neighbours neighbours(first, overlay, t.scorer.neighbours());
    neighbours.Add(t.Pod(MakePod("h").Gpu(1).NotNear("rank", "1", "zone")), t.node("a1"));
    CHECK_FALSE(neighbours.SameFor(second));
    CHECK(neighbours.Allow(t.node("a2")));
  }
}

TEST_CASE("which pod may open a node to which", "[unit][policy]") {
  Zones t;
  auto& db = t.Pod(MakePod("db").Label("app", "db").On("a1"));
  auto& web = t.Pod(MakePod("web").Label("app", "web").On("a1"));
  const auto& near = t.Pod(MakePod("near").Near("app", "db", "zone"));
  CHECK(MayOpenNode(near, db, t.store));
  CHECK_FALSE(MayOpenNode(near, web, t.store));
  const auto& spread = t.Pod(MakePod("spread").Spread("app", "web", "zone"));
  CHECK_FALSE(MayOpenNode(spread, db, t.store));
  CHECK(MayOpenNode(spread, web, t.store));
  const auto& apart = t.Pod(MakePod("apart").NotNear("app", "db", "zone"));
  CHECK_FALSE(MayOpenNode(apart, db, t.store));
}

TEST_CASE("spread: which pods are counted", "[unit][policy]") {
  Zones t;
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));
  SECTION("terminating pods are not") {
    t.Pod(MakePod("x1").Label("app", "x").On("a1").Terminating());
    CHECK(t.Allowed(MakePod("p").Label("app", "x").Spread("app", "x", "zone")) == "a1 a2 b1 ");
  }
  SECTION("a pod that does not select itself adds nothing") {
    CHECK(t.Allowed(MakePod("p").Spread("app", "x", "zone")) == "a1 a2 b1 ");  // 1 + 0 - 0
  }
  SECTION("other namespaces are not") {
    t.Pod(MakePod("x2").Ns("other").Label("app", "x").On("b1"));
    CHECK(t.Allowed(MakePod("p").Label("app", "x").Spread("app", "x", "zone")) == "b1 ");
  }
  SECTION("only domains that the pod's selector admits") {
    CHECK(t.Allowed(
              MakePod("p").Label("app", "x").Spread("app", "x", "zone").Selector("zone", "a")) ==
          "a1 a2 ");
  }
}

// calPreFilterState skips nodes that node affinity excludes, with the pods on them.
TEST_CASE("spread: pods on nodes that the pod may not use are not counted", "[unit][policy][bug]") {
  Zones t;
  t.Node(MakeNode("a2").Gpu(8).Label("zone", "a").Label("pool", "gpu"));
  t.Node(MakeNode("b1").Gpu(8).Label("zone", "b").Label("pool", "gpu"));
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));  // a1 is in no pool
  const auto& pod =
      t.Pod(MakePod("p").Label("app", "x").Spread("app", "x", "zone").Selector("pool", "gpu"));
  CHECK(NeighboursAllow(pod, t.overlay(), t.scorer.neighbours(), t.node("a2")));
  CHECK(NeighboursAllow(pod, t.overlay(), t.scorer.neighbours(), t.node("b1")));
}

// Zone b is where the selector or a taint keeps the pod away; one pod is in zone a.
TEST_CASE("spread: nodeAffinityPolicy and nodeTaintsPolicy", "[unit][policy][bug]") {
  struct Case {
    const char* selector;  // of zone a
    bool tolerates;        // the taint of b1
    bool honors_affinity;
    bool honors_taints;
    const char* allowed;
  };
  const auto [selector, tolerates, honors_affinity, honors_taints, allowed] =
      GENERATE(Case{"", false, true, false, "b1 "},    // b1 counts: 1 + 1 - 0 > 1 in zone a
               Case{"", false, true, true, "a1 a2 "},  // it does not: 1 + 1 - 1
               Case{"", true, true, true, "b1 "}, Case{"a", false, true, true, "a1 a2 "},
               Case{"a", true, true, true, "a1 a2 "},
               Case{"a", true, false, true, "b1 "},  // for kube-scheduler's NodeAffinity to refuse
               Case{"a", false, false, false, "b1 "}, Case{"a", false, false, true, "a1 a2 "});
  CAPTURE(selector, tolerates, honors_affinity, honors_taints);
  Zones t;
  t.Node(MakeNode("b1").Gpu(8).Label("zone", "b").Taint("dedicated"));
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));
  testing::PodBuilder pod = MakePod("p").Label("app", "x").Spread("app", "x", "zone");
  if (*selector != '\0') pod.Selector("zone", selector);
  if (tolerates) {
    pod.spec().tolerations = {
        {.key = "dedicated", .exists = true, .value = "", .effect = std::nullopt}};
  }
  pod.spec().topology_spread[0].honors_affinity = honors_affinity;
  pod.spec().topology_spread[0].honors_taints = honors_taints;
  CHECK(t.Allowed(pod) == allowed);
}

// calPreFilterState skips nodes that lack the label of any constraint.
TEST_CASE("spread: a node without the label of one constraint counts for no other",
          "[unit][policy][bug]") {
  Zones t;
  for (const char* name : {"a1", "a2"}) {
    t.Node(MakeNode(name).Gpu(8).Label("zone", "a").Label("host", name));
  }
  t.Pod(MakePod("x1").Label("app", "x").On("a1"));
  CHECK(t.Allowed(
            MakePod("p").Label("app", "x").Spread("app", "x", "zone").Spread("app", "x", "host")) ==
        "a2 ");  // b1 has no host: zone b does not count
}

}  // namespace
}  // namespace berth::policy
