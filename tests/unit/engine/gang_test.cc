// The life of a gang: gather, plan, release, barrier, commit, end.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/engine/gang_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeNode;
using testing::MakePod;
using Resolution = ResolveBind::Resolution;

TEST_CASE("a gang leaves a node to which a pod of another scheduler is nominated",
          "[unit][engine][bug]") {
  testing::World w;
  for (const char* name : {"n1", "n2"}) w.Add(MakeNode(name).Gpu(8));
  w.Start();
  for (const char* name : {"m0", "m1"}) w.Add(MakePod(name).Gpu(4).Gang("g", 2).Gated());
  w.Tick();
  const std::string planned = w.Planned("m0");
  REQUIRE_FALSE(planned.empty());
  w.Add(MakePod("s").Gpu(4).Scheduler("other").Nominated(planned));
  w.Tick();
  CHECK(w.UsedGpus(planned) <= 8);
  CHECK_FALSE(w.Planned("m0").empty());
}

TEST_CASE("gather, plan, release, barrier, commit", "[unit][engine]") {
  GangWorld w(4);
  for (int i = 0; i < 3; ++i) w.Add(w.Member(i, 4, 4).Gated());
  w.Tick();
  CHECK(w.VerdictOf("m0") == cluster::Verdict{cluster::ReasonId::kWaitingForMembers, 4, 3, ""});
  CHECK(w.Filter("m0").kept.empty());
  CHECK(w.UsedGpus() == 0);
  CHECK(w.LogOf("release").empty());

  w.Add(w.Member(3, 4, 4).Gated());
  w.Tick();
  CHECK(w.UsedGpus() == 32);
  CHECK(w.LogOf("release").size() == 4);
  for (int i = 0; i < 4; ++i) {
    const kube::Pod& pod = w.pod("m" + std::to_string(i));
    CHECK(pod.nominated_node == w.Planned(pod.meta.name));
    CHECK(pod.scheduling_gates.empty());
    CHECK(w.Filter(pod.meta.name).node() == pod.nominated_node);
    CHECK(w.Filter(pod.meta.name, {pod.nominated_node}).node() == pod.nominated_node);
    CHECK(w.Why(pod.meta.name) == "Starting");
  }
  std::vector<TicketId> tickets;
  for (int i = 0; i < 3; ++i) {
    const auto bind = w.Arrive(i);
    REQUIRE(bind.parked);
    tickets.push_back(bind.ticket);
    CHECK(w.BoundPods() == 0);
    CHECK(w.VerdictOf("m0").have == i + 1);
  }
  CHECK(w.engine().parked_binds() == 3);
  CHECK(w.Arrive(3).posted);
  CHECK(w.BoundPods() == 4);
  CHECK(w.engine().parked_binds() == 0);
  for (const TicketId ticket : tickets)
    CHECK(w.resolved().at(ticket).resolution == Resolution::kPost);
  CHECK(w.engine().PlanCounts() == std::pair(0, 0));
  CHECK(w.LogOf("event m0 GangStarted").size() == 1);
  CHECK(w.engine().TakeCounters().gang_waits_ms.size() == 1);
  for (int i = 0; i < 4; ++i) w.Delete("m" + std::to_string(i));
  w.Tick();
  CHECK(w.UsedGpus() == 0);
  CHECK(w.store().workloads().empty());
}

TEST_CASE("ungated members are refused in constant words, then woken", "[unit][engine]") {
  GangWorld w(2);
  w.Add(w.Member(0, 2, 2));
  for (int i = 0; i < 3; ++i) CHECK(w.Filter("m0").reason == "WaitingForMembers");
  w.Add(w.Member(1, 2, 2));
  CHECK(w.Filter("m1").kept.size() == 1);  // its own call made the plan
  CHECK(w.LogOf("release m0").size() == 1);
  CHECK(w.pod("m0").nominated_node == w.Planned("m0"));
  w.Schedule();
  CHECK(w.BoundPods() == 2);
}

TEST_CASE("a gang that does not fit holds nothing", "[unit][engine]") {
  GangWorld w(3);
  w.Gather(4, 4);
  CHECK(w.Why("m0") == "NeverFits");
  CHECK(w.UsedGpus() == 0);
  w.Add(MakeNode("n3").Gpu(8));
  w.Tick();
  CHECK(w.UsedGpus() == 32);
}

