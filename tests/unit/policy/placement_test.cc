// Placing a whole workload: topology first, then nodes; whole or nothing.
#include "policy/placement.h"

#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::Members;
using testing::Planning;
using Names = std::vector<std::string>;

/// Racks r1 (2 nodes), r2 (3), r3 (4) of 8-GPU nodes r1a, r1b, r2a, ...
class Racks : public Planning {
 public:
  explicit Racks(config::PolicyConfiguration policy = {}) : Planning(std::move(policy)) {
    for (int rack = 1; rack <= 3; ++rack) {
      for (int i = 0; i <= rack; ++i) {
        const std::string r = "r" + std::to_string(rack);
        Node(MakeNode(r + static_cast<char>('a' + i)).Gpu(8).Block("b").Rack(r));
      }
    }
  }
};

std::set<std::string> RacksOf(const Names& nodes) {
  std::set<std::string> racks;
  for (const std::string& node : nodes) racks.insert(node.substr(0, 2));
  return racks;
}

std::set<std::string> Distinct(const Names& nodes) { return {nodes.begin(), nodes.end()}; }

/// Not even if all were empty.
cluster::Verdict NoDomainHolds(int members, int most, const char* level) {
  return {.reason = cluster::ReasonId::kTopologyUnsatisfied,
          .want = members,
          .have = most,
          .subject = level,
          .never = true};
}

TEST_CASE("one pod: the best node", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("full").Gpu(8));
  t.Node(MakeNode("odd").Gpu(8));
  t.Node(MakeNode("whole").Gpu(8));
  t.Pod(MakePod("x").Gpu(8).On("full"));
  t.Pod(MakePod("y").Gpu(7).On("odd"));
  // odd: +0.75; whole: -1.75. Rank is worth 2/256 x 5 at most.
  CHECK(t.Place({MakePod("p").Gpu(1)}) == Names{"odd"});
  CHECK(t.Place({MakePod("p").Gpu(8)}) == Names{"whole"});
}

TEST_CASE("a tie goes to the first in the hashed order", "[unit][policy]") {
  config::PolicyConfiguration policy;
  policy.placement.score.rank = 0;  // all terms are equal then
  Planning t(policy);
  std::string first;
  for (int i = 0; i < 10; ++i) t.Node(MakeNode("n" + std::to_string(i)).Gpu(8));
  for (int i = 0; i < 10; ++i) {
    const std::string name = "n" + std::to_string(i);
    if (t.rank(name) == 0) first = name;
  }
  CHECK(t.Place({MakePod("p").Gpu(1)}) == Names{first});
}

TEST_CASE("a gang is placed whole or not at all", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8));
  t.Node(MakeNode("n2").Gpu(8));
  CHECK(Distinct(t.Place(Members("m", 2, MakePod("").Gpu(8)))).size() == 2);
  CHECK(t.Place(Members("m", 3, MakePod("").Gpu(8))).empty());
  CHECK(t.Place(Members("m", 4, MakePod("").Gpu(4))).size() == 4);
  CHECK(t.Place(Members("m", 5, MakePod("").Gpu(3))).empty());  // 16 devices, 2 x 2 fit
  CHECK(t.Place(Members("m", 4, MakePod("").Gpu(3))).size() == 4);
}

