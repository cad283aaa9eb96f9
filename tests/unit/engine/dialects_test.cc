// Gangs and queues that other projects' objects speak for: objects that come late, change, and go.
#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using kube::DialectKind;
using kube::DialectObject;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::PodBuilder;
using testing::World;

/// Two nodes of 8 GPUs, and pods of 4 GPUs that name Volcano's PodGroup g.
class GroupWorld : public World {
 public:
  explicit GroupWorld(config::PolicyConfiguration policy = {}) : World(std::move(policy)) {
    Add(MakeNode("n0").Gpu(8));
    Add(MakeNode("n1").Gpu(8));
    Start();
  }
  void Object(const DialectObject& object) {
    engine().OnDialectObject(object, now());
    Tick();
  }
  void Gone(const std::string& uid) {
    engine().OnDialectObjectDeleted(uid, now());
    Tick();
  }
  void Group(int min, const std::string& queue = {}) {
    Object({.kind = DialectKind::kVolcanoPodGroup,
            .ns = "default",
            .name = "g",
            .uid = "g1",
            .min_member = min,
            .queue = queue});
  }
  PodBuilder Member(int i) {
    return MakePod("m" + std::to_string(i))
        .Gpu(4)
        .Annotation("scheduling.k8s.io/group-name", "g")
        .Created(1000 + i);
  }
  void Members(int from, int to) {
    for (int i = from; i < to; ++i) Add(Member(i).Gated());
    Tick();
  }
  Explanation Why(const std::string& pod) { return engine().Why("default", pod, now()); }
  bool IsPlanned(const std::string& pod) { return !Planned(pod).empty(); }
  testing::BindResult Arrive(const std::string& pod) { return Bind(pod, Planned(pod)); }
};

TEST_CASE("a gang waits for its PodGroup, says so, and starts when it comes", "[unit][engine]") {
  GroupWorld w;
  w.Members(0, 2);
  CHECK_FALSE(w.IsPlanned("m0"));
  Explanation why = w.Why("m0");
  CHECK(why.verdict.reason == cluster::ReasonId::kWaitingForMembers);
  CHECK(cluster::Sentence(why.verdict).starts_with("PodGroup g (scheduling.volcano.sh) does not"));
  w.Group(2);
  CHECK(w.IsPlanned("m0"));
  CHECK(w.IsPlanned("m1"));
  CHECK(w.Why("m0").gang_from == "volcano");
}

TEST_CASE("minMember 0 is refused, minMember over the members waits", "[unit][engine]") {
  GroupWorld w;
  w.Group(0);
  w.Members(0, 2);
  CHECK(w.Why("m0").verdict.reason == cluster::ReasonId::kInvalidRequest);
  w.Group(3);  // corrected
  CHECK(w.Why("m0").verdict ==
        cluster::Verdict{.reason = cluster::ReasonId::kWaitingForMembers, .want = 3, .have = 2});
  w.Members(2, 3);
  CHECK(w.IsPlanned("m2"));
}

TEST_CASE("a PodGroup that changes before the start is what the gang is planned by again",
          "[unit][engine]") {
  GroupWorld w;
  w.Group(2);
  w.Members(0, 2);
  REQUIRE(w.IsPlanned("m0"));
  w.Group(3);
  CHECK_FALSE(w.IsPlanned("m0"));
  CHECK(w.Why("m0").verdict.want == 3);
  w.Gone("g1");
  CHECK(w.Why("m0").verdict.reason == cluster::ReasonId::kWaitingForMembers);
  w.Group(2);
  CHECK(w.IsPlanned("m0"));
  // The same once more: status updates change nothing.
  const auto plans = w.engine().TakeCounters().plans["made"];
  w.Group(2);
  CHECK(w.engine().TakeCounters().plans["made"] == plans);
}

TEST_CASE("a PodGroup that goes after the start changes nothing", "[unit][engine]") {
  GroupWorld w;
  w.Group(2);
  w.Members(0, 2);
  w.Arrive("m0");
  w.Arrive("m1");
  w.Tick();
  REQUIRE(w.BoundPods() == 2);
  w.Gone("g1");
  CHECK(w.BoundPods() == 2);
  w.Members(2, 3);  // a late member joins as before
  CHECK(w.IsPlanned("m2"));
}

TEST_CASE("a PodGroup that changes after the start changes nothing", "[unit][engine]") {
  GroupWorld w;
  w.Group(2);
  w.Members(0, 2);
  w.Arrive("m0");
  w.Arrive("m1");
  w.Tick();
  REQUIRE(w.BoundPods() == 2);
  w.Group(4);
  w.Members(2, 3);
  CHECK(w.IsPlanned("m2"));
}