TEST_CASE("a foreign gate: counted, not placed", "[unit][engine]") {
  GangWorld w(2);
  w.Add(w.Member(0, 2, 2).Gated());
  w.Add(w.Member(1, 2, 2).Gated().Gate("kueue.x-k8s.io/admission"));
  w.Tick();
  CHECK(w.VerdictOf("m0") == cluster::Verdict{cluster::ReasonId::kWaitingForMembers, 2, 1, ""});
  w.Change("m1",
           [](kube::Pod& pod) { std::erase(pod.scheduling_gates, "kueue.x-k8s.io/admission"); });
  w.Tick();
  CHECK(w.UsedGpus() == 16);
}

TEST_CASE("ranks travel with the plan", "[unit][engine]") {
  GangWorld w(3);
  for (const int i : {2, 0, 1}) w.Add(w.Member(i, 3, 3).Gated().Rank(i));
  w.Tick();
  for (int i = 0; i < 3; ++i) {
    const auto& note = w.pod("m" + std::to_string(i)).meta.annotations.at("berth.dev/plan");
    CHECK(note.ends_with("rank=" + std::to_string(i) + ";preemptible=true"));
  }
}

// --- Members without devices
// ------------------------------------------------------------------------

TEST_CASE("a launcher is placed with the gang and released when it starts", "[unit][engine]") {
  GangWorld w(2);
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 3).Gated().Created(1));
  w.Add(w.Member(0, 3, 3).Gated());
  w.Tick();
  CHECK(w.Why("launcher") == "WaitingForMembers");
  w.Add(w.Member(1, 3, 3).Gated());
  w.Tick();
  CHECK_FALSE(w.Planned("launcher").empty());
  CHECK(w.LogOf("release launcher").empty());
  CHECK_FALSE(w.pod("launcher").scheduling_gates.empty());
  CHECK(w.Arrive(0).parked);
  CHECK(w.Arrive(1).posted);  // two managed members of three are the barrier
  CHECK(w.LogOf("release launcher").size() == 1);
  CHECK(w.pod("launcher").scheduling_gates.empty());
  w.Schedule();
  CHECK(w.BoundPods() == 3);
  CHECK(w.engine().PlanCounts() == std::pair(0, 0));
}

TEST_CASE("a gang without any devices starts at once", "[unit][engine]") {
  GangWorld w(1);
  w.Add(MakePod("a").Cpu("1").Gang("g", 2).Gated());
  w.Add(MakePod("b").Cpu("1").Gang("g", 2).Gated());
  w.Tick();
  CHECK(w.LogOf("release").size() == 2);
  w.Schedule();
  CHECK(w.BoundPods() == 2);
}

// kube-scheduler binds an ungated launcher without asking anybody.
TEST_CASE("a launcher that runs ahead does not start the gang", "[unit][engine][bug]") {
  GangWorld w(4);
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 4).Created(1).On("n0"));
  w.Add(w.Member(0, 4, 4).Gated());
  w.Tick();
  CHECK(w.Planned("m0").empty());
  CHECK(w.Why("m0") == "WaitingForMembers");
  w.Add(w.Member(1, 4, 4).Gated());
  w.Tick();
  w.Schedule();
  CHECK(w.BoundPods() == 1);  // I3: no worker alone
  w.Add(w.Member(2, 4, 4).Gated());
  w.Tick();
  w.Schedule();
  CHECK(w.BoundPods() == 4);
}

// With a minimum of 1 the launcher alone would be enough, by number.
TEST_CASE("launchers do not start a gang by themselves", "[unit][engine][bug]") {
  GangWorld w(1);
  w.Add(MakePod("other").Gpu(8).Gated());
  w.Tick();
  w.Schedule();
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 3).Min(1).Gated().Created(1));
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 3, 1).Gated());
  w.Tick();
  CHECK(w.Planned("launcher").empty());
  w.Delete("other");
  w.Tick();
  w.Schedule();
  CHECK(w.BoundPods() == 2);  // the launcher and one worker
  CHECK_FALSE(w.NodeOf("launcher").empty());
  const std::string before = w.Why("m1");
  w.Restart();
  CHECK(w.store().FindWorkload("default/gang/g")->started);
  CHECK(w.Why("m1") == before);
}