TEST_CASE("a single goes to the fuller rack, and pays for the emptier", "[unit][policy]") {
  config::PolicyConfiguration policy;
  policy.placement.score.rank = 0;
  Racks t(policy);
  t.Pod(MakePod("x").Gpu(8).On("r2a"));
  t.Pod(MakePod("y").Gpu(8).On("r2b"));
  const auto p = MakePod("p").Gpu(8);
  CHECK(t.Place({p}) == Names{"r2c"});
  const auto domain = [&](const char* node) {
    return t.scorer.Terms(*t.Pod(p).shape, Overlay(t.store), t.node(node)).at("domain");
  };
  CHECK(domain("r2c") == -333'333);  // 8 of 24 are free
  CHECK(domain("r3a") == -1'000'000);
  // One comes and one goes: r3 is the fuller now.
  t.Pod(MakePod("z").Gpu(8).On("r3a"));
  t.store.DeletePod("uid-x");
  t.store.DeletePod("uid-y");
  t.Pod(MakePod("v").Gpu(8).On("r3b"));
  CHECK(domain("r2c") == -1'000'000);
  CHECK(domain("r3c") == -500'000);
  CHECK(RacksOf(t.Place({p})) == std::set<std::string>{"r3"});
}

TEST_CASE("a gang that no rack holds lies in few of them, not in the tightest block",
          "[unit][policy]") {
  Planning t;
  for (const char* rack : {"a1", "a2", "a3"}) {  // 6 places in three racks
    for (const char* host : {"x", "y"}) {
      t.Node(MakeNode(std::string(rack) + host).Gpu(8).Block("a").Rack(rack));
    }
  }
  for (const char* rack : {"b1", "b2"}) {  // 8 in two
    for (const char* host : {"w", "x", "y", "z"}) {
      t.Node(MakeNode(std::string(rack) + host).Gpu(8).Block("b").Rack(rack));
    }
  }
  CHECK(RacksOf(t.Place(Members("m", 6, MakePod("").Gpu(8)))) == std::set<std::string>{"b1", "b2"});
}

// They are let go when the others have started: nothing may hang on them until then.
TEST_CASE("members without devices are placed last", "[unit][policy][bug]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8));
  t.Node(MakeNode("n2"));
  const auto spread = [](const char* name) {
    return MakePod(name).Label("app", "x").Spread("app", "x", "kubernetes.io/hostname");
  };
  // With the launcher on n2 both workers could share n1; before it comes, they cannot.
  CHECK(t.Place({spread("launcher"), spread("w1").Gpu(4), spread("w2").Gpu(4)}).empty());
  CHECK(t.Place({spread("launcher"), spread("w1").Gpu(4)}).size() == 2);
}

TEST_CASE("without a required or preferred level: still close together", "[unit][policy]") {
  Racks t;
  SECTION("on one node if that is enough") {
    CHECK(Distinct(t.Place(Members("m", 2, MakePod("").Gpu(4)))).size() == 1);
  }
  SECTION("in the tightest rack that holds it") {
    CHECK(RacksOf(t.Place(Members("m", 2, MakePod("").Gpu(8)))) == std::set<std::string>{"r1"});
    CHECK(RacksOf(t.Place(Members("m", 3, MakePod("").Gpu(8)))) == std::set<std::string>{"r2"});
    CHECK(RacksOf(t.Place(Members("m", 4, MakePod("").Gpu(8)))) == std::set<std::string>{"r3"});
  }
  SECTION("tight is what is free, not what there is") {
    t.Pod(MakePod("x").Gpu(8).On("r3a"));
    t.Pod(MakePod("y").Gpu(8).On("r3b"));
    t.Pod(MakePod("z").Gpu(8).On("r3c"));
    t.Pod(MakePod("w").Gpu(1).On("r1a"));
    // r1 has 15 free but room for one; r2 24, r3 8.
    CHECK(RacksOf(t.Place(Members("m", 2, MakePod("").Gpu(8)))) == std::set<std::string>{"r2"});
  }
  SECTION("over racks if none is enough") {
    const Names nodes = t.Place(Members("m", 6, MakePod("").Gpu(8)));
    REQUIRE(nodes.size() == 6);
    CHECK(Distinct(nodes).size() == 6);
  }
  SECTION("weight 0 switches it off") {
    config::PolicyConfiguration policy;
    policy.placement.score = {.fragmentation = 0,
                              .stranding = 0,
                              .rank = 3700,
                              .scarcity = 0,
                              .odd_remainder = 0,
                              .empty_node = 0,
                              .topology = 0};
    t.store.SetPolicy(policy);
    const Names nodes = t.Place(Members("m", 2, MakePod("").Gpu(8)));
    REQUIRE(nodes.size() == 2);
    CHECK(std::set<int>{t.rank(nodes[0]), t.rank(nodes[1])} == std::set<int>{0, 1});
  }
}

// 3 + 4 nodes hold it; a third rack is not needed.
TEST_CASE("over racks if none is enough, but over few of them", "[unit][policy][bug]") {
  Racks t;
  CHECK(RacksOf(t.Place(Members("m", 6, MakePod("").Gpu(8)))).size() == 2);
}

TEST_CASE("a required level binds", "[unit][policy]") {
  Racks t;
  const auto place = [&t](int count, const std::string& level, int gpus = 8) {
    auto request = t.Request(Members("m", count, MakePod("").Gpu(gpus)));
    request.topology_required = level;
    return t.Place(request);
  };
  CHECK(RacksOf(t.Nodes(place(4, "rack"))) == std::set<std::string>{"r3"});
  CHECK(place(5, "rack").verdict == NoDomainHolds(5, 4, "rack"));
  CHECK(place(9, "block").ok());
  CHECK(Distinct(t.Nodes(place(2, "host", 4))).size() == 1);
  CHECK(place(2, "host").verdict.reason == cluster::ReasonId::kTopologyUnsatisfied);
  CHECK(place(1, "rack").ok());
  CHECK(place(1, "nonsense").verdict.reason == cluster::ReasonId::kTopologyUnsatisfied);
  // The level's node label says the same as its name.
  CHECK(place(4, "cloud.provider.com/topology-rack").ok());
  CHECK_FALSE(place(5, "cloud.provider.com/topology-rack").ok());
}

TEST_CASE("any node label may be a level", "[unit][policy]") {
  Racks t;
  t.Node(MakeNode("r1a").Gpu(8).Block("b").Rack("r1").Label("island", "x"));
  t.Node(MakeNode("r2a").Gpu(8).Block("b").Rack("r2").Label("island", "x"));
  t.Node(MakeNode("r2b").Gpu(8).Block("b").Rack("r2").Label("island", "y"));
  auto request = t.Request(Members("m", 2, MakePod("").Gpu(8)));
  request.topology_required = "island";
  CHECK(Distinct(t.Nodes(t.Place(request))) == std::set<std::string>{"r1a", "r2a"});
  request = t.Request(Members("m", 3, MakePod("").Gpu(8)));
  request.topology_required = "island";
  CHECK(t.Place(request).verdict == NoDomainHolds(3, 2, "island"));
  request.topology_required.clear();
  request.topology_preferred = "island";
  CHECK(t.Place(request).ok());
}

TEST_CASE("nodes without the label are in no domain", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("r1a").Gpu(8).Block("b").Rack("r1"));
  t.Node(MakeNode("r2a").Gpu(8).Block("b").Rack("r2"));
  t.Node(MakeNode("r2b").Gpu(8).Block("b").Rack("r2"));
  for (int i = 0; i < 4; ++i) t.Node(MakeNode("x" + std::to_string(i)).Gpu(8).Block("b"));
  const auto place = [&t](int count, const std::string& required) {
    auto request = t.Request(Members("m", count, MakePod("").Gpu(8)));
    request.topology_required = required;
    return t.Place(request);
  };
  // Four would fit beside each other without a rack, but nobody can say that they are.
  CHECK(RacksOf(t.Nodes(place(2, "rack"))) == std::set<std::string>{"r2"});
  CHECK(place(3, "rack").verdict == NoDomainHolds(3, 2, "rack"));
  CHECK(place(7, "block").ok());
  // And where they are only preferred, racks are filled first.
  const auto racks = RacksOf(t.Nodes(place(3, "block")));
  CHECK(racks == std::set<std::string>{"r1", "r2"});
  // An empty value is none.
  for (const char* name : {"x0", "x1"}) {
    t.Node(MakeNode(name).Gpu(8).Block("b").Label("island", ""));
  }
  CHECK_FALSE(place(1, "island").ok());
}

// A rack that is said to be in two blocks is two racks: its label is contradicted by a wider one.
TEST_CASE("a domain never reaches over two wider ones", "[unit][policy]") {
  Planning t;
  for (const char* block : {"b1", "b2"}) {
    for (const char* suffix : {"x", "y"}) {
      t.Node(MakeNode(std::string(block) + suffix).Gpu(8).Block(block).Rack("r"));
    }
  }
  auto request = t.Request(Members("m", 3, MakePod("").Gpu(8)));
  request.topology_required = "rack";
  CHECK(t.Place(request).verdict == NoDomainHolds(3, 2, "rack"));
  request.topology_required = "cloud.provider.com/topology-rack";
  CHECK_FALSE(t.Place(request).ok());
}

TEST_CASE("a preferred level is tried first, then wider", "[unit][policy]") {
  Racks t;
  auto request = t.Request(Members("m", 4, MakePod("").Gpu(8)));
  request.topology_preferred = "rack";
  CHECK(RacksOf(t.Nodes(t.Place(request))) == std::set<std::string>{"r3"});
  request = t.Request(Members("m", 5, MakePod("").Gpu(8)));
  request.topology_preferred = "rack";
  CHECK(t.Place(request).ok());
  // Required block, preferred rack: in one rack where possible.
  request = t.Request(Members("m", 3, MakePod("").Gpu(8)));
  request.topology_required = "block";
  request.topology_preferred = "rack";
  CHECK(RacksOf(t.Nodes(t.Place(request))) == std::set<std::string>{"r2"});
}

TEST_CASE("elastic: as many as fit, at least the minimum", "[unit][policy]") {
  Planning t;
  for (int i = 0; i < 5; ++i) t.Node(MakeNode("n" + std::to_string(i)).Gpu(8));
  for (int size = 1; size <= 9; ++size) {
    for (int min = 1; min <= size; ++min) {
      INFO("size " << size << " min " << min);
      const auto placed = t.Place(Members("m", size, MakePod("").Gpu(8)), min);
      CHECK(placed.size() == static_cast<std::size_t>(min > 5 ? 0 : std::min(size, 5)));
    }
  }
  // The first in rank order are the ones that are placed.
  auto request = t.Request(Members("m", 7, MakePod("").Gpu(8)), 2);
  const auto placement = t.Place(request);
  REQUIRE(placement.placed.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(placement.placed[i].pod == request.pods[i]);
}

TEST_CASE("neighbours in rank are neighbours in the tree", "[unit][policy]") {
  Racks t;
  const Names nodes = t.Place(Members("m", 16, MakePod("").Gpu(4)));
  REQUIRE(nodes.size() == 16);
  std::set<std::string> seen_racks;
  std::set<std::string> seen_nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (i > 0 && nodes[i] == nodes[i - 1]) continue;
    CHECK(seen_nodes.insert(nodes[i]).second);  // a node once left is not come back to
    if (i > 0 && nodes[i].substr(0, 2) == nodes[i - 1].substr(0, 2)) continue;
    CHECK(seen_racks.insert(nodes[i].substr(0, 2)).second);
  }
}

TEST_CASE("members of several shapes", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8).Cpu(16));
  t.Node(MakeNode("n2").Gpu(4).Cpu(16));
  const std::vector<kube::Pod> gang = {MakePod("launcher").Cpu("1"), MakePod("small").Gpu(4),
                                       MakePod("big").Gpu(8)};
  const Names nodes = t.Place(gang);
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[1] == "n2");
  CHECK(nodes[2] == "n1");
  const auto tight = t.Place(
      t.Request({MakePod("w").Gpu(8).WholeNode(), MakePod("a").Gpu(2), MakePod("b").Gpu(2)}));
  CHECK(t.Nodes(tight) == Names{"n1", "n2", "n2"});
}

