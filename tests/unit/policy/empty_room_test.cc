// Whether work that waits could ever be placed, and who is to be asked again when nodes change.
#include "policy/empty_room.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "policy/queue_demand.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using cluster::PodInfo;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::Planning;
using testing::PodBuilder;
using Names = std::vector<std::string>;

struct EmptyRoomTest : Planning {
  using Planning::Planning;
  /// For the pod's own workload, as it is remembered.
  EmptyFit Ask(const PodInfo& pod, int pods, const std::string& level = "") {
    store.Refresh();
    return room.Ask(pod.shape, pods, {.level = level}, *pod.workload);
  }
  /// Members of one gang that wait.
  void Gang(const std::string& name, int size, const PodBuilder& like, int members = 0) {
    PodBuilder member = like;
    member.Gang(name, size).Gated();
    for (const auto& pod : testing::Members(name, members > 0 ? members : size, member)) Pod(pod);
  }
  /// Whether the workload of the pod, which holds nothing, is demand.
  bool IsDemand(const std::string& pod) {
    store.Refresh();
    const cluster::Workload& workload = *store.FindPod("uid-" + pod)->workload;
    room.Forget(workload);
    return !JobsOf(store, workload, room).empty();
  }
  Names Changed() {
    store.Refresh();
    Names names;
    for (const auto* workload : room.TakeChanged()) names.push_back(workload->name);
    std::ranges::sort(names);
    return names;
  }

  EmptyRoom room{store, scorer.fit()};
};

TEST_CASE("what nodes would hold if they were empty", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Node(MakeNode("n1").Gpu(8));
  t.Pod(MakePod("runs").Gpu(8).On("n0"));
  const PodInfo& pod = t.Pod(MakePod("a").Gpu(4));
  CHECK(t.Ask(pod, 4) == EmptyFit::kEnough);
  CHECK(t.Ask(pod, 5) == EmptyFit::kTooFew);
  CHECK(t.Ask(t.Pod(MakePod("large").Gpu(9)), 1) == EmptyFit::kTooFew);
  const PodInfo& port = t.Pod(MakePod("port").Gpu(1).HostPort(80));  // one pod on each node
  CHECK(t.Ask(port, 2) == EmptyFit::kEnough);
  CHECK(t.Ask(port, 3) == EmptyFit::kTooFew);
  const PodInfo& elsewhere = t.Pod(MakePod("elsewhere").Gpu(1).Selector("zone", "x"));
  CHECK(t.Ask(elsewhere, 1) == EmptyFit::kNoMatch);
}

