// Queues: what may be used.
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

/// Queues q (limit 16 GPUs), free (no limit); 8 nodes of 8.
class Quota : public World {
 public:
  Quota() : World(MakePolicy({MakeQueue("q", {"*"}, 16), MakeQueue("free", {"*"})})) {
    for (int i = 0; i < 8; ++i) Add(MakeNode("n" + std::to_string(i)).Gpu(8));
    Start();
  }
  void AddGang(const std::string& name, int size, int min, const std::string& queue = "q") {
    for (int i = 0; i < size; ++i) {
      Add(MakePod(name + std::to_string(i)).Gpu(8).Gang(name, size).Min(min).Queue(queue).Gated());
    }
    Tick();
  }
  std::int64_t Used(std::size_t queue) {
    return store().queue(store().queues()[queue]).used[store().device_ids().front()] / 1000;
  }
};

TEST_CASE("more than the limit, ever", "[unit][engine]") {
  Quota w;
  w.AddGang("g", 4, 4);
  CHECK(w.VerdictOf("g0") == Verdict{ReasonId::kExceedsLimit, 32'000, 16'000, kGpu});
  w.Add(MakePod("big").Gpu(17).Queue("q"));
  CHECK(w.Filter("big").reason == "ExceedsLimit");
  w.AddGang("h", 4, 4, "free");
  CHECK(w.Why("h0") == "Starting");
}

TEST_CASE("more than is left now", "[unit][engine]") {
  Quota w;
  w.Add(MakePod("used").Gpu(8).Queue("q").On("n0"));
  w.AddGang("g", 2, 2);
  CHECK(w.VerdictOf("g0") == Verdict{ReasonId::kWaitingForQuota, 16'000, 8'000, kGpu});
  CHECK(w.UsedGpus() == 8);
  w.Delete("used");
  w.Tick();
  CHECK(w.Why("g0") == "Starting");
  CHECK(w.Used(0) == 16);
  // What is planned is used.
  w.Add(MakePod("p").Gpu(1).Queue("q"));
  CHECK(w.Filter("p").reason == "WaitingForQuota");
  CHECK(w.VerdictOf("p") == Verdict{ReasonId::kWaitingForQuota, 1000, 0, kGpu});
}

TEST_CASE("elastic inside the quota", "[unit][engine]") {
  Quota w;
  w.AddGang("g", 4, 2);
  CHECK(w.Why("g0") == "Starting");
  CHECK(w.Used(0) == 16);
  w.Schedule();
  CHECK(w.BoundPods() == 2);
  CHECK(w.Why("g3") == "WaitingForQuota");  // a late member
}

// 4 GPUs of 8 are needed, 2 are left: the two launchers ask for none.
TEST_CASE("members that ask for nothing need no quota", "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("q", {"default"}, 8)}));
  w.Add(MakeNode("n1").Gpu(16));
  w.Start();
  w.Add(MakePod("used").Gpu(6).On("n1"));
  w.Add(MakePod("worker").Gpu(4).Gang("g", 3).Rank(0).Gated());
  w.Add(MakePod("l1").Cpu("1").Gang("g", 3).Rank(1).Gated());
  w.Add(MakePod("l2").Cpu("1").Gang("g", 3).Rank(2).Gated());
  w.Tick();
  CHECK(w.VerdictOf("worker") == Verdict{ReasonId::kWaitingForQuota, 4000, 2000, kGpu});
}

TEST_CASE("absurd requests exceed the limit", "[unit][engine][bug]") {
  Quota w;
  for (const char* name : {"a", "b"}) {
    w.Add(MakePod(name).Request(kGpu, "9223372036854775807").Gang("g", 2).Queue("q").Gated());
  }
  w.Tick();
  CHECK(w.Why("a") == "ExceedsLimit");
}

TEST_CASE("a whole-node pod is charged its node", "[unit][engine]") {
  World w(MakePolicy({MakeQueue("q", {"default"}, 12)}));
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  w.Add(MakePod("a").Gpu(1).WholeNode());
  REQUIRE(w.Filter("a").kept.size() == 1);
  CHECK(w.UsedGpus("n1") == 8);
  w.Add(MakeNode("n2").Gpu(8));
  w.Add(MakePod("b").Gpu(1).WholeNode());
  CHECK(w.Filter("b").reason == "WaitingForQuota");
  CHECK(w.VerdictOf("b") == Verdict{ReasonId::kWaitingForQuota, 8000, 4000, kGpu});
  w.Add(MakePod("c").Gpu(1));
  CHECK(w.Filter("c").kept.size() == 1);
}

