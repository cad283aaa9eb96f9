// Which work is judged first, and queues that are below others.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using cluster::ReasonId;
using cluster::Verdict;
using testing::kGpu;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

TEST_CASE("priority first, then age, inside a queue", "[unit][engine]") {
  World w;
  w.Add(MakeNode("n1").Gpu(8));
  w.Add(MakePod("used").Gpu(8).On("n1"));
  w.Start();
  w.Add(MakePod("old").Gpu(8).Created(1));
  w.Add(MakePod("young").Gpu(8).Created(2));
  w.Add(MakePod("high").Gpu(8).Created(3).Priority(10));
  for (const char* name : {"old", "young", "high"}) {
    CHECK(w.Filter(name).reason == "InsufficientDevices");
  }
  w.Delete("used");
  w.Tick();
  CHECK(w.Planned("high") == "n1");
  w.Delete("high");
  w.Tick();
  CHECK(w.Planned("old") == "n1");
}

TEST_CASE("between queues the oldest head goes first, whatever its priority", "[unit][engine]") {
  World w(MakePolicy({MakeQueue("a", {"*"}), MakeQueue("b", {"*"})}));
  w.Add(MakeNode("n1").Gpu(8));
  w.Add(MakePod("used").Gpu(8).On("n1").Queue("a"));
  w.Start();
  w.Add(MakePod("pa").Gpu(8).Queue("a").Created(5));
  w.Add(MakePod("pb").Gpu(8).Queue("b").Created(9).Priority(1000));
  w.Filter("pb");
  w.Filter("pa");
  w.Delete("used");
  w.Tick();
  CHECK(w.Planned("pa") == "n1");
  CHECK(w.Planned("pb").empty());
}

TEST_CASE("each refused pod is told its own reason once", "[unit][engine]") {
  World w;
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  w.Add(MakePod("p").Gpu(1).Queue("nowhere").Gated());
  w.Add(MakePod("first").Gpu(1).Gang("g", 2).Created(1).Gated());
  w.Add(MakePod("odd").Gpu(1).Gang("g", 3).Created(2).Gated());
  w.Tick();
  const std::vector<std::string> told{"event p UnknownQueue The policy has no queue \"nowhere\"."};
  CHECK(w.LogOf("event p ") == told);
  CHECK(w.LogOf("event odd GangConflict The gang's first member, first, says size 2").size() == 1);
  w.Change("p", [](kube::Pod& pod) { pod.meta.labels["touched"] = "true"; });
  w.Change("odd", [](kube::Pod& pod) { pod.meta.labels["touched"] = "true"; });
  w.Advance(1000);
  CHECK(w.LogOf("event p ") == told);
  CHECK(w.LogOf("event odd ").size() == 1);
}

/// Queues a and b (no caps) in team (12 GPUs) in org (limit 20); other (no cap) beside them.
class TreeOfQueues : public World {
 public:
  TreeOfQueues() : World(Policy()) {
    for (int i = 0; i < 4; ++i) Add(MakeNode("n" + std::to_string(i)).Gpu(8));
    Start();
  }
  static config::PolicyConfiguration Policy() {
    auto policy =
        MakePolicy({MakeQueue("a", {"*"}), MakeQueue("b", {"*"}), MakeQueue("team", {}, 12),
                    MakeQueue("org", {}, 20), MakeQueue("other", {"*"})});
    policy.queues[0].parent = policy.queues[1].parent = "team";
    policy.queues[2].parent = "org";
    return policy;
  }
  void AddGang(const std::string& name, int size, const std::string& queue) {
    for (int i = 0; i < size; ++i) {
      Add(MakePod(name + std::to_string(i)).Gpu(4).Gang(name, size).Queue(queue).Gated());
    }
    Tick();
  }
};