TEST_CASE("whole-node pods count with the smallest nodes that match", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("small").Gpu(1));
  t.Node(MakeNode("n0").Gpu(8).Label("zone", "x"));
  t.Node(MakeNode("n1").Gpu(4).Label("zone", "x"));
  const PodInfo& pod = t.Pod(MakePod("w").Gpu(1).WholeNode().Selector("zone", "x"));
  const auto gpus = [&](std::size_t pods) {
    std::vector<std::int64_t> amounts;
    t.store.Refresh();
    for (const auto& demand : t.room.LeastDemands(pod.shape, pods, *pod.workload)) {
      for (const auto& [id, amount] : demand) {
        if (id == t.store.device_ids().front()) amounts.push_back(amount / 1000);
      }
    }
    return amounts;
  };
  CHECK(gpus(1) == std::vector<std::int64_t>{4});
  CHECK(gpus(2) == std::vector<std::int64_t>{4, 8});
  CHECK(gpus(3) == std::vector<std::int64_t>{4, 8});  // there are no more
  CHECK(t.Changed().empty());
  t.Node(MakeNode("n1").Gpu(2).Label("zone", "x"));
  CHECK(t.Changed() == Names{"w"});
  CHECK(gpus(1) == std::vector<std::int64_t>{2});
  t.Node(MakeNode("small").Gpu(2));  // does not match
  CHECK(t.Changed().empty());
  t.Node(MakeNode("n2").Gpu(2).Label("zone", "x"));  // one more of a size that is known
  CHECK(t.Changed() == Names{"w"});
  CHECK(gpus(2) == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("nodes that change name the workloads whose answer is another one", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Node(MakeNode("n1").Gpu(8));
  for (int pods = 1; pods <= 4; ++pods) {  // all of one shape
    const PodInfo& pod = t.Pod(MakePod("w" + std::to_string(pods)).Gpu(8));
    CHECK(t.Ask(pod, pods) == (pods <= 2 ? EmptyFit::kEnough : EmptyFit::kTooFew));
  }
  const PodInfo& zoned = t.Pod(MakePod("zoned").Gpu(1).Selector("zone", "x"));
  CHECK(t.Ask(zoned, 1) == EmptyFit::kNoMatch);
  CHECK(t.Changed().empty());

  t.Node(MakeNode("n2").Gpu(8));
  CHECK(t.Changed() == Names{"w3"});
  CHECK(t.Changed().empty());
  t.Node(MakeNode("n1").Gpu(8).Cordoned());
  t.Node(MakeNode("n2").Gpu(8).Cordoned());
  CHECK(t.Changed() == Names{"w2", "w3"});
  t.Node(MakeNode("n0").Gpu(8).Cordoned());  // now none matches
  CHECK(t.Changed() == Names{"w1", "w2", "w3", "w4"});
  t.Node(MakeNode("n3").Gpu(1).Label("zone", "x"));
  CHECK(t.Changed() == Names{"w1", "w2", "w3", "w4", "zoned"});
}

TEST_CASE("what the nodes of one domain would hold", "[unit][policy]") {
  EmptyRoomTest t;
  for (const char* name : {"a1", "a2", "b1"}) {
    t.Node(MakeNode(name).Gpu(8).Block("x").Rack(std::string(1, name[0])).Label("zone", name));
  }
  t.Node(MakeNode("nowhere").Gpu(64));
  const PodInfo& pod = t.Pod(MakePod("a").Gpu(4));
  CHECK(t.Ask(pod, 22) == EmptyFit::kEnough);
  CHECK(t.Ask(pod, 6, "block") == EmptyFit::kEnough);
  CHECK(t.Ask(pod, 7, "block") == EmptyFit::kTooFew);
  CHECK(t.Ask(pod, 4, "rack") == EmptyFit::kEnough);
  CHECK(t.Ask(pod, 5, "rack") == EmptyFit::kTooFew);
  CHECK(t.Ask(pod, 3, "zone") == EmptyFit::kTooFew);    // a label that is no level
  CHECK(t.Ask(pod, 1, "galaxy") == EmptyFit::kTooFew);  // no node has it
  CHECK(t.Changed().empty());
  t.Node(MakeNode("b2").Gpu(16).Block("x").Rack("b"));
  CHECK(t.Changed() == Names{"a"});
  CHECK(t.Ask(pod, 6, "rack") == EmptyFit::kEnough);
  t.Node(MakeNode("b1").Gpu(8).Block("x").Rack("c"));  // it moves
  CHECK(t.Changed() == Names{"a"});
  CHECK(t.Ask(pod, 5, "rack") == EmptyFit::kTooFew);
}

TEST_CASE("a gang that must share a domain is demand if one could hold it", "[unit][policy]") {
  EmptyRoomTest t;
  for (const char* name : {"a1", "a2", "b1"}) {
    t.Node(MakeNode(name).Gpu(8).Block("x").Rack(std::string(1, name[0])));
  }
  const PodBuilder strict = MakePod("").Gpu(8).Annotation("berth.dev/topology-required", "rack");
  t.Gang("two", 2, strict);
  t.Gang("three", 3, strict);
  t.Gang("anywhere", 3, MakePod("").Gpu(8));
  CHECK(t.IsDemand("two0"));
  CHECK_FALSE(t.IsDemand("three0"));
  CHECK(t.IsDemand("anywhere0"));
}

/// One node has room for one of them, and both have asked for two.
struct TwoAskers : EmptyRoomTest {
  TwoAskers() {
    Node(MakeNode("n0").Gpu(8));
    Ask(a, 2);
    Ask(b, 2);
  }
  const PodInfo& a = Pod(MakePod("a").Gpu(8));
  const PodInfo& b = Pod(MakePod("b").Gpu(8));
};

TEST_CASE("a workload that is forgotten is not named", "[unit][policy]") {
  TwoAskers t;
  const PodInfo& a = t.a;
  const PodInfo& b = t.b;
  t.Ask(b, 2);  // twice is once
  t.room.Forget(*a.workload);
  t.Node(MakeNode("n1").Gpu(8));
  CHECK(t.Changed() == Names{"b"});
  t.Node(MakeNode("n1").Gpu(8).Cordoned());
  t.room.Forget(*b.workload);
  CHECK(t.Changed().empty());
  CHECK(t.Ask(b, 2) == EmptyFit::kTooFew);
}

TEST_CASE("after another policy no workload is named until it asks again", "[unit][policy]") {
  TwoAskers t;
  const PodInfo& a = t.a;
  const PodInfo& b = t.b;
  t.room.Expire();
  t.room.Forget(*a.workload);
  t.Ask(a, 2);
  t.Node(MakeNode("n1").Gpu(8));
  CHECK(t.Changed() == Names{"a"});  // b's answer is one of the policy before
  t.room.Forget(*b.workload);
  CHECK(t.Ask(b, 3) == EmptyFit::kTooFew);
  t.Node(MakeNode("n2").Gpu(8));
  CHECK(t.Changed() == Names{"b"});
}

TEST_CASE("what is kept while nodes change is what a new count says", "[unit][policy]") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](int most) { return static_cast<int>(random() % unsigned(most)); };
    EmptyRoomTest t;
    struct Asked {
      const PodInfo* pod;
      int pods;
      EmptyFit fit;
      std::string level;
    };
    std::vector<Asked> asked;
    for (int i = 0; i < 12; ++i) {
      PodBuilder pod = MakePod("w" + std::to_string(i)).Gpu(1 + below(3));
      if (below(3) == 0) pod.Selector("zone", "x");
      const std::array levels{"", "rack", "host", "zone"};  // the last is a label
      asked.push_back({&t.Pod(pod), 1 + below(12), EmptyFit::kNoMatch,
                       levels[static_cast<std::size_t>(below(4))]});
      asked.back().fit = t.Ask(*asked.back().pod, asked.back().pods, asked.back().level);
    }
    for (int step = 0; step < 60; ++step) {
      auto node = MakeNode("n" + std::to_string(below(5))).Gpu(below(9));
      if (below(3) == 0) node.Label("zone", below(2) == 0 ? "x" : "y");
      if (below(3) != 0) node.Block("b").Rack(below(2) == 0 ? "r" : "s");
      if (below(4) == 0) node.Cordoned();
      t.Node(node);
      if (below(5) == 0) t.store.DeleteNode("n" + std::to_string(below(5)));
      if (below(2) == 0) continue;  // several changes at once
      const Names changed = t.Changed();
      EmptyRoom fresh(t.store, t.scorer.fit());
      for (Asked& a : asked) {
        const EmptyRoom::Place place{.level = a.level};
        const EmptyFit fit = fresh.Ask(a.pod->shape, a.pods, place, *a.pod->workload);
        const bool told = std::ranges::find(changed, a.pod->workload->name) != changed.end();
        REQUIRE((told || fit == a.fit));
        if (below(3) == 0) a.pods = 1 + below(12);
        t.room.Forget(*a.pod->workload);
        a.fit = t.Ask(*a.pod, a.pods, a.level);
        REQUIRE(a.fit == fresh.Ask(a.pod->shape, a.pods, place, *a.pod->workload));
      }
    }
  }
}

