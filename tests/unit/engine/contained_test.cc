// What one tenant's pods cannot do to another's: shut a node, hold room for ever, go before the
// queue, or be evicted where they are spared.
#include <string>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::kGpu;
using testing::MakeNode;
using testing::MakePod;
using testing::World;

constexpr TimePoint kPlanTimeout = 60'000;

class OneNode : public World {
 public:
  OneNode() {
    Add(MakeNode("n").Gpu(8));
    Start();
  }
};

// --- whole nodes

TEST_CASE("only a pod of ours that asks for devices can have a whole node", "[unit][engine]") {
  OneNode w;
  w.Add(MakePod("cpu").Cpu("1").WholeNode().On("n"));
  w.Add(MakePod("foreign").Gpu(1).WholeNode().Scheduler("other").On("n"));
  CHECK(w.UsedGpus("n") == 1);  // what it asks for
  w.Add(MakePod("whole").Gpu(1).WholeNode().On("n"));
  CHECK(w.UsedGpus("n") == 9);
}

// --- resources that nobody has

// A pod that asks for more names than anybody can tell apart must not keep others from a resource
// whose first node is yet to come.
TEST_CASE("a resource is told apart from made-up ones once a node has it", "[unit][engine]") {
  OneNode w;
  testing::PodBuilder odd = MakePod("odd").Gpu(1);
  for (int i = 0; i < 5'000; ++i) odd.Request("example.com/r" + std::to_string(i), "1");
  w.Add(odd);
  w.Add(MakePod("p").Gpu(1).Request("late.com/x", "1").Gated());
  w.Tick();
  REQUIRE(w.Planned("p").empty());
  w.Add(MakeNode("n2").Gpu(8).Allocatable("late.com/x", 1'000));
  w.Tick();
  CHECK(w.Planned("p") == "n2");
  CHECK(w.Filter("odd").kept.empty());
}

// --- room held by those who never bind

constexpr TimePoint kSecond = 1'000;
constexpr TimePoint kHour = 3'600 * kSecond;

/// The share of 20 hours in which `holds` held, after three in which its pauses have grown; `step`
/// is tried every second.
template <typename Step, typename Holds>
double HeldShare(World& w, Step step, Holds holds) {
  TimePoint held = 0;
  for (TimePoint t = -3 * kHour; t < 20 * kHour; t += kSecond) {
    step();
    if (t >= 0 && holds()) held += kSecond;
    w.Advance(kSecond);
  }
  return static_cast<double>(held) / static_cast<double>(20 * kHour);
}

/// The pod is tried whenever it holds nothing.
double HeldShare(World& w, const std::string& pod) {
  const auto holds = [&] { return !w.Planned(pod).empty(); };
  return HeldShare(
      w,
      [&] {
        if (!holds()) (void)w.Filter(pod);
      },
      holds);
}

TEST_CASE("a lone pod that is answered and never bound holds room a tenth of the time",
          "[unit][engine]") {
  OneNode w;
  w.Add(MakePod("p").Gpu(8));
  CHECK(HeldShare(w, "p") <= 0.1);
  CHECK(w.Why("p") == (w.Planned("p").empty() ? "CoolingDown" : "Starting"));
}

TEST_CASE("a lone pod's first two lapses cost it nothing", "[unit][engine]") {
  OneNode w;
  w.Add(MakePod("p").Gpu(8));
  REQUIRE(w.Filter("p").node() == "n");
  w.Advance(3 * kPlanTimeout - 1);
  CHECK(w.Planned("p") == "n");
  w.Advance(1);
  CHECK(w.Filter("p").reason == "CoolingDown");
  w.Advance(39'999);
  CHECK(w.Planned("p").empty());
  w.Advance(1);
  CHECK(w.Planned("p") == "n");  // by itself
}

TEST_CASE("a pod that joins a running gang and never binds holds room a tenth of the time",
          "[unit][engine]") {
  GangWorld w(3);
  w.Gather(2, 2);
  w.Arrive(0);
  w.Arrive(1);
  REQUIRE(w.BoundPods() == 2);
  w.Add(w.Member(2, 2, 2));
  w.Tick();
  CHECK(HeldShare(w, "m2") <= 0.1);
  CHECK(w.BoundPods() == 2);
}

TEST_CASE("members beyond a running gang's minimum give their room back", "[unit][engine]") {
  GangWorld w(4);
  w.Gather(4, 2);
  w.Arrive(0);
  w.Arrive(1);
  REQUIRE(w.BoundPods() == 2);
  CHECK(w.UsedGpus() == 32);
  w.Advance(2 * kPlanTimeout - 1);  // their releases are made again in between
  CHECK(w.UsedGpus() == 32);
  CHECK(HeldShare(
            w, [] {}, [&] { return w.UsedGpus() > 16; }) <= 0.1);
}

TEST_CASE("members of a running gang's minimum keep their room", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(2, 2);
  w.Arrive(0);
  w.Advance(20'000);  // its call ends, and it never comes back
  w.Arrive(1);
  REQUIRE(w.BoundPods() == 1);
  REQUIRE(w.UsedGpus() == 16);
  w.Advance(3'600'000);
  CHECK(w.UsedGpus() == 16);
}

// --- turns

/// Gang g runs on two nodes with its minimum of two; `block` has the third.
class FullWorld : public GangWorld {
 public:
  FullWorld() : GangWorld(3) {
    Gather(2, 2);
    Arrive(0);
    Arrive(1);
    Add(MakePod("block").Gpu(8));
    REQUIRE(Attempt("block"));
  }
};

TEST_CASE("what a running gang wants beyond its minimum waits its turn", "[unit][engine]") {
  FullWorld w;
  w.Add(MakePod("other").Gpu(8).Gated().Created(5'000));
  w.Add(w.Member(2, 2, 2).Gated().Created(6'000));
  w.Tick();
  REQUIRE(w.Planned("other").empty());
  REQUIRE(w.Planned("m2").empty());
  w.Delete("block");
  w.Tick();
  CHECK(!w.Planned("other").empty());
  CHECK(w.Planned("m2").empty());
}

TEST_CASE("a running gang that lost a member of its minimum goes first", "[unit][engine]") {
  FullWorld w;
  w.Add(MakePod("other").Gpu(8).Gated().Created(5'000));
  const std::string node = w.NodeOf("m1");
  w.Delete("m1");
  w.Add(MakePod("taker").Gpu(8).On(node));
  w.Add(w.Member(2, 2, 2).Gated().Created(6'000));
  w.Tick();
  REQUIRE(w.Planned("other").empty());
  REQUIRE(w.Planned("m2").empty());
  w.Delete("block");
  w.Tick();
  CHECK(!w.Planned("m2").empty());
  CHECK(w.Planned("other").empty());
}

TEST_CASE("the pause of what a gang has beyond its minimum does not hold up a replacement",
          "[unit][engine][bug]") {
  GangWorld w(3);
  w.Gather(3, 2);
  w.Arrive(0);
  w.Arrive(1);
  for (int i = 0; i < 200 && w.Why("m2") != "CoolingDown"; ++i) w.Advance(kPlanTimeout);
  REQUIRE(w.Why("m2") == "CoolingDown");
  w.Delete("m1");
  w.Add(w.Member(3, 3, 2).Gated().Created(6'000));
  w.Tick();
  CHECK((!w.Planned("m3").empty() || !w.Planned("m2").empty()));
}

// --- pods that do not belong in a gang

TEST_CASE("a member that no node could ever take keeps no gang waiting", "[unit][engine]") {
  GangWorld w(2);
  w.Add(MakePod("s").Gpu(64).Gang("g", 2).Min(2).Created(900).Gated().Rank(0));
  w.Gather(2, 2);
  CHECK(w.Planned("s").empty());
  CHECK(!w.Planned("m0").empty());
  CHECK(!w.Planned("m1").empty());
}

TEST_CASE("a member unlike the others takes no place of a gang's minimum", "[unit][engine]") {
  GangWorld w(2);
  w.Add(MakePod("s").Gpu(7).Gang("g", 2).Min(2).Created(900).Gated().Rank(0));
  w.Gather(2, 2);
  CHECK(w.Planned("s").empty());
  CHECK(!w.Planned("m0").empty());
  CHECK(!w.Planned("m1").empty());
}

// --- evictions

TEST_CASE("a pod that is not preemptible is never a victim", "[unit][engine]") {
  for (const bool label : {true, false}) {
    OneNode w;
    auto spared = MakePod("spared").Gpu(8).On("n").Priority(0);
    w.Add(label ? spared.Label("berth.dev/preemptible", "false")
                : spared.Annotation("berth.dev/preemptible", "false"));
    w.Add(MakePod("p").Gpu(8).Priority(100));
    REQUIRE(w.Filter("p").kept.empty());
    CHECK(w.engine().Preempt("uid-p", {{"n", {.uids = {"uid-spared"}}}}, w.now()).empty());
    w.Change("spared", [](kube::Pod& pod) {
      pod.meta.labels.clear();
      pod.meta.annotations.clear();
    });
    CHECK(w.engine().Preempt("uid-p", {{"n", {.uids = {"uid-spared"}}}}, w.now()).size() == 1);
  }
}

// --- kubelets

/// Pod p is bound to the only node, n1.
class OneBound : public World {
 public:
  OneBound() {
    Add(MakeNode("n1").Gpu(8));
    Start();
    Add(MakePod("p").Gpu(2));
    REQUIRE(Attempt("p"));
  }
};

/// Bound, and then refused by the kubelet.
void Reject(World& w, const std::string& pod, const std::string& reason) {
  w.Change(pod, [&](kube::Pod& object) {
    object.phase = kube::PodPhase::kFailed;
    object.status_reason = reason;
  });
}

TEST_CASE("a node whose kubelet rejects a pod is left alone by pods of its shape",
          "[unit][engine]") {
  OneBound w;
  Reject(w, "p", "UnexpectedAdmissionError");
  CHECK(w.UsedGpus() == 0);
  w.Add(MakePod("like").Gpu(2));
  w.Add(MakePod("unlike").Gpu(1));
  CHECK(w.Filter("like").kept.empty());
  CHECK(w.Filter("unlike").node() == "n1");
  CHECK(w.LogOf("event p NodeCoolingDown").size() == 1);
  SECTION("for five seconds, and then looks again by itself") {
    w.Advance(4'999);
    CHECK(w.Planned("like").empty());
    w.Advance(1);
    CHECK(w.Planned("like") == "n1");
  }
  SECTION("another node will do") {
    w.Add(MakeNode("n2").Gpu(8));
    CHECK(w.Filter("like").node() == "n2");
  }
}

// Its filter call came before the informer's word: it was judged without its history.
TEST_CASE("a cooled node is not taken by a pod that was answered unseen", "[unit][engine][bug]") {
  OneNode w;
  w.Add(MakePod("p").Gpu(2));
  REQUIRE(w.Attempt("p"));
  Reject(w, "p", "UnexpectedAdmissionError");
  w.SetWatchDelay(100);
  w.Add(MakePod("like").Gpu(2));
  REQUIRE(w.Filter("like").node() == "n");
  w.Advance(100);
  CHECK(!w.Bind("like", "n").posted);
  CHECK(w.UsedGpus() == 0);
}

TEST_CASE("a node does not cool for what happened on one that is gone", "[unit][engine][bug]") {
  OneBound w;
  SECTION("the kubelet's word came before") {
    Reject(w, "p", "UnexpectedAdmissionError");
    w.Remove("n1");
  }
  SECTION("and after") {
    w.Remove("n1");
    Reject(w, "p", "UnexpectedAdmissionError");
  }
  w.Add(MakeNode("n2").Gpu(8));
  w.Add(MakePod("like").Gpu(2));
  CHECK(w.Filter("like").node() == "n2");
}

TEST_CASE("what was planned on a node that cools is planned elsewhere", "[unit][engine][bug]") {
  OneBound w;
  w.Add(MakePod("like").Gpu(2).Gated());
  w.Tick();
  REQUIRE(w.Planned("like") == "n1");
  w.Add(MakeNode("n2").Gpu(8));
  Reject(w, "p", "OutOfcpu");
  w.Tick();
  CHECK(w.Planned("like") == "n2");
}

TEST_CASE("no pod is evicted from a node that cools for the preemptor", "[unit][engine][bug]") {
  OneNode w;
  w.Add(MakePod("p").Gpu(8).Priority(100));
  REQUIRE(w.Attempt("p"));
  Reject(w, "p", "UnexpectedAdmissionError");
  w.Add(MakePod("low").Gpu(1).On("n").Priority(0));
  w.Add(MakePod("next").Gpu(8).Priority(100));
  REQUIRE(w.Filter("next").kept.empty());
  CHECK(w.engine().Preempt("uid-next", {{"n", {.uids = {"uid-low"}}}}, w.now()).empty());
  w.Advance(1'000);  // p has just ended
  w.Add(MakePod("other").Gpu(7).Cpu("1").Priority(100));
  w.Add(MakePod("lower").Gpu(7).On("n").Priority(0));
  CHECK(w.engine().Preempt("uid-other", {{"n", {.uids = {"uid-lower"}}}}, w.now()).size() == 1);
}

TEST_CASE("other ends of pods cool nothing", "[unit][engine]") {
  for (const char* reason : {"", "Evicted", "NodeShutdown", "Terminated"}) {
    OneNode w;
    w.Add(MakePod("p").Gpu(2));
    REQUIRE(w.Attempt("p"));
    Reject(w, "p", reason);
    w.Add(MakePod("like").Gpu(2));
    CHECK(w.Filter("like").node() == "n");
  }
}

}  // namespace
}  // namespace berth::engine
