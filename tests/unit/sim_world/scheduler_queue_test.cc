// kube-scheduler's queue, as measured and read in reference extender-protocol.md 4.
#include "sim/world/scheduler_queue.h"

#include "tests/support/builders.h"
#include "tests/support/catch.h"

namespace berth::sim {
namespace {

using testing::MakePod;

struct QueueTest {
  Timeline time{1'000'000};
  SchedulingQueue queue{time, {}};

  void Add(const testing::PodBuilder& pod) {
    queue.Update(std::make_shared<const kube::Pod>(pod.Build()), true);
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
    queue.Failed("uid-p", /*error=*/true, false);
    expected += wait * 1'000;
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
  queue.Failed("uid-p", false, /*by_extender=*/true);
  CHECK(Pop().empty());
  queue.Move(ClusterEvent::kAssignedPodUpdate);
  // It backs off; with nothing active it is popped all the same (SchedulerPopFromBackoffQ).
  Add(MakePod("other"));
  CHECK(Pop() == "other");
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "who was refused by plugins alone wakes when room may come",
                 "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", false, /*by_extender=*/false);
  queue.Move(ClusterEvent::kAssignedPodAdd);
  CHECK(Pop().empty());
  queue.Move(ClusterEvent::kAssignedPodDelete);
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "an event during the attempt is not lost", "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Move(ClusterEvent::kNodeChange);
  queue.Failed("uid-p", false, true);
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "its own update wakes it, its nomination does not", "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", false, true);
  queue.Update(std::make_shared<const kube::Pod>(MakePod("p").Nominated("n").Build()), false);
  CHECK(Pop().empty());
  Add(MakePod("p").Annotation("berth.dev/plan", "v1"));
  CHECK(Pop() == "p");
}

TEST_CASE_METHOD(QueueTest, "a failed attempt refreshes the timestamp: it loses its place",
                 "[unit][sim]") {
  Add(MakePod("first"));
  At(5);
  Add(MakePod("second"));
  REQUIRE(Pop() == "first");
  At(10);
  queue.Failed("uid-first", false, true);
  queue.Move(ClusterEvent::kNodeChange);
  At(20'000);
  CHECK(Pop() == "second");
  CHECK(Pop() == "first");
}

TEST_CASE_METHOD(QueueTest, "who sleeps for five minutes is tried anyway", "[unit][sim]") {
  Add(MakePod("p"));
  REQUIRE(Pop() == "p");
  queue.Failed("uid-p", false, true);
  At(299'000);
  CHECK(Pop().empty());
  At(331'000);  // flushed every 30 s
  CHECK(Pop() == "p");
}

}  // namespace
}  // namespace berth::sim
