// Which waiting work loses its gate so that an autoscaler of nodes sees it (engine/shown_work.h).
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using testing::MakeBorrowing;
using testing::MakeNode;
using testing::MakePod;
using testing::MakeQueue;
using testing::PodBuilder;
using testing::World;

/// The pause before work is shown, and a little more.
constexpr TimePoint kPause = 1'001;

/// One node of 4 GPUs, full of work of `a`, which is promised `quota`.
class Full : public World {
 public:
  explicit Full(int quota) : Full(MakeBorrowing({MakeQueue("a", {"a"}, -1, quota)})) {}
  explicit Full(config::PolicyConfiguration policy) : World(std::move(policy)) {
    Add(MakeNode("n").Gpu(4));
    for (int i = 0; i < 4; ++i) Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).On("n"));
    Start();
  }
  static PodBuilder Mine(const std::string& name, int gpus = 1) {
    return MakePod(name).Ns("a").Gpu(gpus).Gated();
  }
  bool Shows(const std::string& name) {
    return pod(name).scheduling_gates.empty() && NodeOf(name).empty() && Planned(name).empty();
  }
  void Pause() {
    Advance(kPause);
    Tick();
  }
};

TEST_CASE("work that lacks nodes within its quota is ungated after a pause", "[unit][engine]") {
  Full w(6);
  w.Add(Full::Mine("y"));
  w.Tick();
  CHECK(w.Why("y") == "InsufficientDevices");
  CHECK_FALSE(w.Shows("y"));
  w.Advance(999);
  w.Tick();
  CHECK_FALSE(w.Shows("y"));
  w.Pause();
  CHECK(w.Shows("y"));
  CHECK(w.LogOf("release y").size() == 1);
  // From then on it waits as work does that never had the gate, and is planned when nodes come.
  w.Pause();
  CHECK(w.LogOf("release y").size() == 1);
  w.Add(MakeNode("m").Gpu(1));
  w.Tick();
  w.Schedule();
  CHECK(w.NodeOf("y") == "m");
}

TEST_CASE("work that an earlier process nominated and did not ungate is shown",
          "[unit][engine][bug]") {
  Full w(6);
  w.Add(Full::Mine("y").Claim("p1", "n", "a", 0));
  w.Restart();
  w.Pause();
  w.Pause();
  CHECK(w.Shows("y"));
}

TEST_CASE("what is shown counts against the quota", "[unit][engine]") {
  Full w(6);
  for (const char* name : {"y0", "y1", "y2"}) w.Add(Full::Mine(name));
  w.Pause();
  w.Pause();
  CHECK(w.Shows("y0"));
  CHECK(w.Shows("y1"));
  CHECK_FALSE(w.Shows("y2"));
  SECTION("until it goes") {
    w.Delete("y0");
    w.Pause();
    w.Pause();
    CHECK(w.Shows("y2"));
  }
  SECTION("over a restart") {
    w.Restart();
    w.Pause();
    w.Pause();
    CHECK_FALSE(w.Shows("y2"));
  }
  SECTION("and so does what never had the gate") {
    w.Delete("y0");
    w.Add(MakePod("z").Ns("a").Gpu(1));
    w.Pause();
    w.Pause();
    CHECK_FALSE(w.Shows("y2"));
  }
}

TEST_CASE("work beyond quota is not shown", "[unit][engine]") {
  SECTION("of its own queue") {
    Full w(4);
    w.Add(Full::Mine("y"));
    w.Pause();
    w.Pause();
    CHECK_FALSE(w.Shows("y"));
  }
  SECTION("of the queue above") {
    config::Queue top = MakeQueue("top", {}, -1, 4);
    config::Queue a = MakeQueue("a", {"a"}, -1, 4);
    config::Queue b = MakeQueue("b", {"b"}, -1, 4);
    a.parent = b.parent = "top";
    Full w(MakeBorrowing({top, a, b}));
    w.Add(Full::Mine("y").Ns("b"));
    w.Tick();
    w.EndVictims();
    w.Pause();
    w.Pause();
    CHECK_FALSE(w.Shows("y"));
  }
  SECTION("of a queue without one") {
    Full w(MakeBorrowing({MakeQueue("a", {"a"})}));
    w.Add(Full::Mine("y"));
    w.Pause();
    w.Pause();
    CHECK_FALSE(w.Shows("y"));
  }
}