TEST_CASE("after a restart a gang half bound is completed, whatever is listed first",
          "[unit][engine]") {
  for (const bool groups_first : {true, false}) {
    INFO(groups_first);
    World w;
    w.Add(MakeNode("n0").Gpu(8));
    const auto member = [](int i) {
      return MakePod("m" + std::to_string(i))
          .Gpu(4)
          .Annotation("scheduling.k8s.io/group-name", "g")
          .Created(1000 + i);
    };
    const auto group = [&w] {
      w.engine().OnDialectObject({.kind = DialectKind::kVolcanoPodGroup,
                                  .ns = "default",
                                  .name = "g",
                                  .uid = "g1",
                                  .min_member = 2},
                                 w.now());
    };
    if (groups_first) group();
    w.Add(member(0).On("n0").Claim("p", "n0", "default"));
    w.Add(member(1).Gated());
    if (!groups_first) group();
    w.Start();
    w.Tick();
    CHECK(w.Planned("m1") == "n0");
    CHECK(w.engine().Why("default", "m1", w.now()).min_member == 2);
  }
}

TEST_CASE("the PodGroup's queue is charged", "[unit][engine]") {
  GroupWorld w(MakePolicy({MakeQueue("everybody", {"default"}), MakeQueue("research", {"*"}, 4)}));
  w.Group(2, "research");
  w.Members(0, 2);
  CHECK(w.Why("m0").queue == "research");
  CHECK(w.Why("m0").queue_from == "volcano");
  CHECK(w.Why("m0").verdict.reason == cluster::ReasonId::kExceedsLimit);
}

TEST_CASE("a LocalQueue leads to its ClusterQueue, whenever it comes", "[unit][engine]") {
  GroupWorld w(MakePolicy({MakeQueue("everybody", {"default"}), MakeQueue("cq", {"*"})}));
  w.Add(MakePod("p").Gpu(1).Label("kueue.x-k8s.io/queue-name", "user-queue").Gated());
  w.Tick();
  CHECK(w.Why("p").verdict.reason == cluster::ReasonId::kUnknownQueue);
  w.Object({.kind = DialectKind::kKueueLocalQueue,
            .ns = "default",
            .name = "user-queue",
            .uid = "q1",
            .queue = "cq"});
  CHECK(w.IsPlanned("p"));
  CHECK(w.Why("p").queue == "cq");
}

TEST_CASE("auto: the project's own controller takes its pods, and leaves them", "[unit][engine]") {
  GroupWorld w;
  w.Group(2);
  w.Members(0, 2);
  REQUIRE(w.IsPlanned("m0"));
  const PodBuilder controller = MakePod("volcano-scheduler-1").Ns("volcano-system");
  w.Add(controller);
  w.Tick();
  CHECK_FALSE(w.Why("m0").gang);
  w.engine().OnPodDeleted(controller.Build().meta.uid, w.now());
  w.Tick();
  CHECK(w.Why("m0").gang);
  CHECK(w.IsPlanned("m0"));
}

/// In-tree gangs: kube-scheduler starts them, Berth keeps quota and devices.
class InTreeWorld : public GroupWorld {
 public:
  explicit InTreeWorld(config::PolicyConfiguration policy = {}) : GroupWorld(std::move(policy)) {
    InTreeGroup("t", 2);
  }
  void InTreeGroup(const std::string& name, int min) {
    Object({.kind = DialectKind::kInTreePodGroup,
            .ns = "default",
            .name = name,
            .uid = name + "1",
            .min_member = min});
  }
  void Members(int from, int to, int gpus, const std::string& group = "t") {
    for (int i = from; i < to; ++i) {
      kube::Pod pod = MakePod(group + std::to_string(i)).Gpu(gpus);
      pod.scheduling_group = group;
      Add(pod);
    }
    Tick();
  }
};

TEST_CASE("in-tree: a filter answer holds nothing and depends on no unbound sibling",
          "[unit][engine]") {
  InTreeWorld w;
  w.Members(0, 2, 8);
  // kube-scheduler tries t0, then t1, over and over, on placements that never happen.
  for (int i = 0; i < 3; ++i) {
    CHECK(w.Filter("t0", {"n0", "n1"}).kept.size() == 2);
    CHECK(w.Filter("t1", {"n1"}).kept == std::vector<std::string>{"n1"});
    CHECK(w.Filter("t1", {"n0", "n1"}).kept.size() == 2);
  }
  w.Tick();
  CHECK(w.store().LedgerString().find("pod ") == std::string::npos);
  // What it makes real is bound at once, wherever it is.
  CHECK(w.Bind("t0", "n1").posted);
  CHECK(w.Bind("t1", "n0").posted);
  w.Tick();
  CHECK(w.BoundPods() == 2);
}

