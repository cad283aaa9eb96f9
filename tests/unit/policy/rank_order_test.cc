// The order of a gang's members, and where it puts them in the tree.
#include "policy/rank_order.h"

#include <algorithm>
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
using testing::PodBuilder;
using Names = std::vector<std::string>;

constexpr const char* kHostname = "kubernetes.io/hostname";
constexpr const char* kCompletionIndex = "batch.kubernetes.io/job-completion-index";
constexpr const char* kJobIndex = "jobset.sigs.k8s.io/job-index";
constexpr const char* kGlobalIndex = "jobset.sigs.k8s.io/job-global-index";

/// Names in rank order.
Names Order(const std::vector<kube::Pod>& pods) {
  Planning t;
  std::vector<const cluster::PodInfo*> members;
  for (kube::Pod pod : pods) {
    pod.meta.labels["berth.dev/gang"] = "g";
    pod.meta.annotations["berth.dev/gang-size"] = "9";
    members.push_back(&t.Pod(pod));
  }
  Names names;
  for (const cluster::PodInfo* pod : RankOrder(members)) names.push_back(pod->object.meta.name);
  return names;
}

PodBuilder Worker(const std::string& name) { return MakePod(name).Gpu(1); }

TEST_CASE("ranks are the job's own", "[unit][policy]") {
  CHECK(Order({Worker("c").Rank(2), Worker("a").Rank(0), Worker("b").Rank(1)}) ==
        Names{"a", "b", "c"});
  CHECK(Order({Worker("x"), Worker("b").Rank(10), Worker("a").Rank(9)}) == Names{"a", "b", "x"});
  CHECK(Order({Worker("y"), Worker("x")}) == Names{"y", "x"});  // nobody says: as they came
  CHECK(Order({Worker("w").Rank(0), MakePod("launcher")}) == Names{"launcher", "w"});
}

// Every Job of a JobSet counts from 0.
TEST_CASE("members of one replica come in a row", "[unit][policy][bug]") {
  const auto pod = [](const std::string& name, const std::string& job, int index) {
    return Worker(name).Label(kGlobalIndex, job).Rank(index).Build();
  };
  CHECK(Order({pod("a0", "0", 0), pod("b0", "1", 0), pod("a1", "0", 1), pod("b1", "1", 1)}) ==
        Names{"a0", "a1", "b0", "b1"});
  CHECK(Order({pod("b0", "10", 0), pod("a0", "9", 0)}) == Names{"a0", "b0"});
  CHECK(Order({Worker("b").Label(kJobIndex, "1").Rank(0),
               Worker("a").Label(kJobIndex, "0").Rank(1)}) == Names{"a", "b"});
  const auto of_group = [](const std::string& name, const std::string& group,
                           const std::string& worker) {
    return Worker(name)
        .Label("leaderworkerset.sigs.k8s.io/group-index", group)
        .Label("leaderworkerset.sigs.k8s.io/worker-index", worker)
        .Build();
  };
  CHECK(Order({of_group("b0", "1", "0"), of_group("a1", "0", "1"), of_group("a0", "0", "0")}) ==
        Names{"a0", "a1", "b0"});
}

TEST_CASE("an index that is nonsense is none", "[unit][policy]") {
  for (const std::string text : {"", "x", "-1", "1x", "99999999999"}) {
    INFO(text);
    CHECK(Order({Worker("odd").Label(kGlobalIndex, text).Rank(0),
                 Worker("a").Label(kGlobalIndex, "0").Rank(1)}) == Names{"a", "odd"});
    CHECK(Order({Worker("odd").Label(kCompletionIndex, text), Worker("a").Rank(7)}) ==
          Names{"a", "odd"});
  }
}

