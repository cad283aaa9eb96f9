// What was evicted stays demand until it is there again (engine/fair_share_cache.h): the share of
// queue `b` tells.
#include <string>

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

constexpr TimePoint kMinute = 60'000;

/// A node of 8 GPUs. `low` of queue `b` ran on 6 of them, and `high`, which needs 5, has evicted
/// it: it is gone. Both together are more than there is, so that the share is that of `low` alone,
/// and 5 once only `high` counts. `c` has no work.
class Away : public World {
 public:
  explicit Away(bool by_controller)
      : World(MakeBorrowing({MakeQueue("b", {"b"}), MakeQueue("c", {"c"})})),
        by_controller_(by_controller) {
    Add(MakeNode("n").Gpu(8));
    Start();
    Add(Low("low").On("n"));
    Tick();
    Add(MakePod("high").Ns("b").Gpu(5).Gated().Priority(10));
    Tick();
    REQUIRE(LogOf("evict ").size() == 1);
    EndVictims();
    Tick();
    REQUIRE_FALSE(Exists("low"));
    REQUIRE(Share() == 6);
  }
  PodBuilder Low(const std::string& name) const {
    PodBuilder pod = MakePod(name).Ns("b").Gpu(6);
    if (by_controller_) pod.OfJob("low");
    return pod;
  }
  /// Of `b`, in devices.
  std::int64_t Share() {
    const policy::FairShareTable& shares = engine().FairShares(now());
    const policy::Claimant b{.queue = store().FindQueue("b")};
    return shares.Share(store(), b, store().device_ids().front()) / cluster::kMilli;
  }

 private:
  bool by_controller_;
};

TEST_CASE("a pod without a controller is demand for a minute after its eviction",
          "[unit][engine]") {
  Away w(/*by_controller=*/false);
  w.Advance(kMinute - 5'000);
  CHECK(w.Share() == 6);
  w.Advance(10'000);
  CHECK(w.Share() == 5);
}

TEST_CASE("a pod of a controller is demand for ten minutes after its eviction", "[unit][engine]") {
  Away w(/*by_controller=*/true);
  w.Advance(9 * kMinute);
  CHECK(w.Share() == 6);
  w.Advance(2 * kMinute);
  CHECK(w.Share() == 5);
}

TEST_CASE("a job that is there again counts once", "[unit][engine]") {
  Away w(/*by_controller=*/true);
  w.Add(w.Low("low-again").Gated());
  w.Tick();
  CHECK(w.Share() == 6);
  w.Delete("low-again");  // by its owner
  w.Tick();
  CHECK(w.Share() == 5);
}

TEST_CASE("a victim that succeeds before its eviction is accepted is no demand any more",
          "[unit][engine]") {
  World w(MakeBorrowing({MakeQueue("b", {"b"}), MakeQueue("c", {"c"})}));
  w.Add(MakeNode("n").Gpu(8));
  w.Start();
  w.Add(MakePod("low").Ns("b").Gpu(6).OfJob("low").On("n"));
  w.Tick();
  w.Add(MakePod("high").Ns("b").Gpu(5).Gated().Priority(10));
  w.HoldEvictions();
  w.Tick();
  w.CarryOutEvictions();  // the dry run
  w.Tick();
  REQUIRE(w.LogOf("evict ").size() == 1);
  REQUIRE_FALSE(w.pod("low").meta.deletion);
  w.Change("low", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
  w.Tick();
  const policy::FairShareTable& shares = w.engine().FairShares(w.now());
  const policy::Claimant b{.queue = w.store().FindQueue("b")};
  CHECK(shares.Share(w.store(), b, w.store().device_ids().front()) == 5 * cluster::kMilli);
}

TEST_CASE("an edit of the policy forgets what is away", "[unit][engine]") {
  Away w(/*by_controller=*/true);
  w.Reload(MakeBorrowing({MakeQueue("c", {"c"}), MakeQueue("b", {"b"})}));
  w.Tick();
  CHECK(w.Share() == 5);
}

// It was told that it will be evicted, and ends before: by itself, or as its user deletes it.
TEST_CASE("what was not evicted is no demand once it is gone", "[unit][engine]") {
  config::PolicyConfiguration policy =
      MakeBorrowing({MakeQueue("b", {"b"}), MakeQueue("c", {"c"})});
  policy.eviction.warning = std::chrono::minutes{2};
  World w(policy);
  w.Add(MakeNode("n").Gpu(8));
  w.Start();
  w.Add(MakePod("low").Ns("b").Gpu(6).OfJob("low").On("n"));
  w.Tick();
  w.Add(MakePod("high").Ns("b").Gpu(5).Gated().Priority(10));
  w.Tick();
  REQUIRE(w.LogOf("evict ").empty());
  w.Delete("low");
  w.Tick();
  const policy::FairShareTable& shares = w.engine().FairShares(w.now());
  const policy::Claimant b{.queue = w.store().FindQueue("b")};
  CHECK(shares.Share(w.store(), b, w.store().device_ids().front()) == 5 * cluster::kMilli);
}

}  // namespace
}  // namespace berth::engine