TEST_CASE("in-tree: a Binding is judged by the books", "[unit][engine]") {
  InTreeWorld w;
  w.Members(0, 2, 8);
  w.Add(MakePod("other").Gpu(1).Gated());
  w.Tick();
  const std::string held = w.Planned("other");
  REQUIRE_FALSE(held.empty());
  // That room is promised; kube-scheduler cannot know.
  const auto answer = w.Filter("t0", {"n0", "n1"});
  CHECK(answer.kept.size() == 1);
  CHECK(answer.node() != held);
  CHECK_FALSE(w.Bind("t0", held).posted);
  // Where only running pods are in the way it may be trying a preemption.
  w.Arrive("other");
  w.Tick();
  CHECK(w.Filter("t0", {held}).kept == std::vector<std::string>{held});
  CHECK_FALSE(w.Bind("t0", held).posted);
}

// kube-scheduler tries both groups before it binds anybody of either.
TEST_CASE("in-tree: the group that binds first has the quota of its minimum",
          "[unit][engine][bug]") {
  InTreeWorld w(MakePolicy({MakeQueue("default", {"*"}, 6)}));
  w.InTreeGroup("s", 2);
  w.Members(0, 2, 2, "s");
  w.Members(0, 2, 2, "t");
  w.Add(MakePod("lone").Gpu(2).Gated());
  SECTION("of two groups one is bound whole and the other not at all") {
    w.Terminate("lone");
    w.Delete("lone");
    w.Tick();
    for (const char* pod : {"t0", "s0", "t1", "s1"}) CHECK_FALSE(w.Filter(pod).kept.empty());
    for (const char* pod : {"t0", "s0", "t1", "s1"}) w.Bind(pod, "n0");
    CHECK(w.NodeOf("t0") == "n0");
    CHECK(w.NodeOf("t1") == "n0");
    CHECK(w.NodeOf("s0").empty());
    CHECK(w.NodeOf("s1").empty());
    w.Delete("t0");
    w.Delete("t1");
    w.Tick();
    CHECK(w.Bind("s0", "n0").posted);
    CHECK(w.Bind("s1", "n0").posted);
  }
  SECTION("nor does a single take what it still needs, after a restart either") {
    w.Delete("lone");
    w.Tick();
    REQUIRE(w.Bind("t0", "n0").posted);
    w.Add(MakePod("late").Gpu(4).Gated());
    w.Tick();
    CHECK(w.Planned("late").empty());
    CHECK(w.Why("late").verdict.reason == cluster::ReasonId::kWaitingForQuota);
    const auto next = Engine::WithClusterOf(w.engine(), {.instance = "next"}, w.now());
    next->Start(w.now());
    next->Step(w.now());
    CHECK(next->Why("default", "late", w.now()).verdict.reason ==
          cluster::ReasonId::kWaitingForQuota);
    // Its other member is given up: nobody needs that quota any more.
    w.Delete("t1");
    w.Tick();
    CHECK_FALSE(w.Planned("late").empty());
  }
}

TEST_CASE("in-tree: no node is kept whose flavor the queue cannot pay for", "[unit][engine]") {
  auto queue = MakeQueue("default", {"*"});
  queue.quotas = {{.flavor = "h100", .limit = {{testing::kGpu, 3'000}}}};
  auto policy = MakePolicy({queue});
  policy.flavors = {{.name = "h100", .node_selector = {{"gpu", "h100"}}}};
  InTreeWorld w(policy);
  w.Add(MakeNode("h").Gpu(8).Label("gpu", "h100"));
  w.Members(0, 2, 2);
  CHECK(w.Filter("t0", {"h", "n0"}).kept.size() == 2);
  REQUIRE(w.Bind("t0", "h").posted);
  CHECK(w.Filter("t1", {"h", "n0"}).kept == std::vector<std::string>{"n0"});
  CHECK(w.Filter("t1", {"h"}).reason == "WaitingForQuota");
  CHECK_FALSE(w.Bind("t1", "h").posted);
  CHECK(w.Bind("t1", "n0").posted);
}

TEST_CASE("in-tree: the queue pays for the whole minimum or for none", "[unit][engine]") {
  InTreeWorld w(MakePolicy({MakeQueue("default", {"*"}, 12)}));
  w.Members(0, 2, 8);
  CHECK(w.Filter("t0", {"n0", "n1"}).kept.empty());
  CHECK(w.Why("t0").verdict.reason == cluster::ReasonId::kExceedsLimit);
}

}  // namespace
}  // namespace berth::engine
