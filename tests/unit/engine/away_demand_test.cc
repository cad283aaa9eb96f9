// What was evicted stays demand until it is there again (engine/fair_share_cache.h): the share of
// queue `b` tells.
#include <string>
#include <utility>

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

config::PolicyConfiguration Queues() {
  return MakeBorrowing({MakeQueue("b", {"b"}), MakeQueue("c", {"c"})});
}

/// A node of 8 GPUs, on 6 of which `low` of queue `b` runs, and `high` of `b`, which needs 5, has
/// come. Both together are more than there is, so that the share is that of `low` alone, and 5 once
/// only `high` counts. `c` has no work.
class LowAndHigh : public World {
 public:
  explicit LowAndHigh(config::PolicyConfiguration policy = Queues(), bool by_controller = true)
      : World(std::move(policy)), by_controller_(by_controller) {
    Add(MakeNode("n").Gpu(8));
    Start();
    Add(Low("low").On("n"));
    Tick();
    Add(MakePod("high").Ns("b").Gpu(5).Gated().Priority(10));
  }
  PodBuilder Low(const std::string& name) const {
    PodBuilder pod = MakePod(name).Ns("b").Gpu(6);
    if (by_controller_) pod.OfJob("low");
    return pod;
  }
  /// Of `b`, in thousandths of devices.
  std::int64_t MilliShare() {
    const policy::FairShareTable& shares = engine().FairShares(now());
    const policy::Claimant b{.queue = store().FindQueue("b")};
    return shares.Share(store(), b, store().device_ids().front());
  }

 private:
  bool by_controller_;
};

/// `high` has evicted `low`: it is gone.
class Away : public LowAndHigh {
 public:
  explicit Away(bool by_controller) : LowAndHigh(Queues(), by_controller) {
    Tick();
    REQUIRE(LogOf("evict ").size() == 1);
    EndVictims();
    Tick();
    REQUIRE_FALSE(Exists("low"));
    REQUIRE(Share() == 6);
  }
  /// Of `b`, in devices.
  std::int64_t Share() { return MilliShare() / cluster::kMilli; }
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
  LowAndHigh w;
  w.HoldEvictions();
  w.Tick();
  w.CarryOutEvictions();  // the dry run
  w.Tick();
  REQUIRE(w.LogOf("evict ").size() == 1);
  REQUIRE_FALSE(w.pod("low").meta.deletion);
  w.Change("low", [](kube::Pod& pod) { pod.phase = kube::PodPhase::kSucceeded; });
  w.Tick();
  CHECK(w.MilliShare() == 5 * cluster::kMilli);
}

TEST_CASE("an edit of the policy forgets what is away", "[unit][engine]") {
  Away w(/*by_controller=*/true);
  w.Reload(MakeBorrowing({MakeQueue("c", {"c"}), MakeQueue("b", {"b"})}));
  w.Tick();
  CHECK(w.Share() == 5);
}

// It was told that it will be evicted, and ends before: by itself, or as its user deletes it.
TEST_CASE("what was not evicted is no demand once it is gone", "[unit][engine]") {
  config::PolicyConfiguration policy = Queues();
  policy.eviction.warning = std::chrono::minutes{2};
  LowAndHigh w(policy);
  w.Tick();
  REQUIRE(w.LogOf("evict ").empty());
  w.Delete("low");
  w.Tick();
  CHECK(w.MilliShare() == 5 * cluster::kMilli);
}

}  // namespace
}  // namespace berth::engine
