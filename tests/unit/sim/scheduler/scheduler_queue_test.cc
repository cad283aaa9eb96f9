// kube-scheduler's queue.
#include "sim/scheduler/scheduler_queue.h"

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakeNode;
using testing::MakePod;
using What = ClusterEvent::What;

struct QueueTest {
  Timeline time{1'000'000};
  SchedulingQueue queue{time, {}};

  void Add(const testing::PodBuilder& pod) {
    queue.Update(std::make_shared<const kube::Pod>(pod.Build()));
  }
  void At(Duration since_start) {
    time.At(1'000'000 + since_start, [] {});
    time.Step();
  }
  std::string Pop() {
    const auto pod = queue.Pop();
    return pod == nullptr ? "" : pod->meta.name;
  }
};

TEST_CASE_METHOD(QueueTest, "by priority, then by when it came", "[unit][sim]") {
  Add(MakePod("old"));
  At(10);
  Add(MakePod("young"));
  Add(MakePod("high").Priority(5));
  CHECK(Pop() == "high");
  CHECK(Pop() == "old");
  CHECK(Pop() == "young");
  CHECK(Pop().empty());
}

TEST_CASE_METHOD(QueueTest, "a gated pod comes when its last gate goes", "[unit][sim]") {
  Add(MakePod("g").Gated());
  CHECK(Pop().empty());
  Add(MakePod("g"));
  CHECK(Pop() == "g");
}

TEST_CASE_METHOD(QueueTest, "errors back off 1, 2, 4, 8, 10, 10 s, to whole seconds",
                 "[unit][sim]") {
  Add(MakePod("p"));
  Duration expected = 0;
  for (const Duration wait : {1, 2, 4, 8, 10, 10}) {
    REQUIRE(Pop() == "p");
    queue.Failed("uid-p", /*rejectors=*/0);
    // It ends when the second is over in which it would: here all begin on a whole second.
    expected += (wait + 1) * 1'000;
    CHECK(queue.NextDue() == 1'000'000 + expected);
    At(expected - 1);
    CHECK(Pop().empty());
    At(expected);
  }
}

TEST_CASE_METHOD(QueueTest, "a refused pod sleeps until an event, then is tried at once if idle",
                 "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", kExtender);
  CHECK(Pop().empty());
  queue.Move({.what = What::kAssignedPodUpdate});
  // It backs off; with nothing active it is popped all the same (SchedulerPopFromBackoffQ).
  Add(MakePod("other"));
  CHECK(Pop() == "other");
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "a pod that plugins alone refused wakes when room may come",
                 "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", kNodeResourcesFit);
  queue.Move({.what = What::kAssignedPodAdd});
  CHECK(Pop().empty());
  queue.Move({.what = What::kAssignedPodDelete});
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "an event during the attempt is not lost", "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Move({.what = What::kNodeDelete});
  queue.Failed("uid-p", kExtender);
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "its own update during the attempt is not lost, nor what follows",
                 "[unit][sim]") {
  const bool later = GENERATE(false, true);
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  Add(MakePod("p").Annotation("a", "b"));
  if (later) queue.Move({.what = What::kAssignedPodDelete});
  queue.Failed("uid-p", later ? kNodeResourcesFit : kExtender);
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "its own update wakes a pod that the extender refused, and no other",
                 "[unit][sim]") {
  const auto [rejector, woken] = GENERATE(table<Rejector, std::string>(
      {{kExtender, "p"}, {kNodeResourcesFit, ""}, {kTaintToleration, ""}, {kNodeAffinity, ""}}));
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", rejector);
  Add(MakePod("p").Nominated("n"));
  CHECK(Pop() == woken);
}