TEST_CASE("pairs to avoid, and nodes not allowed", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  t.Node(MakeNode("n2").Gpu(8));
  auto request = t.Request({MakePod("p").Gpu(8)});
  const std::vector<policy::Avoid> avoid = {
      {.shape = request.pods.front()->shape, .node = n1, .until = 1}};
  request.avoid = avoid;
  CHECK(t.Nodes(t.Place(request)) == Names{"n2"});
  request.avoid = {};
  request.allowed = [n1](cluster::NodeIndex node) { return node == n1; };
  CHECK(t.Nodes(t.Place(request)) == Names{"n1"});
  request.avoid = avoid;
  CHECK_FALSE(t.Place(request).ok());
  // Another shape does not care.
  auto other = t.Request({MakePod("q").Gpu(7)});
  other.avoid = avoid;
  other.allowed = request.allowed;
  CHECK(t.Place(other).ok());
}

TEST_CASE("constraints among the members", "[unit][policy]") {
  Racks t;
  const auto apart =
      MakePod("").Gpu(1).Label("app", "x").NotNear("app", "x", "kubernetes.io/hostname");
  CHECK(Distinct(t.Place(Members("m", 9, apart))).size() == 9);
  CHECK(t.Place(Members("m", 10, apart)).empty());
  CHECK(Distinct(t.Place(Members("p", 9, MakePod("").Gpu(1).HostPort(80)))).size() == 9);
  CHECK(t.Place(Members("p", 10, MakePod("").Gpu(1).HostPort(80))).empty());
  const auto together =
      MakePod("").Gpu(8).Label("app", "y").Near("app", "y", "cloud.provider.com/topology-rack");
  CHECK(RacksOf(t.Place(Members("q", 4, together))) == std::set<std::string>{"r3"});
  const auto even =
      MakePod("").Gpu(1).Label("app", "z").Spread("app", "z", "cloud.provider.com/topology-rack");
  const Names nodes = t.Place(Members("s", 6, even));
  std::map<std::string, int> counts;
  for (const std::string& node : nodes) ++counts[node.substr(0, 2)];
  CHECK(counts == std::map<std::string, int>{{"r1", 2}, {"r2", 2}, {"r3", 2}});
}