// A device plugin that restarts takes all devices off its node, and puts them back.
TEST_CASE("a whole-node pod pays for its node while that lists fewer devices",
          "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("q", {"default"}, 16)}));
  for (const char* name : {"n1", "n2", "n3"}) w.Add(MakeNode(name).Gpu(8));
  w.Start();
  for (const char* name : {"a", "b"}) {
    w.Add(MakePod(name).Gpu(1).WholeNode());
    REQUIRE(w.Attempt(name));
  }
  const std::string node = w.NodeOf("a");
  const std::string ledger = w.store().LedgerString();
  w.Add(MakeNode(node).Gpu(0));
  w.Add(MakePod("c").Gpu(8));
  CHECK(w.UsedGpus(node) == 8);
  CHECK(w.Filter("c").reason == "WaitingForQuota");
  SECTION("by a process that has seen them") {}
  SECTION("by one that starts meanwhile") {
    w.Restart();
    CHECK(w.UsedGpus(node) == 8);
    CHECK(w.Filter("c").reason == "WaitingForQuota");
  }
  SECTION("over another policy") {
    w.Reload(MakePolicy({MakeQueue("q", {"default"}, 16), MakeQueue("r", {"other"})}));
    CHECK(w.Filter("c").reason == "WaitingForQuota");
  }
  w.Delete("c");
  w.Add(MakeNode(node).Gpu(8));
  w.Tick();
  CHECK(w.UsedGpus() == 16);
  w.Delete("a");
  w.Tick();
  CHECK(w.UsedGpus() == 8);
}

TEST_CASE("a whole-node pod whose Binding is under way pays for its node", "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("q", {"default"}, 8)}));
  for (const char* name : {"n1", "n2"}) w.Add(MakeNode(name).Gpu(8));
  w.Start();
  w.Add(MakePod("a").Gpu(1).WholeNode());
  const std::string node = w.Filter("a").node();
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("a", node).posted);
  w.Add(MakeNode(node).Gpu(0));
  CHECK(w.UsedGpus(node) == 8);
  w.Reload(MakePolicy({MakeQueue("q", {"default"}, 8), MakeQueue("r", {"other"})}));
  CHECK(w.UsedGpus(node) == 8);
  w.engine().BindFinished("uid-a", BindOutcome::kRefused, w.now());
  w.Tick();
  CHECK(w.UsedGpus(node) == 0);
}

TEST_CASE("a whole node larger than the limit", "[unit][engine]") {
  World w(MakePolicy({MakeQueue("q", {"default"}, 4)}));
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  w.Add(MakePod("a").Gpu(1).WholeNode());
  CHECK(w.Filter("a").reason == "ExceedsLimit");
}

TEST_CASE("a whole-node pod takes a node that its queue can pay", "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("q", {"default"}, 4)}));
  for (const char* name : {"big1", "big2", "big3"}) w.Add(MakeNode(name).Gpu(8));
  w.Add(MakeNode("small").Gpu(4));
  w.Start();
  w.Add(MakePod("a").Gpu(4).WholeNode());
  CHECK(w.Filter("a").node() == "small");
}

/// Pod `a` was planned on n1, whole, when a device plugin that restarts listed 4 GPUs there; now n1
/// lists 8. Its queue may use `limit`.
class Grown : public World {
 public:
  explicit Grown(int limit) : World(MakePolicy({MakeQueue("q", {"default"}, limit)})) {
    Add(MakeNode("n1").Gpu(4));
    Start();
    Add(MakePod("a").Gpu(1).WholeNode());
    REQUIRE(Filter("a").node() == "n1");
    Add(MakeNode("n1").Gpu(8));
  }
};

/// Of a gang in queue `a`, m0 runs on n1 and m1 is planned there, beyond the minimum.
class HalfStarted : public World {
 public:
  HalfStarted() : World(MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"}, 4)})) {
    Add(MakeNode("n1").Gpu(8));
    Start();
    for (const char* name : {"m0", "m1"}) Add(MakePod(name).Gpu(4).Gang("g", 2).Min(1).Gated());
    Tick();
    REQUIRE(Attempt("m0"));
  }
};

TEST_CASE("a whole-node pod leaves a node that grows beyond what its queue can pay",
          "[unit][engine][bug]") {
  Grown w(4);
  CHECK(w.UsedGpus() == 0);
  CHECK_FALSE(w.Bind("a", "n1").posted);
}

TEST_CASE("a whole-node pod stays on a node that grows within what its queue can pay",
          "[unit][engine]") {
  Grown w(8);
  CHECK(w.UsedGpus() == 8);
  CHECK(w.Bind("a", "n1").posted);
}