TEST_CASE_METHOD(QueueTest, "a node wakes the pods that it may help", "[unit][sim]") {
  const auto big = MakePod("p").Cpu("8").Tolerate("t").Selector("zone", "a");
  const auto wakes = [&](Rejector rejector, const kube::Node* before, const kube::Node& after) {
    Add(big);
    REQUIRE(Pop() == "p");
    queue.Failed("uid-p", rejector);
    queue.Move({.what = before == nullptr ? What::kNodeAdd : What::kNodeUpdate,
                .before = before == nullptr ? nullptr : std::make_shared<const kube::Node>(*before),
                .after = std::make_shared<const kube::Node>(after)});
    const bool woken = Pop() == "p";
    queue.Delete("uid-p");
    return woken;
  };
  const kube::Node small = MakeNode("n").Cpu(4);
  const kube::Node large = MakeNode("n").Cpu(8);
  CHECK_FALSE(wakes(kNodeResourcesFit, nullptr, small));
  CHECK(wakes(kNodeResourcesFit, nullptr, large));
  CHECK(wakes(kNodeResourcesFit, &small, large));
  CHECK_FALSE(wakes(kNodeResourcesFit, &large, MakeNode("n").Cpu(8).Label("zone", "a")));
  CHECK(wakes(kNodeAffinity, &large, MakeNode("n").Cpu(8).Label("zone", "a")));
  CHECK_FALSE(wakes(kNodeAffinity, nullptr, large));
  CHECK(wakes(kTaintToleration, nullptr, MakeNode("n").Taint("t")));
  CHECK_FALSE(wakes(kTaintToleration, nullptr, MakeNode("n").Taint("other")));
  const kube::Node cordoned = MakeNode("n").Cordoned();
  CHECK(wakes(kNodeUnschedulable, &cordoned, large));
  CHECK_FALSE(wakes(kNodeUnschedulable, &large, cordoned));
  // Any change of taints, and the end of a cordon, wakes these two whatever the node has.
  const auto other = GENERATE(kNodeResourcesFit, kNodeAffinity);
  CHECK(wakes(other, &small, MakeNode("n").Cpu(4).Taint("x")));
  CHECK(wakes(other, &cordoned, MakeNode("n").Cpu(4)));
  CHECK_FALSE(wakes(other, &small, MakeNode("n").Cpu(4).Cordoned()));
}

TEST_CASE_METHOD(QueueTest, "the end of a pod helps where room was short, a taint it leaves",
                 "[unit][sim]") {
  const auto [rejector, woken] = GENERATE(table<Rejector, std::string>(
      {{kExtender, "p"}, {kNodeResourcesFit, "p"}, {kTaintToleration, ""}, {kNodeAffinity, ""}}));
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", rejector);
  queue.Move({.what = What::kAssignedPodDelete});
  CHECK(Pop() == woken);
}

TEST_CASE_METHOD(QueueTest, "the gates' end does not renew a pod's place in line", "[unit][sim]") {
  Add(MakePod("gated").Gated());
  At(5);
  Add(MakePod("young"));
  At(10);
  Add(MakePod("gated"));
  CHECK(Pop() == "gated");
  CHECK(Pop() == "young");
}

TEST_CASE_METHOD(QueueTest, "pods whose backoff ends in the same second go by priority",
                 "[unit][sim]") {
  Add(MakePod("low"));
  REQUIRE(Pop() == "low");
  queue.Failed("uid-low", kNodeResourcesFit);
  At(400);
  Add(MakePod("high").Priority(5));
  REQUIRE(Pop() == "high");
  queue.Failed("uid-high", kNodeResourcesFit);
  At(500);
  queue.Move({.what = What::kAssignedPodDelete});
  CHECK(Pop() == "high");
  CHECK(Pop() == "low");
}

TEST_CASE_METHOD(QueueTest, "a refusal ends the count of errors, not the other way round",
                 "[unit][sim]") {
  const auto fails = [this](Rejectors rejectors) {
    REQUIRE(Pop() == "p");
    queue.Failed("uid-p", rejectors);
  };
  Add(MakePod("p"));
  fails(0);
  CHECK(queue.NextDue() == 1'002'000);
  At(5'000);
  fails(0);
  CHECK(queue.NextDue() == 1'008'000);
  At(10'000);
  fails(kExtender);
  Add(MakePod("p"));  // wakes it, and nobody else is active
  fails(0);
  CHECK(queue.NextDue() == 1'012'000);
}

TEST_CASE_METHOD(QueueTest, "a failed attempt refreshes the timestamp: it loses its place",
                 "[unit][sim]") {
  Add(MakePod("first"));
  At(5);
  Add(MakePod("second"));
  REQUIRE(Pop() == "first");
  At(10);
  queue.Failed("uid-first", kExtender);
  queue.Move({.what = What::kNodeDelete});
  At(20'000);
  CHECK(Pop() == "second");
  CHECK(Pop() == "first");
}

TEST_CASE_METHOD(QueueTest, "a pod that sleeps for five minutes is tried anyway", "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", kExtender);
  At(299'000);
  CHECK(Pop().empty());
  At(331'000);  // flushed every 30 s
  CHECK(Pop() == "p");
}

}  // namespace
}  // namespace berth::sim