TEST_CASE("a queue waits for the queue above it, and is woken by its sibling", "[unit][engine]") {
  TreeOfQueues w;
  w.AddGang("x", 2, "a");
  w.AddGang("y", 2, "b");
  w.Schedule();
  CHECK(w.BoundPods() == 2);
  CHECK(w.VerdictOf("y0") == Verdict{ReasonId::kWaitingForQuota, 8'000, 4'000, kGpu, "team"});
  CHECK(cluster::Sentence(w.VerdictOf("y0")) ==
        "It needs 8 of nvidia.com/gpu; queue team, above its own, has 4 left.");
  SECTION("a pod that ends in another tree wakes nobody") {
    w.Add(MakePod("o").Gpu(8).Queue("other").On("n3"));
    w.Delete("o");
    w.Tick();
    CHECK(w.Why("y0") == "WaitingForQuota");
  }
  SECTION("one that ends in its sibling does") {
    w.Delete("x0");
    w.Tick();
    CHECK(w.Why("y0") == "Starting");
  }
  SECTION("an edit of the limit above does") {
    auto policy = TreeOfQueues::Policy();
    policy.queues[2].limit[kGpu] = 16'000;
    w.Reload(policy);
    w.Tick();
    CHECK(w.Why("y0") == "Starting");
  }
  SECTION("a move of the queue does") {
    auto policy = TreeOfQueues::Policy();
    policy.queues[1].parent = "org";
    w.Reload(policy);
    w.Tick();
    CHECK(w.Why("y0") == "Starting");
  }
}

