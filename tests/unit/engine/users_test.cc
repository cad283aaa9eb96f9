// Users inside a queue: whose job comes next, and how many jobs each may have.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/world.h"

namespace berth::engine {
namespace {

using cluster::ReasonId;
using cluster::Verdict;
using testing::MakeNode;
using testing::MakePod;
using testing::MakePolicy;
using testing::MakeQueue;
using testing::World;

constexpr const char* kUser = "berth.dev/user";

/// Queue default on `nodes` of 8 GPUs.
class Users : public World {
 public:
  explicit Users(const config::PolicyConfiguration& policy, int nodes = 4) : World(policy) {
    for (int i = 0; i < nodes; ++i) Add(MakeNode("n" + std::to_string(i)).Gpu(8));
    Start();
  }
  static config::PolicyConfiguration Policy(int most_jobs,
                                            config::FairWithin within = config::FairWithin::kNone) {
    auto policy = MakePolicy({MakeQueue("default", {"*"})});
    policy.queues[0].max_jobs_per_user = most_jobs;
    policy.queues[0].fair_within = within;
    return policy;
  }
  static testing::PodBuilder Of(const std::string& user, const std::string& name, int gpus = 1) {
    return MakePod(name).Gpu(gpus).Label(kUser, user).Gated();
  }
  void AddGang(const std::string& user, const std::string& name, int size, int min) {
    for (int i = 0; i < size; ++i) {
      Add(Of(user, name + std::to_string(i)).Gang(name, size).Min(min));
    }
    Settle();
  }
  void Settle() {
    Tick();
    Schedule();
    Advance(2'000);  // elastic gangs wait a moment
    Schedule();
  }
  bool Runs(const std::string& pod) const { return !NodeOf(pod).empty(); }
};

const Verdict kFull{.reason = ReasonId::kWaitingForQuota, .want = 2, .have = 2, .user = "ann"};

TEST_CASE("a user's job beyond the cap waits, and holds up no other job", "[unit][engine]") {
  Users w(Users::Policy(2));
  for (const char* name : {"a1", "a2", "a3"}) w.Add(Users::Of("ann", name));
  w.Add(Users::Of("bob", "b1"));
  w.Settle();
  CHECK(w.BoundPods() == 3);
  CHECK(w.Runs("b1"));
  CHECK(w.VerdictOf("a3") == kFull);
  SECTION("until one of them ends") {
    w.Delete("b1");
    w.Settle();
    CHECK_FALSE(w.Runs("a3"));
    w.Delete("a1");
    w.Settle();
    CHECK(w.Runs("a3"));
  }
  SECTION("or the cap is raised") {
    w.Reload(Users::Policy(3));
    w.Settle();
    CHECK(w.Runs("a3"));
  }
  SECTION("or goes") {
    w.Reload(Users::Policy(0));
    w.Settle();
    CHECK(w.Runs("a3"));
  }
  SECTION("or it is another user's") {
    w.Change("a3", [](kube::Pod& pod) { pod.meta.labels[kUser] = "eve"; });
    w.Settle();
    CHECK(w.Runs("a3"));
  }
  SECTION("a lowered one evicts nobody") {
    w.Reload(Users::Policy(1));
    w.Settle();
    CHECK(w.BoundPods() == 3);
    w.Delete("a1");
    w.Settle();
    CHECK(w.VerdictOf("a3") ==
          Verdict{.reason = ReasonId::kWaitingForQuota, .want = 1, .have = 1, .user = "ann"});
  }
  SECTION("also over a restart and a label edit of what runs") {
    w.Change("a1", [](kube::Pod& pod) { pod.meta.labels[kUser] = "eve"; });
    w.Restart();
    w.Settle();
    CHECK_FALSE(w.Runs("a3"));
    CHECK(w.VerdictOf("a3") == kFull);
  }
  SECTION("filter says no more than the reason") {
    w.Add(MakePod("a4").Gpu(1).Label(kUser, "ann"));
    CHECK(w.Filter("a4").reason == "WaitingForQuota");
  }
}

TEST_CASE("work that only waits for the cap evicts no pod", "[unit][engine]") {
  Users w(Users::Policy(1), 1);
  w.Add(Users::Of("ann", "low", 4).Gated());
  w.Settle();
  w.Add(Users::Of("ann", "high", 4).Priority(10));
  w.Settle();
  CHECK(w.Runs("low"));
  CHECK_FALSE(w.Runs("high"));
  CHECK(w.Why("high") == "WaitingForQuota");
}

TEST_CASE("a preemptor may take the place of its own user's job", "[unit][engine]") {
  Users w(Users::Policy(1), 2);
  w.Add(MakePod("a-low").Gpu(8).Label(kUser, "ann").On("n0"));
  w.Add(MakePod("b-low").Gpu(8).Label(kUser, "bob").On("n1"));
  w.Add(MakePod("high").Gpu(8).Label(kUser, "ann").Priority(10));
  CHECK(w.Filter("high").reason == "WaitingForQuota");
  VictimMap victims;
  victims["n0"].uids = {"uid-a-low"};
  victims["n1"].uids = {"uid-b-low"};
  CHECK(w.engine().Preempt("uid-high", victims, w.now()).contains("n0"));
  w.Tick();
  CHECK(w.Planned("high") == "n0");
  CHECK_FALSE(w.Bind("high", "n0").posted);  // the victim has not gone
  w.Delete("a-low");
  CHECK(w.Attempt("high"));
  CHECK(w.Runs("high"));
}

TEST_CASE("a gang is one job, whatever joins it", "[unit][engine]") {
  Users w(Users::Policy(2));
  w.AddGang("ann", "g", 3, 2);
  w.AddGang("ann", "h", 2, 2);
  w.AddGang("ann", "i", 2, 2);
  CHECK(w.BoundPods() == 5);
  CHECK(w.VerdictOf("i0") == kFull);
  SECTION("a replacement is no new job") {
    w.Delete("h1");
    w.Add(Users::Of("ann", "h9").Gang("h", 2));
    w.Settle();
    CHECK(w.Runs("h9"));
  }
  SECTION("nor is surplus, also under a lowered cap") {
    w.Delete("g2");
    w.Reload(Users::Policy(1));
    w.Add(Users::Of("ann", "g9").Gang("g", 3).Min(2));
    w.Settle();
    CHECK(w.Runs("g9"));
  }
  SECTION("it is gone with its last member") {
    w.Delete("h0");
    w.Settle();
    CHECK_FALSE(w.Runs("i0"));
    w.Delete("h1");
    w.Settle();
    CHECK(w.Runs("i0"));
  }
}

TEST_CASE("a launcher that runs ahead is no job", "[unit][engine]") {
  Users w(Users::Policy(1));
  for (const char* gang : {"g", "h"}) {
    w.Add(MakePod(std::string(gang) + "0").Cpu("1").Gang(gang, 2).Label(kUser, "ann").On("n0"));
    w.Add(Users::Of("ann", std::string(gang) + "1", 8).Gang(gang, 2));
  }
  w.Settle();
  CHECK(w.Runs("g1"));
  CHECK_FALSE(w.Runs("h1"));
  w.Delete("g0");
  w.Delete("g1");
  w.Settle();
  CHECK(w.Runs("h1"));
}

TEST_CASE("the user that has least of a shared queue comes next", "[unit][engine]") {
  Users w(Users::Policy(0, config::FairWithin::kUser), 1);
  w.Add(MakePod("full").Gpu(8).Label(kUser, "eve").On("n0"));
  for (int i = 0; i < 4; ++i) w.Add(Users::Of("ann", "a" + std::to_string(i), 2).Created(10 + i));
  for (int i = 0; i < 4; ++i) w.Add(Users::Of("bob", "b" + std::to_string(i), 2).Created(20 + i));
  w.Settle();
  w.Delete("full");
  w.Settle();
  CHECK(w.BoundPods() == 4);
  for (const char* name : {"a0", "a1", "b0", "b1"}) CHECK(w.Runs(name));
}

}  // namespace
}  // namespace berth::engine