TEST_CASE("a gang is demand if its minimum could be placed", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Node(MakeNode("n1").Gpu(8));
  t.Gang("two", 2, MakePod("").Gpu(8));
  t.Gang("three", 3, MakePod("").Gpu(8));
  t.Gang("elastic", 3, MakePod("").Gpu(8).Min(2));
  t.Gang("incomplete", 3, MakePod("").Gpu(8), 2);
  CHECK(t.IsDemand("two0"));
  CHECK_FALSE(t.IsDemand("three0"));
  CHECK(t.IsDemand("elastic0"));
  CHECK_FALSE(t.IsDemand("incomplete0"));
}

TEST_CASE("of more members than announced, the ones count that nodes could take",
          "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Pod(MakePod("g0").Gpu(9).Gang("g", 2).Gated().Rank(0));
  t.Pod(MakePod("g1").Gpu(4).Gang("g", 2).Gated().Rank(1));
  t.Pod(MakePod("g2").Gpu(4).Gang("g", 2).Gated().Rank(2));
  CHECK(t.IsDemand("g0"));
  t.Node(MakeNode("n0").Gpu(7));
  CHECK(t.Changed() == Names{"g"});
  CHECK_FALSE(t.IsDemand("g0"));
}

TEST_CASE("where amounts are by flavor, nodes of one flavor hold it all", "[unit][policy]") {
  config::Queue by_flavor = MakeQueue("a", {"a"});
  by_flavor.quotas = {{.flavor = "h100", .limit = {{testing::kGpu, 64'000}}}};
  auto policy = MakePolicy({by_flavor, MakeQueue("b", {"b"})});
  policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}}, {.name = "rest"}};
  EmptyRoomTest t(policy);
  t.Node(MakeNode("n0").Gpu(8).Label("gpu", "h100"));
  t.Node(MakeNode("n1").Gpu(8));
  t.Gang("g", 2, MakePod("").Ns("a").Gpu(8));
  t.Gang("h", 2, MakePod("").Ns("b").Gpu(8));  // its queue has no amounts of flavors
  CHECK_FALSE(t.IsDemand("g0"));
  CHECK(t.IsDemand("h0"));
  t.Node(MakeNode("n2").Gpu(8));
  CHECK(t.Changed() == Names{"g"});
  CHECK(t.IsDemand("g0"));

  // Members that demand several flavors are placed without regard to them.
  t.Pod(MakePod("m0").Ns("a").Gpu(8).Gang("m", 2).Gated().Selector("gpu", "h100"));
  t.Pod(MakePod("m1").Ns("a").Gpu(8).Gang("m", 2).Gated().Selector("disk", "ssd"));
  CHECK_FALSE(t.IsDemand("m0"));
  t.Node(MakeNode("n2").Gpu(8).Label("disk", "ssd"));
  CHECK(t.Changed() == Names{"m"});
  CHECK(t.IsDemand("m0"));
}

}  // namespace
}  // namespace berth::policy
