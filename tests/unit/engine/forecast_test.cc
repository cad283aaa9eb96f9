// When work that waits would have room, by the ends that are known. Times are seconds from the
// start of each test.
#include "engine/forecast.h"

#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;

/// Nodes n0, n1, ... of 8 GPUs.
class Forecast : public GangWorld {
 public:
  explicit Forecast(int nodes, config::PolicyConfiguration policy = {})
      : GangWorld(nodes, std::move(policy)), start_(now()) {}
  testing::PodBuilder Job(const std::string& name, int gpus, int seconds) {
    auto pod = MakePod(name).Gpu(gpus);
    if (seconds != 0) pod.Annotation("berth.dev/expected-duration", std::to_string(seconds) + "s");
    return pod;
  }
  /// `seconds` 0: it does not say how long it takes.
  void Run(const std::string& name, int gpus, int node, int seconds) {
    Add(Job(name, gpus, seconds).On("n" + std::to_string(node)));
  }
  std::vector<TimePoint> Ends() {
    std::set<TimePoint> ends;
    for (const auto& node : store().nodes()) {
      for (const TimePoint end : engine().ExpectedEnds(*node, now())) {
        ends.insert((end - start_) / 1000);
      }
    }
    return {ends.begin(), ends.end()};
  }
  /// The last of these pods, which are in line in that order.
  bool HasRoomAt(TimePoint seconds, const std::vector<std::string>& pods) {
    std::vector<const cluster::Workload*> line;
    for (const std::string& pod : pods) line.push_back(store().FindPod("uid-" + pod)->workload);
    return engine().HasRoomAt(line, start_ + seconds * 1000, now());
  }

 private:
  TimePoint start_;
};

TEST_CASE("an end is known of what says how long it takes, and is not late", "[unit][engine]") {
  Forecast w(3);
  w.Run("long", 2, 0, 600);
  w.Run("short", 2, 0, 60);
  w.Run("same", 2, 1, 60);
  w.Run("silent", 8, 2, 0);
  CHECK(w.Ends() == std::vector<TimePoint>{60, 600});
  w.Advance(60'000);
  CHECK(w.Ends() == std::vector<TimePoint>{600});  // those of 60 s may take any time
}

TEST_CASE("a pod that is deleted ends with its grace period", "[unit][engine]") {
  Forecast w(1);
  w.Add(w.Job("p", 8, 600).On("n0").Terminating(w.now() + 30'000));
  CHECK(w.Ends() == std::vector<TimePoint>{30});
}

TEST_CASE("the members of a gang end together, however late one joined", "[unit][engine]") {
  Forecast w(2);
  w.Add(w.Job("a", 8, 100).Gang("g", 2).Min(1).On("n0"));
  w.Advance(40'000);
  w.Add(w.Job("b", 8, 100).Gang("g", 2).Min(1).On("n1"));
  CHECK(w.Ends() == std::vector<TimePoint>{100});
}

// A gang of two nodes: one is free after 100 s, the other after 200 s.
TEST_CASE("a gang has room when its last place is free", "[unit][engine]") {
  Forecast w(2);
  w.Run("first", 8, 0, 100);
  w.Run("second", 1, 1, 200);
  for (int i = 0; i < 2; ++i) w.Add(w.Job("g" + std::to_string(i), 8, 0).Gang("g", 2).Gated());
  w.Tick();
  CHECK_FALSE(w.HasRoomAt(100, {"g0"}));
  CHECK_FALSE(w.HasRoomAt(199, {"g0"}));
  CHECK(w.HasRoomAt(200, {"g0"}));
}

// One node is free after 100 s, and another one after 200 s; the first in line takes the first.
TEST_CASE("what comes first in line takes its room first", "[unit][engine]") {
  Forecast w(2);
  w.Run("first", 8, 0, 100);
  w.Run("second", 8, 1, 200);
  w.Add(w.Job("p", 8, 0).Gated());
  w.Add(w.Job("q", 4, 0).Gated());
  w.Tick();
  CHECK(w.HasRoomAt(100, {"p"}));
  CHECK(w.HasRoomAt(100, {"q"}));
  CHECK_FALSE(w.HasRoomAt(100, {"p", "q"}));
  CHECK(w.HasRoomAt(200, {"p", "q"}));
}

// The queue may use 8 of 16 GPUs.
TEST_CASE("room is of no use without quota", "[unit][engine]") {
  config::Queue queue = MakeQueue("default", {"*"});
  queue.limit = {{"nvidia.com/gpu", 8'000}};
  Forecast w(2, MakePolicy({queue}));
  w.Run("holds", 6, 0, 300);
  w.Add(w.Job("p", 4, 0).Gated());
  w.Add(w.Job("q", 6, 0).Gated());
  w.Tick();
  CHECK_FALSE(w.HasRoomAt(299, {"p"}));
  CHECK(w.HasRoomAt(300, {"p"}));
  CHECK_FALSE(w.HasRoomAt(300, {"p", "q"}));  // 10 GPUs
}

// Each user may have one job at once.
TEST_CASE("a job of the same user that comes first counts", "[unit][engine]") {
  config::Queue queue = MakeQueue("default", {"*"});
  queue.max_jobs_per_user = 1;
  Forecast w(2, MakePolicy({queue}));
  w.Run("holds", 8, 0, 300);
  w.Add(w.Job("p", 1, 0).Gated());
  w.Add(w.Job("q", 1, 0).Gated());
  w.Tick();
  CHECK_FALSE(w.HasRoomAt(299, {"p"}));
  CHECK(w.HasRoomAt(300, {"p"}));
  CHECK_FALSE(w.HasRoomAt(300, {"p", "q"}));
}

TEST_CASE("a gang without all its members has no room at any time", "[unit][engine]") {
  Forecast w(1);
  w.Run("holds", 8, 0, 300);
  w.Add(w.Job("g0", 1, 0).Gang("g", 2).Gated());
  w.Tick();
  CHECK_FALSE(w.HasRoomAt(300, {"g0"}));
}

}  // namespace
}  // namespace berth::engine