TEST_CASE("a gang of launchers starts again when a worker comes", "[unit][engine][bug]") {
  GangWorld w(1);
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 3).Min(1).Gated().Created(1));
  w.Tick();
  w.Advance(10'000);  // it waited for more members
  w.Schedule();
  REQUIRE(w.BoundPods() == 1);
  REQUIRE(w.store().FindWorkload("default/gang/g")->started);
  SECTION("a pod that is no member of it changes nothing") {
    w.Add(w.Member(0, 5, 5).Gated());
    CHECK(w.store().FindWorkload("default/gang/g")->started);
  }
  SECTION("a worker that finds no room waits as one of a gang that has not started") {
    w.Add(MakePod("other").Gpu(8).On("n0"));
    w.Add(w.Member(0, 3, 1).Gated());
    w.Tick();
    CHECK_FALSE(w.store().FindWorkload("default/gang/g")->started);
    w.Restart();
    CHECK_FALSE(w.store().FindWorkload("default/gang/g")->started);
    w.Delete("other");
    w.Tick();
    w.Advance(10'000);  // it waited for the third member
    w.Schedule();
    CHECK_FALSE(w.NodeOf("m0").empty());
    CHECK(w.store().FindWorkload("default/gang/g")->started);
  }
}

TEST_CASE("workers that come while their launcher is on its way start as a whole",
          "[unit][engine][bug]") {
  GangWorld w(2);
  for (int i = 0; i < 2; ++i) {
    w.Add(MakePod("low" + std::to_string(i)).Gpu(8).On("n" + std::to_string(i)));
  }
  w.Add(MakePod("launcher").Cpu("1").Gang("g", 3).Min(1).Priority(10).Gated().Created(1));
  w.Tick();
  w.Advance(10'000);  // it waited for more members
  REQUIRE(w.store().FindWorkload("default/gang/g")->started);
  REQUIRE(w.NodeOf("launcher").empty());
  for (int i = 0; i < 2; ++i) w.Add(w.Member(i, 3, 1).Gated().Priority(10));
  w.Tick();
  w.Schedule();  // binds the launcher
  w.Advance(10'000);
  CHECK_FALSE(w.NodeOf("launcher").empty());
  CHECK_FALSE(w.LogOf("evict low").empty());
}

// --- The barrier
// ------------------------------------------------------------------------------------

TEST_CASE("a parked call ends at its deadline; the arrival counts on", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(2, 2);
  const auto first = w.Arrive(0);
  REQUIRE(first.parked);
  w.Advance(19'999);
  CHECK_FALSE(w.resolved().contains(first.ticket));
  w.Advance(1);
  REQUIRE(w.resolved().contains(first.ticket));
  CHECK(w.resolved().at(first.ticket).resolution == Resolution::kError);
  CHECK(w.resolved().at(first.ticket).error ==
        "berth: its gang is not complete yet; the arrival is counted");
  CHECK(w.VerdictOf("m0").have == 1);
  CHECK(w.Arrive(1).posted);  // the second one makes it complete
  CHECK(w.Bound(1));
  CHECK_FALSE(w.Bound(0));
  CHECK(w.Arrive(0).posted);  // and the first is bound at once when it comes back
  CHECK(w.BoundPods() == 2);
}

TEST_CASE("a caller that has gone is not parked, but has arrived", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(2, 2);
  const auto first = w.Arrive(0);
  CHECK(w.engine().BindAbandoned(first.ticket));
  CHECK(w.engine().parked_binds() == 0);
  CHECK(w.Arrive(1).posted);
  CHECK_FALSE(w.Bound(0));  // nobody waits for that call any more
  CHECK(w.UsedGpus() == 16);
  CHECK(w.Arrive(0).posted);
}

// The host gave up the call while the word to post was on its way: nobody posted, and the room
// stayed charged for ever.
TEST_CASE("a call that was told to post is not abandoned any more", "[unit][engine][bug]") {
  GangWorld w(2);
  w.Gather(2, 2);
  const auto first = w.Arrive(0);
  REQUIRE(first.parked);
  REQUIRE(w.Arrive(1).posted);
  REQUIRE(w.resolved().at(first.ticket).resolution == Resolution::kPost);
  CHECK_FALSE(w.engine().BindAbandoned(first.ticket));
}

TEST_CASE("two calls for one member: one posts", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(2, 2);
  const auto a = w.Arrive(0);
  const auto b = w.Arrive(0);
  REQUIRE(a.parked);
  REQUIRE(b.parked);
  CHECK(w.VerdictOf("m0").have == 1);
  CHECK(w.Arrive(1).posted);
  CHECK(w.BoundPods() == 2);
  const auto va = w.resolved().at(a.ticket).resolution;
  const auto vb = w.resolved().at(b.ticket).resolution;
  CHECK(((va == Resolution::kPost) != (vb == Resolution::kPost)));
  CHECK(((va == Resolution::kBound) != (vb == Resolution::kBound)));
}

TEST_CASE("a call that joined a Binding which did not take effect is answered",
          "[unit][engine][bug]") {
  GangWorld w(1);
  w.Add(MakePod("a").Gpu(8).Gated());
  w.Tick();
  w.SetPosting(testing::Posting::kHangs);
  REQUIRE(w.Bind("a", w.Planned("a")).posted);
  const std::string uid = w.pod("a").meta.uid;
  w.engine().BindFinished(uid, BindOutcome::kUnknown, w.now());
  const auto joined = w.Bind("a", w.Planned("a"));
  REQUIRE(joined.parked);
  w.engine().BindSettled(uid, w.now());
  w.Tick();
  REQUIRE(w.resolved().contains(joined.ticket));
  CHECK(w.resolved().at(joined.ticket).resolution == Resolution::kError);
}

TEST_CASE("more arrivals than may be parked are told to come back", "[unit][engine]") {
  config::PolicyConfiguration policy;
  policy.gang.max_standing = 1;
  GangWorld w(3, policy);
  w.Gather(3, 3);
  CHECK(w.Arrive(0).parked);
  const auto second = w.Arrive(1);
  CHECK_FALSE(second.parked);
  CHECK(second.error == "berth: its gang is not complete yet; the arrival is counted");
  CHECK(w.Arrive(2).posted);
  CHECK(w.Bound(0));
  CHECK(w.Arrive(1).posted);
  CHECK(w.BoundPods() == 3);
}

TEST_CASE("a plan without arrivals dissolves, and the pause doubles", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(2, 2);
  std::vector<TimePoint> pauses;
  for (int i = 0; i < 8; ++i) {
    const TimePoint planned = w.now();
    while (!w.Planned("m0").empty()) w.Advance(1000);
    CHECK(w.now() - planned == 60'000);
    CHECK(w.UsedGpus() == 0);
    CHECK(w.Why("m0") == "CoolingDown");
    const TimePoint dissolved = w.now();
    while (w.Planned("m0").empty()) w.Advance(1000);
    pauses.push_back((w.now() - dissolved) / 1000);
  }
  CHECK(pauses == std::vector<TimePoint>{10, 20, 40, 80, 160, 320, 600, 600});
}

// kube-scheduler counts a nominated pod as taken, and keeps the nomination of one whose volume
// claim does not exist: two such pods kept two whole nodes from everybody else.
TEST_CASE("a plan that dissolves takes its nominations back", "[unit][engine][bug]") {
  GangWorld w(2);
  w.Gather(2, 2);
  REQUIRE(w.pod("m0").nominated_node == w.Planned("m0"));
  w.Advance(60'000);
  CHECK(w.Why("m0") == "CoolingDown");
  CHECK(w.pod("m0").nominated_node.empty());
  CHECK(w.pod("m1").nominated_node.empty());
  w.Advance(10'000);
  CHECK(w.pod("m0").nominated_node == w.Planned("m0"));
}

TEST_CASE("a nomination that comes to light after its plan is taken back", "[unit][engine]") {
  GangWorld w(2);
  w.Gather(2, 2);
  const std::string plan = w.pod("m0").meta.annotations.at("berth.dev/plan");
  const std::string node = w.Planned("m0");
  w.Advance(60'000);
  w.Change("m0", [&](kube::Pod& pod) { pod.nominated_node = node; });
  w.Tick();
  CHECK(w.pod("m0").nominated_node.empty());
  // kube-scheduler's own, for a preemption, is none of ours.
  const std::string other = node == "n0" ? "n1" : "n0";
  w.Change("m0", [&](kube::Pod& pod) { pod.nominated_node = other; });
  w.Tick();
  CHECK(w.pod("m0").nominated_node == other);
  CHECK(w.pod("m0").meta.annotations.at("berth.dev/plan") == plan);
}

/// From the making of one plan to that of the next, after three days: the part in which a gang held
/// room whose last member never comes to bind. The others come one by one, `apart` from each other.
double ShareHeld(TimePoint plan_timeout, TimePoint apart) {
  config::PolicyConfiguration policy;
  policy.gang.plan_timeout = std::chrono::milliseconds(plan_timeout);
  GangWorld w(4, policy);
  w.Gather(4, 4);
  const TimePoint settled = w.now() + 3 * 24 * 3'600'000;
  TimePoint made = w.now();
  TimePoint held = 0;
  while (true) {
    TimePoint last = w.now();
    for (int next = 0; !w.Planned("m0").empty(); w.Advance(1'000)) {
      held = w.now() - made;
      if (next == 3 || w.now() < last + apart) continue;
      w.Arrive(next++);
      last = w.now();
    }
    while (w.Planned("m0").empty()) w.Advance(1'000);
    if (made > settled) return static_cast<double>(held) / static_cast<double>(w.now() - made);
    made = w.now();
  }
}

// I6. Each plan lives for plan_timeout after its last arrival, at most 3 * apart + plan_timeout.
TEST_CASE("a gang that never binds holds room a tenth of the time at most", "[unit][engine]") {
  CHECK(ShareHeld(60'000, 3'600'000) <= 0.101);
  CHECK(ShareHeld(60'000, 3'600'000) > 0.05);  // it is tried again, all the same
  CHECK(ShareHeld(60'000, 55'000) <= 0.101);   // arrivals renew the plan
  CHECK(ShareHeld(600'000, 3'600'000) <= 0.101);
}

TEST_CASE("every new arrival renews the plan", "[unit][engine]") {
  GangWorld w(3);
  w.Gather(3, 3);
  w.Advance(50'000);
  const auto first = w.Arrive(0);
  w.Advance(50'000);
  CHECK_FALSE(w.Planned("m0").empty());
  w.Arrive(1);
  w.Advance(59'000);
  CHECK_FALSE(w.Planned("m0").empty());
  CHECK(w.resolved().at(first.ticket).resolution == Resolution::kError);
  CHECK(w.Arrive(2).posted);
}

// One member that keeps coming held the room of a gang whose other members were never released.
TEST_CASE("the same member coming again does not renew the plan", "[unit][engine][bug]") {
  GangWorld w(2);
  w.Gather(2, 2);
  for (int i = 0; i < 4; ++i) {
    w.Arrive(0);
    w.Advance(15'000);
  }
  CHECK(w.Why("m0") == "CoolingDown");
  CHECK(w.UsedGpus() == 0);
}

TEST_CASE("a plan that dissolves ends the calls that are parked", "[unit][engine]") {
  config::PolicyConfiguration policy;
  policy.gang.plan_timeout = std::chrono::milliseconds(5000);
  GangWorld w(2, policy);
  w.Gather(2, 2);
  const auto bind = w.Arrive(0);
  REQUIRE(bind.parked);
  w.Advance(5000);
  CHECK(w.resolved().at(bind.ticket).resolution == Resolution::kError);
  CHECK(w.engine().parked_binds() == 0);
  CHECK_FALSE(w.Bind("m0", "n0").posted);
}

// Admission refuses the Binding of one member, again and again.
TEST_CASE("why says that the API server refuses a Binding", "[unit][engine][bug]") {
  GangWorld w(4);
  w.Gather(4, 4);
  REQUIRE(w.Arrive(3).parked);
  w.Advance(20'000);  // its call ends, the arrival counts
  for (int i = 0; i < 3; ++i) w.Arrive(i);
  REQUIRE(w.BoundPods() == 3);
  const std::string node = w.Planned("m3");
  w.SetPosting(testing::Posting::kRefuses);
  w.Arrive(3);
  w.SetPosting(testing::Posting::kBinds);
  CHECK(w.Why("m3") == "Starting");
  CHECK(cluster::Sentence(w.VerdictOf("m3")) ==
        "The gang has started: 3 of its members are bound, and it needs 4. The API server did not "
        "accept the Binding of this pod to " +
            node + ": a webhook denied the request");
  w.Arrive(3);
  CHECK(w.Bound(3));
}

}  // namespace
}  // namespace berth::engine
