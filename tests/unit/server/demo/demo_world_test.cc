// The demo's story, told by the real service: who is evicted for whom, and what both sides read.
#include "server/demo/demo_world.h"

#include <algorithm>

#include "server/demo/demo_report.h"
#include "tests/support/catch.h"
#include "tests/support/raw_client.h"

namespace berth::server {
namespace {

using test::Eventually;

/// Never ends while the test runs.
DemoJob Gang(const std::string& name, const std::string& team, int pods, std::int32_t priority) {
  return {.name = name,
          .team = team,
          .pods = pods,
          .gpus = 8,
          .priority = priority,
          .gated = true,
          .run_ms = 3'600'000};
}

/// 192 GPUs: research may use 144 and is promised 96, product 72.
struct Told {
  Told() { world->Start({}); }
  ~Told() { world->Stop(); }

  bool Runs(const std::string& job) {
    return Eventually([&] {
      world->Tick();
      const auto jobs = world->jobs();
      const auto it =
          std::ranges::find_if(jobs, [&](const JobState& state) { return state.job.name == job; });
      return it != jobs.end() && it->running();
    });
  }
  bool Start(const DemoJob& job) {
    world->Submit(job);
    return Runs(job.name);
  }
  /// What was evicted, once both sides of it have been told.
  JobEviction OnlyEviction() {
    const bool told = Eventually([&] {
      const auto evictions = world->evictions();
      return !evictions.empty() && !evictions.front().to_victim.pod.empty();
    });
    REQUIRE(told);
    REQUIRE(world->evictions().size() == 1);
    return world->evictions().front();
  }

  std::unique_ptr<DemoWorld> world = std::move(*DemoWorld::Create({}));
};

TEST_CASE("a job of higher priority takes the room of its queue, and both read why", "[demo]") {
  Told t;
  REQUIRE(t.Start(Gang("large", "research", 14, 0)));
  REQUIRE(t.Start(Gang("small", "research", 4, 0)));  // that is its limit
  REQUIRE(t.Start(Gang("urgent", "research", 3, 1000)));
  const JobEviction eviction = t.OnlyEviction();
  CHECK(eviction.victim.name == "small");
  CHECK(eviction.beneficiary.name == "urgent");
  CHECK(eviction.mark == "research/gang/urgent");
  CHECK(eviction.preempted());
  CHECK(eviction.to_victim.note ==
        "Evicted: work of priority 1000 in queue research takes its room, and this work has "
        "priority 0.");
  CHECK(eviction.to_beneficiary.pod == "research/urgent-0");
  CHECK(eviction.to_beneficiary.reason == "WaitingForVictims");
  CHECK(eviction.to_beneficiary.note ==
        "It preempts work of lower priority in its queue: 4 pods are to be evicted.");
  CHECK(t.world->auditor().evicted() == 4);
  CHECK(t.world->auditor().violations().empty());
}

TEST_CASE("a lender takes its quota back, and both read why", "[demo]") {
  Told t;
  REQUIRE(t.Start(Gang("large", "research", 12, 0)));
  REQUIRE(t.Start(Gang("borrowed", "research", 6, 0)));
  REQUIRE(t.Start(Gang("own", "product", 9, 0)));
  const JobEviction eviction = t.OnlyEviction();
  CHECK(eviction.victim.name == "borrowed");
  CHECK(eviction.beneficiary.name == "own");
  CHECK(eviction.reclaimed());
  CHECK(eviction.to_victim.note ==
        "Evicted: queue product takes back what queue research uses above its quota and its fair "
        "share.");
  CHECK(
      eviction.to_beneficiary.note ==
      "Its queue takes back what is used above quota and fair share in queue research: 6 pods are "
      "to be evicted.");
  CHECK(t.world->auditor().evicted() == 6);
  CHECK(t.world->auditor().violations().empty());
}

TEST_CASE("a pod that got room, and is evicted later, is told of both", "[demo]") {
  const DemoJob low{.name = "low", .team = "a"};
  const DemoJob high{.name = "high", .team = "a"};
  const DemoJob other{.name = "other", .team = "b"};
  const auto event = [](const DemoJob& job, const char* reason, const char* note) {
    return engine::EmitEvent{
        .pod = {job.team, job.PodName(0), job.PodUid(0)}, .reason = reason, .note = note};
  };
  EvictionLog log;
  log.OnEvicted(1, low, high, "a/pod/high");
  log.OnEvent(event(high, "WaitingForVictims", "takes"));
  log.OnEvent(event(low, "Preempted", "gives"));
  log.OnEvent(event(low, "InsufficientDevices", "waits"));
  log.OnEvicted(2, high, other, "b/pod/other");
  log.OnEvent(event(high, "Reclaimed", "gives too"));
  const auto evictions = log.Evictions();
  REQUIRE(evictions.size() == 2);
  CHECK(evictions[0].preempted());
  CHECK(evictions[0].to_victim.pod == "a/low");
  CHECK(evictions[0].to_victim.note == "gives");
  CHECK(evictions[0].to_beneficiary.note == "takes");
  CHECK(evictions[1].reclaimed());
  CHECK(evictions[1].to_victim.note == "gives too");
  CHECK(evictions[1].to_beneficiary.pod.empty());
}

TEST_CASE("the demo's own stream shows both, in its report", "[demo]") {
  constexpr std::int64_t kLength = 6'000;
  Told t;
  for (DemoJob& job : DemoStream(1, t.world->gpus(), kLength, 0.5)) t.world->Submit(std::move(job));
  QueueHistory history(kLength);
  const auto any = [&](bool (JobEviction::*is)() const) {
    return std::ranges::any_of(t.world->evictions(), is);
  };
  CHECK(Eventually([&] {
    t.world->Tick();
    if (history.Due(t.world->now())) {
      history.Add(t.world->now(), t.world->Page("/api/v1/queues"));
    }
    return any(&JobEviction::preempted) && any(&JobEviction::reclaimed);
  }));
  const std::string report = Report(*t.world, history, {.colour = false, .unicode = true});
  for (const char* part :
       {"taken back ", "preempted ", "in   research/hotfix-1 (4x8, priority 1000), ",
        "berth.dev/evicted-for: research/gang/hotfix-1", "It preempts work of lower priority",
        "Reclaimed: Evicted: queue product", "Preempted: Evicted: work of priority 1000",
        "  quota     96 ├"}) {
    INFO(part << " in\n" << report);
    CHECK(report.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace berth::server
