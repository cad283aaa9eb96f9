// Nodes that refused a pod: how long they are left alone, and who keeps their room meanwhile.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/engine/evictions_world.h"

namespace berth::engine {
namespace {

using testing::GangWorld;
using testing::MakeNode;
using testing::MakePod;
using testing::World;

/// What the kubelet of its node does after the Binding.
void RejectAdmission(World& w, const std::string& pod) {
  w.Change(pod, [](kube::Pod& object) {
    object.phase = kube::PodPhase::kFailed;
    object.status_reason = "UnexpectedAdmissionError";
  });
  w.Delete(pod);
}

std::string Sentence(World& w, const std::string& pod) {
  return cluster::Sentence(w.VerdictOf(pod));
}

/// One node; pods of 2 GPUs that its kubelet rejects one after the other.
class RejectingNode : public World {
 public:
  RejectingNode() {
    Add(MakeNode("n1").Gpu(8));
    Start();
  }
  /// How long after the rejection of one the next one is planned, in seconds.
  TimePoint NextAfterRejection() {
    const std::string name = "p" + std::to_string(++pods_);
    const std::string next = name + "-next";
    Add(MakePod(name).Gpu(2).Gated());
    Tick();
    REQUIRE(Attempt(name));
    RejectAdmission(*this, name);
    Add(MakePod(next).Gpu(2).Gated());
    Tick();
    const TimePoint since = now();
    while (Planned(next).empty()) Advance(1'000);
    const TimePoint waited = (now() - since) / 1'000;
    Delete(next);
    Tick();
    return waited;
  }

 private:
  int pods_ = 0;
};

TEST_CASE("a node that keeps rejecting is tried ever less often", "[unit][engine][bug]") {
  RejectingNode w;
  std::vector<TimePoint> pauses;
  for (int i = 0; i < 7; ++i) pauses.push_back(w.NextAfterRejection());
  CHECK(pauses == std::vector<TimePoint>{5, 10, 20, 40, 80, 160, 160});
  w.Advance(300'000);
  CHECK(w.NextAfterRejection() == 5);
}

TEST_CASE("pods that a kubelet rejects at the same time are one rejection", "[unit][engine][bug]") {
  World w;
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  for (const char* name : {"a", "b", "c", "d"}) {
    w.Add(MakePod(name).Gpu(2));
    REQUIRE(w.Attempt(name));
  }
  for (const char* name : {"a", "b", "c", "d"}) RejectAdmission(w, name);
  w.Add(MakePod("like").Gpu(2).Gated());
  w.Advance(5'000);
  CHECK(w.Planned("like") == "n1");
}

/// n1 has rejected p; n2 has more room than a packing score likes.
class TwoNodes : public World {
 public:
  TwoNodes() {
    Add(MakeNode("n1").Gpu(2));
    Start();
    Add(MakePod("p").Gpu(2));
    REQUIRE(Attempt("p"));
    RejectAdmission(*this, "p");
    Add(MakeNode("n2").Gpu(8));
    Tick();
  }
};

TEST_CASE("a node that rejected a pod is the last resort for five minutes", "[unit][engine]") {
  TwoNodes w;
  w.Advance(299'000);
  w.Add(MakePod("like").Gpu(2).Gated());
  w.Tick();
  CHECK(w.Planned("like") == "n2");
  SECTION("which is taken where there is no other room") {
    for (const char* name : {"b", "c", "d", "e"}) w.Add(MakePod(name).Gpu(2).Gated());
    w.Tick();
    CHECK(w.UsedGpus("n1") == 2);
  }
  SECTION("and then is a node like others") {
    w.Advance(1'000);
    w.Add(MakePod("later").Gpu(2).Gated());
    w.Tick();
    CHECK(w.Planned("later") == "n1");
  }
}

TEST_CASE("a rejection is forgotten when the node changes", "[unit][engine][bug]") {
  TwoNodes w;
  std::string expected = "n1";
  SECTION("its devices") {
    w.Add(MakeNode("n1").Gpu(0));
    w.Tick();
    w.Add(MakeNode("n1").Gpu(2));
  }
  SECTION("its conditions") {
    w.Add(MakeNode("n1").Gpu(2).NotReady());
    w.Tick();
    w.Add(MakeNode("n1").Gpu(2));
  }
  SECTION("its taints") {
    w.Add(MakeNode("n1").Gpu(2).Taint("x"));
    w.Tick();
    w.Add(MakeNode("n1").Gpu(2));
  }
  SECTION("not by what it says of itself, nor by a heartbeat") {
    w.Add(MakeNode("n1").Gpu(2).Label("x", "y"));
    w.Add(MakeNode("n1").Gpu(2).Label("x", "y"));
    expected = "n2";
  }
  w.Add(MakePod("like").Gpu(2).Gated());
  w.Tick();
  CHECK(w.Planned("like") == expected);
}

TEST_CASE("a rejection is forgotten when a pod of that shape runs there", "[unit][engine]") {
  RejectingNode w;
  REQUIRE(w.NextAfterRejection() == 5);
  REQUIRE(w.NextAfterRejection() == 10);
  w.Advance(20'000);
  w.Add(MakePod("good").Gpu(2).Gated());
  w.Tick();
  REQUIRE(w.Attempt("good"));
  w.Change("good", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kRunning; });
  w.Delete("good");
  w.Tick();
  CHECK(w.NextAfterRejection() == 5);
}

TEST_CASE("why says until when a node is left alone", "[unit][engine]") {
  World w;
  w.Add(MakeNode("n1").Gpu(8));
  w.Start();
  w.Add(MakePod("p").Gpu(2));
  REQUIRE(w.Attempt("p"));
  RejectAdmission(w, "p");
  w.Add(MakePod("like").Gpu(2).Gated());
  w.Tick();
  w.Advance(1'500);
  CHECK(w.Why("like") == "RefusedByScheduler");
  CHECK(Sentence(w, "like").ends_with("tried again in 4 s."));
}

TEST_CASE("a gang that needs all nodes is not held up by one rejection", "[unit][engine][bug]") {
  World w;
  for (const char* name : {"a1", "a2"}) w.Add(MakeNode(name).Gpu(8).Rack("a"));
  w.Start();
  for (const char* name : {"m0", "m1"}) {
    w.Add(MakePod(name).Gpu(8).Gang("g", 2).Required("rack").Gated());
  }
  w.Tick();
  w.Schedule();
  RejectAdmission(w, "m0");
  RejectAdmission(w, "m1");
  for (const char* name : {"m2", "m3"}) {
    w.Add(MakePod(name).Gpu(8).Gang("g", 2).Required("rack").Gated());
  }
  w.Tick();
  CHECK(w.Why("m2") == "RefusedByScheduler");
  w.Advance(5'000);
  CHECK(w.UsedGpus() == 16);
}

// --- Whose room it is meanwhile

/// A gang of 3 runs on its three nodes; the kubelet of m2's node rejects m2, and m9 replaces it.
class Rejected : public GangWorld {
 public:
  explicit Rejected(int min = 3) : GangWorld(3) {
    Gather(3, min);
    Schedule();
    REQUIRE(BoundPods() == 3);
    node = NodeOf("m2");
    RejectAdmission(*this, "m2");
    Add(Member(9, 3, min).Gated().Created(9'000));
    Tick();
  }
  std::string node;
};

// It held 16 GPUs for minutes, and waited.
TEST_CASE("younger work does not take the only room of a gang below its minimum",
          "[unit][engine][bug]") {
  Rejected w;
  w.Add(MakePod("young").Gpu(1));
  CHECK(w.Filter("young").kept.empty());
  CHECK(w.UsedGpus() == 24);
  // The room is kept, and its member not released to it before it is time.
  CHECK_FALSE(w.pod("m9").scheduling_gates.empty());
  CHECK(w.pod("m9").nominated_node.empty());
  CHECK(w.Filter("m9").kept.empty());
  CHECK_FALSE(w.Bind("m9", w.node).posted);
  CHECK(w.Why("m9") == "RefusedByScheduler");
  CHECK(Sentence(w, "m9") == "kube-scheduler or a kubelet refused it on " + w.node +
                                 "; its gang keeps that room, and tries again in 5 s.");
  SECTION("it is tried there when it is time") {
    w.Advance(5'000);
    CHECK(w.pod("m9").nominated_node == w.node);
    w.Schedule();
    CHECK(w.NodeOf("m9") == w.node);
  }
  SECTION("or sooner, when the node changes") {
    w.Add(MakeNode(w.node).Gpu(9));
    w.Tick();
    CHECK(w.pod("m9").nominated_node == w.node);
  }
  SECTION("or elsewhere, when there is room") {
    w.Add(MakeNode("n7").Gpu(8));
    w.Tick();
    CHECK(w.pod("m9").nominated_node == "n7");
    CHECK(w.Planned("young") == w.node);
  }
  SECTION("not for a member that is gone") {
    w.Delete("m9");
    w.Tick();
    CHECK(w.Filter("young").kept.size() == 1);
  }
  SECTION("nor on a node that is no longer available") {
    w.Add(MakeNode(w.node).Gpu(8).Cordoned());
    w.Tick();
    CHECK(w.UsedGpus() == 16);
  }
  SECTION("nor once the gang is over") {
    w.Delete("m0");
    w.Delete("m1");
    w.Tick();
    CHECK(w.UsedGpus() == 1);  // young's
  }
  SECTION("rejection after rejection") {
    w.Advance(5'000);
    REQUIRE(w.Attempt("m9"));
    RejectAdmission(w, "m9");
    w.Add(w.Member(10, 3, 3).Gated());
    w.Tick();
    CHECK(w.Filter("young").kept.empty());
    w.Advance(9'999);
    CHECK(w.pod("m10").nominated_node.empty());
    w.Advance(1);
    CHECK(w.pod("m10").nominated_node == w.node);
  }
}

TEST_CASE("what a gang has beyond its minimum keeps no room", "[unit][engine]") {
  Rejected w(2);
  w.Add(MakePod("young").Gpu(1));
  CHECK(w.Filter("young").kept.size() == 1);
}

TEST_CASE("a replacement that kube-scheduler refuses keeps the only room", "[unit][engine][bug]") {
  GangWorld w(2);
  w.Gather(2, 2);
  w.Schedule();
  const std::string node = w.NodeOf("m1");
  w.Delete("m1");
  w.Add(w.Member(7, 2, 2).Gated());
  w.Tick();
  REQUIRE(w.Planned("m7") == node);
  w.Refuse("m7");
  w.Add(MakePod("young").Gpu(1));
  CHECK(w.Filter("young").kept.empty());
  CHECK(w.UsedGpus() == 16);
  w.Advance(10'000);
  CHECK(w.pod("m7").nominated_node == node);
  CHECK(w.Attempt("m7"));
  CHECK(w.NodeOf("m7") == node);
}

/// Two jobs on n0 and n1 are evicted for gang g, and end; others like them come and wait.
class GangWithRoom : public EvictionsWorld {
 public:
  GangWithRoom() {
    GatherHigh();
    EndAndReturn();
    REQUIRE(LogOf("release m").size() == 2);
  }
  void EndAndReturn() {
    for (int i = 0; i < 2; ++i) Delete("l" + std::to_string(i));
    Tick();
    for (int i = 0; i < 2; ++i) Add(Low(i).Gated());
    Tick();
  }
  std::size_t Evicted() const { return LogOf("evict ").size(); }
  /// Refuses the members wherever they are planned, until the others have the room.
  void RefuseAll() {
    for (int i = 0; i < 100 && NodeOf("l1").empty(); ++i) {
      Advance(3'000);  // a refusal right after a victim's end may be older than that
      for (const char* pod : {"m0", "m1"}) {
        if (!Planned(pod).empty()) Refuse(pod, "claim missing " + std::to_string(++tries_));
      }
      for (const char* pod : {"l0", "l1"}) {
        if (!Planned(pod).empty()) Attempt(pod);
      }
    }
    REQUIRE_FALSE(NodeOf("l1").empty());
  }
  bool HasGivenUp() const {
    return std::ranges::any_of(decisions(), [](const auto& decision) {
      return decision.second.kind == "dissolve" && decision.second.workload == "default/gang/g";
    });
  }

 private:
  int tries_ = 0;
};

// Such as for a volume claim that does not exist, of which Berth knows nothing.
TEST_CASE("a pod that was evicted for work that kube-scheduler does not take is not evicted again",
          "[unit][engine][bug]") {
  GangWithRoom w;
  REQUIRE(w.Evicted() == 2);
  w.RefuseAll();
  w.Advance(550'000);
  CHECK(w.Evicted() == 2);
  SECTION("within ten minutes, and then within twenty") {
    w.Advance(50'000);
    CHECK(w.Evicted() == 4);
    w.EndAndReturn();
    w.RefuseAll();
    w.Advance(1'100'000);
    CHECK(w.Evicted() == 4);
  }
}

TEST_CASE("room that others were evicted for is kept while kube-scheduler is away",
          "[unit][engine][bug]") {
  GangWithRoom w;
  w.Advance(590'000);
  CHECK_FALSE(w.HasGivenUp());
  w.Schedule();
  CHECK(w.Bound(0));
  CHECK(w.Bound(1));
  CHECK(w.Evicted() == 2);
}

TEST_CASE("such room is not kept for longer than a victim would be waited for", "[unit][engine]") {
  GangWithRoom w;
  w.Advance(700'000);
  CHECK(w.HasGivenUp());
}

// An admission webhook may do so for a while.
TEST_CASE("such room is kept while the API server refuses the release of a member",
          "[unit][engine][bug]") {
  EvictionsWorld w;
  w.SetReleasable("m0", false);
  SECTION("of all members") { w.SetReleasable("m1", false); }
  SECTION("of one of them") {}
  w.GatherHigh();
  w.EndVictims();
  w.Schedule();
  w.Advance(290'000);
  CHECK(w.NodeOf("m1").empty());
  for (const char* pod : {"m0", "m1"}) w.SetReleasable(pod, true);
  for (int i = 0; i < 13; ++i) {  // it is released again every planTimeout
    w.Advance(10'000);
    w.Schedule();
  }
  CHECK_FALSE(w.NodeOf("m0").empty());
  CHECK_FALSE(w.NodeOf("m1").empty());
  CHECK(w.LogOf("evict ").size() == 2);
  CHECK(w.engine().TakeCounters().evictions_in_vain.empty());
}

TEST_CASE("such room is given up when kube-scheduler has tried some, and not all",
          "[unit][engine]") {
  GangWithRoom w;
  w.Attempt("m0");
  w.Advance(130'000);
  CHECK(w.HasGivenUp());
}

}  // namespace
}  // namespace berth::engine