// Of `big` empty nodes have places for one, of `small` for three, of a launcher for any.
TEST_CASE("members without a place come last; of each shape the first ones stay",
          "[unit][policy]") {
  Planning t;
  std::vector<const cluster::PodInfo*> pods;
  const auto add = [&](const std::string& name, int gpus) {
    pods.push_back(&t.Pod(gpus == 0 ? MakePod(name) : MakePod(name).Gpu(gpus)));
  };
  add("launcher", 0);
  add("big0", 8);
  add("big1", 8);
  add("odd", 3);
  add("small0", 1);
  add("small1", 1);
  const EmptyPlaces places = [](const auto& shape, std::ptrdiff_t count) {
    const std::ptrdiff_t most = shape->device_amount == 8000 ? 1 : 3;
    return std::min(most, count);
  };
  const auto names = [&] {
    Names result;
    for (const cluster::PodInfo* pod : pods) result.push_back(pod->object.meta.name);
    return result;
  };
  PutImpossibleLast(places, pods);
  CHECK(names() == Names{"launcher", "big0", "odd", "small0", "small1", "big1"});
  PutUnlikelyLast(places, pods);
  CHECK(names() == Names{"launcher", "big0", "small0", "small1", "odd", "big1"});
}

/// Two racks of two nodes, 4 GPUs each.
class TwoRacks : public Planning {
 public:
  TwoRacks() {
    for (const std::string name : {"r1a", "r2a", "r1b", "r2b"}) {
      Node(MakeNode(name).Gpu(4).Block("b").Rack(name.substr(0, 2)));
    }
  }
};

/// How often the rack, or the node, changes from one rank to the next.
int Changes(const Names& nodes, std::size_t letters) {
  int changes = 0;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    changes += nodes[i].substr(0, letters) == nodes[i - 1].substr(0, letters) ? 0 : 1;
  }
  return changes;
}

TEST_CASE("a pod that keeps others away does not mix up the ranks", "[unit][policy][bug]") {
  TwoRacks t;
  t.Node(MakeNode("far").Gpu(1));
  t.Pod(MakePod("loner").Gpu(1).NotNear("app", "nobody", kHostname).On("far"));
  const Names nodes = t.Place(Members("m", 8, MakePod("").Gpu(2)));
  REQUIRE(nodes.size() == 8);
  CHECK(Changes(nodes, 2) == 1);
  CHECK(Changes(nodes, 3) == 3);
}

TEST_CASE("one member for each host: still in the order of the tree", "[unit][policy][bug]") {
  TwoRacks t;
  const Names nodes =
      t.Place(Members("m", 4, MakePod("").Gpu(1).Label("app", "x").NotNear("app", "x", kHostname)));
  REQUIRE(std::set<std::string>(nodes.begin(), nodes.end()).size() == 4);
  CHECK(Changes(nodes, 2) == 1);
  CHECK(Changes(t.Place(Members("p", 4, MakePod("").Gpu(1).HostPort(80))), 2) == 1);
}

// Members differ in a label alone. In the order of the tree the second would come to the guard.
TEST_CASE("no member gets a node that does not admit it", "[unit][policy]") {
  Planning t;
  for (const char* name : {"a", "b"}) t.Node(MakeNode(name).Gpu(4).Block("b").Rack("r"));
  const std::string guarded = t.rank("a") == 1 ? "a" : "b";
  const std::string other = guarded == "a" ? "b" : "a";
  t.Pod(MakePod("guard").Gpu(1).NotNear("index", "1", kHostname).On(guarded));
  std::vector<kube::Pod> gang = Members("m", 2, MakePod("").Gpu(3));
  for (std::size_t i = 0; i < gang.size(); ++i) gang[i].meta.labels["index"] = std::to_string(i);
  CHECK(t.Place(gang) == Names{guarded, other});
}

TEST_CASE("spread keeps the order in which members may come", "[unit][policy]") {
  TwoRacks t;
  const auto even =
      MakePod("").Gpu(1).Label("app", "z").Spread("app", "z", "cloud.provider.com/topology-rack");
  const Names nodes = t.Place(Members("s", 4, even));
  REQUIRE(nodes.size() == 4);
  CHECK(nodes[0].substr(0, 2) != nodes[1].substr(0, 2));
  CHECK(nodes[2].substr(0, 2) != nodes[3].substr(0, 2));
}

}  // namespace
}  // namespace berth::policy