// The chief repels the workers; they must not be put beside it.
TEST_CASE("a member that repels other members is heard", "[unit][policy][bug]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8));
  t.Node(MakeNode("n2").Gpu(8));
  const Names nodes =
      t.Place({MakePod("chief").Gpu(6).NotNear("app", "w", "kubernetes.io/hostname"),
               MakePod("w0").Gpu(1).Label("app", "w"), MakePod("w1").Gpu(1).Label("app", "w")});
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[1] != nodes[0]);
  CHECK(nodes[2] != nodes[0]);
}

Names PlaceInOrder(bool backward, int members, int gpus) {
  Planning t;
  Names names = {"r1a", "r1b", "r2a", "r2b", "r3a", "r3b"};
  if (backward) std::ranges::reverse(names);
  for (const std::string& name : names) {
    t.Node(MakeNode(name).Gpu(8).Block("b").Rack(name.substr(0, 2)));
  }
  return t.Place(Members("m", members, MakePod("").Gpu(gpus)));
}

TEST_CASE("one domain holds it: the order in which nodes came does not matter", "[unit][policy]") {
  CHECK(PlaceInOrder(false, 1, 8) == PlaceInOrder(true, 1, 8));
  CHECK(RacksOf(PlaceInOrder(false, 2, 8)) == RacksOf(PlaceInOrder(true, 2, 8)));
  CHECK(PlaceInOrder(false, 2, 4) == PlaceInOrder(true, 2, 4));
}

