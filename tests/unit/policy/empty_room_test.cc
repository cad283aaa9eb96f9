// Whether work that waits could ever be placed, and who is to be asked again when nodes change.
#include "policy/empty_room.h"

#include <algorithm>
#include <optional>
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
  EmptyFit Look(const PodInfo& pod, int pods, EmptyRoom::OfFlavor flavor = std::nullopt) {
    return room.Look(pod.shape, pods, flavor, *pod.workload);
  }
  /// Members of one gang that wait.
  void Gang(const std::string& name, int size, const PodBuilder& like, int members = 0) {
    PodBuilder member = like;
    member.Gang(name, size).Gated();
    for (const auto& pod : testing::Members(name, members > 0 ? members : size, member)) Pod(pod);
  }
  bool CouldBePlaced(const std::string& pod) {
    store.Refresh();
    const cluster::Workload& workload = *store.FindPod("uid-" + pod)->workload;
    room.Forget(workload);
    return policy::CouldBePlaced(store, workload, room);
  }
  Names Changed() {
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
  CHECK(t.Look(pod, 4) == EmptyFit::kEnough);
  CHECK(t.Look(pod, 5) == EmptyFit::kTooFew);
  CHECK(t.Look(t.Pod(MakePod("large").Gpu(9)), 1) == EmptyFit::kTooFew);
  const PodInfo& port = t.Pod(MakePod("port").Gpu(1).HostPort(80));  // one pod on each node
  CHECK(t.Look(port, 2) == EmptyFit::kEnough);
  CHECK(t.Look(port, 3) == EmptyFit::kTooFew);
  const PodInfo& elsewhere = t.Pod(MakePod("elsewhere").Gpu(1).Selector("zone", "x"));
  CHECK(t.Look(elsewhere, 1) == EmptyFit::kNoMatch);
}

TEST_CASE("nodes that change name those whose answer is another one", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Node(MakeNode("n1").Gpu(8));
  for (int pods = 1; pods <= 4; ++pods) {  // all of one shape
    const PodInfo& pod = t.Pod(MakePod("w" + std::to_string(pods)).Gpu(8));
    CHECK(t.Look(pod, pods) == (pods <= 2 ? EmptyFit::kEnough : EmptyFit::kTooFew));
  }
  const PodInfo& zoned = t.Pod(MakePod("zoned").Gpu(1).Selector("zone", "x"));
  CHECK(t.Look(zoned, 1) == EmptyFit::kNoMatch);
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

TEST_CASE("who has forgotten is not named", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  const PodInfo& a = t.Pod(MakePod("a").Gpu(8));
  const PodInfo& b = t.Pod(MakePod("b").Gpu(8));
  t.Look(a, 2);
  t.Look(b, 2);
  t.Look(b, 2);  // twice is once
  t.room.Forget(*a.workload);
  t.Node(MakeNode("n1").Gpu(8));
  CHECK(t.Changed() == Names{"b"});
  t.Node(MakeNode("n1").Gpu(8).Cordoned());
  t.room.Forget(*b.workload);
  CHECK(t.Changed().empty());
  CHECK(t.Look(b, 2) == EmptyFit::kTooFew);
}

TEST_CASE("a gang could be placed if its minimum could", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Node(MakeNode("n1").Gpu(8));
  t.Gang("two", 2, MakePod("").Gpu(8));
  t.Gang("three", 3, MakePod("").Gpu(8));
  t.Gang("elastic", 3, MakePod("").Gpu(8).Min(2));
  t.Gang("incomplete", 3, MakePod("").Gpu(8), 2);
  CHECK(t.CouldBePlaced("two0"));
  CHECK_FALSE(t.CouldBePlaced("three0"));
  CHECK(t.CouldBePlaced("elastic0"));
  CHECK(t.CouldBePlaced("incomplete0"));  // nothing of it can be placed yet
}

TEST_CASE("of more members than announced, those count that nodes could take", "[unit][policy]") {
  EmptyRoomTest t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Pod(MakePod("g0").Gpu(9).Gang("g", 2).Gated().Rank(0));
  t.Pod(MakePod("g1").Gpu(4).Gang("g", 2).Gated().Rank(1));
  t.Pod(MakePod("g2").Gpu(4).Gang("g", 2).Gated().Rank(2));
  CHECK(t.CouldBePlaced("g0"));
  t.Node(MakeNode("n0").Gpu(7));
  CHECK(t.Changed() == Names{"g"});
  CHECK_FALSE(t.CouldBePlaced("g0"));
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
  CHECK_FALSE(t.CouldBePlaced("g0"));
  CHECK(t.CouldBePlaced("h0"));
  t.Node(MakeNode("n2").Gpu(8));
  CHECK(t.Changed() == Names{"g"});
  CHECK(t.CouldBePlaced("g0"));

  // Members that demand several flavors are placed without regard to them.
  t.Pod(MakePod("m0").Ns("a").Gpu(8).Gang("m", 2).Gated().Selector("gpu", "h100"));
  t.Pod(MakePod("m1").Ns("a").Gpu(8).Gang("m", 2).Gated().Selector("disk", "ssd"));
  CHECK_FALSE(t.CouldBePlaced("m0"));
  t.Node(MakeNode("n2").Gpu(8).Label("disk", "ssd"));
  CHECK(t.Changed() == Names{"m"});
  CHECK(t.CouldBePlaced("m0"));
}

}  // namespace
}  // namespace berth::policy
