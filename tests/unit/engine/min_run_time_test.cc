// queues[].minRunTime: work that runs is no victim before it has run that long.
#include "engine/min_run_time.h"

#include <string>
#include <vector>

#include "kube/time.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

config::PolicyConfiguration Policy(int seconds) {
  config::Queue queue = MakeQueue("default", {"*"});
  queue.min_run_time = std::chrono::seconds{seconds};
  return MakePolicy({queue});
}

/// The condition of a pod that was bound at that time; 0: the API server does not say when.
kube::Pod Since(kube::Pod pod, TimePoint since) {
  pod.pod_scheduled =
      kube::PodScheduled{.status = true, .reason = {}, .message = {}, .since = since};
  return pod;
}

/// Nodes n0, n1, ... of 8 GPUs, and a queue whose work is left alone for a minute.
class Minute : public GangWorld {
 public:
  explicit Minute(int nodes) : GangWorld(nodes, Policy(60)) {}
  /// A pod of 8 GPUs on node n`i` that was bound so many milliseconds ago.
  void Run(const std::string& name, int i, TimePoint ago, const std::string& gang = {}) {
    auto pod = MakePod(name).Gpu(8).On("n" + std::to_string(i)).Created(10);
    if (!gang.empty()) pod.Gang(gang, 3).Min(2);
    Add(Since(pod, now() - ago));
  }
  /// A gang of priority 10, which needs `pods` nodes.
  void Want(const std::string& gang, int pods) {
    for (int i = 0; i < pods; ++i) {
      Add(MakePod(gang + std::to_string(i)).Gpu(8).Gang(gang, pods).Gated().Priority(10));
    }
    Tick();
  }
  std::size_t Evicted() const { return LogOf("evict ").size(); }
  bool WouldStart(const std::string& pod) {
    return engine().WouldStart(*store().FindPod("uid-" + pod)->workload, now());
  }
};

