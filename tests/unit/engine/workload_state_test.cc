#include "engine/workload_state.h"

#include <catch2/catch.hpp>

#include "tests/support/builders.h"

namespace berth::engine {
namespace {

using testing::MakeNode;
using testing::MakePod;

struct StatesTest : cluster::StoreListener {
  const cluster::PodInfo& Member(const char* name) {
    return *store.UpsertPod(MakePod(name).Gpu(1).Gang("g", 2));
  }

  void OnMemberLeft(const cluster::Workload& workload, const cluster::PodInfo& pod) override {
    states.RemoveMember(workload, pod);
  }
  void OnNewIncarnation(const cluster::Workload& workload) override {
    states.BeginIncarnation(workload);
  }
  void OnWorkloadGone(const cluster::Workload& workload) override { states.Forget(workload); }
  void OnPodGone(const cluster::PodInfo& pod) override { states.Forget(pod); }

  States states;
  cluster::Store store{{}, {}, this};
};

TEST_CASE("of what nothing was decided for there is no state", "[unit][engine]") {
  StatesTest t;
  const cluster::PodInfo& pod = t.Member("a");
  CHECK_FALSE(std::as_const(t.states).At(*pod.workload).plan.has_value());
  CHECK_FALSE(t.states.At(pod).asked);
}

TEST_CASE("a member that leaves has no place in the plan any more", "[unit][engine]") {
  StatesTest t;
  const cluster::PodInfo& a = t.Member("a");
  const cluster::PodInfo& b = t.Member("b");
  Plan& plan = t.states[*a.workload].plan.emplace();
  for (const cluster::PodInfo* pod : {&a, &b}) plan.assignments.Add({.pod = pod});

  SECTION("that ends") { t.store.DeletePod("uid-b"); }
  SECTION("that claims another gang") {
    t.store.UpsertPod(MakePod("b").Gpu(1).Gang("other", 2));
    CHECK_FALSE(t.states.At(*b.workload).plan.has_value());
  }
  REQUIRE(plan.assignments.size() == 1);
  CHECK(plan.assignments.begin()->pod == &a);
}

TEST_CASE("a plan counts how far its members have come", "[unit][engine]") {
  StatesTest t;
  const cluster::PodInfo& a = t.Member("a");
  const cluster::PodInfo& b = t.Member("b");
  Assignments places;
  const auto counts = [&] {
    return std::vector{places.reserved(), places.on_their_way(), places.arrived()};
  };
  Assignment& first = places.Add({.pod = &a});
  Assignment& second = places.Add({.pod = &b, .managed = false});
  CHECK(places.Find(b) == &second);
  CHECK(counts() == std::vector{1, 0, 0});
  places.SetPhase(second, MemberPhase::kReleased);
  CHECK(counts() == std::vector{1, 0, 0});  // nobody waits for it
  places.SetManaged(second);
  CHECK(counts() == std::vector{1, 1, 0});
  places.SetPhase(first, MemberPhase::kArrived);
  CHECK(counts() == std::vector{0, 1, 1});
  places.SetPhase(first, MemberPhase::kArrived);
  CHECK(counts() == std::vector{0, 1, 1});
  places.RemoveIf([](const Assignment& place) { return place.arrived(); });
  CHECK(counts() == std::vector{0, 1, 0});
  CHECK(places.Find(a) == nullptr);
  places.Remove(a);  // it has no place any more
  places.Remove(b);
  CHECK(counts() == std::vector{0, 0, 0});
  CHECK(places.empty());
  CHECK_FALSE(places.constrained());
}

TEST_CASE("a new incarnation is told of no failure of the last one", "[unit][engine]") {
  StatesTest t;
  const cluster::PodInfo& pod = t.Member("a");
  WorkloadState& state = t.states[*pod.workload];
  state = {.plan = {}, .verdict = {}, .failures = 3, .hold_until = 9, .gathered = 1};
  t.store.BeginIncarnation(*pod.workload);
  CHECK(state.failures == 0);
  CHECK(state.hold_until == 0);
  CHECK(state.gathered == 0);
}

TEST_CASE("a workload of the same name has a state of its own", "[unit][engine]") {
  StatesTest t;
  t.states[*t.Member("a").workload].failures = 3;
  t.states[*t.store.FindPod("uid-a")].asked = true;
  t.store.DeletePod("uid-a");
  const cluster::PodInfo& pod = t.Member("a");
  CHECK(t.states.At(*pod.workload).failures == 0);
  CHECK_FALSE(t.states.At(pod).asked);
}

}  // namespace
}  // namespace berth::engine