TEST_CASE("an edit of the policy takes the room of a running gang's further members",
          "[unit][engine][bug]") {
  HalfStarted w;
  REQUIRE(w.UsedGpus() == 8);
  w.Reload(MakePolicy({MakeQueue("b", {"default"}, 4)}));
  CHECK(w.UsedGpus() == 4);
  CHECK_FALSE(w.Bind("m1", "n1").posted);
}

// It was planned while its gang's queue was gone, in another one that is still there.
TEST_CASE("a planned member of a running gang moves with its gang to another queue",
          "[unit][engine][bug]") {
  const auto both = MakePolicy({MakeQueue("b", {"default"}, 4), MakeQueue("default", {"*"})});
  World w(both);
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  for (const char* name : {"m0", "m1"}) w.Add(MakePod(name).Gpu(4).Gang("g", 2).Min(1).Gated());
  w.Tick();
  w.Advance(10'000);
  REQUIRE(w.Attempt("m0"));
  REQUIRE(w.UsedGpus() == 4);
  w.Reload(MakePolicy({MakeQueue("default", {"*"})}));
  REQUIRE(w.Planned("m1") == "n1");
  w.Reload(both);
  CHECK(w.Planned("m1").empty());
  CHECK(w.store().queue(0).used[w.store().device_ids().front()] == 4000);
  CHECK(w.UsedGpus() == 4);
}

/// The namespace's own queue `b` may be taken out of the policy and put back.
class QueueComesBack : public World {
 public:
  QueueComesBack() : World(Policy(/*with_b=*/false)) {
    Add(MakeNode("n1").Gpu(16));
    Start();
  }
  static config::PolicyConfiguration Policy(bool with_b) {
    if (!with_b) return MakePolicy({MakeQueue("default", {"*"})});
    return MakePolicy({MakeQueue("b", {"default"}, 16), MakeQueue("default", {"*"})});
  }
  void AddGang(int size, int min) {
    for (int i = 0; i < size; ++i) {
      Add(MakePod("m" + std::to_string(i)).Gpu(4).Gang("g", size).Min(min).Rank(i).Gated());
    }
    Tick();
  }
  void Relabel(const std::string& name) {
    Change(name, [](kube::Pod& pod) { pod.meta.labels["some"] = "news"; });
    Tick();
  }
  std::int64_t Used(std::size_t queue) {
    return store().queue(store().queues()[queue]).used[store().device_ids().front()] / 1000;
  }
};

TEST_CASE("a gang that has started keeps its queue, whichever of its members waits",
          "[unit][engine][bug]") {
  QueueComesBack w;
  w.AddGang(3, 1);
  REQUIRE(w.Attempt("m1"));
  w.Reload(QueueComesBack::Policy(/*with_b=*/true));
  w.Relabel("m0");  // the oldest, and it waits
  CHECK(w.Planned("m0") == "n1");
  CHECK(w.Attempt("m0"));
  CHECK(w.Attempt("m2"));
  CHECK(w.Used(0) == 0);
  CHECK(w.Used(1) == 12);
  w.Restart();
  CHECK(w.Used(0) == 0);
  CHECK(w.Used(1) == 12);
}

TEST_CASE("a planned member that moves keeps its queue", "[unit][engine][bug]") {
  QueueComesBack w;
  w.Add(MakeNode("n2").Gpu(16));
  w.AddGang(3, 1);
  REQUIRE(w.Attempt("m1"));
  w.Reload(QueueComesBack::Policy(/*with_b=*/true));
  const std::string other = w.Planned("m0") == "n1" ? "n2" : "n1";
  REQUIRE(w.Filter("m0", {other}).node() == other);
  CHECK(w.Used(0) == 0);
  CHECK(w.Used(1) == 12);
}

TEST_CASE("members that gave up their places agree on their queue", "[unit][engine][bug]") {
  QueueComesBack w;
  w.AddGang(3, 3);
  w.Schedule();
  REQUIRE(w.BoundPods() == 3);
  for (const char* gone : {"m1", "m2"}) w.Delete(gone);
  w.Add(MakePod("m3").Gpu(4).Gang("g", 3).Rank(1).Gated());
  w.Add(MakePod("m4").Gpu(4).Gang("g", 3).Rank(2).Gated());
  w.Tick();
  // Their Bindings fail while the queue comes back, and kube-scheduler clears the nominations.
  w.SetPosting(testing::Posting::kHangs);
  for (const char* next : {"m3", "m4"}) {
    REQUIRE(w.Bind(next, "n1").posted);
    w.Change(next, [](kube::Pod& pod) { pod.nominated_node.clear(); });
  }
  w.Reload(QueueComesBack::Policy(/*with_b=*/true));
  w.Change("m0", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
  for (const char* next : {"uid-m3", "uid-m4"}) {
    w.engine().BindFinished(next, BindOutcome::kRefused, w.now());
  }
  w.Relabel("m3");
  w.Advance(20'000);
  CHECK(w.Why("m3") != "GangConflict");
  CHECK(w.Why("m4") != "GangConflict");
}

TEST_CASE("a member whose Binding fails after an edit of the policy gives its room up",
          "[unit][engine][bug]") {
  HalfStarted w;
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("m1", "n1").posted);
  w.Reload(MakePolicy({MakeQueue("b", {"default"}, 4)}));
  REQUIRE(w.UsedGpus() == 8);
  w.engine().BindFinished("uid-m1", BindOutcome::kRefused, w.now());
  w.Tick();
  CHECK(w.UsedGpus() == 4);
}

TEST_CASE("an edit of the policy leaves a running gang the room of its minimum", "[unit][engine]") {
  World w(MakePolicy({MakeQueue("a", {"default"}), MakeQueue("b", {"default"}, 4)}));
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  for (const char* name : {"m0", "m1"}) w.Add(MakePod(name).Gpu(4).Gang("g", 2).Gated());
  w.Tick();
  REQUIRE(w.Attempt("m0"));
  REQUIRE(w.Attempt("m1"));
  REQUIRE(w.BoundPods() == 2);
  w.Delete("m1");
  w.Add(MakePod("m2").Gpu(4).Gang("g", 2).Gated());
  w.Tick();
  REQUIRE(w.Planned("m2") == "n1");
  w.Reload(MakePolicy({MakeQueue("b", {"default"}, 4)}));
  CHECK(w.Planned("m2") == "n1");
}

// I4, on the way around the planner's own check.
TEST_CASE("a replan does not pass the limit either", "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("q", {"default"}, 4)}));
  w.Add(MakeNode("small").Gpu(4));
  w.Start();
  w.Add(MakePod("a").Gpu(4).WholeNode());
  REQUIRE(w.Filter("a").node() == "small");
  w.Add(MakeNode("big").Gpu(8));
  w.Filter("a", {"big"});
  CHECK(w.store().queue(0).used[w.store().device_ids().front()] <= 4000);
}

TEST_CASE("a queue label changed before the bind does not pass that queue's limit",
          "[unit][engine][bug]") {
  World w(MakePolicy({MakeQueue("a", {"*"}), MakeQueue("b", {"*"}, 4)}));
  w.Add(MakeNode("n1").Gpu(16));
  w.Start();
  w.Add(MakePod("used").Gpu(4).Queue("b").On("n1"));
  w.Add(MakePod("p").Gpu(8).Queue("a"));
  REQUIRE(w.Filter("p").node() == "n1");
  SECTION("to a full queue") {
    w.Change("p", [](kube::Pod& pod) { pod.meta.labels["berth.dev/queue"] = "b"; });
  }
  SECTION("to no queue at all") {
    w.Change("p", [](kube::Pod& pod) { pod.meta.labels["berth.dev/queue"] = "nope"; });
  }
  w.Bind("p", "n1");
  CHECK(w.store().queue(1).used[w.store().device_ids().front()] <= 4000);
  if (!w.NodeOf("p").empty()) {
    CHECK(w.store().queue(0).used[w.store().device_ids().front()] == 8000);
  }
}

TEST_CASE("the queue is fixed when the pod binds", "[unit][engine]") {
  Quota w;
  w.Add(MakePod("p").Gpu(8).Queue("q"));
  w.Schedule();
  REQUIRE(w.BoundPods() == 1);
  w.Change("p", [](kube::Pod& pod) { pod.meta.labels["berth.dev/queue"] = "free"; });
  CHECK(w.Used(0) == 8);
  w.Restart();
  CHECK(w.Used(0) == 8);
  CHECK(w.Used(1) == 0);
}

TEST_CASE("CPU may be capped as well", "[unit][engine]") {
  config::Queue queue = MakeQueue("q", {"default"});
  queue.limit["cpu"] = 10'000;
  World w(MakePolicy({queue}));
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  w.Add(MakePod("a").Gpu(1).Cpu("8"));
  CHECK(w.Filter("a").kept.size() == 1);
  w.Add(MakePod("b").Gpu(1).Cpu("4"));
  CHECK(w.Filter("b").reason == "WaitingForQuota");
  CHECK(w.VerdictOf("b") == Verdict{ReasonId::kWaitingForQuota, 4000, 2000, "cpu"});
}

}  // namespace
}  // namespace berth::engine