TEST_CASE("a gang is evicted when it has run for its minimum, and not before", "[unit][engine]") {
  Minute w(2);
  w.Run("l0", 0, 0, "low");
  w.Run("l1", 1, 0, "low");
  w.Want("h", 2);
  CHECK(w.Why("h0") == "InsufficientDevices");
  w.Advance(59'000);
  CHECK(w.LogOf("try ").empty());
  w.Advance(999);
  CHECK(w.LogOf("try ").empty());
  CHECK_FALSE(w.WouldStart("h0"));
  REQUIRE(w.engine().NextDeadline().has_value());
  CHECK(*w.engine().NextDeadline() == w.now() + 1);
  w.Advance(1);
  CHECK(w.Evicted() == 2);
  CHECK(w.Why("h0") == "WaitingForVictims");
  w.Advance(30'000);
  CHECK(w.Evicted() == 2);
}

TEST_CASE("a gang runs since its first member does", "[unit][engine]") {
  Minute w(3);
  w.Run("l0", 0, 50'000, "low");
  w.Run("l1", 1, 50'000, "low");
  SECTION("members that join later do not make it young") {
    w.Run("l2", 2, 0, "low");
    w.Want("h", 3);
    w.Advance(9'999);
    CHECK(w.Evicted() == 0);
    w.Advance(1);
    CHECK(w.Evicted() == 3);
  }
  SECTION("one that replaces a member is not what counts") {
    w.Delete("l0");
    w.Run("l3", 0, 0, "low");
    w.Run("l2", 2, 0, "low");
    w.Want("h", 3);
    w.Advance(9'999);
    CHECK(w.Evicted() == 0);
    w.Advance(1);
    CHECK(w.Evicted() == 3);
  }
  SECTION("a launcher without devices is not what counts") {
    kube::Pod launcher = MakePod("l9").Gang("low", 3).Min(2).On("n2").Created(5);
    w.Add(Since(launcher, w.now() - 1'000'000));
    w.Run("x", 2, 100'000);
    w.Want("h", 2);
    w.Advance(9'999);
    CHECK(w.Evicted() == 0);
    w.Advance(1);
    CHECK(w.Evicted() == 2);  // the gang's surplus, and x
  }
  SECTION("a new incarnation is young") {
    w.Delete("l0");
    w.Delete("l1");
    w.Run("l5", 0, 0, "low");
    w.Run("l6", 1, 0, "low");
    w.Run("x", 2, 0);
    w.Want("h", 2);
    w.Advance(59'999);
    CHECK(w.Evicted() == 0);
    w.Advance(1);
    CHECK(w.Evicted() > 0);
  }
}

TEST_CASE("each job's minimum run time ends by itself, for all work that waits", "[unit][engine]") {
  Minute w(2);
  w.Run("l0", 0, 0);
  w.Run("l1", 1, 0);
  w.Change("l1", [](kube::Pod& pod) { pod.pod_scheduled->since += 10'000; });
  w.Want("g", 1);
  w.Want("h", 1);  // its answer is known from g
  w.Advance(59'999);
  CHECK(w.Evicted() == 0);
  w.Advance(1);
  CHECK(w.Evicted() == 1);
  CHECK(w.LogOf("evict l0 for default/gang/g").size() == 1);
  w.Advance(9'999);
  CHECK(w.Evicted() == 1);
  w.Advance(1);
  CHECK(w.LogOf("evict l1 for default/gang/h").size() == 1);
  CHECK(w.Evicted() == 2);
}

TEST_CASE("older work goes before work that is too young", "[unit][engine]") {
  Minute w(2);
  w.Run("young", 0, 0);
  w.Run("old", 1, 60'000);
  w.Change("old", [](kube::Pod& pod) { pod.priority = 5; });
  w.Want("h", 1);
  CHECK(w.Evicted() == 1);
  CHECK(w.LogOf("evict old ").size() == 1);
}

TEST_CASE("another process knows since when work runs", "[unit][engine]") {
  Minute w(2);
  w.Run("l0", 0, 0, "low");
  w.Run("l1", 1, 0, "low");
  w.Want("h", 2);
  w.Advance(30'000);
  SECTION("after a restart") {
    w.Restart();
    w.Advance(29'999);
    CHECK(w.Evicted() == 0);
    w.Advance(1);
    CHECK(w.Evicted() == 2);
  }
  SECTION("with another leader") {
    const auto next = Engine::WithClusterOf(w.engine(), {.instance = "next"}, w.now());
    next->Start(w.now());
    const auto tries = [&](TimePoint now) {
      do next->Step(now);
      while (next->unfinished());
      int count = 0;
      for (const Action& action : next->TakeActions())
        count += std::get_if<EvictPod>(&action) != nullptr;
      return count;
    };
    CHECK(tries(w.now()) == 0);
    CHECK(tries(w.now() + 29'999) == 0);
    CHECK(tries(w.now() + 30'000) == 2);
  }
}

TEST_CASE("evictions that were sent go on, whatever the minimum is then", "[unit][engine]") {
  Minute w(2);
  w.Run("l0", 0, 60'000, "low");
  w.Run("l1", 1, 60'000, "low");
  w.Want("h", 2);
  REQUIRE(w.Evicted() == 2);
  w.Change("l1", [](kube::Pod& pod) { pod.meta.deletion.reset(); });  // it was not sent
  w.Reload(Policy(3600));
  CHECK(w.Planned("h0") == "n0");
  w.Restart();
  CHECK(w.Planned("h0") == "n0");
  CHECK(w.LogOf("evict l1 ").size() == 2);
}

TEST_CASE("an edit of the minimum counts at once", "[unit][engine]") {
  Minute w(1);
  w.Run("low", 0, 0);
  w.Want("h", 1);
  w.Advance(30'000);
  SECTION("ended") {
    w.Reload(Policy(0));
    CHECK(w.Evicted() == 1);
  }
  SECTION("just passed") {
    w.Reload(Policy(31));
    CHECK(w.Evicted() == 0);
    w.Advance(1'000);
    CHECK(w.Evicted() == 1);
  }
  SECTION("raised") {
    w.Reload(Policy(90));
    w.Advance(59'999);
    CHECK(w.Evicted() == 0);
    w.Advance(1);
    CHECK(w.Evicted() == 1);
  }
}

TEST_CASE("work of which the API server does not say since when it runs", "[unit][engine]") {
  SECTION("it was bound while we looked") {
    Minute w(1);
    w.Add(MakePod("low").Gpu(8).On("n0").Created(10));
    w.Want("h", 1);
    w.Advance(59'999);
    CHECK(w.Evicted() == 0);
    w.Advance(1);
    CHECK(w.Evicted() == 1);
  }
  SECTION("it was bound before: it is not known, so it is not too young") {
    Minute w(1);
    w.Add(MakePod("low").Gpu(8).On("n0").Created(10));
    w.Restart();
    w.Want("h", 1);
    CHECK(w.Evicted() == 1);
  }
}

TEST_CASE("a pod whose Binding is under way is young", "[unit][engine]") {
  Minute w(1);
  w.Add(MakePod("low").Gpu(8).Gang("l", 1).Gated().Created(10));
  w.Tick();
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("low", "n0").posted);
  w.Want("h", 1);
  CHECK(w.LogOf("try ").empty());
  w.Advance(500);
  CHECK(w.LogOf("try ").empty());
  w.Change("low", [&](kube::Pod& pod) {
    pod.node_name = "n0";
    pod = Since(pod, w.now() + 2'500);  // the API server's clock is ahead
  });
  w.Advance(62'499);
  CHECK(w.Evicted() == 0);
  w.Advance(1);
  CHECK(w.Evicted() == 1);
}

// --- Single pods, for which kube-scheduler evicts ------------------------------------------------

VictimMap Offer(const std::string& node, const std::string& victim) {
  VictimMap offer;
  offer[node].uids.push_back("uid-" + victim);
  return offer;
}

TEST_CASE("preempt keeps no victim that is too young", "[unit][engine]") {
  Minute w(2);
  w.Run("v", 0, 0);
  w.Add(MakePod("p").Gpu(8).Priority(10));
  w.Run("other", 1, 30'000);
  w.Filter("p");
  CHECK(w.engine().Preempt("uid-p", Offer("n0", "v"), w.now()).empty());
  w.Advance(29'999);
  CHECK(w.engine().Preempt("uid-p", Offer("n1", "other"), w.now()).empty());
  w.Advance(1);
  const VictimMap answer = w.engine().Preempt("uid-p", Offer("n1", "other"), w.now());
  REQUIRE(answer.size() == 1);
  CHECK(answer.at("n1").uids == std::vector<std::string>{"uid-other"});
}

TEST_CASE("what kube-scheduler may be binding is no victim", "[unit][engine]") {
  Minute w(1);
  w.Add(MakePod("v").Gpu(8).Created(10));
  REQUIRE(w.Filter("v").node() == "n0");  // its bind call is on its way
  w.Add(MakePod("p").Gpu(8).Priority(10));
  w.Filter("p");
  CHECK(w.engine().Preempt("uid-p", Offer("n0", "v"), w.now()).empty());
}

TEST_CASE("a plan that has not started gives its room up at any time", "[unit][engine]") {
  Minute w(1);
  w.Add(MakePod("low").Gpu(8).Gang("l", 1).Gated().Created(10));
  w.Tick();
  REQUIRE(w.Planned("low") == "n0");
  w.Want("h", 1);
  CHECK(w.Planned("h0") == "n0");
  CHECK(w.Planned("low").empty());
  CHECK(w.LogOf("try ").empty());
}

TEST_CASE("in place of a victim that is too young others of its node are found", "[unit][engine]") {
  Minute w(1);
  w.Add(Since(MakePod("young").Gpu(4).On("n0"), w.now()));
  w.Add(Since(MakePod("old").Gpu(4).On("n0").Priority(5), w.now() - 60'000));
  w.Add(MakePod("p").Gpu(4).Priority(10));
  w.Filter("p");
  const VictimMap answer = w.engine().Preempt("uid-p", Offer("n0", "young"), w.now());
  REQUIRE(answer.size() == 1);
  CHECK(answer.at("n0").uids == std::vector<std::string>{"uid-old"});
}

TEST_CASE("a pod is evicted for a gated one when it comes of age", "[unit][engine]") {
  Minute w(20);
  for (int i = 0; i < 19; ++i) w.Run("v" + std::to_string(i), i, 0);
  w.Run("last", 19, 10'000);
  w.Add(MakePod("p").Gpu(8).Priority(10).Gated());
  w.Add(MakePod("q").Gpu(8).Priority(10).Gated());
  w.Tick();
  w.Advance(49'999);
  CHECK(w.LogOf("evict ").empty());
  w.Advance(1);
  CHECK(w.LogOf("evict ") == std::vector<std::string>{"evict last for default/pod/p"});
}

TEST_CASE("without a minimum no work waits for one", "[unit][engine]") {
  GangWorld w(1);
  w.Add(Since(MakePod("low").Gpu(8).On("n0"), w.now()));
  w.Add(MakePod("h").Gpu(8).Gang("h", 1).Gated().Priority(10));
  w.Tick();
  CHECK(w.LogOf("evict ").size() == 1);
}

/// Two pods of one priority, of which `old` has run for 50 s and `young`, which was created before
/// it, for 10 s. A gang needs the room of one of them.
class LostWork : public GangWorld {
 public:
  LostWork() : GangWorld(2, Policy(0)) {
    Add(Since(MakePod("old").Gpu(8).On("n0").Created(20), now() - 50'000));
    Add(Since(MakePod("young").Gpu(8).On("n1").Created(10), now() - 10'000));
  }
  void Checkpoint(const std::string& pod, const std::string& time) {
    Change(pod, [&](kube::Pod& p) { p.meta.annotations["berth.dev/checkpoint-time"] = time; });
  }
  std::vector<std::string> Evicted() {
    Add(MakePod("h").Gpu(8).Gang("h", 1).Gated().Priority(10));
    Tick();
    return LogOf("evict ");
  }
};

using Lines = std::vector<std::string>;
const Lines kOld{"evict old for default/gang/h"};
const Lines kYoung{"evict young for default/gang/h"};

TEST_CASE("of equals the one that loses least is evicted", "[unit][engine]") {
  LostWork w;
  SECTION("since it started, not since it was created") { CHECK(w.Evicted() == kYoung); }
  SECTION("since its last checkpoint") {
    w.Checkpoint("old", kube::FormatTime(w.now() - 5'000));
    CHECK(w.Evicted() == kOld);
  }
  SECTION("a checkpoint is none if it is older than the start") {
    w.Checkpoint("old", "1970-01-01T00:00:00Z");
    CHECK(w.Evicted() == kYoung);
  }
  SECTION("one to come counts as now") {
    w.Checkpoint("young", "9999-01-01T00:00:00Z");
    w.Checkpoint("old", "9999-01-01T00:00:00Z");
    CHECK(w.Evicted() == kOld);  // both lose nothing, and it was created last
  }
  SECTION("one that cannot be read is none") {
    w.Checkpoint("old", "yesterday");
    CHECK(w.Evicted() == kYoung);
  }
}

TEST_CASE("fewer devices are better than less work", "[unit][engine]") {
  GangWorld w(2, Policy(0));
  w.Add(Since(MakePod("small").Gpu(7).On("n0"), w.now() - 5'000'000));
  w.Add(Since(MakePod("large").Gpu(8).On("n1"), w.now()));
  w.Add(MakePod("h").Gpu(7).Gang("h", 1).Gated().Priority(10));
  w.Tick();
  CHECK(w.LogOf("evict ") == Lines{"evict small for default/gang/h"});
}

}  // namespace
}  // namespace berth::engine