TEST_CASE("autoscaler.show says what is shown", "[unit][engine]") {
  config::PolicyConfiguration policy =
      MakeBorrowing({MakeQueue("a", {"a"}, -1, 5), MakeQueue("b", {"b"})});
  const auto [show, of_a, of_b] = GENERATE(std::tuple(config::Show::kNone, false, false),
                                           std::tuple(config::Show::kWithinQuota, true, false),
                                           std::tuple(config::Show::kAll, true, true));
  policy.autoscaler.show = show;
  Full w(policy);
  w.Add(Full::Mine("y"));
  w.Add(Full::Mine("y-beyond"));
  w.Add(Full::Mine("z").Ns("b"));
  w.Pause();
  w.Pause();
  CHECK(w.Shows("y") == of_a);
  CHECK_FALSE(w.Shows("y-beyond"));
  CHECK(w.Shows("z") == of_b);
}

TEST_CASE("the workload that would start first is shown first", "[unit][engine]") {
  Full w(5);
  w.Add(Full::Mine("late"));
  w.Add(Full::Mine("urgent").Priority(10));
  w.Pause();
  w.Pause();
  // It preempts, so it needs no node; then the other one is within quota.
  w.EndVictims();
  w.Schedule();
  CHECK_FALSE(w.NodeOf("urgent").empty());
  w.Pause();
  w.Pause();
  CHECK(w.Shows("late"));
}

TEST_CASE("of a gang so many are shown as it can start with", "[unit][engine]") {
  const auto members = [](World& w, int min) {
    for (int i = 0; i < 4; ++i) {
      w.Add(Full::Mine(fmt::format("g{}", i)).Gang("g", 4).Min(min));
    }
    w.Advance(20'000);
    w.Tick();
    w.Advance(kPause);
    w.Tick();
  };
  const auto shown = [](Full& w) {
    int count = 0;
    for (int i = 0; i < 4; ++i) count += w.Shows(fmt::format("g{}", i)) ? 1 : 0;
    return count;
  };
  SECTION("all of them") {
    Full w(8);
    members(w, 4);
    CHECK(shown(w) == 4);
  }
  SECTION("none, if the quota is enough for some only") {
    Full w(7);
    members(w, 4);
    CHECK(shown(w) == 0);
  }
  SECTION("an elastic gang: its minimum, or more") {
    Full w(7);
    members(w, 2);
    CHECK(shown(w) == 3);
  }
  SECTION("an elastic gang: not less than its minimum") {
    Full w(5);
    members(w, 2);
    CHECK(shown(w) == 0);
  }
}

TEST_CASE("quota of a flavor covers work that its selectors admit", "[unit][engine]") {
  config::Queue a = MakeQueue("a", {"a"});
  a.quotas = {{.flavor = "old", .quota = {{"nvidia.com/gpu", 4'000}}},
              {.flavor = "new", .quota = {{"nvidia.com/gpu", 1'000}}}};
  config::PolicyConfiguration policy = MakeBorrowing({a});
  policy.flavors = {{.name = "old", .node_selector = {{"m", "o"}}},
                    {.name = "new", .node_selector = {{"m", "n"}}}};
  World w(policy);
  w.Add(MakeNode("n").Gpu(4).Label("m", "o"));
  for (int i = 0; i < 4; ++i) w.Add(MakePod(fmt::format("x{}", i)).Ns("a").Gpu(1).On("n"));
  w.Start();
  w.Add(Full::Mine("on-old").Selector("m", "o"));
  w.Add(Full::Mine("on-new").Selector("m", "n"));
  for (int i = 0; i < 2; ++i) {
    w.Advance(kPause);
    w.Tick();
  }
  CHECK_FALSE(w.pod("on-old").scheduling_gates.empty());
  CHECK(w.pod("on-new").scheduling_gates.empty());
}

}  // namespace
}  // namespace berth::engine
