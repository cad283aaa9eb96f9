// Why a workload was not placed: the true blocker with its numbers.
#include "policy/shortage.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "policy/empty_room.h"
#include "tests/support/catch.h"
#include "tests/support/planning.h"

namespace berth::policy {
namespace {

using cluster::PodInfo;
using cluster::ReasonId;
using cluster::Verdict;
using testing::kGpu;
using testing::MakeNode;
using testing::MakePod;
using testing::Members;
using testing::NodeBuilder;
using testing::Planning;
using testing::PodBuilder;

struct Row {
  const char* what;
  std::function<void(Planning&)> used;
  PodBuilder pod;
  int count;
  Verdict verdict;
};

TEST_CASE("verdicts of members that are alike", "[unit][policy]") {
  // Four nodes of 8 GPUs, 64 cores, 1 Ti.
  const auto nothing = [](Planning&) {};
  const auto gpus = [](std::vector<int> used) {
    return [used = std::move(used)](Planning& t) {
      for (std::size_t i = 0; i < used.size(); ++i) {
        const std::string n = std::to_string(i);
        if (used[i] > 0) t.Pod(MakePod("u" + n).Gpu(used[i]).On("n" + n));
      }
    };
  };
  const auto cores = [](Planning& t) {
    for (int i = 0; i < 4; ++i) {
      const std::string n = std::to_string(i);
      t.Pod(MakePod("u" + n).Cpu("60").On("n" + n));
    }
  };
  const std::vector<Row> rows = {
      {"no node matches",
       nothing,
       MakePod("").Gpu(1).Selector("zone", "x"),
       2,
       {ReasonId::kNoMatchingNodes, 2, 0, ""}},
      {"nine devices on nodes of eight",
       nothing,
       MakePod("").Gpu(9),
       1,
       {ReasonId::kNeverFits, 1, 0,
        "It asks for 9 of nvidia.com/gpu; no node that matches has more than 8."}},
      {"a resource that no node has",
       nothing,
       MakePod("").Request("example.com/foo", "3"),
       1,
       {ReasonId::kNeverFits, 1, 0,
        "It asks for 3 of example.com/foo; no node that matches has more than 0."}},
      {"five members on four nodes",
       nothing,
       MakePod("").Gpu(8),
       5,
       {ReasonId::kNeverFits, 5, 4, ""}},
      {"CPU: never, even empty",
       nothing,
       MakePod("").Gpu(1).Cpu("33"),
       5,
       {ReasonId::kNeverFits, 5, 4, ""}},
      {"a full cluster",
       gpus({8, 8, 8, 4}),
       MakePod("").Gpu(8),
       1,
       {ReasonId::kInsufficientDevices, 8000, 4000, kGpu}},
      {"two of three",
       gpus({8, 8, 0, 4}),
       MakePod("").Gpu(8),
       2,
       {ReasonId::kInsufficientDevices, 16'000, 12'000, kGpu}},
      {"enough in total, spread",
       gpus({4, 4, 4, 4}),
       MakePod("").Gpu(8),
       1,
       {ReasonId::kFragmented, 1, 0, ""}},
      {"enough in total, one node is whole",
       gpus({4, 4, 4, 0}),
       MakePod("").Gpu(8),
       2,
       {ReasonId::kFragmented, 2, 1, ""}},
      {"devices but no cores",
       cores,
       MakePod("").Gpu(1).Cpu("5"),
       1,
       {ReasonId::kInsufficientCpuOrMemory, 1, 0, ""}},
      {"devices, cores for some",
       cores,
       MakePod("").Gpu(1).Cpu("4"),
       5,
       {ReasonId::kInsufficientCpuOrMemory, 5, 4, ""}},
      {"no devices asked: cores",
       cores,
       MakePod("").Cpu("5"),
       1,
       {ReasonId::kInsufficientCpuOrMemory, 1, 0, ""}},
      {"a whole node where each is touched",
       gpus({1, 1, 1, 1}),
       MakePod("").Gpu(1).WholeNode(),
       1,
       {ReasonId::kFragmented, 1, 0, ""}},
      {"more members of one port than nodes",
       nothing,
       MakePod("").Gpu(1).HostPort(80),
       5,
       {ReasonId::kNeverFits, 5, 4,
        "5 members need host port 80/TCP, each on a node of its own; 4 of the nodes that match can "
        "take one."}},
      {"a port that is taken on one node",
       [](Planning& t) { t.Pod(MakePod("u").Cpu("1").HostPort(80).On("n2")); },
       MakePod("").Gpu(1).HostPort(80).HostPort(81),
       4,
       {ReasonId::kFragmented, 4, 3, "host ports 80/TCP, 81/TCP"}},
      {"too much in one resource",
       nothing,
       MakePod("").Gpu(1).Cpu("1000"),
       2,
       {ReasonId::kNeverFits, 2, 0,
        "Each member asks for 1000 of cpu; no node that matches has more than 64."}},
      {"what neighbours forbid",
       nothing,
       MakePod("").Gpu(1).Label("a", "b").NotNear("a", "b", "kubernetes.io/hostname"),
       5,
       {ReasonId::kSearchExhausted, 5, 0, ""}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    Planning t;
    for (int i = 0; i < 4; ++i) t.Node(MakeNode("n" + std::to_string(i)).Gpu(8));
    row.used(t);
    const PlacementRequest request = t.Request(Members("m", row.count, row.pod));
    const auto placement = t.Place(request);
    CHECK_FALSE(placement.ok());
    EmptyRoom room(t.store, t.scorer.fit());
    const PodInfo& first = *request.pods.front();
    const EmptyFit fit = room.Ask(first.shape, row.count, {}, *first.workload);
    CHECK((fit == EmptyFit::kTooFew) == (row.verdict.reason == ReasonId::kNeverFits));
    CHECK((fit == EmptyFit::kNoMatch) == (row.verdict.reason == ReasonId::kNoMatchingNodes));
    CHECK(cluster::Token(placement.verdict.reason) == cluster::Token(row.verdict.reason));
    CHECK(placement.verdict.want == row.verdict.want);
    CHECK(placement.verdict.have == row.verdict.have);
    CHECK(placement.verdict.subject == row.verdict.subject);
  }
}

TEST_CASE("an empty cluster matches no pod", "[unit][policy]") {
  Planning t;
  CHECK(t.Place(t.Request({MakePod("p").Gpu(1)})).verdict.reason == ReasonId::kNoMatchingNodes);
}

TEST_CASE("topology: every node has room, no domain has enough", "[unit][policy]") {
  Planning t;
  for (const char* name : {"a1", "a2", "b1", "b2", "b3"}) {
    t.Node(MakeNode(name).Gpu(8).Block("x").Rack(std::string(1, name[0])));
  }
  auto request = t.Request(Members("m", 4, MakePod("").Gpu(8)));
  request.topology_required = "rack";
  CHECK(t.Place(request).verdict == Verdict{.reason = ReasonId::kTopologyUnsatisfied,
                                            .want = 4,
                                            .have = 3,
                                            .subject = "rack",
                                            .never = true});
  CHECK(t.Place(request).verdict.never);
  // Whatever else is short, this is why it waits.
  for (const char* name : {"a1", "a2", "b1", "b2"}) t.Pod(MakePod(name).Gpu(8).On(name));
  CHECK(t.Place(request).verdict.reason == ReasonId::kTopologyUnsatisfied);
  request = t.Request(Members("s", 3, MakePod("").Gpu(8)));
  request.topology_required = "rack";
  CHECK(t.Place(request).verdict.reason == ReasonId::kInsufficientDevices);
  CHECK_FALSE(t.Place(request).verdict.never);
  // Too little in the whole cluster comes first.
  request = t.Request(Members("m", 6, MakePod("").Gpu(8)));
  request.topology_required = "rack";
  CHECK(t.Place(request).verdict.reason == ReasonId::kNeverFits);
}

TEST_CASE("elastic: the verdict is about the minimum", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n0").Gpu(8));
  t.Node(MakeNode("n1").Gpu(8));
  t.Node(MakeNode("n2").Gpu(8));
  t.Pod(MakePod("u").Gpu(8).On("n0"));
  t.Pod(MakePod("v").Gpu(4).On("n1"));
  const auto placement = t.Place(t.Request(Members("m", 8, MakePod("").Gpu(8)), 2));
  CHECK(placement.verdict == Verdict{ReasonId::kInsufficientDevices, 16'000, 12'000, kGpu});
}

TEST_CASE("all room is on avoided nodes", "[unit][policy]") {
  Planning t;
  const auto n1 = t.Node(MakeNode("n1").Gpu(8));
  auto request = t.Request({MakePod("p").Gpu(8)});
  const std::vector<policy::Avoid> avoid = {
      {.shape = request.pods.front()->shape, .node = n1, .until = 1}};
  request.avoid = avoid;
  CHECK(t.Place(request).verdict.reason == ReasonId::kRefusedByScheduler);
}

TEST_CASE("mixed members: each shape would fit alone", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8));
  t.Node(MakeNode("n2").Gpu(4));
  const auto n3 = [&t](int gpus) { t.Node(MakeNode("n3").Gpu(gpus)); };
  const auto place = [&t] {
    return t.Place(t.Request({MakePod("a").Gpu(8), MakePod("b").Gpu(4), MakePod("c").Gpu(2)}));
  };
  SECTION("8 + 4 + 2 are more than there are") {
    n3(1);
    CHECK(place().verdict.reason == ReasonId::kNeverFits);
    CHECK(cluster::Sentence(place().verdict) ==
          "Its members ask for 14 of nvidia.com/gpu together; all nodes that match have 13.");
  }
  SECTION("8 + 4 + 2 are more than are free") {
    n3(2);
    t.Node(MakeNode("n4").Gpu(2));
    t.Pod(MakePod("x").Gpu(2).On("n2"));
    t.Pod(MakePod("y").Gpu(2).On("n3"));
    CHECK(place().verdict.reason == ReasonId::kInsufficientDevices);
    CHECK(place().verdict.want == 14'000);
    CHECK(place().verdict.have == 12'000);
  }
  SECTION("60 + 40 + 4 CPUs are more than are free") {
    n3(2);
    t.Pod(MakePod("x").Cpu("60").On("n2"));
    t.Pod(MakePod("y").Cpu("60").On("n3"));
    const auto request = t.Request({MakePod("a").Gpu(8).Cpu("60"), MakePod("b").Gpu(2).Cpu("40"),
                                    MakePod("c").Gpu(2).Cpu("4")});
    CHECK(t.Place(request).verdict.reason == ReasonId::kInsufficientCpuOrMemory);
  }
  SECTION("in total there are enough, but the last two are not on one node") {
    n3(1);
    t.Node(MakeNode("n4").Gpu(1));
    CHECK(place().verdict.reason == ReasonId::kSearchExhausted);
    CHECK(place().verdict.want == 3);
  }
}

TEST_CASE("one member of many asks for too much: it is named", "[unit][policy][bug]") {
  Planning t;
  for (int i = 0; i < 4; ++i) t.Node(MakeNode("n" + std::to_string(i)).Gpu(8));
  auto pods = Members("w", 8, MakePod("").Gpu(1));
  pods[5] = MakePod("w5").Gpu(1).Cpu("1000");
  const Verdict verdict = t.Place(t.Request(pods)).verdict;
  CHECK(verdict.reason == ReasonId::kNeverFits);
  CHECK(cluster::Sentence(verdict) ==
        "w5 asks for 1000 of cpu; no node that matches has more than 64.");
}

TEST_CASE("the only nodes that are large enough take no pods", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("small").Gpu(4));
  const auto node = GENERATE(as<NodeBuilder>{}, MakeNode("large").Gpu(8).Cordoned(),
                             MakeNode("large").Gpu(8).NotReady());
  t.Node(node);
  const Verdict verdict = t.Place(t.Request({MakePod("w").Gpu(8)})).verdict;
  CHECK(verdict.reason == ReasonId::kNeverFits);
  CHECK(cluster::Sentence(verdict) ==
        "It asks for 8 of nvidia.com/gpu; no node that matches has more than 4. Larger ones are "
        "cordoned or not ready.");
}

TEST_CASE("no resource is too much, but all of them together", "[unit][policy]") {
  Planning t;
  t.Node(MakeNode("n1").Gpu(8).Cpu(4));
  t.Node(MakeNode("n2").Gpu(1).Cpu(64));
  CHECK(cluster::Sentence(t.Place(t.Request({MakePod("p").Gpu(8).Cpu("64")})).verdict) ==
        "It fits on no node that matches, though each of its resources alone would.");
}

TEST_CASE("groups: the hardest to place first", "[unit][policy]") {
  Planning t;
  const auto request = t.Request({MakePod("cpu").Cpu("9"), MakePod("one").Gpu(1),
                                  MakePod("eight").Gpu(8), MakePod("whole").Gpu(1).WholeNode(),
                                  MakePod("one-more-cpu").Gpu(1).Cpu("3"), MakePod("one2").Gpu(1)});
  std::vector<std::string> names;
  for (const ShapeGroup& group : GroupByShape(request.pods)) {
    for (const auto* pod : group.pods) names.push_back(pod->object.meta.name);
  }
  CHECK(names == std::vector<std::string>{"whole", "eight", "one-more-cpu", "one", "one2", "cpu"});
}

TEST_CASE("the kind of devices that is used up is named", "[unit][policy][bug]") {
  constexpr const char* kNic = "rdma/hca";
  config::PolicyConfiguration policy;
  policy.devices.push_back({.name = kNic, .kind = config::DeviceKind::kHandles});
  Planning t(policy);
  t.Node(MakeNode("n0").Gpu(8).Allocatable(kNic, 2000));
  t.Pod(MakePod("u").Gpu(1).Request(kNic, "2").On("n0"));
  const Verdict verdict = t.Place(t.Request({MakePod("p").Gpu(1).Request(kNic, "1")})).verdict;
  CHECK(verdict.reason == ReasonId::kInsufficientDevices);
  CHECK(verdict.subject == kNic);
  CHECK(verdict.want == 1000);
  CHECK(verdict.have == 0);
}

}  // namespace
}  // namespace berth::policy
