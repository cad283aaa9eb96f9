// What comes back after Berth has evicted it: its place in line, the pause before it is planned
// again, and when it is not evicted any more.
#include <string>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::PodBuilder;
using testing::World;

TEST_CASE("the pause is doubled with each eviction", "[unit][engine]") {
  CHECK(BackOffAfter(1) == 10'000);
  CHECK(BackOffAfter(2) == 20'000);
  CHECK(BackOffAfter(5) == 160'000);
  CHECK(BackOffAfter(6) == 300'000);
  CHECK(BackOffAfter(1'000'000) == 300'000);
}

config::PolicyConfiguration OneQueue(int quota, int max_evictions) {
  config::PolicyConfiguration policy = MakePolicy({MakeQueue("default", {"*"}, -1, quota)});
  policy.eviction.max_evictions = max_evictions;
  policy.borrowing = true;
  return policy;
}

/// One node of 8 GPUs, which the gang `low` (l0, l1) fills. The gang `high` has priority 10.
class ComesBack : public World {
 public:
  explicit ComesBack(int quota = 0, int max_evictions = -1)
      : ComesBack(OneQueue(quota, max_evictions)) {}
  explicit ComesBack(config::PolicyConfiguration policy) : World(std::move(policy)) {
    Add(MakeNode("n0").Gpu(8));
    for (int i = 0; i < 2; ++i) Add(Low(i, "low").Created(10));
    Start();
    Settle();
    REQUIRE(UsedGpus() == 8);
  }
  static PodBuilder Low(int i, const std::string& gang) {
    return MakePod(gang + std::to_string(i)).Gpu(4).Gang(gang, 2).Gated();
  }
  /// `high` comes, takes the room, runs and ends.
  void Evict() {
    ++round_;
    for (int i = 0; i < 2; ++i) Add(Low(i, "high").Priority(10).Uid(Next("high", i)));
    Tick();
    for (const char* pod : {"low0", "low1"}) Delete(pod);
    Settle();
    for (const char* pod : {"high0", "high1"}) {
      REQUIRE(NodeOf(pod) == "n0");
      Delete(pod);
    }
    Tick();
  }
  /// The owner of `low` makes new pods.
  void Return(int created = 100) {
    for (int i = 0; i < 2; ++i) Add(Low(i, "low").Uid(Next("low", i)).Created(created));
    Tick();
  }
  void Settle() {
    Tick();
    Schedule();
    Tick();
  }

 private:
  std::string Next(const std::string& gang, int i) const {
    return gang + std::to_string(i) + "-" + std::to_string(round_);
  }
  int round_ = 0;
};

// The queue of `low` is promised all 8 GPUs, or it has as much of a fair share as that of `other`,
// which asks for 4.
TEST_CASE("room is left for the moment to what comes back within its quota alone",
          "[unit][engine][bug]") {
  const int quota = GENERATE(8, 0);
  ComesBack w(testing::MakeBorrowing(
      {MakeQueue("default", {"default"}, -1, quota), MakeQueue("other", {"other"})}));
  w.Evict();
  w.Return();
  w.Add(MakePod("other").Ns("other").Gpu(4).Gated());
  w.Advance(5'000);
  CHECK(w.Planned("other").empty() == (quota == 8));
  CHECK(w.Why("low0") == "CoolingDown");
  w.Advance(6'000);
  CHECK(w.Planned("low0").empty() == (quota == 0));
}

TEST_CASE("a gang that was evicted waits for a moment once it is back", "[unit][engine]") {
  ComesBack w;
  w.Evict();
  w.Return();
  CHECK(w.Why("low0") == "CoolingDown");
  CHECK(cluster::Sentence(w.VerdictOf("low0")) ==
        "It was evicted once, and keeps its place in line; it is planned again in 10 s.");
  w.Advance(6'000);
  CHECK(cluster::Sentence(w.VerdictOf("low0")) ==
        "It was evicted once, and keeps its place in line; it is planned again in 4 s.");
  w.Advance(3'999);
  CHECK(w.Planned("low0").empty());
  w.Advance(1);
  CHECK(w.Planned("low0") == "n0");
  w.Settle();
  CHECK(w.NodeOf("low0") == "n0");
  SECTION("twice as long the second time") {
    w.Evict();
    w.Return();
    CHECK(w.Why("low0") == "CoolingDown");
    w.Advance(19'999);
    CHECK(w.Planned("low0").empty());
    w.Advance(1);
    CHECK(w.Planned("low0") == "n0");
  }
  SECTION("another process reads that from the claims of its pods") {
    w.Restart();
    w.Tick();
    w.Evict();
    w.Return();
    w.Advance(19'999);
    CHECK(w.Planned("low0").empty());
    w.Advance(1);
    CHECK(w.Planned("low0") == "n0");
  }
}

TEST_CASE("a gang that ended by itself does not wait", "[unit][engine]") {
  ComesBack w;
  for (const char* pod : {"low0", "low1"}) w.Delete(pod);
  w.Tick();
  w.Return();
  CHECK(w.Planned("low0") == "n0");
}

TEST_CASE("what was evicted keeps its place in line", "[unit][engine]") {
  ComesBack w;
  w.Add(ComesBack::Low(0, "other").Created(50));
  w.Add(ComesBack::Low(1, "other").Created(50));
  w.Add(MakePod("wall").Gpu(8).Gang("wall", 1).Priority(100).Created(60).Gated());
  w.Tick();
  w.Delete("low0");
  w.Delete("low1");
  w.Settle();
  REQUIRE(w.NodeOf("wall") == "n0");
  w.Return(70);
  w.Advance(10'000);
  w.Delete("wall");
  w.Tick();
  // By the age of its pods it would come after `other`.
  CHECK(w.Planned("low0") == "n0");
  CHECK(w.Planned("other0").empty());
}

TEST_CASE("pods of one controller wait, as many as were evicted", "[unit][engine]") {
  World w(OneQueue(0, -1));
  for (const char* node : {"n0", "n1"}) w.Add(MakeNode(node).Gpu(8));
  const auto of_job = [](PodBuilder builder) {
    kube::Pod pod = std::move(builder).Build();
    pod.controller = kube::OwnerReference{
        .kind = "Job", .name = "job", .uid = "uid-of-the-job", .controller = true};
    return pod;
  };
  for (const char* name : {"a", "b"})
    w.Add(of_job(MakePod(name).Gpu(8).On(name[0] == 'a' ? "n0" : "n1")));
  w.Start();
  w.Add(MakePod("high").Gpu(8).Gang("high", 1).Priority(10).Gated());
  w.Tick();
  REQUIRE(w.LogOf("evict ").size() == 1);
  w.Delete(w.LogOf("evict ").front().substr(6, 1));
  w.Schedule();
  w.Delete("high");
  for (const char* name : {"c", "d"}) w.Add(of_job(MakePod(name).Gpu(8).Gated()));
  w.Tick();
  CHECK(w.Why("c") == "CoolingDown");
  CHECK_FALSE(w.Planned("d").empty());
}

TEST_CASE("after maxEvictions a job starts within quota, and stays", "[unit][engine]") {
  ComesBack w(/*quota=*/8, /*max_evictions=*/2);
  w.Evict();
  w.Return();
  w.Advance(10'000);
  w.Settle();
  REQUIRE(w.NodeOf("low0") == "n0");
  w.Evict();  // once it is not enough
  w.Return();
  CHECK(cluster::Sentence(w.VerdictOf("low0")) ==
        "It was evicted 2 times, and keeps its place in line; it is planned again in 20 s, within "
        "the quota of its queue only, and is not evicted again.");
  // Its pods are read again meanwhile.
  for (const char* name : {"low0", "low1"}) {
    w.Change(name, [](kube::Pod& pod) { pod.meta.annotations["team/note"] = "again"; });
  }
  w.Advance(20'000);
  w.Settle();
  REQUIRE(w.NodeOf("low0") == "n0");
  const auto evictions = w.LogOf("evict ").size();
  for (int i = 0; i < 2; ++i) w.Add(ComesBack::Low(i, "higher").Priority(20));
  w.Tick();
  CHECK(w.LogOf("evict ").size() == evictions);
  w.Restart();
  w.Tick();
  CHECK(w.LogOf("evict ").size() == evictions);
}

TEST_CASE("after maxEvictions a job waits for quota beyond it", "[unit][engine]") {
  ComesBack w(/*quota=*/7, /*max_evictions=*/1);
  w.Evict();
  w.Return();
  w.Advance(10'000);
  CHECK(w.Planned("low0").empty());
  CHECK(w.Why("low0") == "ExceedsLimit");
}

TEST_CASE("a member that comes late belongs to the job that was evicted too often",
          "[unit][engine]") {
  World w(OneQueue(/*quota=*/8, /*max_evictions=*/1));
  w.Add(MakeNode("n0").Gpu(12));
  const auto member = [](const std::string& gang, int i) {
    return MakePod(gang + std::to_string(i)).Gpu(4).Gang(gang, 3).Min(2).Gated();
  };
  const auto settle = [&w] {
    w.Tick();
    w.Schedule();
    w.Tick();
  };
  for (int i = 0; i < 3; ++i) w.Add(member("low", i));
  w.Start();
  settle();
  REQUIRE(w.UsedGpus() == 12);
  for (int i = 0; i < 3; ++i) w.Add(member("high", i).Priority(10));
  w.Tick();
  for (int i = 0; i < 3; ++i) w.Delete("low" + std::to_string(i));
  settle();
  for (int i = 0; i < 3; ++i) w.Delete("high" + std::to_string(i));
  w.Tick();

  for (int i = 0; i < 2; ++i) w.Add(member("low", i).Uid("low" + std::to_string(i) + "-2"));
  w.Tick();
  REQUIRE(w.Why("low0") == "CoolingDown");
  w.Add(member("low", 2).Uid("low2-2"));
  w.Advance(10'000);
  settle();
  CHECK(w.NodeOf("low0") == "n0");
  CHECK(w.NodeOf("low2").empty());  // 8 of 12 GPUs are quota
}

TEST_CASE("a queue that denies work that may not be evicted keeps such a job", "[unit][engine]") {
  config::PolicyConfiguration policy = OneQueue(8, 1);
  policy.queues.front().non_preemptible = false;
  ComesBack w(policy);
  w.Evict();
  w.Return();
  w.Advance(10'000);
  CHECK(w.Planned("low0") == "n0");
}

TEST_CASE("what does not come back for an hour is forgotten", "[unit][engine]") {
  ComesBack w;
  w.Evict();
  w.Advance(EvictedJobs::kKept);
  w.Return();
  CHECK(w.Planned("low0") == "n0");
}

}  // namespace
}  // namespace berth::engine