TEST_CASE("a move that leaves the queues above over their limit evicts no pod", "[unit][engine]") {
  TreeOfQueues w;
  w.AddGang("x", 2, "a");
  w.AddGang("o", 2, "other");
  w.AddGang("p", 1, "other");
  w.Schedule();
  CHECK(w.BoundPods() == 5);
  auto policy = TreeOfQueues::Policy();
  policy.queues[4].parent = "team";
  w.Reload(policy);
  w.AddGang("q", 1, "other");
  w.AddGang("r", 1, "a");
  w.Schedule();
  CHECK(w.BoundPods() == 5);
  CHECK(w.VerdictOf("q0") == Verdict{ReasonId::kWaitingForQuota, 4'000, 0, kGpu, "team"});
  CHECK(w.VerdictOf("r0") == Verdict{ReasonId::kWaitingForQuota, 4'000, 0, kGpu, "team"});
  w.Delete("p0");
  w.Delete("o0");
  w.Delete("o1");
  w.Schedule();  // 8 are left in use: one more has room
  CHECK(w.BoundPods() == 3);
}

config::PolicyConfiguration Held(int queue) {
  auto policy = TreeOfQueues::Policy();
  policy.queues[static_cast<std::size_t>(queue)].hold = config::Hold::kHold;
  return policy;
}

TEST_CASE("in a held queue nothing new starts, and what was planned gives way", "[unit][engine]") {
  TreeOfQueues w;
  w.AddGang("x", 2, "a");
  w.AddGang("o", 2, "other");
  CHECK(w.Why("x0") == "Starting");
  w.Reload(Held(3));  // org, above team, above a
  w.Tick();
  CHECK(w.VerdictOf("x0") == Verdict{.reason = ReasonId::kQueueHeld, .subject = "org"});
  CHECK(w.Why("o0") == "Starting");
  w.Add(MakePod("single").Gpu(1).Queue("b"));
  CHECK(w.Filter("single").reason == "QueueHeld");
  w.Schedule();
  CHECK(w.BoundPods() == 2);
  w.Reload(TreeOfQueues::Policy());
  w.Schedule();
  CHECK(w.BoundPods() == 5);
}

TEST_CASE("a running gang of a held queue gets back what its minimum lost", "[unit][engine]") {
  TreeOfQueues w;
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod("g" + std::to_string(i)).Gpu(1).Gang("g", 3).Min(2).Queue("a").Gated());
  }
  w.Advance(60'000);
  w.Schedule();
  REQUIRE(w.BoundPods() == 2);
  w.Reload(Held(0));
  w.Tick();
  w.Add(MakePod("g2").Gpu(1).Gang("g", 3).Min(2).Queue("a").Gated());
  w.Tick();
  CHECK(w.Why("g2") == "QueueHeld");  // beyond the minimum
  w.Delete("g0");
  w.Tick();
  w.Schedule();
  CHECK(w.BoundPods() == 2);
  CHECK(w.NodeOf("g2") != "");
}

TEST_CASE("a queue that borrows waits for what others keep, until they use it", "[unit][engine]") {
  auto policy = MakePolicy({MakeQueue("a", {"*"}, -1, 8), MakeQueue("b", {"*"})});
  policy.borrowing = true;
  policy.queues[0].lending_limit[kGpu] = 3'000;
  World w(policy);
  w.Add(MakeNode("n0").Gpu(8));
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  const auto add = [&](const std::string& name, int gpus, const char* queue) {
    w.Add(MakePod(name).Gpu(gpus).Queue(queue).Gated());
    w.Tick();
  };
  add("b8", 8, "b");
  add("b4", 4, "b");
  CHECK(w.Why("b4") == "WaitingForQuota");
  CHECK(w.VerdictOf("b4") == Verdict{ReasonId::kWaitingForQuota, 4'000, 3'000, kGpu});
  add("b3", 3, "b");  // 11 of 16: a's 5 are left
  CHECK(w.Why("b3") == "Starting");
  add("a5", 5, "a");
  w.Schedule();
  CHECK(w.BoundPods() == 3);
  SECTION("room that a borrower gives back is borrowed again") {
    w.Delete("b8");
    w.Schedule();
    CHECK(w.NodeOf("b4") != "");
  }
  SECTION("an edit lends it") {
    w.Delete("a5");
    w.Schedule();
    CHECK(w.NodeOf("b4").empty());  // a keeps 5 again
    policy.queues[0].lending_limit.clear();
    w.Reload(policy);
    w.Schedule();
    CHECK(w.NodeOf("b4") != "");
  }
}

TEST_CASE("a plan gives way when the queue above it is over its limit", "[unit][engine]") {
  TreeOfQueues w;
  w.AddGang("x", 2, "a");
  CHECK(w.Why("x0") == "Starting");
  auto policy = TreeOfQueues::Policy();
  policy.queues[3].limit[kGpu] = 4'000;
  w.Reload(policy);
  w.Tick();
  CHECK(w.VerdictOf("x0") == Verdict{ReasonId::kExceedsLimit, 8'000, 4'000, kGpu, "org"});
  CHECK(w.UsedGpus() == 0);
}

TEST_CASE("the pod that waits longer is judged first, even if another one calls",
          "[unit][engine]") {
  World w;
  w.Add(MakeNode("n1").Gpu(8));
  w.Add(MakePod("used").Gpu(8).On("n1"));
  w.Start();
  w.Add(MakePod("old").Gpu(8).Created(1));
  w.Add(MakePod("young").Gpu(8).Created(2));
  w.Filter("old");
  w.Filter("young");
  w.engine().OnPodDeleted("uid-used", w.now());
  CHECK(w.Filter("young").kept.empty());  // the pass went to `old` first
  CHECK(w.Planned("old") == "n1");
}

TEST_CASE("what fits behind what does not fit is not held up", "[unit][engine]") {
  World w;
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  w.Add(MakePod("x").Gpu(2).On("n1"));
  w.Add(MakePod("big").Gpu(8).Created(1));
  w.Add(MakePod("small").Gpu(2).Created(2));
  CHECK(w.Filter("big").reason == "InsufficientDevices");
  CHECK(w.Filter("small").kept.size() == 1);
}

// The default queue of its namespace is another one now; the gang's is not.
TEST_CASE("a replacement of a running gang is planned once when the default queue changes",
          "[unit][engine][bug]") {
  const auto policy = [](const char* first, const char* second) {
    return MakePolicy({MakeQueue(first, {"default"}, 32), MakeQueue(second, {"default"}, 32)});
  };
  World w(policy("old", "new"));
  for (const char* name : {"n1", "n2", "n3"}) w.Add(MakeNode(name).Gpu(8));
  w.Start();
  const auto member = [](const char* name) { return MakePod(name).Gpu(8).Gang("g", 2).Gated(); };
  w.Add(member("a"));
  w.Add(member("b"));
  w.Tick();
  w.Schedule();
  REQUIRE(w.BoundPods() == 2);
  SECTION("to a queue before it") { w.Reload(policy("new", "old")); }
  SECTION("because its own is gone") { w.Reload(MakePolicy({MakeQueue("new", {"default"})})); }
  w.Delete("b");
  w.Add(member("c"));
  w.Tick();
  REQUIRE_FALSE(w.Planned("c").empty());
  w.Change("c", [](kube::Pod& pod) { pod.status_reason = "some news"; });
  w.Tick();
  CHECK(w.LogOf("release c").size() == 1);
  CHECK(w.LogOf("withdraw c").empty());
  CHECK(w.Attempt("c"));
  CHECK(w.store().FindPod("uid-c")->charged_queue == w.store().FindPod("uid-a")->charged_queue);
}

}  // namespace
}  // namespace berth::engine