// A restart lists the nodes in another order than they were added in.
TEST_CASE("several domains: the order in which nodes came does not matter", "[unit][policy][bug]") {
  CHECK(PlaceInOrder(false, 2, 8) == PlaceInOrder(true, 2, 8));
  CHECK(PlaceInOrder(false, 3, 8) == PlaceInOrder(true, 3, 8));
  CHECK(PlaceInOrder(false, 6, 8) == PlaceInOrder(true, 6, 8));
}

// The node order would deal the two nodes out the other way for one of the two.
TEST_CASE("the member that asks gets a node that it may have, whatever its rank",
          "[unit][policy][bug]") {
  for (const char* offered : {"a", "b"}) {
    for (const std::size_t asking : {0U, 1U}) {
      INFO(offered << " " << asking);
      Planning t;
      t.Node(MakeNode("a").Gpu(1));
      t.Node(MakeNode("b").Gpu(1));
      PlacementRequest request = t.Request({MakePod("p0").Gpu(1), MakePod("p1").Gpu(1)});
      request.asking = request.pods[asking];
      request.asking_allowed = [node = t.node(offered)](cluster::NodeIndex n) { return n == node; };
      Scorer scorer(t.store);
      const Placement placement = Place(request, t.overlay(), scorer);
      REQUIRE(placement.placed.size() == 2);
      CHECK(placement.placed[asking].node == t.node(offered));
    }
  }
}

TEST_CASE("a member that asks and may go anywhere takes its place by rank", "[unit][policy]") {
  for (const std::size_t asking : {0U, 1U}) {
    INFO(asking);
    Planning t;
    t.Node(MakeNode("a").Gpu(1));
    t.Node(MakeNode("b").Gpu(1));
    PlacementRequest request = t.Request({MakePod("p0").Gpu(1), MakePod("p1").Gpu(1)});
    request.asking = request.pods[asking];
    Scorer scorer(t.store);
    const Placement placement = Place(request, t.overlay(), scorer);
    REQUIRE(placement.placed.size() == 2);
    CHECK(t.store.rank(placement.placed[0].node) < t.store.rank(placement.placed[1].node));
  }
}

}  // namespace
}  // namespace berth::policy
